"""Comparisons of two sounds: how much better one is (CMOS), and whether they can be told apart at all (ABX)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from studio.mos.stats.columns import Scale, Vote, ratings_from_rows, votes_from_rows
from studio.mos.stats.compare import holm
from studio.mos.stats.distributions import beta_cdf
from studio.mos.stats.interval import Interval, of_mean, p_against
from studio.mos.stats.means import mean_of
from studio.mos.stats.preference import Method, preference

_SHARES: tuple[Method, ...] = ("two_way", "by_rater", "exact", "wilson")


@dataclass(frozen=True)
class Compared:
    """One answer to a comparison, as given: how ``second`` compares with ``first``, below nought when it is worse."""

    rater: str
    item: str
    first: str
    second: str
    score: int


@dataclass(frozen=True)
class Comparison:
    """How ``a`` fared against ``b``, whichever of them was played first.

    Attributes:
        cmos: mean of the sign-corrected scores by interval (two_way, by_rater, plain); positive when a is better.
        p: two-sided, of the two-way interval; None where there is none. ``p_holm``: corrected for all pairs.
        better: answers in favour of a; likewise ``same`` and ``worse``.
        scores: how often each sign-corrected score was given.
    """

    a: str
    b: str
    cmos: dict[str, Interval]
    p: float | None
    p_holm: float | None
    better: int
    same: int
    worse: int
    scores: dict[int, int]


def comparisons(
    answers: Iterable[Compared], baseline: str | None = None, scale: Scale | None = None
) -> list[Comparison]:
    """Every pair that was compared, by name; in pairs with the baseline that is ``b``. ``scale``: of the answers."""
    by_pair: defaultdict[tuple[str, str], list[Compared]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.first, answer.second))
        a, b = (b, a) if a == baseline else (a, b)
        turned = answer if answer.second == a else replace(answer, first=b, second=a, score=-answer.score)
        by_pair[a, b].append(turned)
    found = [_comparison(*pair, by_pair[pair], scale) for pair in sorted(by_pair)]
    corrected = iter(holm(np.array([c.p for c in found if c.p is not None], np.float64)))
    return [c if c.p is None else replace(c, p_holm=float(next(corrected))) for c in found]


def order_effect(answers: Iterable[Compared], scale: Scale | None = None) -> Interval:
    """The mean of the scores as given: far from nought, the second sound was judged by its place.

    Raises:
        BadOption: there are no answers.
    """
    rows = [(c.rater, c.item, "second", float(c.score)) for c in answers]
    return mean_of(ratings_from_rows(rows, scale=scale))


@dataclass(frozen=True)
class Heard:
    """One answer to an ABX screen: whether X was found."""

    rater: str
    item: str
    a: str
    b: str
    right: bool


@dataclass(frozen=True)
class Identity:
    """How often X was found between ``a`` and ``b``.

    Attributes:
        share: of right answers, by interval: ``two_way`` (by rater and script), ``by_rater``, ``exact``, ``wilson``.
        p: one-sided exact binomial test against guessing, answers as independent. ``p_holm``: for all pairs.
    """

    a: str
    b: str
    n: int
    right: int
    share: dict[str, Interval]
    p: float
    p_holm: float


def identities(answers: Iterable[Heard]) -> list[Identity]:
    """Every pair that was heard, by name."""
    by_pair: defaultdict[tuple[str, str], list[Heard]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.a, answer.b))
        by_pair[a, b].append(answer)
    found = [identity(*pair, by_pair[pair]) for pair in sorted(by_pair)]
    corrected = holm(np.array([i.p for i in found], np.float64))
    return [replace(i, p_holm=float(p)) for i, p in zip(found, corrected, strict=True)]


def identity(a: str, b: str, answers: Iterable[Heard]) -> Identity:
    """The answers of one pair, or of all pairs together. Raises BadOption where there are none."""
    rows = [Vote("right", "wrong", "a" if h.right else "b", h.rater, h.item) for h in answers]
    votes = votes_from_rows(rows, ("right", "wrong"))
    n, right = len(rows), sum(row.outcome == "a" for row in rows)
    share = {m: preference(votes, "right", "wrong", m).share for m in _SHARES}
    p = guessed(right, n)
    return Identity(a, b, n, right, share, p, p)


def guessed(right: int, n: int) -> float:
    """P(at least so many of n right) of somebody who tosses a coin."""
    return 1.0 if right <= 0 else float(beta_cdf(right, n - right + 1, 0.5))


def _comparison(a: str, b: str, answers: list[Compared], scale: Scale | None) -> Comparison:
    ratings = ratings_from_rows([(c.rater, c.item, a, float(c.score)) for c in answers], scale=scale)
    by_rater = of_mean(ratings.score, ratings.rater, ratings.item, "by_rater", 0.95, scale, null=0.0)
    both = of_mean(ratings.score, ratings.rater, ratings.item, "two_way", 0.95, scale, null=0.0)
    cmos = {"two_way": both, "by_rater": by_rater, "plain": mean_of(ratings, "plain")}
    p, scores = p_against(both, 0.0, scale), [c.score for c in answers]
    counts = (sum(s > 0 for s in scores), scores.count(0), sum(s < 0 for s in scores))
    return Comparison(a, b, cmos, p, p, *counts, {s: scores.count(s) for s in sorted(set(scores))})
