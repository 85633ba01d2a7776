"""Seams: roughness of the waveform at joins compared with elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.core.traces.spectrogram import mel_filters

_AROUND = 240  # samples on each side of the local reference
_BESIDE_MS = 20.0  # on each side, for level and spectrum
_BESIDE_BANDS = 24
_LOW_HZ = 40.0
_FLOOR_DB = -80.0


@dataclass(frozen=True)
class SeamReport:
    """Roughness at joins and elsewhere.

    Attributes:
        seams: number of joins with sound around them.
        ratio: median roughness at joins; 1 is the RMS of the sound around.
        elsewhere_p99: 99th percentile of the roughness away from joins.
        audible: number of joins above ``elsewhere_p99``.
    """

    seams: int
    ratio: float
    elsewhere_p99: float
    audible: int


@dataclass(frozen=True)
class SeamJump:
    """Changes at a join.

    Attributes:
        sample: the first one after the join.
        roughness: as in ``seam_report``; 0 in silence.
        level_db: RMS of the 20 ms after over that of the 20 ms before, each at least -80 dB of full scale.
        spectrum_db: mean |difference| of 24 log-mel bands, 20 ms after against 20 ms before, at equal level.
    """

    sample: int
    roughness: float
    level_db: float
    spectrum_db: float


def seam_jumps(pcm: np.ndarray, rate_hz: int, seams: Sequence[int]) -> list[SeamJump]:
    """Changes at each join with enough samples on both sides, in the order given.

    Args:
        pcm: int16 [T].
        seams: index of the first sample after each join.
    """
    beside = round(_BESIDE_MS * rate_hz / 1000.0)
    usable = [seam for seam in seams if beside <= seam <= len(pcm) - beside]
    if not usable:
        return []
    at = np.array(usable)
    # [S, 2, T]: the sound before each join, and after it
    sides = pcm[at[:, None, None] + np.array([[-beside], [0]]) + np.arange(beside)].astype(np.float64) / 32768.0
    level_db = np.maximum(10.0 * np.log10(np.maximum(np.square(sides).mean(axis=2), 1e-24)), _FLOOR_DB)
    bands_db = _bands_db(sides, rate_hz)
    spectrum_db = np.abs(np.diff(bands_db - bands_db.mean(axis=2, keepdims=True), axis=1)).mean(axis=(1, 2))
    rows = zip(usable, _roughness_at(pcm, at), level_db[:, 1] - level_db[:, 0], spectrum_db, strict=True)
    return [SeamJump(seam, float(rough), float(step), float(change)) for seam, rough, step, change in rows]


def seam_report(pcm: np.ndarray, seams: Sequence[int]) -> SeamReport:
    """Compare roughness at ``seams`` (index of the first sample after each join) with roughness elsewhere.

    Roughness is |x[s] - 2 x[s-1] + x[s-2]| over its RMS in the 240 samples on each side; clicks stand out.
    """
    rough, loud = _roughness(pcm)
    joins = np.array([s - 2 for s in seams if 2 <= s < len(pcm) and loud[s - 2]], np.int64)
    # A join may show in the sample before it or after it.
    near = np.unique(np.clip(joins[:, None] + np.arange(-1, 2), 0, max(0, len(rough) - 1)))
    away = np.delete(rough, near)
    away = away[away > 0]
    if not len(joins) or not len(away):
        return SeamReport(len(joins), float("nan"), float("nan"), 0)
    values = rough[np.clip(joins[:, None] + np.arange(0, 2), 0, len(rough) - 1)].max(axis=1)
    limit = float(np.quantile(away, 0.99))
    return SeamReport(len(joins), float(np.median(values)), limit, int((values > limit).sum()))


def _roughness(pcm: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roughness of each sample from the third on, float64 [T - 2], and whether there is sound."""
    second = np.abs(np.diff(pcm.astype(np.float64), 2))  # second[k] belongs to sample k + 2
    power = np.concatenate([[0.0], np.cumsum(np.square(second))])
    at = np.arange(len(second))
    low, high = np.maximum(at - _AROUND, 0), np.minimum(at + _AROUND, len(second))
    around = np.sqrt((power[high] - power[low]) / np.maximum(high - low, 1))
    loud = around > 1.0  # one step of int16
    return np.divide(second, around, out=np.zeros_like(second), where=loud), loud


def _roughness_at(pcm: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Roughness at joins [S], the greater of the two samples that a join affects: float64 [S]."""
    places = at[:, None] + np.arange(-2 - _AROUND, _AROUND + 1)
    near = pcm[np.clip(places, 0, len(pcm) - 1)].astype(np.float64)
    second = np.abs(np.diff(near, 2, axis=1))  # [S, 2 * _AROUND + 1], the join in the middle
    is_there = (places[:, :-2] >= 0) & (places[:, 2:] < len(pcm))  # ignore samples outside the sound
    power = np.where(is_there, np.square(second), 0.0)
    rough = np.zeros(len(at))
    for own, window in ((_AROUND, slice(None, -1)), (_AROUND + 1, slice(1, None))):
        around = np.sqrt(power[:, window].sum(axis=1) / np.maximum(is_there[:, window].sum(axis=1), 1))
        loud = around > 1.0
        rough = np.maximum(rough, np.divide(second[:, own], around, out=np.zeros_like(around), where=loud))
    return rough


def _bands_db(sides: np.ndarray, rate_hz: int) -> np.ndarray:
    """Mel spectra of pieces [S, 2, T]: float64 [S, 2, bands], dB of full scale."""
    samples = sides.shape[2]
    window = np.hanning(samples + 1)[:-1]
    fft_samples = 1 << (samples - 1).bit_length()
    power = np.abs(np.fft.rfft(sides * window / (window.sum() / 2.0), fft_samples)) ** 2
    filters = mel_filters(rate_hz, fft_samples, _BESIDE_BANDS, _LOW_HZ, rate_hz / 2.0)
    return np.maximum(10.0 * np.log10(np.maximum(power @ filters.T.astype(np.float64), 1e-24)), _FLOOR_DB)
