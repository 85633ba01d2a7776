"""Means of scores, differences between systems, quartiles, and the post-screening of MUSHRA."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Mask, Ratings, distinct
from studio.mos.stats.interval import (
    Clusters,
    Interval,
    clustered_interval,
    count_distinct,
    finite_or_none,
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
        two_way: clustered by rater and item, t with min(G*) - 1 degrees of freedom (``clustered_error``).
        by_rater: clustered by rater, t with R* - 1; valid for these items only.
        plain: as in P.808, 1.96 s / sqrt(n), ratings taken as independent; None if s is 0.
        plain_t: the same with t(n - 1).

    Raises BadOption for a level outside (0, 1) or an unknown method.
    """
    return {
        name: mean_of(ratings.where(ratings.system == code), method, level)
        for code, name in enumerate(ratings.systems)
        if (ratings.system == code).any()
    }


def by_stimulus(ratings: Ratings) -> dict[tuple[str, str], Interval]:
    """Mean of each stimulus (system, item), clustered by rater because there is one item."""
    return {
        (ratings.systems[s], ratings.items[i]): mean_of(ratings.where(rows), "by_rater")
        for s, i, rows in _stimuli(ratings)
    }


def _stimuli(ratings: Ratings) -> list[tuple[int, int, I8]]:
    """System code, item code and row indices of each rated stimulus, in order."""
    if not len(ratings):
        return []
    width = len(ratings.items)
    keys = ratings.system * width + ratings.item
    order = np.argsort(keys, kind="stable").astype(np.int64)
    known, start = np.unique(keys[order], return_index=True)
    return [(int(k) // width, int(k) % width, rows) for k, rows in zip(known, np.split(order, start[1:]), strict=True)]


def mean_of(ratings: Ratings, method: MeanMethod = "two_way", level: float = 0.95) -> Interval:
    """Mean of all ratings of all systems. Raises BadOption without ratings."""
    if not len(ratings):
        raise BadOption("there are no ratings", "a mean needs at least one")
    score, rater, item = ratings.score, ratings.rater, ratings.item
    if method == "two_way" or method == "by_rater":
        return mean_interval(score, rater, item, method, level, ratings.scale)
    if method not in ("plain", "plain_t"):
        raise BadOption(f"{method!r} is not an interval of means", "choose two_way, by_rater, plain, plain_t")
    n, mean = len(score), float(score.mean())
    se = float(score.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    # The normal quantile to two places, as in P.808: 1.96, not 1.959964.
    df, quantile = (n - 1, t_quantile(n - 1, level)) if method == "plain_t" else (None, round(z_quantile(level), 2))
    half = finite_or_none(quantile * se)
    low, high = (None, None) if half is None or is_zero_error(se) else (mean - half, mean + half)
    raters, items = count_distinct(rater), count_distinct(item)
    return Interval(mean, low, high, finite_or_none(se), df, n, raters, items, method, level)


def p808(ratings: Ratings) -> dict[str, P808]:
    """P.808 columns of each system; ``s`` uses n - 1 and is None for one rating."""
    columns: dict[str, P808] = {}
    for name, plain in by_system(ratings, "plain").items():
        s = None if plain.se is None else plain.se * plain.n**0.5
        columns[name] = P808(plain.n, plain.mean, s, plain.half_width)
    return columns


@dataclass(frozen=True)
class Difference:
    """Mean of ``a`` minus mean of ``b`` on common scripts."""

    a: str
    b: str
    # of the difference; ``n`` are the ratings of both, ``items`` the common scripts. Without common scripts the mean is
    # that of different scripts, and there is no interval
    interval: Interval
    p: float | None  # two-sided; None without an interval. ``p_holm``: corrected for all compared pairs
    p_holm: float | None
    left_out: int = 0  # scripts that only one of the two has


def pairwise_differences(ratings: Ratings, clusters: Clusters = "two_way") -> list[Difference]:
    """Differences of all pairs of rated systems, with Holm-corrected p values."""
    order = np.argsort(ratings.system, kind="stable")
    starts = np.searchsorted(ratings.system[order], np.arange(len(ratings.systems) + 1))
    rows = {name: order[starts[code] : starts[code + 1]] for code, name in enumerate(ratings.systems)}
    pairs = combinations([name for name in ratings.systems if len(rows[name])], 2)
    return with_holm(
        [difference(ratings.where(_merged(rows[a], rows[b])), a, b, clusters) for a, b in pairs]
    )  # few rows at a time: there may be 100,000 pairs


def _merged(one: I8, other: I8) -> I8:
    """Two sorted columns as one. A stable sort merges them; ``np.union1d`` takes ten times as long."""
    return np.sort(np.concatenate((one, other)), kind="stable")


def difference(ratings: Ratings, a: str, b: str, clusters: Clusters = "two_way") -> Difference:
    """Difference of two systems; effects of raters and items on both cancel, also for incomplete pairs.

    Scripts that only one of the two has are left out. Ratings of a rater on an item enter the clusters of both systems
    with opposite signs (clustered variance of a regression on the system, without its factor (N - 1) / (N - 2)), so
    repeated measures are not taken as independent. Raises BadOption for a system without ratings.
    """
    one, other = (ratings.system == ratings.code_of(name) for name in (a, b))
    for name, rows in ((a, one), (b, other)):
        if not rows.any():
            raise BadOption(f"system {name!r} has no ratings", "choose systems that were rated")
    scripts = len(distinct(ratings.item[one | other]))
    common = np.intersect1d(distinct(ratings.item[one]), distinct(ratings.item[other]), assume_unique=True)
    if not len(common):
        mean, n = float(ratings.score[one].mean() - ratings.score[other].mean()), int((one | other).sum())
        raters = count_distinct(ratings.rater[one | other])
        return Difference(a, b, Interval(mean, None, None, None, 0, n, raters, 0, clusters, 0.95), None, None, scripts)
    if len(common) < scripts:
        one, other = (rows & np.isin(ratings.item, common) for rows in (one, other))
    influence, size, means = np.zeros(len(ratings)), np.zeros(len(ratings)), list[float]()
    for rows, sign in ((one, 1.0), (other, -1.0)):
        means.append(float(ratings.score[rows].mean()))
        influence[rows] = sign * (ratings.score[rows] - means[-1]) / rows.sum()
        size[rows] = 1 / float(rows.sum()) ** 2
    both = one | other
    scale = None if ratings.scale is None else ratings.scale.difference_scale
    codes = ratings.rater[both], ratings.item[both]
    gap = means[0] - means[1]
    interval = clustered_interval(gap, influence[both], *codes, clusters, 0.95, scale, null=0.0, size=size[both])
    p = p_value_against(interval, 0.0, scale)
    return Difference(a, b, interval, p, p, scripts - len(common))


def holm(p: F8) -> F8:
    """Holm's step-down correction (Holm 1979) of p values [M], in their order."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    out = np.empty(len(p))
    out[order] = np.minimum(stepped, 1.0)
    return out


class _Test(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def p(self) -> float | None: ...


_TestT = TypeVar("_TestT", bound=_Test)


def with_holm(tests: Sequence[_TestT]) -> list[_TestT]:
    """The tests with ``p_holm`` corrected for all that have a p value."""
    corrected = iter(holm(np.array([t.p for t in tests if t.p is not None], np.float64)))
    return [t if t.p is None else replace(t, p_holm=float(next(corrected))) for t in tests]


MID_ANCHOR_HZ = 7000
LIMIT = 90.0  # a hidden reference below it, or a mid anchor above it, was not detected
SHARE = 0.15
UNHARMED = 0.25  # share of raters above the limit that makes an item's mid anchor uninformative

Shares = dict[str, float | None]


@dataclass(frozen=True)
class PostScreen:
    """Result of the post-screening by hidden reference and mid anchor."""

    # share of each rater's hidden references scored below 90; None without any
    low_share: Shares = field(default_factory=Shares)
    # share of each rater's mid anchors scored above 90; None without any
    high_share: Shares = field(default_factory=Shares)
    # items whose mid anchor more than a quarter of the raters scored above 90; not counted in ``high_share``
    unharmed: list[str] = field(default_factory=list[str])
    by_reference: list[str] = field(default_factory=list[str])  # raters with a low share above 15%
    by_anchor: list[str] = field(default_factory=list[str])  # raters with a high share above 15%

    @property
    def dropped(self) -> list[str]:
        return [*self.by_reference, *(name for name in self.by_anchor if name not in self.by_reference)]


@dataclass(frozen=True)
class Quartiles:
    """Quartiles of scores, which BS.1534-3 reports in addition to means."""

    low: float
    median: float
    high: float


def post_screen(ratings: Ratings, reference: str, mid_anchor: str | None = None) -> PostScreen:
    """Find raters who fail the post-screening (BS.1534-3, 4.1.2).

    They score the hidden reference below 90 on more than 15% of the items, or the mid anchor above 90 on more than 15%;
    exactly 15% passes. Items whose mid anchor more than 25% of the raters score above 90 are left out of the second
    share only, and their scores stay in all tables.

    Raises BadOption: the reference or the anchor is not a system.
    """
    scored = ratings.where(ratings.system == ratings.code_of(reference))
    low = _shares(scored, scored.score < LIMIT, ratings)
    if mid_anchor is None:
        return PostScreen(low, by_reference=_above_limit(low))
    scored = ratings.where(ratings.system == ratings.code_of(mid_anchor))
    not_impaired = scored.score > LIMIT
    count, bad = (np.bincount(scored.item, of, len(ratings.items)) for of in (None, not_impaired))
    unharmed = np.flatnonzero(bad > UNHARMED * count)
    counted = ~np.isin(scored.item, unharmed)
    high = _shares(scored.where(counted), not_impaired[counted], ratings)
    return PostScreen(low, high, [ratings.items[i] for i in unharmed], _above_limit(low), _above_limit(high))


def quartiles(ratings: Ratings) -> dict[str, Quartiles]:
    """Quartiles of each rated system, in the order of ``ratings.systems``."""
    table: dict[str, Quartiles] = {}
    for code, name in enumerate(ratings.systems):
        if (mine := ratings.score[ratings.system == code]).size:
            low, median, high = np.percentile(mine, (25, 50, 75))
            table[name] = Quartiles(float(low), float(median), float(high))
    return table


def _shares(scored: Ratings, wrong: Mask, ratings: Ratings) -> Shares:
    """Share of wrong answers of every rater in ``ratings``."""
    count, bad = (np.bincount(scored.rater, of, len(ratings.raters)) for of in (None, wrong))
    present = distinct(ratings.rater)
    return {ratings.raters[r]: float(bad[r] / count[r]) if count[r] else None for r in present}


def _above_limit(shares: Shares) -> list[str]:
    return [name for name, share in shares.items() if share is not None and share > SHARE]


def exclude_raters(ratings: Ratings, raters: list[str]) -> Ratings:
    """Ratings without those of the given raters."""
    return ratings.where(~np.isin(ratings.rater, [ratings.raters.index(name) for name in raters]))
