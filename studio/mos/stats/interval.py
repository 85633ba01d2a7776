"""Intervals: a mean with what is known about its error, and the variance of a mean over clusters."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Scale
from studio.mos.stats.distributions import normal_inverse, t_cdf, t_inverse

Clusters = Literal["two_way", "by_rater"]
FEW_RATERS = 5  # under which an interval rests on little but the form of a distribution
_NEAR = 2.0  # half widths from the scale's end within which a symmetric interval falls short
_ALIKE = 1e-9  # a standard error under it, in steps, is none


@dataclass(frozen=True)
class Interval:
    """A mean (or a share, or a difference) with its interval.

    Attributes:
        low: None, like ``high``, where the data cannot say (one rater, one item, one rating); not always as far from
            the mean as ``high`` is (``ends``).
        se: standard error, in the unit of the mean; None where all answers are alike too, which say nothing of it.
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


def of_mean(
    score: F8, rater: I8, item: I8, clusters: Clusters, level: float, scale: Scale | None, null: float | None = None
) -> Interval:
    """The mean of ``score`` [N], given by the raters [N] on the items [N], with a clustered interval.

    ``null`` is the mean that is tested for, where one is (``ends``).
    """
    mean = float(score.mean())
    se, df = clustered((score - mean) / len(score), rater, item, clusters)
    low, high = ends(mean, se, df, level, scale, null)
    spread = None if alike(se) else finite(se)
    return Interval(mean, low, high, spread, df, len(score), present(rater), present(item), clusters, level)


def ends(
    mean: float, se: float, df: int, level: float, scale: Scale | None = None, null: float | None = None
) -> tuple[float | None, float | None]:
    """The two ends of a mean's interval, which never leaves the scale and is never of no width.

    As a rule t standard errors to either side. Where that comes within its own half width of the scale's end, Wilson's
    form (Wilson 1927): the means that t standard errors reach, were the variance in proportion to (m - low)(high - m),
    as that of a share is. Where all answers are alike nothing is known of their error: ``_step_away``.

    Args:
        mean: what the interval is of.
        se: its standard error.
        df: degrees of freedom, the number of clusters less one.
        level: nominal coverage.
        scale: what answers there may be; None gives t alone, and no ends where all answers are alike.
        null: the mean that is tested for, where one is.

    Returns:
        None for both where the data cannot say.
    """
    reach = t_quantile(df, level) * se
    if not np.isfinite(reach) or (scale is None and alike(se)):
        return None, None
    if scale is None:
        return mean - reach, mean + reach
    if alike(se):
        reach = _step_away(df, level, scale, null is not None)
        return max(mean - reach, scale.low), min(mean + reach, scale.high)
    return _wilson(mean, reach, scale) if _near(mean, reach, scale) else (mean - reach, mean + reach)


def p_against(interval: Interval, null: float, scale: Scale | None) -> float | None:
    """Two-sided p value of a clustered mean against ``null``, by the rule of ``ends``; None where the data cannot say.

    Where all answers are alike, that of ``_step_away``; of shares the sign test's, one vote a rater (or script, if they
    are fewer).
    """
    if not interval.df:
        return None
    gap = abs(interval.mean - null)
    if interval.se is None:
        if scale is None or scale.of_shares:
            return sign_test(int(interval.df) + 1) if gap else 1.0
        reach = _step_away(int(interval.df), interval.level, scale, tested=True)
        return float(2 * t_cdf(interval.df, -gap * t_quantile(interval.df, interval.level) / reach))
    se = interval.se
    if scale and _near(interval.mean, t_quantile(interval.df, interval.level) * se, scale):
        se *= (_room(null, scale) / _room(interval.mean, scale)) ** 0.5
    return float(2 * t_cdf(interval.df, -gap / se))


def sign_test(votes: int) -> float:
    """Two-sided p value of so many votes, all of one mind, against one half."""
    return min(1.0, 2 * 0.5**votes)


def few(raters: int | None, items: int | None) -> str | None:
    """What has to be said of intervals of so few raters or scripts; None where there are enough, or nobody knows."""
    short = [
        f"{number} {what}{'s' * (number != 1)}"
        for number, what in ((raters, "rater"), (items, "script"))
        if number is not None and number < FEW_RATERS
    ]
    if not short:
        return None
    return f"Only {' and '.join(short)}: under {FEW_RATERS} an interval rests on its assumptions more than on answers"


def alike(se: float) -> bool:
    """Whether a standard error is none: all answers are the same."""
    return bool(se < _ALIKE)


def finite(value: float) -> float | None:
    """The value, or None where it is not a number, so that it can be written as JSON."""
    return float(value) if np.isfinite(value) else None


def clustered(influence: F8, rater: I8, item: I8, clusters: Clusters) -> tuple[float, int]:
    """Standard error and degrees of freedom of a mean from its influence values.

    ``two_way`` is V_rater + V_item - V_both (Cameron, Gelbach & Miller 2011, eq. 2.10), where V_g is the sum over
    the G clusters of (sum of influence values)^2, times G / (G - 1): the small-sample factor of statsmodels with one
    regressor. Under rater and item effects the variance is never below V_both, that of independent ratings, so an
    estimate below it, or below zero, is raised to it. Degrees of freedom are min(G_rater, G_item) - 1.
    ``by_rater`` is V_rater with G_rater - 1 and holds for these items only; where raters do not differ at all though
    their ratings do, V_both in its stead.

    Args:
        influence: [N], what each rating adds to the error of the estimate; (score - mean) / N for a mean.
        rater: [N] codes.
        item: [N] codes.

    Returns:
        The standard error (NaN without degrees of freedom) and the degrees of freedom.
    """
    by_rater, raters = _between(influence, rater)
    by_both, _ = _between(influence, np.unique(rater * (item.max() + 1) + item, return_inverse=True)[1])
    if clusters == "by_rater":
        return float(np.sqrt(by_both if alike(by_rater**0.5) else by_rater)), raters - 1
    by_item, items = _between(influence, item)
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


def _step_away(df: int, level: float, scale: Scale, tested: bool) -> float:
    """How far the mean of answers that are all alike may be off.

    Exact as though each rater (or script, if they are fewer) had one vote and whoever was not asked differed by a step
    (Clopper & Pearson 1934). Where the mean is ``tested`` on a scale of more than two answers, at the least what t says
    had one rater (or script) differed by a step: of two or three raters, who may lean one way by luck, the first would
    be sure of too much.
    """
    exact = 1 - tails(level)[0] ** (1 / (df + 1))
    if tested and not scale.of_shares:
        exact = max(exact, t_quantile(df, level) / (df + 1))
    return scale.step * exact


def _near(mean: float, reach: float, scale: Scale) -> bool:
    return min(mean - scale.low, scale.high - mean) < _NEAR * reach


def _room(mean: float, scale: Scale) -> float:
    """What the variance is in proportion to near the ends of a scale."""
    return (mean - scale.low) * (scale.high - mean)


def _wilson(mean: float, reach: float, scale: Scale) -> tuple[float, float]:
    """The two m with (mean - m)^2 = k (m - low)(high - m), where k makes ``reach`` the distance at the mean itself."""
    k = reach**2 / _room(mean, scale)
    middle = (mean + k * (scale.low + scale.high) / 2) / (1 + k)
    width = (middle**2 - (mean**2 + k * scale.low * scale.high) / (1 + k)) ** 0.5
    return max(middle - width, scale.low), min(middle + width, scale.high)
