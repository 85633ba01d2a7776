"""Mean opinion scores by system and by stimulus, and differences between systems, with cluster-robust intervals.

Sign-corrected scores of comparisons (CMOS, DCR) are means as well.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Ratings
from studio.mos.stats.interval import (
    Clusters,
    Interval,
    clustered_error,
    count_distinct,
    finite_or_none,
    interval_bounds,
    is_zero_error,
    mean_interval,
    p_value_against,
    t_quantile,
    z_quantile,
)

MeanMethod = Literal["two_way", "by_rater", "plain", "plain_t"]


@dataclass(frozen=True)
class P808:
    """Columns of ITU-T P.808: n, mean, standard deviation s, and 1.96 s / sqrt(n); None if s is 0."""

    n: int
    mean: float
    s: float | None
    ci95: float | None


def by_system(ratings: Ratings, method: MeanMethod = "two_way", level: float = 0.95) -> dict[str, Interval]:
    """Mean of each rated system, in the order of ``ratings.systems``.

    Methods:
        two_way: clustered by rater and item, t with min(G) - 1 degrees of freedom (``clustered_error``).
        by_rater: clustered by rater, t with G - 1; valid for these items only.
        plain: as in P.808, 1.96 s / sqrt(n), ratings taken as independent; None if s is 0.
        plain_t: the same with t(n - 1).

    Raises:
        BadOption: a level outside (0, 1), or an unknown method.
    """
    return {
        name: mean_of(ratings.where(ratings.system == code), method, level)
        for code, name in enumerate(ratings.systems)
        if (ratings.system == code).any()
    }


def by_stimulus(
    ratings: Ratings, method: MeanMethod = "by_rater", level: float = 0.95
) -> dict[tuple[str, str], Interval]:
    """Mean of each stimulus (system, item), clustered by rater because there is one item.

    Raises:
        BadOption: a level outside (0, 1), or an unknown method.
    """
    return {
        (ratings.systems[s], ratings.items[i]): mean_of(ratings.where(rows), method, level)
        for s, i, rows in stimuli(ratings)
    }


def stimuli(ratings: Ratings) -> list[tuple[int, int, I8]]:
    """System code, item code and row indices of each rated stimulus, in order."""
    if not len(ratings):
        return []
    width = len(ratings.items)
    keys = ratings.system * width + ratings.item
    order = np.argsort(keys, kind="stable").astype(np.int64)
    known, start = np.unique(keys[order], return_index=True)
    return [(int(k) // width, int(k) % width, rows) for k, rows in zip(known, np.split(order, start[1:]), strict=True)]


def mean_of(ratings: Ratings, method: MeanMethod = "two_way", level: float = 0.95) -> Interval:
    """Mean of all ratings, whatever their system. Raises BadOption without ratings."""
    if not len(ratings):
        raise BadOption("there are no ratings", "a mean needs at least one")
    score = ratings.score
    if method == "two_way" or method == "by_rater":
        return mean_interval(score, ratings.rater, ratings.item, method, level, ratings.scale)
    if method not in ("plain", "plain_t"):
        raise BadOption(f"{method!r} is not an interval of means", "choose two_way, by_rater, plain, plain_t")
    n, mean, se = len(score), float(score.mean()), _plain_se(score)
    # The normal quantile to two places, as in P.808: 1.96, not 1.959964.
    df, quantile = (n - 1, t_quantile(n - 1, level)) if method == "plain_t" else (None, round(z_quantile(level), 2))
    half = finite_or_none(quantile * se)
    low, high = (None, None) if half is None or is_zero_error(se) else (mean - half, mean + half)
    return Interval(
        mean,
        low,
        high,
        finite_or_none(se),
        df,
        n,
        count_distinct(ratings.rater),
        count_distinct(ratings.item),
        method,
        level,
    )


def p808(ratings: Ratings) -> dict[str, P808]:
    """P.808 columns of each system; ``s`` uses n - 1 and is None for one rating."""
    columns: dict[str, P808] = {}
    for name, plain in by_system(ratings, "plain").items():
        s = None if plain.se is None else plain.se * plain.n**0.5
        columns[name] = P808(plain.n, plain.mean, s, plain.half_width)
    return columns


def _plain_se(score: F8) -> float:
    return float(score.std(ddof=1) / np.sqrt(len(score))) if len(score) > 1 else float("nan")


@dataclass(frozen=True)
class Difference:
    """Mean of ``a`` minus mean of ``b`` on common scripts.

    Attributes:
        interval: of the difference; ``n`` are the ratings of both, ``items`` the common scripts. Without common scripts
            the mean is that of different scripts, and there is no interval.
        p: two-sided; None without an interval.
        p_holm: corrected for all compared pairs (Holm 1979).
        left_out: scripts that only one of the two has.
    """

    a: str
    b: str
    interval: Interval
    p: float | None
    p_holm: float | None
    left_out: int = 0


def pairwise_differences(ratings: Ratings, clusters: Clusters = "two_way", level: float = 0.95) -> list[Difference]:
    """Differences of all pairs of rated systems, with Holm-corrected p values."""
    used = [s for code, s in enumerate(ratings.systems) if (ratings.system == code).any()]
    differences = [difference(ratings, a, b, clusters, level) for a, b in combinations(used, 2)]
    known = [d.p for d in differences if d.p is not None]
    corrected = iter(holm(np.array(known)))
    return [d if d.p is None else replace(d, p_holm=float(next(corrected))) for d in differences]


def difference(ratings: Ratings, a: str, b: str, clusters: Clusters = "two_way", level: float = 0.95) -> Difference:
    """Difference of two systems; effects of raters and items on both cancel, also for incomplete pairs.

    Scripts that only one of the two has are left out. Ratings of a rater on an item enter the clusters of both systems
    with opposite signs (clustered variance of a regression on the system, without its factor (N - 1) / (N - 2)), so
    repeated measures are not taken as independent.

    Raises:
        BadOption: a system without ratings, or a level outside (0, 1).
    """
    one, other = (ratings.system == _system_code(ratings, name) for name in (a, b))
    for name, rows in ((a, one), (b, other)):
        if not rows.any():
            raise BadOption(f"system {name!r} has no ratings", "choose systems that were rated")
    scripts = len(np.unique(ratings.item[one | other]))
    common = np.intersect1d(ratings.item[one], ratings.item[other])
    if not len(common):
        mean, n = float(ratings.score[one].mean() - ratings.score[other].mean()), int((one | other).sum())
        raters = count_distinct(ratings.rater[one | other])
        return Difference(a, b, Interval(mean, None, None, None, 0, n, raters, 0, clusters, level), None, None, scripts)
    if len(common) < scripts:
        one, other = (rows & np.isin(ratings.item, common) for rows in (one, other))
    influence, means = np.zeros(len(ratings)), list[float]()
    for rows, sign in ((one, 1.0), (other, -1.0)):
        means.append(float(ratings.score[rows].mean()))
        influence[rows] = sign * (ratings.score[rows] - means[-1]) / rows.sum()
    both = one | other
    rater, item = ratings.rater[both], ratings.item[both]
    se, df = clustered_error(influence[both], rater, item, clusters)
    mean = means[0] - means[1]
    scale = None if ratings.scale is None else ratings.scale.difference_scale
    low, high = interval_bounds(mean, se, df, level, scale, null=0.0)
    known_se = None if is_zero_error(se) else finite_or_none(se)
    interval = Interval(
        mean, low, high, known_se, df, int(both.sum()), count_distinct(rater), count_distinct(item), clusters, level
    )
    p = p_value_against(interval, 0.0, scale)
    return Difference(a, b, interval, p, p, scripts - len(common))


def holm(p: F8) -> F8:
    """Holm's step-down correction of p values [M], in their order."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out


def _system_code(ratings: Ratings, name: str) -> int:
    if name not in ratings.systems:
        raise BadOption(f"there is no system {name!r}", f"choose {', '.join(ratings.systems)}")
    return ratings.systems.index(name)
