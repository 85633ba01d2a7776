"""Bootstrap intervals (percentiles): how far a figure would move with other sentences of the same kind."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

REPEATS = 10_000


@dataclass(frozen=True)
class Interval:
    """A value and the interval that holds it at ``level``; the bounds are no numbers where one draw was all."""

    value: float
    low: float
    high: float
    level: float = 0.95


def draw_counts(count: int, repeats: int = REPEATS, seed: int = 0) -> np.ndarray:
    """How often each of ``count`` sentences is drawn in each repeat: float [repeats, count]."""
    assert count > 0, "there must be sentences"
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), repeats).astype(np.float64)


def percentile_interval(value: float, drawn: np.ndarray, level: float = 0.95) -> Interval:
    """The interval that holds ``level`` of what was drawn, about a value."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high), level)


def bootstrap_mean(each: Sequence[float], *, repeats: int = REPEATS, seed: int = 0, level: float = 0.95) -> Interval:
    """The mean of one figure a sentence."""
    if len(each) < 2:
        return _alone(float(np.mean(each)), level)
    return percentile_interval(float(np.mean(each)), _means(each, repeats, seed), level)


def bootstrap_mean_difference(
    one: Sequence[float],
    other: Sequence[float],
    *,
    paired: bool,
    repeats: int = REPEATS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """The mean of ``one`` less that of ``other``: over the same sentences where paired, else each drawn by itself."""
    assert not paired or len(one) == len(other), "a paired interval needs the same sentences"
    value = float(np.mean(one)) - float(np.mean(other))
    if min(len(one), len(other)) < 2:
        return _alone(value, level)
    if paired:
        drawn = _means(np.asarray(one, np.float64) - np.asarray(other, np.float64), repeats, seed)
    else:
        drawn = _means(one, repeats, seed) - _means(other, repeats, seed + 1)
    return percentile_interval(value, drawn, level)


def _means(each: Sequence[float] | np.ndarray, repeats: int, seed: int) -> np.ndarray:
    return draw_counts(len(each), repeats, seed) @ np.asarray(each, np.float64) / len(each)


def _alone(value: float, level: float) -> Interval:
    return Interval(value, float("nan"), float("nan"), level)
