"""Signals: level, audible extent, resampling to 16 kHz, distance of two spectra; log-mel spectrograms as pictures."""

from functools import lru_cache
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
_BLOCK_FRAMES = 2048  # frames per FFT call, which bounds memory
# Ten anchors of viridis (CC0): uniform in lightness and colour-blind safe.
_ANCHORS = "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725"


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


def mel_filters(rate_hz: int, fft_samples: int, bins: int, low_hz: float, high_hz: float) -> np.ndarray:
    """Triangular filters of equal height, evenly spaced in mel (HTK): float32 [bins, fft_samples // 2 + 1]."""
    mel = np.linspace(_mel(low_hz), _mel(high_hz), bins + 2)
    edges_hz = 700.0 * (10.0 ** (mel / 2595.0) - 1.0)
    freqs_hz = np.linspace(0.0, rate_hz / 2.0, fft_samples // 2 + 1)
    rise = (freqs_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    fall = (edges_hz[2:, None] - freqs_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    filters = np.maximum(0.0, np.minimum(rise, fall))
    # A band narrower than an FFT bin would be empty and draw a black line: use the nearest bin.
    for band in np.flatnonzero(filters.max(axis=1) == 0.0):
        filters[band, np.argmin(np.abs(freqs_hz - edges_hz[band + 1]))] = 1.0
    return filters.astype(np.float32)


def log_mel(
    pcm: np.ndarray,
    rate_hz: int,
    *,
    bins: int = 80,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    floor_db: float = -100.0,
) -> np.ndarray:
    """A log-mel spectrogram in dB of full scale: float32 [bins, T], low bands first.

    Column t is centred on sample ``t * hop``; samples outside the recording count as silence.

    Args:
        pcm: int16 or float [T].
        floor_db: lower bound of the result.
    """
    window_samples, hop_samples = round(window_ms * rate_hz / 1000.0), max(1, round(hop_ms * rate_hz / 1000.0))
    fft_samples = 1 << (window_samples - 1).bit_length()
    filters = mel_filters(rate_hz, fft_samples, bins, 40.0, rate_hz / 2.0)
    window = np.hanning(window_samples + 1)[:-1].astype(np.float32)
    window /= window.sum() / 2.0  # a full-scale sine has 0 dB in its bin
    signal = pcm.astype(np.float32) / (32768.0 if pcm.dtype == np.int16 else 1.0)
    columns = -(-len(signal) // hop_samples)
    before = window_samples // 2
    padded = np.pad(signal, (before, window_samples))
    out = np.empty((bins, columns), np.float32)
    for first in range(0, columns, _BLOCK_FRAMES):
        last = min(columns, first + _BLOCK_FRAMES)
        at = np.arange(first, last)[:, None] * hop_samples + np.arange(window_samples)
        power = np.abs(np.fft.rfft(padded[at] * window, fft_samples)) ** 2
        out[:, first:last] = filters @ power.T.astype(np.float32)
    return np.maximum(10.0 * np.log10(np.maximum(out, 1e-24)), floor_db)


@lru_cache(maxsize=1)
def colour_map() -> np.ndarray:
    """Dark to light: uint8 [256, 3], RGB."""
    anchors = np.array([[int(one[at : at + 2], 16) for at in (0, 2, 4)] for one in _ANCHORS.split()], np.float64)
    at = np.linspace(0.0, len(anchors) - 1.0, 256)
    table = np.stack([np.interp(at, np.arange(len(anchors)), anchors[:, channel]) for channel in range(3)], axis=1)
    return np.rint(table).astype(np.uint8)


def picture(spectrogram: np.ndarray, low_db: float = -80.0, high_db: float = -10.0) -> np.ndarray:
    """A spectrogram [bins, T] as an RGB picture: uint8 [bins, T, 3], high bands at the top."""
    level = (spectrogram[::-1] - low_db) / (high_db - low_db)
    return colour_map()[np.clip(np.rint(level * 255.0), 0, 255).astype(np.uint8)]


def _mel(hz: float) -> float:
    return 2595.0 * float(np.log10(1.0 + hz / 700.0))
