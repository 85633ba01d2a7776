"""Bootstrap percentile intervals over sentences; agreement of raters: Krippendorff's alpha and Cohen's kappa."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from studio.core.errors import BadOption

REPEATS = 10_000
Measurement = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True)
class BootstrapInterval:
    """A value and its confidence interval; the bounds are NaN if there was only one observation."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    level: float = 0.95


def draw_counts(count: int, repeats: int = REPEATS, seed: int = 0) -> np.ndarray:
    """How often each sentence is drawn in each repeat: float [repeats, count]."""
    assert count > 0, "there must be sentences"
    return np.random.default_rng(seed).multinomial(count, np.full(count, 1.0 / count), repeats).astype(np.float64)


def percentile_interval(value: float, draws: np.ndarray) -> BootstrapInterval:
    """The percentile interval of bootstrap draws."""
    level = BootstrapInterval.level
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return BootstrapInterval(float(value), float(low), float(high))


def bootstrap_mean(each: Sequence[float], *, repeats: int = REPEATS, seed: int = 0) -> BootstrapInterval:
    """Mean of one value per sentence."""
    if len(each) < 2:
        return BootstrapInterval(float(np.mean(each)))
    return percentile_interval(float(np.mean(each)), _means(each, repeats, seed))


def bootstrap_mean_difference(
    one: Sequence[float], other: Sequence[float], *, paired: bool, seed: int = 0
) -> BootstrapInterval:
    """Mean of ``one`` minus mean of ``other``; paired draws use the same sentences for both."""
    assert not paired or len(one) == len(other), "a paired interval needs the same sentences"
    value = float(np.mean(one)) - float(np.mean(other))
    if min(len(one), len(other)) < 2:
        return BootstrapInterval(value)
    if paired:
        draws = _means(np.asarray(one, np.float64) - np.asarray(other, np.float64), REPEATS, seed)
    else:
        draws = _means(one, REPEATS, seed) - _means(other, REPEATS, seed + 1)
    return percentile_interval(value, draws)


def _means(each: Sequence[float] | np.ndarray, repeats: int, seed: int) -> np.ndarray:
    return draw_counts(len(each), repeats, seed) @ np.asarray(each, np.float64) / len(each)


def krippendorff(
    values: npt.NDArray[np.float64], units: npt.NDArray[np.int64], scale: Measurement = "ordinal"
) -> float | None:
    """Krippendorff's alpha of scores (Krippendorff 2018, chapter 12): 1 is agreement, 0 is chance.

    Ordinal distances are those of mid-ranks and interval distances those of values, so sums of squares within units
    replace the table of coincidences, whose size is the square of the number of values.

    Args:
        values: score, or code of a category, of each judgement [N].
        units: code from 0 of the unit that it judges [N]; one judgement per rater and unit.
        scale: nominal, ordinal or interval.

    Returns:
        None if undefined: nothing was scored twice, or all scores are equal.

    Raises:
        BadOption: unknown scale.
    """
    if scale not in ("nominal", "ordinal", "interval"):
        raise BadOption(f"{scale!r} is not a scale", "known are nominal, ordinal, interval")
    paired = np.bincount(units)[units] > 1
    levels, code, count = np.unique(values[paired], return_inverse=True, return_counts=True)
    if len(levels) < 2:
        return None
    _, unit, size = np.unique(units[paired], return_inverse=True, return_counts=True)
    n = len(code)
    if scale == "nominal":
        cell, shared = np.unique(unit * len(levels) + code, return_counts=True)
        within = size.astype(np.float64) ** 2 - np.bincount(cell // len(levels), shared.astype(np.float64) ** 2)
        expected = float(n) ** 2 - float((count.astype(np.float64) ** 2).sum())
    else:
        place = levels if scale == "interval" else np.cumsum(count) - count / 2
        place = place - (place * count).sum() / n  # centred, to avoid cancellation
        of_unit, squares = (np.bincount(unit, power) for power in (place[code], place[code] ** 2))
        within = 2 * (size * squares - of_unit**2)
        expected = 2 * n * float(squares.sum())
    return 1.0 - float((within / (size - 1)).sum()) * (n - 1) / expected


def cohen_kappa(
    one: Sequence[int] | npt.NDArray[np.int64], other: Sequence[int] | npt.NDArray[np.int64]
) -> float | None:
    """Cohen's kappa of two raters' categories: (p_o - p_e) / (1 - p_e) (Cohen 1960, eq. 1).

    p_o is the share of units with the same category, p_e its expectation by chance. None if undefined: there are no
    units, or both raters gave one category to all.

    Args:
        one, other: category number of each unit, in the same order.
    """
    assert len(one) == len(other), "both must rate every unit"
    if not len(one):
        return None
    _, codes = np.unique(np.concatenate([one, other]), return_inverse=True)
    first, second = codes[: len(one)], codes[len(one) :]
    shares = [np.bincount(each, minlength=codes.max() + 1) / len(one) for each in (first, second)]
    expected = float(shares[0] @ shares[1])
    if expected >= 1.0:
        return None
    return (float((first == second).mean()) - expected) / (1.0 - expected)
