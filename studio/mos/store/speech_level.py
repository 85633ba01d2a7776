"""Active speech level (ITU-T P.56, method B): the level of speech without its pauses."""
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# (scipy carries no types)

import math

import numpy as np
import scipy
from numpy.typing import NDArray

_TIME_CONSTANT_S = 0.03  # of each of the envelope's two smoothing filters
_HANGOVER_S = 0.2
_MARGIN_DB = 15.9  # between the active level and the threshold of activity
_THRESHOLDS = 2.0 ** np.arange(-15, 0)  # of full scale, in steps of 6.02 dB


def active_level_dbov(pcm: NDArray[np.float32], rate_hz: int) -> float | None:
    """Active speech level in dB of the overload point (a full-scale sine has -3.01 dBov); None without activity.

    Args:
        pcm: samples [T], or [T, 2] (then the mean power of both), full scale at 1.
        rate_hz: their rate.
    """
    power = np.square(pcm.astype(np.float64).reshape(len(pcm), -1)).mean(axis=1)
    g = math.exp(-1.0 / (rate_hz * _TIME_CONSTANT_S))
    envelope = np.sqrt(power)
    for _ in range(2):
        envelope = scipy.signal.lfilter([1.0 - g], [1.0, -g], envelope)
    hangover = math.ceil(rate_hz * _HANGOVER_S)
    shift = (hangover + 1) // 2  # the window ends at the present sample
    held = scipy.ndimage.maximum_filter1d(envelope, hangover + 1, mode="constant", origin=shift)
    active = np.array([int((held >= threshold).sum()) for threshold in _THRESHOLDS], np.int64)
    energy = float(power.sum())
    if not active[0] or energy <= 0.0:
        return None
    levels = 10.0 * np.log10(energy / np.maximum(active, 1))
    margins = levels - 20.0 * np.log10(_THRESHOLDS)
    known = np.flatnonzero((active > 0) & (margins <= _MARGIN_DB))
    if not len(known):
        return None
    above = int(known[0])
    if above == 0:
        return None  # the level is within the margin of the lowest threshold: too soft to be speech
    low, high = margins[above], margins[above - 1]
    share = (high - _MARGIN_DB) / (high - low)
    return float(levels[above - 1] + share * (levels[above] - levels[above - 1]))
