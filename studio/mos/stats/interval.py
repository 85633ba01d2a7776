"""Confidence intervals of means, and the cluster-robust standard error behind them."""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from studio.core.errors import BadOption
from studio.core.plurals import counted
from studio.mos.stats.clusters import (
    cluster_variance,
    degrees_of_freedom,
    independent_variance,
    largest_share,
    two_way_variance,
)
from studio.mos.stats.columns import F8, I8, ScoreScale


def _special(name: str) -> Callable[..., F8]:
    """A function of ``scipy.special``, which is imported at the first call: it takes 25 MB and .3 s."""

    def typed(*args: ArrayLike) -> F8:
        return np.asarray(getattr(scipy.special, name)(*args), np.float64)

    return typed


t_cdf = _special("stdtr")  # (df, x)
t_inverse = _special("stdtrit")  # (df, q)
normal_cdf = _special("ndtr")
normal_inverse = _special("ndtri")
beta_cdf = _special("betainc")  # (a, b, x)
beta_inverse = _special("betaincinv")  # (a, b, q)
gamma_inverse = _special("gammaincinv")  # (shape, q), rate 1
logistic = _special("expit")
logit = _special("logit")


def log_gamma_ratio_inverse(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> F8:
    """Quantile q of ln(X / Y) for independent X ~ Gamma(a), Y ~ Gamma(b) of rate 1: X / (X + Y) is Beta(a, b)."""
    return np.log(beta_inverse(a, b, q)) - np.log(beta_inverse(b, a, 1 - np.asarray(q, np.float64)))


Clusters = Literal["two_way", "by_rater"]
FEW_RATERS = 5  # below it an interval depends mainly on the assumed distribution
_NEAR_HALF_WIDTHS = 2.0  # distance of the mean from the end of the scale below which a symmetric interval undercovers
_MIN_SE = 1e-9  # in steps


@dataclass(frozen=True)
class Interval:
    """Estimate (mean, share or difference) with its confidence interval."""

    mean: float
    # None (as ``high``) if not estimable (one rater, one item, one rating); not necessarily symmetric around the mean
    # (``interval_bounds``)
    low: float | None
    high: float | None
    se: float | None  # standard error; None also if all answers are equal
    df: float | None  # degrees of freedom of t; None if the interval is not based on t
    n: int  # ratings or votes, given by ``raters`` raters on ``items`` items (None: unknown)
    raters: int | None
    items: int | None
    method: str  # name of the interval method
    level: float  # nominal coverage
    rater_share: float | None = None  # largest share of ``n`` by one rater; ``item_share``: on one script
    item_share: float | None = None

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def t_quantile(df: float, level: float) -> float:
    """Half-width of a two-sided t interval in standard errors; NaN without degrees of freedom."""
    upper = tail_probabilities(level)[1]
    return float(t_inverse(df, upper)) if df > 0 else float("nan")


def z_quantile(level: float) -> float:
    """Half-width of a two-sided normal interval in standard errors."""
    return float(normal_inverse(tail_probabilities(level)[1]))


def tail_probabilities(level: float) -> tuple[float, float]:
    """Lower and upper tail probability of a central interval. Raises BadOption unless 0 < level < 1."""
    if not 0 < level < 1:
        raise BadOption(f"level is {level}", "choose a value between 0 and 1, usually 0.95")
    return 0.5 - level / 2, 0.5 + level / 2


def mean_interval(
    score: F8,
    rater: I8,
    item: I8,
    clusters: Clusters,
    level: float,
    scale: ScoreScale | None,
    null: float | None = None,
) -> Interval:
    """Mean of ``score`` [N] with a clustered interval (``clustered_interval``)."""
    mean = float(score.mean())
    return clustered_interval(mean, (score - mean) / len(score), rater, item, clusters, level, scale, null)


def clustered_interval(
    mean: float,
    influence: F8,
    rater: I8,
    item: I8,
    clusters: Clusters,
    level: float,
    scale: ScoreScale | None,
    null: float | None = None,
    size: F8 | None = None,
) -> Interval:
    """Interval of an estimate from its influence values.

    With a single script it is clustered by rater only, and holds for that script only.

    Args:
        mean: the estimate.
        influence: [N], contribution of each rating to its error; (score - mean) / N for a mean.
        rater: [N] codes.
        item: [N] codes.
        clusters: what to cluster by.
        level: nominal coverage.
        scale: possible scores; None if unknown.
        null: mean under the null hypothesis, if one is tested (``interval_bounds``).
        size: [N], share of each rating in the variance of independent ratings; None if equal (``clustered_error``).
    """
    raters, items = count_distinct(rater), count_distinct(item)
    clusters = "by_rater" if items == 1 and raters > 1 else clusters
    se, df = clustered_error(influence, rater, item, clusters, size, tested=null is not None)
    low, high = interval_bounds(mean, se, df, level, scale, null)
    known_se = None if is_zero_error(se) else finite_or_none(se)
    shares = largest_share(rater), largest_share(item)
    return Interval(mean, low, high, known_se, df, len(influence), raters, items, clusters, level, *shares)


def interval_bounds(
    mean: float, se: float, df: float, level: float, scale: ScoreScale | None = None, null: float | None = None
) -> tuple[float | None, float | None]:
    """Bounds of the interval of a mean, (None, None) if not estimable; they stay on the scale and never coincide.

    The default is mean +- t * se. If the mean lies within two half-widths of an end of the scale, so that a bound lies
    within one, Wilson's form is used (Wilson 1927): all m within t standard errors, with a variance proportional to
    (m - low)(high - m) as for a share. If all answers are equal the error is unknown: ``_half_width_of_equal_answers``.

    Args:
        df: degrees of freedom; clusters - 1 if all answers are equal.
        scale: possible scores; None: plain t, and no bounds if all answers are equal.
        null: mean under the null hypothesis, if one is tested.
    """
    half_width = t_quantile(df, level) * se
    if not np.isfinite(half_width) or (scale is None and is_zero_error(se)):
        return None, None
    if scale is None:
        return mean - half_width, mean + half_width
    if is_zero_error(se):
        half_width = _half_width_of_equal_answers(df, level, scale, null is not None)
        return max(mean - half_width, scale.low), min(mean + half_width, scale.high)
    if _is_near_bound(mean, half_width, scale):
        return _wilson_bounds(mean, half_width, scale)
    return mean - half_width, mean + half_width


def p_value_against(interval: Interval, null: float, scale: ScoreScale | None) -> float | None:
    """Two-sided p value of a clustered mean, consistent with ``interval_bounds``; None if not estimable.

    If all answers are equal: for shares a sign test with one vote per rater (or script, if fewer), otherwise t with
    ``_half_width_of_equal_answers``.
    """
    if not interval.df:
        return None
    gap = abs(interval.mean - null)
    if interval.se is None:
        if scale is None or scale.is_binary:
            return sign_test_p(int(interval.df) + 1) if gap else 1.0
        half_width = _half_width_of_equal_answers(interval.df, interval.level, scale, tested=True)
        return float(2 * t_cdf(interval.df, -gap * t_quantile(interval.df, interval.level) / half_width))
    se = interval.se
    if scale and _is_near_bound(interval.mean, t_quantile(interval.df, interval.level) * se, scale):
        se *= (_relative_variance(null, scale) / _relative_variance(interval.mean, scale)) ** 0.5
    return float(2 * t_cdf(interval.df, -gap / se))


def sign_test_p(votes: int) -> float:
    """Two-sided p value of unanimous votes against one half."""
    return min(1.0, 2 * 0.5**votes)


def small_sample_note(raters: int | None, items: int | None) -> str | None:
    """Warning for few raters or scripts; None if there are enough, or if the numbers are unknown."""
    counts = [
        counted(number, what)
        for number, what in ((raters, "rater"), (items, "script"))
        if number is not None and number < FEW_RATERS
    ]
    if not counts:
        return None
    few = f"Only {' and '.join(counts)}: below {FEW_RATERS} an interval depends more on assumptions than on answers"
    return few + ("; it is by rater, for this script only" if items == 1 and raters != 1 else "")


def is_zero_error(se: float) -> bool:
    """Whether a standard error is zero up to rounding: all answers are equal."""
    return bool(se < _MIN_SE)


def finite_or_none(value: float) -> float | None:
    """The value, or None if it is not finite (for JSON)."""
    return float(value) if np.isfinite(value) else None


def clustered_error(
    influence: F8, rater: I8, item: I8, clusters: Clusters, size: F8 | None = None, tested: bool = False
) -> tuple[float, float]:
    """Cluster-robust standard error (NaN without degrees of freedom) and degrees of freedom, from influence values.

    ``two_way`` is by rater and script (``two_way_variance``). ``by_rater`` is V_rater with R* - 1 degrees of freedom,
    valid for these items only; V_both if V_rater is zero and the ratings vary. If all answers are equal, degrees of
    freedom count raters (or scripts, if fewer).

    Args:
        size: [N], share of each rating in the variance of independent ratings; None if equal, as in a mean.
        tested: whether the estimate is a difference (``two_way_variance``).
    """
    rater, item = dense_codes(rater), dense_codes(item)
    by_rater = cluster_variance(influence, rater, size)
    by_both = cluster_variance(influence, np.unique(rater * (item.max() + 1) + item, return_inverse=True)[1], size)
    clusters_counted = [count_distinct(rater)]
    if clusters == "by_rater":
        independent, df = independent_variance(by_both), degrees_of_freedom(by_rater.groups)
        varies = not is_zero_error(float(by_rater.squares) ** 0.5)
        variance = by_rater.variance(independent) if varies else independent
    else:
        clusters_counted.append(count_distinct(item))
        variance, df = two_way_variance(by_rater, cluster_variance(influence, item, size), by_both, tested)
    se = float(np.sqrt(variance))
    return se, float(min(clusters_counted) - 1 if is_zero_error(se) else df)


def dense_codes(codes: I8) -> I8:
    """Codes [N], without gaps if a selection of few rows left gaps that would take more memory than the rows."""
    few = codes.max(initial=0) > 2 * len(codes)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64) if few else codes


def count_distinct(codes: I8) -> int:
    return int(np.count_nonzero(np.bincount(dense_codes(codes))))


def _half_width_of_equal_answers(df: float, level: float, scale: ScoreScale, tested: bool) -> float:
    """Half-width of the interval of a mean when all answers are equal.

    Exact for one vote per rater (or script, if fewer) and unobserved answers one step away (Clopper & Pearson 1934). If
    the mean is ``tested`` on a scale of more than two answers, it is at least the half-width of t if one rater (or
    script) had differed by a step: otherwise two or three raters who agree by chance would be significant too often.
    """
    share = 1 - tail_probabilities(level)[0] ** (1 / (df + 1))
    if tested and not scale.is_binary:
        share = max(share, t_quantile(df, level) / (df + 1))
    return scale.step * share


def _is_near_bound(mean: float, half_width: float, scale: ScoreScale) -> bool:
    return min(mean - scale.low, scale.high - mean) < _NEAR_HALF_WIDTHS * half_width


def _relative_variance(mean: float, scale: ScoreScale) -> float:
    """Quantity that the variance is proportional to near the ends of the scale."""
    return (mean - scale.low) * (scale.high - mean)


def _wilson_bounds(mean: float, half_width: float, scale: ScoreScale) -> tuple[float, float]:
    """Solutions m of (mean - m)^2 = k (m - low)(high - m), k such that the half-width at the mean is ``half_width``."""
    k = half_width**2 / _relative_variance(mean, scale)
    centre = (mean + k * (scale.low + scale.high) / 2) / (1 + k)
    distance = (centre**2 - (mean**2 + k * scale.low * scale.high) / (1 + k)) ** 0.5
    return max(centre - distance, scale.low), min(centre + distance, scale.high)
