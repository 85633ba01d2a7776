"""The pulses and the noise of ``vocoders/excitation.py`` as a compiled kernel, row by row."""

import math

import numpy as np

from studio.engine.nets.cpu.jit import cached_njit

_LEAST = 1e-9 / math.pi  # half turns: lower bound, where the pulses have their value at 0
_NOISE_SCALE, _NOISE_MIDDLE = np.float32(math.sqrt(3.0) / 2.0**31), np.float32(2.0**31)


@cached_njit
def _sine(turns):
    """The sine of up to half a turn either way, within 1e-10."""
    x = turns * turns
    y = 0.0011309237482517954
    y = y * x - 0.012031585942120619
    y = y * x + 0.10422916220813978
    y = y * x - 0.7181223017785001
    y = y * x + 3.8199525848482803
    y = y * x - 15.094642576822984
    y = y * x + 42.058693944897634
    y = y * x - 76.70585975306136
    y = y * x + 81.60524927607504
    y = y * x - 41.341702240399755
    return (y * x + 6.283185307179586) * turns


@cached_njit
def _cosine(turns):
    """The cosine of up to half a turn either way."""
    turns = abs(turns)
    return _sine(0.25 - turns)


@cached_njit
def _hash32(x):
    """``studio.engine.nets.sampling.hash32`` of a uint32 or uint64, as uint32."""
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


@cached_njit
def sources(f0_hz, before_hz, phase, rests, seed, position, rate_hz, hop_samples, window):
    """Windowed pulses and noise of each hop with its continuation; see ``excitation.pulse_train``.

    Args:
        f0_hz: float64 [B, S], the frequency reached at each hop's end; ``before_hz`` float64 [B], before the first.
        phase: float64 [B], in turns; updated in place.
        rests: bool [B, S], hops after which the phase is reset.
        seed, position: int64 [B].
        window: float32 [hop + ahead].

    Returns:
        float32 [B, S, 2, hop + ahead].
    """
    rows, hops = f0_hz.shape
    samples = len(window)
    out = np.empty((rows, hops, 2, samples), np.float32)
    turns = np.empty(samples, np.float64)
    for b in range(rows):
        key = _hash32(np.uint64(np.uint32(seed[b])) + np.uint64(0x9E3779B9))  # may have 33 bits, as in torch
        start, begin = before_hz[b], phase[b]
        for hop in range(hops):
            end = f0_hz[b, hop]
            bend = (end - start) / (2 * hop_samples)
            for n in range(hop_samples):
                turns[n] = begin + (bend * (n + 1) + start) * ((n + 1) / rate_hz)
            for n in range(hop_samples, samples):
                turns[n] = turns[hop_samples - 1] + end * ((n + 1 - hop_samples) / rate_hz)
            fitting = 0.48 * rate_hz / max(start, end)
            harmonics = np.floor(fitting)
            highest = fitting - harmonics
            scale = 1 / np.sqrt(2 * (harmonics + highest * highest))
            for n in range(samples):
                half = max(abs(turns[n] - np.rint(turns[n])), _LEAST)  # of the angle in turns
                last = half * (harmonics + 1)  # of the harmonic that fades in: its angle is twice as large as this
                last -= np.rint(last)
                sine, cosine = _sine(last), _cosine(last)
                low, high = _sine(0.5 * half), _cosine(0.5 * half)
                pulse = (sine * high - cosine * low) / low + 2 * highest * cosine - 1
                out[b, hop, 0, n] = np.float32(pulse * scale) * window[n]
            first = position[b] + hop * hop_samples
            for n in range(samples):
                bits = _hash32(np.uint32(np.uint32(first + n) ^ key))
                out[b, hop, 1, n] = (np.float32(bits) - _NOISE_MIDDLE) * _NOISE_SCALE * window[n]
            cycles = (start + end) * (hop_samples / (2 * rate_hz))
            begin = 0.0 if rests[b, hop] else (begin + cycles) % 1.0
            start = end
        phase[b] = begin
    return out
