"""Paired comparisons: preference shares, CMOS and ABX. A tie or 'both bad' counts as half a win for each system."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, ScoreScale, Vote, Votes, ratings_from_rows, votes_from_rows
from studio.mos.stats.interval import (
    Clusters,
    Interval,
    beta_cdf,
    beta_inverse,
    count_distinct,
    mean_interval,
    p_value_against,
    tail_probabilities,
    z_quantile,
)
from studio.mos.stats.means import mean_of, with_holm

ShareMethod = Literal["two_way", "by_rater", "exact", "wilson"]
SHARE_SCALE = ScoreScale(0.0, 1.0)


@dataclass(frozen=True)
class Preference:
    """Result of ``a`` against ``b``."""

    a: str
    b: str
    wins_a: int  # votes for a, like ``wins_b`` for b; ``ties``: for no difference; ``both_bad``: for neither
    wins_b: int
    ties: int
    both_bad: int
    share: Interval  # (wins_a + (ties + both_bad) / 2) / votes, 0 to 1
    p: float | None = None  # two-sided, against one half; None for ``exact`` and ``wilson``, and if not estimable
    p_holm: float | None = None  # corrected for all compared pairs


def pairwise_preferences(votes: Votes, method: ShareMethod = "two_way") -> list[Preference]:
    """``preference`` of every compared pair, in the order of ``votes.systems``, with Holm-corrected p values."""
    first, second, names = np.minimum(votes.a, votes.b), np.maximum(votes.a, votes.b), votes.systems
    order = np.lexsort((second, first))  # few rows at a time: there may be 100,000 pairs
    changes = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    pairs = [rows for rows in np.split(order, np.flatnonzero(changes) + 1) if len(rows)]
    return with_holm(
        [preference(votes.where(rows), names[first[rows[0]]], names[second[rows[0]]], method) for rows in pairs]
    )


def preference(votes: Votes, a: str, b: str, method: ShareMethod = "two_way", level: float = 0.95) -> Preference:
    """Share of votes for ``a`` against ``b``.

    Methods:
        two_way: clustered by rater and script, with the degrees of freedom of a difference (``two_way_variance``).
        by_rater: clustered by rater, t(R* - 1); valid for these scripts only.
        exact: Clopper & Pearson (1934), votes as independent; half wins are not rounded.
        wilson: Wilson (1927), votes as independent.

    Raises BadOption if the pair was not compared, or the method is unknown or needs raters (scripts) that are unknown.
    """
    if unknown := {a, b} - set(votes.systems):
        raise BadOption(f"there is no system {min(unknown)!r}", f"choose {', '.join(votes.systems)}")
    i, j = votes.systems.index(a), votes.systems.index(b)
    votes = votes.where(((votes.a == i) & (votes.b == j)) | ((votes.a == j) & (votes.b == i)))
    if not len(votes):
        raise BadOption(f"{a!r} and {b!r} were never compared", "choose a compared pair")
    ties, both_bad = int((votes.outcome == TIE).sum()), int((votes.outcome == BOTH_BAD).sum())
    won = np.where(votes.outcome == A, votes.a, votes.b) == i
    point = np.where((votes.outcome == TIE) | (votes.outcome == BOTH_BAD), 0.5, won)
    wins_a = int((point == 1).sum())
    share = _share_interval(point, votes, method, level)
    p = p_value_against(share, 0.5, SHARE_SCALE) if method in ("two_way", "by_rater") else None
    return Preference(a, b, wins_a, len(votes) - wins_a - ties - both_bad, ties, both_bad, share, p, p)


def _share_interval(point: F8, votes: Votes, method: ShareMethod, level: float) -> Interval:
    n, mean = len(point), float(point.mean())
    if method == "two_way" or method == "by_rater":
        if votes.rater is None:
            raise BadOption("the votes have no raters", "use exact or wilson")
        if votes.item is None and method == "two_way":
            raise BadOption("the votes have no scripts", "use by_rater")
        item = np.arange(n) if votes.item is None else votes.item
        interval = mean_interval(point, votes.rater, item, method, level, SHARE_SCALE, null=0.5)
        return replace(interval, items=None, item_share=None) if votes.item is None else interval
    if method == "exact":
        low, high = _clopper_pearson(float(point.sum()), n, level)
    elif method == "wilson":
        low, high = _wilson(mean, n, level)
    else:
        raise BadOption(f"{method!r} is not an interval of shares", "choose two_way, by_rater, exact, wilson")
    raters, items = (None if c is None else count_distinct(c) for c in (votes.rater, votes.item))
    return Interval(mean, max(low, 0.0), min(high, 1.0), None, None, n, raters, items, method, level)


def _clopper_pearson(won: float, n: int, level: float) -> tuple[float, float]:
    under, over = tail_probabilities(level)
    low = float(beta_inverse(won, n - won + 1, under)) if won > 0 else 0.0
    high = float(beta_inverse(won + 1, n - won, over)) if won < n else 1.0
    return low, high


def _wilson(mean: float, n: int, level: float) -> tuple[float, float]:
    z = z_quantile(level)
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    width = z / (1 + z * z / n) * np.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return float(middle - width), float(middle + width)


@dataclass(frozen=True)
class CmosAnswer:
    """One answer to a comparison as given: score of ``second`` relative to ``first``, negative if worse."""

    rater: str
    item: str
    first: str
    second: str
    score: float


@dataclass(frozen=True)
class CmosResult:
    """CMOS of ``a`` against ``b``, corrected for the order of presentation."""

    a: str
    b: str
    # mean of the sign-corrected scores by interval (two_way, by_rater, plain); positive if a is better
    cmos: dict[str, Interval]
    p: float | None  # two-sided, of the two-way interval; None if not estimable. ``p_holm``: corrected for all pairs
    p_holm: float | None
    better: int  # answers in favour of a; likewise ``same`` and ``worse``
    same: int
    worse: int
    scores: dict[float, int]  # count of each sign-corrected score


def cmos_results(
    answers: Iterable[CmosAnswer], baseline: str | None = None, scale: ScoreScale | None = None
) -> list[CmosResult]:
    """CMOS of every compared pair, by name; the baseline, if any, is always ``b``."""
    by_pair: defaultdict[tuple[str, str], list[CmosAnswer]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.first, answer.second))
        a, b = (b, a) if a == baseline else (a, b)
        oriented = answer if answer.second == a else replace(answer, first=b, second=a, score=-answer.score)
        by_pair[a, b].append(oriented)
    return with_holm([_cmos_result(*pair, by_pair[pair], scale) for pair in sorted(by_pair)])


def order_effect(answers: Iterable[CmosAnswer], scale: ScoreScale | None = None) -> Interval:
    """Mean of the uncorrected scores: the effect of the order. Raises BadOption without answers."""
    rows = [(c.rater, c.item, "second", float(c.score)) for c in answers]
    return mean_of(ratings_from_rows(rows, scale=scale))


@dataclass(frozen=True)
class AbxAnswer:
    """One answer to an ABX trial: whether X was identified."""

    rater: str
    item: str
    a: str
    b: str
    right: bool


@dataclass(frozen=True)
class AbxResult:
    """Correct identifications of X between ``a`` and ``b``."""

    a: str
    b: str
    n: int
    right: int
    # of correct answers, by interval: ``two_way`` (by rater and script), ``by_rater``, ``exact``, ``wilson``
    share: dict[str, Interval]
    p: float  # one-sided exact binomial test against guessing, answers as independent. ``p_holm``: for all pairs
    p_holm: float


def abx_results(answers: Iterable[AbxAnswer]) -> list[AbxResult]:
    """ABX results of every pair, by name."""
    by_pair: defaultdict[tuple[str, str], list[AbxAnswer]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.a, answer.b))
        by_pair[a, b].append(answer)
    return with_holm([abx_result(*pair, by_pair[pair]) for pair in sorted(by_pair)])


def abx_result(a: str, b: str, answers: Iterable[AbxAnswer]) -> AbxResult:
    """ABX result of one pair, or of all pairs pooled. Raises BadOption without answers."""
    rows = [Vote("right", "wrong", "a" if h.right else "b", h.rater, h.item) for h in answers]
    votes = votes_from_rows(rows, ("right", "wrong"))
    n, right = len(rows), sum(row.outcome == "a" for row in rows)
    share = {m: preference(votes, "right", "wrong", m).share for m in get_args(ShareMethod)}
    p = guessing_p(right, n)
    return AbxResult(a, b, n, right, share, p, p)


def guessing_p(right: int, n: int) -> float:
    """P(at least ``right`` of n correct) when guessing."""
    return 1.0 if right <= 0 else float(beta_cdf(right, n - right + 1, 0.5))


def _cmos_result(a: str, b: str, answers: list[CmosAnswer], scale: ScoreScale | None) -> CmosResult:
    ratings = ratings_from_rows([(c.rater, c.item, a, float(c.score)) for c in answers], scale=scale)
    columns = ratings.score, ratings.rater, ratings.item
    both, by_rater = (mean_interval(*columns, m, 0.95, scale, null=0.0) for m in get_args(Clusters))
    cmos = {"two_way": both, "by_rater": by_rater, "plain": mean_of(ratings, "plain")}
    p, scores = p_value_against(both, 0.0, scale), [c.score for c in answers]
    counts = (sum(s > 0 for s in scores), scores.count(0), sum(s < 0 for s in scores))
    return CmosResult(a, b, cmos, p, p, *counts, {s: scores.count(s) for s in sorted(set(scores))})
