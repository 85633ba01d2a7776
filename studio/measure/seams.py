"""Seams: is the waveform rougher where two pieces were joined than elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_AROUND = 240  # samples on each side that say how rough the sound is there anyhow


@dataclass(frozen=True)
class SeamReport:
    """Roughness at joins against roughness elsewhere.

    Attributes:
        seams: joins that were looked at (those with sound around them).
        ratio: median roughness at a join, where 1 is the typical roughness of the sound around it.
        elsewhere_p99: the same figure that one sample in a hundred exceeds away from any join.
        audible: joins whose roughness exceeds that.
    """

    seams: int
    ratio: float
    elsewhere_p99: float
    audible: int


def seam_report(pcm: np.ndarray, seams: Sequence[int]) -> SeamReport:
    """Compare the jumps at ``seams`` (index of the first sample after each join) with those elsewhere.

    The jump is |x[s] - 2 x[s-1] + x[s-2]|, which a smooth wave keeps small at any loudness, divided by its RMS in
    the 240 samples on each side; a click stands out of that.
    """
    second = np.abs(np.diff(pcm.astype(np.float64), 2))  # second[k] belongs to sample k + 2
    power = np.concatenate([[0.0], np.cumsum(np.square(second))])
    at = np.arange(len(second))
    low, high = np.maximum(at - _AROUND, 0), np.minimum(at + _AROUND, len(second))
    around = np.sqrt((power[high] - power[low]) / np.maximum(high - low, 1))
    loud = around > 1.0  # one step of int16: below it there is nothing to compare
    rough = np.divide(second, around, out=np.zeros_like(second), where=loud)
    joins = np.array([s - 2 for s in seams if 2 <= s < len(pcm) and loud[s - 2]], np.int64)
    # A join may show in the sample before it or after it.
    near = np.unique(np.clip(joins[:, None] + np.arange(-1, 2), 0, max(0, len(second) - 1)))
    away = np.delete(rough, near)
    away = away[away > 0]
    if not len(joins) or not len(away):
        return SeamReport(len(joins), float("nan"), float("nan"), 0)
    values = rough[np.clip(joins[:, None] + np.arange(0, 2), 0, len(second) - 1)].max(axis=1)
    limit = float(np.quantile(away, 0.99))
    return SeamReport(len(joins), float(np.median(values)), limit, int((values > limit).sum()))
