"""Bootstrap percentile intervals over sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

REPEATS = 10_000


@dataclass(frozen=True)
class BootstrapInterval:
    """A value and its confidence interval; the bounds are NaN if there was only one observation."""

    value: float
    low: float
    high: float
    level: float = 0.95


def draw_counts(count: int, repeats: int = REPEATS, seed: int = 0) -> np.ndarray:
    """How often each sentence is drawn in each repeat: float [repeats, count]."""
    assert count > 0, "there must be sentences"
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), repeats).astype(np.float64)


def percentile_interval(value: float, drawn: np.ndarray, level: float = 0.95) -> BootstrapInterval:
    """The percentile interval of bootstrap draws."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return BootstrapInterval(float(value), float(low), float(high), level)


def bootstrap_mean(
    each: Sequence[float], *, repeats: int = REPEATS, seed: int = 0, level: float = 0.95
) -> BootstrapInterval:
    """Mean of one value per sentence."""
    if len(each) < 2:
        return _without_bounds(float(np.mean(each)), level)
    return percentile_interval(float(np.mean(each)), _means(each, repeats, seed), level)


def bootstrap_mean_difference(
    one: Sequence[float],
    other: Sequence[float],
    *,
    paired: bool,
    repeats: int = REPEATS,
    seed: int = 0,
    level: float = 0.95,
) -> BootstrapInterval:
    """Mean of ``one`` minus mean of ``other``; paired draws use the same sentences for both."""
    assert not paired or len(one) == len(other), "a paired interval needs the same sentences"
    value = float(np.mean(one)) - float(np.mean(other))
    if min(len(one), len(other)) < 2:
        return _without_bounds(value, level)
    if paired:
        drawn = _means(np.asarray(one, np.float64) - np.asarray(other, np.float64), repeats, seed)
    else:
        drawn = _means(one, repeats, seed) - _means(other, repeats, seed + 1)
    return percentile_interval(value, drawn, level)


def _means(each: Sequence[float] | np.ndarray, repeats: int, seed: int) -> np.ndarray:
    return draw_counts(len(each), repeats, seed) @ np.asarray(each, np.float64) / len(each)


def _without_bounds(value: float, level: float) -> BootstrapInterval:
    return BootstrapInterval(value, float("nan"), float("nan"), level)
