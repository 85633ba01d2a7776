"""Differences between systems that were rated by the same people on the same items."""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, Ratings
from studio.mos.stats.interval import (
    Clusters,
    Interval,
    alike,
    clustered,
    ends,
    finite,
    p_against,
    present,
)


@dataclass(frozen=True)
class Difference:
    """Mean of ``a`` minus mean of ``b``, on the scripts that both said.

    Attributes:
        interval: of the difference; ``mean`` is the difference, ``n`` the ratings of both, ``items`` the scripts that
            both said. Without any the mean is that of different scripts, and there is no interval.
        p: two-sided; None where there is no interval.
        p_holm: corrected for all pairs that were compared (Holm 1979).
        left_out: scripts that one of the two said and the other did not.
    """

    a: str
    b: str
    interval: Interval
    p: float | None
    p_holm: float | None
    left_out: int = 0


def all_pairs(ratings: Ratings, clusters: Clusters = "two_way", level: float = 0.95) -> list[Difference]:
    """Every pair of systems that have ratings, with Holm-corrected p values."""
    used = [s for code, s in enumerate(ratings.systems) if (ratings.system == code).any()]
    found = [difference(ratings, a, b, clusters, level) for a, b in combinations(used, 2)]
    known = [d.p for d in found if d.p is not None]
    corrected = iter(holm(np.array(known)))
    return [d if d.p is None else replace(d, p_holm=float(next(corrected))) for d in found]


def difference(ratings: Ratings, a: str, b: str, clusters: Clusters = "two_way", level: float = 0.95) -> Difference:
    """One difference; what a rater or an item does to both systems cancels, whether or not every pair is complete.

    Scripts that only one of the two said are left out, for they would be compared instead of the systems.
    The rating of a rater on an item enters the clusters of both systems with opposite signs (the clustered variance
    of a regression on the system, without its (N - 1) / (N - 2)), so repeated measures are never taken as independent.

    Raises:
        BadOption: a system without ratings, or a level outside (0, 1).
    """
    one, other = (ratings.system == _code(ratings, name) for name in (a, b))
    for name, rows in ((a, one), (b, other)):
        if not rows.any():
            raise BadOption(f"system {name!r} has no ratings", "compare systems that were rated")
    said = len(np.unique(ratings.item[one | other]))
    common = np.intersect1d(ratings.item[one], ratings.item[other])
    if not len(common):
        mean, n = float(ratings.score[one].mean() - ratings.score[other].mean()), int((one | other).sum())
        raters = present(ratings.rater[one | other])
        return Difference(a, b, Interval(mean, None, None, None, 0, n, raters, 0, clusters, level), None, None, said)
    if len(common) < said:
        one, other = (rows & np.isin(ratings.item, common) for rows in (one, other))
    influence, means = np.zeros(len(ratings)), list[float]()
    for rows, sign in ((one, 1.0), (other, -1.0)):
        means.append(float(ratings.score[rows].mean()))
        influence[rows] = sign * (ratings.score[rows] - means[-1]) / rows.sum()
    both = one | other
    rater, item = ratings.rater[both], ratings.item[both]
    se, df = clustered(influence[both], rater, item, clusters)
    mean = means[0] - means[1]
    scale = None if ratings.scale is None else ratings.scale.of_differences
    low, high = ends(mean, se, df, level, scale, null=0.0)
    spread = None if alike(se) else finite(se)
    interval = Interval(mean, low, high, spread, df, int(both.sum()), present(rater), present(item), clusters, level)
    p = p_against(interval, 0.0, scale)
    return Difference(a, b, interval, p, p, said - len(common))


def holm(p: F8) -> F8:
    """Holm's step-down correction of p values [M], in their order."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out


def _code(ratings: Ratings, name: str) -> int:
    if name not in ratings.systems:
        raise BadOption(f"there is no system {name!r}", f"known are {', '.join(ratings.systems)}")
    return ratings.systems.index(name)
