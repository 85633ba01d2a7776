"""Level and spectrum of signals: active speech level, audible extent, resampling to 16 kHz, distance of two spectra."""

from math import gcd

import numpy as np

BLOCK_MS = 5.0
AUDIBLE_DB = 30.0  # below the active speech level: the threshold of t5
_MARGIN_DB = 15.9  # below the active level: pauses (ITU-T P.56)
_SILENT_DB = -70.0
_BATCH_BLOCKS = 256  # fits in a core's cache
RATE_HZ = 16000  # of recognisers and MOS predictors
# (window, hop) in samples: the three resolutions of Parallel WaveGAN (Yamamoto et al. 2020, section 2.2), at 24 kHz.
RESOLUTIONS = ((600, 120), (1200, 240), (240, 50))
_FLOOR = 1e-5


def block_levels_db(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """RMS of each complete 5 ms block, dB of full scale: float64 [T // block]."""
    block = round(rate_hz * BLOCK_MS / 1000.0)
    whole = len(pcm) // block * block
    scale = 32768.0 if pcm.dtype == np.int16 else 1.0
    power = np.empty(whole // block)
    for first in range(0, len(power), _BATCH_BLOCKS):
        part = pcm[first * block : min(whole, (first + _BATCH_BLOCKS) * block)].astype(np.float64).reshape(-1, block)
        part /= scale
        power[first : first + _BATCH_BLOCKS] = np.square(part, out=part).mean(axis=1)
    return 10.0 * np.log10(np.maximum(power, 1e-12))


def active_level_db(pcm: np.ndarray, rate_hz: int) -> float:
    """Level of the speech without pauses, dB of full scale; minus infinity for silence."""
    levels = block_levels_db(pcm, rate_hz)
    active = levels[levels > _SILENT_DB]
    while len(active):
        level = 10.0 * np.log10(np.mean(10.0 ** (active / 10.0)))
        louder = active[active > level - _MARGIN_DB]
        if len(louder) == len(active):
            return float(level)
        active = louder
    return float("-inf")


def first_audible_sample(pcm: np.ndarray, rate_hz: int, speech_db: float) -> int | None:
    """Start of the first 5 ms block within 30 dB of ``speech_db``; None if there is none."""
    audible = np.flatnonzero(block_levels_db(pcm, rate_hz) >= speech_db - AUDIBLE_DB)
    return int(audible[0]) * round(rate_hz * BLOCK_MS / 1000.0) if len(audible) else None


def audible_s(pcm: np.ndarray, rate_hz: int) -> float:
    """Duration from the first to the last 5 ms block within 30 dB of the active level; 0 for silence."""
    levels = block_levels_db(pcm, rate_hz)
    audible = np.flatnonzero(levels >= active_level_db(pcm, rate_hz) - AUDIBLE_DB)
    return (
        float(audible[-1] - audible[0] + 1) * BLOCK_MS / 1000.0 if len(audible) and levels.max() > _SILENT_DB else 0.0
    )


def at_16k(pcm: np.ndarray, rate_hz: int) -> np.ndarray:
    """Resample int16 [T] to 16 kHz by cutting or padding the spectrum: for measuring, not for a voice's features."""
    if rate_hz == RATE_HZ or not len(pcm):
        return pcm
    # The spectrum is periodic, so padding keeps the end from ringing into the start. The length is a whole number of
    # common steps of both rates, so time is not stretched.
    step = rate_hz // gcd(rate_hz, RATE_HZ)
    length = -(-(len(pcm) + rate_hz // 10) // step) * step
    padded = np.pad(pcm.astype(np.float64), (0, length - len(pcm)))
    count = length // step * (RATE_HZ * step // rate_hz)
    resampled = np.fft.irfft(np.fft.rfft(padded)[: count // 2 + 1], count) * (count / len(padded))
    out = resampled[: round(len(pcm) * RATE_HZ / rate_hz)]
    return np.clip(np.rint(out), -32768, 32767).astype(np.int16)


def stft_distance(pcm: np.ndarray, reference: np.ndarray) -> float:
    """Multi-resolution STFT distance: spectral convergence plus mean |log magnitude difference| (nats), averaged.

    Args:
        pcm: int16 or float [T], aligned with the reference; the longer one is cut.
        reference: at the same rate.
    """
    count = min(len(pcm), len(reference))
    assert count >= max(window for window, _ in RESOLUTIONS), "recordings are shorter than one window"
    one, other = _unit(pcm)[:count], _unit(reference)[:count]
    total = 0.0
    for window, hop in RESOLUTIONS:
        left, right = _magnitudes(one, window, hop), _magnitudes(other, window, hop)
        convergence = np.linalg.norm(right - left) / max(float(np.linalg.norm(right)), _FLOOR)
        total += float(convergence) + float(np.abs(np.log(left) - np.log(right)).mean())
    return total / len(RESOLUTIONS)


def _magnitudes(signal: np.ndarray, window: int, hop: int) -> np.ndarray:
    frames = np.lib.stride_tricks.sliding_window_view(signal, window)[::hop]
    size = 1 << (window - 1).bit_length()
    return np.maximum(np.abs(np.fft.rfft(frames * np.hanning(window + 1)[:-1], size)), _FLOOR)


def _unit(pcm: np.ndarray) -> np.ndarray:
    return pcm.astype(np.float64) / (32768.0 if pcm.dtype == np.int16 else 1.0)
