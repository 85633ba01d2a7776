"""Spectrograms of utterances on a common axis, and their difference in dB."""

import numpy as np

from studio.core.clips import to_float
from studio.core.traces.spectrogram import mel_filters
from studio.inspection.comparison.common_axis import TimeMap
from studio.measure.signal.loudness import active_level_db

BANDS = 80
STEP_S = 0.01  # between two columns
LOW_HZ, HIGH_HZ = 40.0, 8000.0
FLOOR_DB = -60.0  # relative to the speech level; quieter sound is inaudible
_WINDOW_S = 0.025
_BLOCK = 2048  # columns at once


def columns_s(length_s: float) -> np.ndarray:
    """Centre times of the columns of an axis: float64 [N]."""
    return STEP_S * (0.5 + np.arange(max(1, int(np.ceil(length_s / STEP_S - 1e-9)))))


def spectrogram_db(pcm: np.ndarray, rate_hz: int, at_s: np.ndarray, high_hz: float = HIGH_HZ) -> np.ndarray:
    """Log-mel spectra at given times, in dB relative to the speech level: float32 [bands, N], low bands first.

    Windows (25 ms, Hann) are centred on their times, so a stretched axis is analysed, not interpolated. The reference
    is the active speech level (ITU-T P.56), so overall loudness does not count. NaN outside of the sound.

    Args:
        pcm: int16 [T].
        at_s: float64 [N], in any order.
        high_hz: upper edge of the highest band; equal for all that are compared.
    """
    window_samples = round(_WINDOW_S * rate_hz)
    fft_samples = 1 << (window_samples - 1).bit_length()
    filters = mel_filters(rate_hz, fft_samples, BANDS, LOW_HZ, min(high_hz, rate_hz / 2.0)).astype(np.float64)
    window = np.hanning(window_samples + 1)[:-1]
    window /= np.sqrt(np.square(window).sum() * fft_samples)  # power, independent of the window length
    level_db = active_level_db(pcm, rate_hz)
    padded = np.pad(to_float(pcm), (window_samples, window_samples)).astype(np.float64)
    middle = np.round(at_s * rate_hz).astype(np.int64)
    out = np.full((BANDS, len(at_s)), FLOOR_DB, np.float32)
    first = np.clip(middle, 0, len(pcm)) - window_samples // 2 + window_samples
    for begin in range(0, len(at_s) if np.isfinite(level_db) else 0, _BLOCK):
        at = first[begin : begin + _BLOCK, None] + np.arange(window_samples)
        power = np.abs(np.fft.rfft(padded[at] * window, fft_samples)) ** 2
        bands_db = 10.0 * np.log10(np.maximum(filters @ power.T, 1e-24)) - level_db
        out[:, begin : begin + _BLOCK] = np.maximum(bands_db, FLOOR_DB)
    out[:, (at_s < 0) | (middle >= len(pcm))] = np.nan
    return out


def difference_db(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """``one`` minus ``other``, dB: float32 [bands, N]; NaN where either has no sound."""
    return one - other


def on_axis(pcm: np.ndarray, rate_hz: int, laid: TimeMap, at_s: np.ndarray, high_hz: float = HIGH_HZ) -> np.ndarray:
    """The spectrogram of an utterance at axis times: float32 [bands, N]; NaN where its own time stands still."""
    own_s = laid.own(at_s)
    found = spectrogram_db(pcm, rate_hz, own_s, high_hz)
    edge = np.clip(np.searchsorted(laid.axis_s, at_s, side="right"), 1, len(laid.axis_s) - 1)
    stands = (laid.own_s[edge] <= laid.own_s[edge - 1]) & (at_s >= laid.axis_s[0]) & (at_s < laid.axis_s[-1])
    found[:, stands] = np.nan
    return found


def mean_difference_db(difference: np.ndarray) -> float:
    """Mean |difference| where both have sound, dB: a log-spectral distance; NaN where they share none."""
    there = np.isfinite(difference)
    return float(np.abs(difference[there]).mean()) if there.any() else float("nan")
