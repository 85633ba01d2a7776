"""Variances of estimates whose errors are shared within raters and within scripts, for clusters of unequal size.

Everything here is elementwise over estimates: floats for one mean, arrays for the scores and differences of Elo.
"""

from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import F8, I8

_FLOOR = 0.8  # of the variance of a difference, relative to that of independent answers
_MOST_CORRECTION = 1.5  # of the small-sample factor, relative to G* / (G* - 1)
_MIN_DF = 1.0  # two clusters of very unequal size would have nearly 0
_UNEQUAL_SHARE = 0.2  # share of the answers of one rater (script) above which a note says so
_ABOVE_EQUAL = 1.2  # and the ratio by which it must exceed an equal share


@dataclass(frozen=True)
class ClusterVariance:
    """Variance of estimates by one grouping of the answers."""

    squares: F8  # sum over groups of (sum of influence values)^2
    groups: F8  # effective number G* of groups (``effective_clusters``)
    correction: F8  # small-sample factor of the excess over independent answers (``small_sample_correction``)

    def variance(self, independent: F8) -> F8:
        """Variance V_g; ``independent``: V_both, the variance under independence.

        It is ``squares`` times G* / (G* - 1); the excess over independent answers is multiplied by ``correction``
        instead. For groups of equal size both factors are G / (G - 1), that of statsmodels with one regressor.
        """
        factor = _factor(self.groups)
        excess = np.maximum(self.squares - independent / factor, 0.0)
        return self.squares * factor + excess * (self.correction - factor)


def effective_clusters(size: F8) -> F8:
    """Effective number of clusters of the given sizes [..., G]: (sum n)^2 / sum n^2 over the last axis.

    It is G for clusters of equal size, and the number of equal clusters whose mean has the same variance otherwise
    (Kish 1965, section 11.7, for weights). Sizes may also be shares of the clusters in the variance of independent
    answers.
    """
    return effective_of_sums(size.sum(axis=-1), (size**2).sum(axis=-1))


def effective_of_sums(total: F8, squares: F8) -> F8:
    """``effective_clusters`` from the sums of sizes and of their squares."""
    return total**2 / np.maximum(squares, np.finfo(np.float64).tiny)


def small_sample_correction(total: F8, squares: F8, cubes: F8) -> F8:
    """Factor that makes the sum of squared cluster sums unbiased if all variance is between clusters.

    The arguments are sums of the sizes, their squares and cubes. With shares w of the clusters, residuals from the mean
    have the variance 1 - 2 w + sum w^2, so the factor is 1 / (1 - 2 sum w^3 / sum w^2 + sum w^2); G / (G - 1) for equal
    sizes. At most 1.5 times G* / (G* - 1): a single dominating cluster shifts the mean, too, and both err in the same
    direction.
    """
    w2, w3 = squares / total**2, cubes / total**3
    factor = _factor(effective_of_sums(total, squares))
    share = np.maximum(1 - 2 * w3 / w2 + w2, np.finfo(np.float64).tiny)
    return np.minimum(1 / share, _MOST_CORRECTION * factor)


def cluster_variance(influence: F8, codes: I8, size: F8 | None = None) -> ClusterVariance:
    """Sums by the groups ``codes`` [N] of influence values [N].

    ``size``: share [N] of each answer in the variance of independent answers; None if all are equal, as in a mean.
    """
    sizes = np.bincount(codes, size).astype(np.float64)
    sums: F8 = np.bincount(codes, influence).astype(np.float64)
    total, squares, cubes = (np.asarray((sizes**k).sum()) for k in (1, 2, 3))
    correction = small_sample_correction(total, squares, cubes)
    return ClusterVariance(np.asarray(sums @ sums), effective_of_sums(total, squares), correction)


def _factor(groups: F8) -> F8:
    """G* / (G* - 1); NaN for one group."""
    several = groups > 1 + 1e-9
    return np.where(several, groups / np.where(several, groups - 1, 1.0), np.nan)


def independent_variance(both: ClusterVariance) -> F8:
    """V_both: the variance of independent answers, where a rater's repeated answers to a script count as one."""
    return both.squares * _factor(both.groups)


def degrees_of_freedom(*groups: F8) -> F8:
    """The smallest effective number of clusters minus 1; at least 1 for two or more clusters, 0 for a single one."""
    least = np.minimum.reduce(groups)
    return np.where(least > 1 + 1e-9, np.maximum(least - 1, _MIN_DF), 0.0)


def two_way_variance(
    rater: ClusterVariance, item: ClusterVariance, both: ClusterVariance, tested: bool = False
) -> tuple[F8, F8]:
    """Variance by rater and script, V_rater + V_item - V_both, at least V_both; and its degrees of freedom.

    Cameron, Gelbach & Miller 2011, eq. 2.10. V_both is the variance under independence, which rater and item effects
    can only add to. Degrees of freedom: min(R*, I*) - 1.

    Args:
        rater: by raters. ``item``: by scripts. ``both``: by rater and script.
        tested: whether estimates are differences, in which most effects of raters and scripts cancel. With a floor of
            V_both the variance would be inflated in half of the tests, and t(min(R*, I*) - 1) would be too wide, since
            V_both is estimated from all answers and not from few clusters. The floor is 0.8 V_both instead, with
            V_both's degrees of freedom; above it they are Satterthwaite's (1946) for the sum, from the terms above
            V_both.
    """
    independent = independent_variance(both)
    by_rater, by_item = rater.variance(independent), item.variance(independent)
    combined = by_rater + by_item - independent
    least = degrees_of_freedom(rater.groups, item.groups)
    if not tested:
        return np.maximum(combined, independent), least
    floor = _FLOOR * independent
    is_floor = combined <= floor
    variance = np.where(is_floor, floor, combined)
    spread = np.where(is_floor, floor, independent) ** 2 / np.maximum(both.groups - 1, _MIN_DF)
    for term, groups in ((by_rater, rater.groups), (by_item, item.groups)):
        added = np.where(is_floor | (term <= independent), 0.0, term)
        spread = spread + added**2 / np.maximum(groups - 1, _MIN_DF)
    df = variance**2 / np.maximum(spread, np.finfo(np.float64).tiny)
    return variance, np.where(least > 0, np.maximum(df, _MIN_DF), 0.0)


def largest_share(codes: I8) -> float:
    """Share of the answers in the largest group of ``codes`` [N]."""
    return float(np.bincount(codes).max(initial=0)) / max(1, len(codes))


def unequal_note(
    raters: int | None, rater_share: float | None, items: int | None, item_share: float | None
) -> str | None:
    """Warning if one rater or script has over a fifth of the answers, and more than an equal share.

    Args:
        raters: number of raters; ``items``: of scripts; None if unknown.
        rater_share: largest share of the answers by one rater; ``item_share``: on one script.
    """
    warnings = [
        f"one {what} has {share:.0%} of the answers"
        for what, count, share in (("rater", raters, rater_share), ("script", items, item_share))
        if count is not None and share is not None and count > 1
        if share > _UNEQUAL_SHARE and share * count > _ABOVE_EQUAL
    ]
    if not warnings:
        return None
    text = " and ".join(warnings)
    return f"{text[0].upper()}{text[1:]}: intervals count unequal raters and scripts as fewer equal ones"
