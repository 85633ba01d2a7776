"""Intervals: a mean with what is known about its error, and the variance of a mean over clusters."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8
from studio.mos.stats.distributions import normal_inverse, t_inverse

Clusters = Literal["two_way", "by_rater"]


@dataclass(frozen=True)
class Interval:
    """A mean (or a share, or a difference) with its interval.

    Attributes:
        low: None, like ``high`` and ``se``, where the data cannot say (one rater, one item, one rating).
        se: standard error, in the unit of the mean.
        df: degrees of freedom of t; None where the interval is not made with t.
        n: ratings or votes behind it, given by this many ``raters`` on this many ``items`` (None: not known).
        method: the name under which the interval was asked for.
        level: the nominal coverage, 0.95 as a rule.
    """

    mean: float
    low: float | None
    high: float | None
    se: float | None
    df: float | None
    n: int
    raters: int | None
    items: int | None
    method: str
    level: float

    @property
    def half_width(self) -> float | None:
        """Half of high - low."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def t_quantile(df: float, level: float) -> float:
    """How many standard errors a two-sided t interval reaches; NaN without degrees of freedom."""
    upper = tails(level)[1]
    return float(t_inverse(df, upper)) if df > 0 else float("nan")


def z_quantile(level: float) -> float:
    """How many standard errors a two-sided normal interval reaches."""
    return float(normal_inverse(tails(level)[1]))


def tails(level: float) -> tuple[float, float]:
    """The two quantiles between which ``level`` of a distribution lies. Raises BadOption outside (0, 1)."""
    if not 0 < level < 1:
        raise BadOption(f"level is {level}", "it lies between 0 and 1; 0.95 is usual")
    return 0.5 - level / 2, 0.5 + level / 2


def bounds(mean: float, se: float, reach: float) -> tuple[float | None, float | None]:
    """The two bounds ``reach`` standard errors away from the mean; None where there is no number."""
    width = reach * se
    return (mean - width, mean + width) if np.isfinite(width) else (None, None)


def finite(value: float) -> float | None:
    """The value, or None where it is not a number, so that it can be written as JSON."""
    return float(value) if np.isfinite(value) else None


def clustered(influence: F8, rater: I8, item: I8, clusters: Clusters) -> tuple[float, int]:
    """Standard error and degrees of freedom of a mean from its influence values.

    ``two_way`` is V_rater + V_item - V_both (Cameron, Gelbach & Miller 2011, eq. 2.10), where V_g is the sum over
    the G clusters of (sum of influence values)^2, times G / (G - 1): the small-sample factor of statsmodels with one
    regressor. Under rater and item effects the variance is never below V_both, that of independent ratings, so an
    estimate below it, or below zero, is raised to it. Degrees of freedom are min(G_rater, G_item) - 1.
    ``by_rater`` is V_rater with G_rater - 1 and holds for these items only.

    Args:
        influence: [N], what each rating adds to the error of the estimate; (score - mean) / N for a mean.
        rater: [N] codes.
        item: [N] codes.

    Returns:
        The standard error (NaN without degrees of freedom) and the degrees of freedom.
    """
    by_rater, raters = _between(influence, rater)
    if clusters == "by_rater":
        return float(np.sqrt(by_rater)), raters - 1
    by_item, items = _between(influence, item)
    by_both, _ = _between(influence, np.unique(rater * (item.max() + 1) + item, return_inverse=True)[1])
    return float(np.sqrt(max(by_rater + by_item - by_both, by_both))), min(raters, items) - 1


def present(codes: I8) -> int:
    """How many different codes there are."""
    return int(np.count_nonzero(np.bincount(codes)))


def _between(influence: F8, codes: I8) -> tuple[float, int]:
    groups = present(codes)
    if groups < 2:
        return float("nan"), groups
    sums = np.bincount(codes, influence)
    return float(sums @ sums) * groups / (groups - 1), groups
