"""Mean opinion scores by system and by stimulus, with intervals that know who rated what.

Scores of comparisons (CMOS, DCR) are means too, once their sign is corrected for the order of play.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Ratings
from studio.mos.stats.interval import Interval, alike, finite, of_mean, present, t_quantile, z_quantile

Method = Literal["two_way", "by_rater", "plain", "plain_t"]


@dataclass(frozen=True)
class P808:
    """The columns of ITU-T P.808: ratings, mean, standard deviation s, and 1.96 s / sqrt(n); None where s is 0."""

    n: int
    mean: float
    s: float | None
    ci95: float | None


def by_system(ratings: Ratings, method: Method = "two_way", level: float = 0.95) -> dict[str, Interval]:
    """The mean of each system that has ratings, in the order of ``ratings.systems``.

    Methods:
        two_way: clustered by rater and item, t with min(G) - 1 degrees of freedom (``interval.clustered``, ``ends``).
        by_rater: clustered by rater, t with G - 1; says nothing about other items.
        plain: as P.808 prints it, 1.96 s / sqrt(n), as though every rating were independent; none where s is 0.
        plain_t: the same with t(n - 1).

    Raises:
        BadOption: a level outside (0, 1), or an unknown method.
    """
    return {
        name: mean_of(ratings.where(ratings.system == code), method, level)
        for code, name in enumerate(ratings.systems)
        if (ratings.system == code).any()
    }


def by_stimulus(ratings: Ratings, method: Method = "by_rater", level: float = 0.95) -> dict[tuple[str, str], Interval]:
    """The mean of each stimulus (system, item); one item has no two-way interval, so raters are the clusters.

    Raises:
        BadOption: a level outside (0, 1), or an unknown method.
    """
    return {
        (ratings.systems[s], ratings.items[i]): mean_of(ratings.where(rows), method, level)
        for s, i, rows in stimuli(ratings)
    }


def stimuli(ratings: Ratings) -> list[tuple[int, int, I8]]:
    """System code, item code and row indices of each stimulus that has ratings, in order."""
    if not len(ratings):
        return []
    width = len(ratings.items)
    keys = ratings.system * width + ratings.item
    order = np.argsort(keys, kind="stable").astype(np.int64)
    known, start = np.unique(keys[order], return_index=True)
    return [(int(k) // width, int(k) % width, rows) for k, rows in zip(known, np.split(order, start[1:]), strict=True)]


def mean_of(ratings: Ratings, method: Method = "two_way", level: float = 0.95) -> Interval:
    """The mean of all the ratings given, whatever their system. Raises BadOption where there are none."""
    if not len(ratings):
        raise BadOption("there are no ratings", "a mean needs one at least")
    score = ratings.score
    if method == "two_way" or method == "by_rater":
        return of_mean(score, ratings.rater, ratings.item, method, level, ratings.scale)
    if method not in ("plain", "plain_t"):
        raise BadOption(f"{method!r} is not an interval of means", "known are two_way, by_rater, plain, plain_t")
    n, mean, se = len(score), float(score.mean()), _plain_se(score)
    # The normal quantile to two places, as tables and P.808 have it: 1.96, not 1.959964.
    df, reach = (n - 1, t_quantile(n - 1, level)) if method == "plain_t" else (None, round(z_quantile(level), 2))
    half = finite(reach * se)
    low, high = (None, None) if half is None or alike(se) else (mean - half, mean + half)
    return Interval(mean, low, high, finite(se), df, n, present(ratings.rater), present(ratings.item), method, level)


def p808(ratings: Ratings) -> dict[str, P808]:
    """The P.808 columns of each system; ``s`` has n - 1 below the line and is None for one rating."""
    columns: dict[str, P808] = {}
    for name, plain in by_system(ratings, "plain").items():
        s = None if plain.se is None else plain.se * plain.n**0.5
        columns[name] = P808(plain.n, plain.mean, s, plain.half_width)
    return columns


def _plain_se(score: F8) -> float:
    return float(score.std(ddof=1) / np.sqrt(len(score))) if len(score) > 1 else float("nan")
