"""The source-filter vocoders on a CPU, in numpy and compiled kernels over the slots' state.

At 600 samples a frame, torch spends most of its time on calls. Linear layers and blocks process every hop alone, so
samples depend neither on the batch (law 3) nor on the number of frames per call (law 2).
"""

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import nn

from studio.engine.nets.cpu import kernels
from studio.engine.nets.cpu.jit import cached_njit
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cpu.layers import CpuLayerNorm
from studio.engine.nets.cpu.threads import limit_blas_to_one_thread
from studio.engine.vocoders.base import Vocoder, VocoderState
from studio.engine.vocoders.sourcefilter import (
    PITCH_SHARPNESS,
    REST_LOGIT,
    CausalBlock,
    SourceFilter,
    SourceFilterState,
)
from studio.engine.vocoders.sourcevocos import SourceVocos

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


class CpuCausalBlock:
    """A ``CausalBlock``, compiled."""

    def __init__(self, block: CausalBlock) -> None:
        self._norm, self._wide, self._narrow = CpuLayerNorm(block.norm), linear(block.wide), linear(block.narrow)
        self._taps = block.depthwise.detach().numpy().copy()

    def __call__(self, x: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """``x [B, T, C]`` after ``tail [B, kernel - 1, C]``, which is updated: [B, T, C]."""
        norm, wide, narrow = self._norm, self._wide, self._narrow
        return kernels.causal_block(
            x, tail, self._taps, norm.eps, norm.gain, norm.shift, wide.panels, wide.bias, narrow.panels, narrow.bias
        )


class CpuSourceFilter:
    """A trained ``SourceFilter`` on a CPU.

    Args:
        window: of a hop's sources and their continuation, float32 [>= hop_samples]; rectangular unless given.
    """

    def __init__(self, trained: SourceFilter, window: np.ndarray | None = None) -> None:
        limit_blas_to_one_thread()
        self._window = np.ones(trained.config.hop_samples, np.float32) if window is None else window
        self.config = c = trained.config
        self._enter = linear(trained.enter)
        self._coarse = blocks(trained.coarse)
        self._upsample = linear(trained.upsample)
        self._fine = blocks(trained.fine)
        self._norm, self._heads = CpuLayerNorm(trained.norm), linear(trained.heads)
        self._parts = parts(c.pitch_classes, 1, c.envelope_bands, c.aperiodicity_bands)
        self._to_spectrum, self._to_bands = (
            PanelLinear(trained.to_spectrum.weight),
            PanelLinear(trained.to_bands.weight),
        )
        self._log_pitches = trained.log_pitches.numpy()

    @np.errstate(all="ignore")  # NotFinite is raised where results are read
    def step(self, mels: np.ndarray, slots: "SourceFilterArrays", rows: np.ndarray) -> np.ndarray:
        """Samples of each row's frames; updates its slot. Returns float32 [B, T * frame_samples] in [-1, 1].

        Args:
            mels: float32 [B, T, channels].
            rows: int64 [B], the slots.
        """
        c = self.config
        tails = [tail[rows] for tail in slots.tails]
        (pitch, voicing, envelope, aperiodicity), hidden = self._controls(mels, tails)
        f0_hz = self._pitch_hz(pitch)
        phase, rests = slots.phase[rows], voicing[:, :, 0] < REST_LOGIT
        timing = (slots.seed[rows], slots.position[rows], c.sample_rate_hz, c.hop_samples)
        excited = sources(f0_hz, slots.f0_hz[rows], phase, rests, *timing, self._window)
        spectra = self._spectra(self._envelopes(voicing, envelope, aperiodicity))
        pcm, ringing = overlap_add(self._responses(excited, spectra, hidden, tails), slots.ringing[rows])
        slots.position[rows] += f0_hz.shape[1] * c.hop_samples
        slots.phase[rows], slots.f0_hz[rows], slots.ringing[rows] = phase, f0_hz[:, -1], ringing
        for stored, tail in zip(slots.tails, tails, strict=True):
            stored[rows] = tail
        return np.clip(pcm, -1, 1, out=pcm)

    def _controls(self, mels: np.ndarray, tails: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The net's outputs for each hop, as in ``Controls``, and its last hidden layer; updates the tails."""
        c, (rows, steps, _) = self.config, mels.shape
        scaled = (mels - np.float32(c.mel_mean)) * np.float32(1 / c.mel_scale)
        x = self._enter(scaled)
        for block, tail in zip(self._coarse, tails, strict=False):
            x = block(x, tail)
        x = self._upsample(x).reshape(rows, steps * c.upsampling, -1)
        for block, tail in zip(self._fine, tails[len(self._coarse) :], strict=False):
            x = block(x, tail)
        hidden = self._norm(x)
        outputs = self._heads(hidden)
        return [outputs[..., part] for part in self._parts], hidden

    def _pitch_hz(self, logits: np.ndarray) -> np.ndarray:
        scaled = logits.astype(np.float64) * PITCH_SHARPNESS
        share = np.exp(scaled - scaled.max(-1, keepdims=True))
        return np.exp(np.vecdot(share, self._log_pitches) / share.sum(-1))

    def _envelopes(self, voicing: np.ndarray, envelope: np.ndarray, aperiodicity: np.ndarray) -> np.ndarray:
        """Natural-log envelopes [B, S, 2, bands] of pulses and of noise."""
        voiced = 1 / ((1 + np.exp(-voicing)) * (1 + np.exp(-self._to_bands(-aperiodicity))))
        gains = np.stack((voiced, 1 - voiced), axis=2)
        np.log(np.maximum(gains, np.float32(1e-6), out=gains), out=gains)
        gains *= np.float32(0.5)
        gains += envelope[:, :, None]
        return gains

    def _spectra(self, log_envelope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Minimum-phase filters of envelopes [B, S, 2, bands]: log magnitudes and phases, [B, S, 2, bins] each."""
        spectrum, bins = self._to_spectrum(log_envelope), self.config.fft // 2 + 1
        return spectrum[..., :bins], spectrum[..., bins:]

    def _responses(
        self, excited: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """Filtered responses [B, S, fft] of each hop's windowed sources [B, S, 2, samples]."""
        return filter_sources(excited, *spectra, self.config.fft)


def linear(layer: nn.Linear) -> PanelLinear:
    """A linear layer by the compiled kernels."""
    return PanelLinear(layer.weight, layer.bias)


def parts(*sizes: int) -> list[slice]:
    """Consecutive slices of these sizes."""
    ends = np.cumsum((0, *sizes)).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(ends)]


def filter_sources(sources: np.ndarray, log_magnitude: np.ndarray, angle: np.ndarray, fft: int) -> np.ndarray:
    """Filter sources [B, S, 2, samples] by spectra [B, S, 2, bins], and sum them: [B, S, fft]."""
    response = np.empty(angle.shape, np.complex64)
    gain = np.exp(log_magnitude)
    np.multiply(gain, np.cos(angle), out=response.real)
    np.multiply(gain, np.sin(angle), out=response.imag)
    response *= np.fft.rfft(sources, n=fft)
    return np.fft.irfft(response[:, :, 0] + response[:, :, 1], n=fft)


def overlap_add(responses: np.ndarray, tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See ``excitation.overlap_add``."""
    overlaps, hop = tail.shape[1:]
    rows, hops, _ = responses.shape
    parts = responses.reshape(rows, hops, overlaps + 1, hop)
    out = np.concatenate((tail, np.zeros((rows, hops, hop), np.float32)), axis=1)
    for late in range(hops):  # in order, so that sums do not depend on the number of hops
        out[:, late : late + overlaps + 1] += parts[:, late]
    return out[:, :hops].reshape(rows, -1), out[:, hops:]


class SourceFilterArrays:
    """A ``SourceFilterState`` as numpy views."""

    def __init__(self, state: VocoderState) -> None:
        assert isinstance(state, SourceFilterState)
        self.position, self.seed = state.position.numpy(), state.seed.numpy()
        self.phase, self.f0_hz = state.phase.numpy(), state.f0_hz.numpy()
        self.ringing, self.tails = state.ringing.numpy(), [tail.numpy() for tail in state.tails]


def blocks(modules: Iterable[nn.Module]) -> list[CpuCausalBlock]:
    """A net's ``CausalBlock``s, compiled."""
    return [CpuCausalBlock(module) for module in modules if isinstance(module, CausalBlock)]


class CpuSourceVocos(CpuSourceFilter):
    """A trained ``SourceVocos`` on a CPU."""

    def __init__(self, trained: SourceVocos) -> None:
        super().__init__(trained, trained.hann.numpy())
        self._fade = trained.fade.numpy()
        self._tell, self._hear = linear(trained.tell), linear(trained.hear)
        self._refine = blocks(trained.refine)
        self._refine_norm, self._correct = CpuLayerNorm(trained.refine_norm), linear(trained.correct)
        self._corrections = parts(*[trained.config.fft // 2 + 1] * 3)

    def _responses(
        self, excited: np.ndarray, spectra: tuple[np.ndarray, np.ndarray], hidden: np.ndarray, tails: list[np.ndarray]
    ) -> np.ndarray:
        """Responses by refined spectra, with faded ends."""
        c, (rows, hops) = self.config, excited.shape[:2]
        x = self._hear(excited.reshape(rows, hops, -1)) + self._tell(hidden)
        for block, tail in zip(self._refine, tails[-len(self._refine) :], strict=True):
            x = block(x, tail)
        outputs = self._correct(self._refine_norm(x))
        louder, later, noisier = (outputs[..., part] for part in self._corrections)
        log_magnitude, angle = spectra
        log_magnitude = log_magnitude + np.stack((louder, noisier), axis=2)
        angle = angle + np.stack((later, np.zeros_like(later)), axis=2)
        responses = filter_sources(excited, log_magnitude, angle, c.fft)
        responses *= self._fade
        return responses


def cpu_vocoder(vocoder: Vocoder[Any]) -> CpuSourceFilter | None:
    """The CPU form of a trained vocoder; None for those that torch runs."""
    if isinstance(vocoder, SourceVocos):
        return CpuSourceVocos(vocoder)
    return CpuSourceFilter(vocoder) if type(vocoder) is SourceFilter else None
