"""Comparisons of two sounds: how much better one is (CMOS), and whether they can be told apart at all (ABX)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from studio.mos.stats.columns import ratings_from_rows, votes_from_rows
from studio.mos.stats.compare import holm, two_sided_p
from studio.mos.stats.distributions import beta_cdf
from studio.mos.stats.interval import Interval
from studio.mos.stats.means import mean_of
from studio.mos.stats.preference import preference


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


def comparisons(answers: Iterable[Compared], baseline: str | None = None) -> list[Comparison]:
    """Every pair that was compared, by name; in pairs with the baseline that is ``b``."""
    by_pair: defaultdict[tuple[str, str], list[Compared]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.first, answer.second))
        a, b = (b, a) if a == baseline else (a, b)
        turned = answer if answer.second == a else replace(answer, first=b, second=a, score=-answer.score)
        by_pair[a, b].append(turned)
    found = [_comparison(*pair, by_pair[pair]) for pair in sorted(by_pair)]
    corrected = iter(holm(np.array([c.p for c in found if c.p is not None], np.float64)))
    return [c if c.p is None else replace(c, p_holm=float(next(corrected))) for c in found]


def order_effect(answers: Iterable[Compared]) -> Interval:
    """The mean of the scores as given: far from nought, the second sound was judged by its place.

    Raises:
        BadOption: there are no answers.
    """
    return mean_of(ratings_from_rows((c.rater, c.item, "second", float(c.score)) for c in answers))


@dataclass(frozen=True)
class Heard:
    """One answer to an ABX screen: whether X was found."""

    rater: str
    a: str
    b: str
    right: bool


@dataclass(frozen=True)
class Identity:
    """How often X was found between ``a`` and ``b``.

    Attributes:
        share: of right answers, by interval: ``raters`` (bootstrap over raters), ``exact`` and ``wilson``.
        p: one-sided exact binomial test against guessing, answers as independent. ``p_holm``: for all pairs.
    """

    a: str
    b: str
    n: int
    right: int
    share: dict[str, Interval]
    p: float
    p_holm: float


def identities(answers: Iterable[Heard], seed: int = 0) -> list[Identity]:
    """Every pair that was heard, by name."""
    by_pair: defaultdict[tuple[str, str], list[Heard]] = defaultdict(list)
    for answer in answers:
        a, b = sorted((answer.a, answer.b))
        by_pair[a, b].append(answer)
    found = [identity(*pair, by_pair[pair], seed) for pair in sorted(by_pair)]
    corrected = holm(np.array([i.p for i in found], np.float64))
    return [replace(i, p_holm=float(p)) for i, p in zip(found, corrected, strict=True)]


def identity(a: str, b: str, answers: Iterable[Heard], seed: int = 0) -> Identity:
    """The answers of one pair, or of all pairs together. Raises BadOption where there are none."""
    rows = [("right", "wrong", "a" if h.right else "b", h.rater) for h in answers]
    votes = votes_from_rows(rows, ("right", "wrong"))
    n, right = len(rows), sum(row[2] == "a" for row in rows)
    share = {m: preference(votes, "right", "wrong", m, seed=seed) for m in ("raters", "exact", "wilson")}
    p = guessed(right, n)
    return Identity(a, b, n, right, {m: found.share for m, found in share.items()}, p, p)


def guessed(right: int, n: int) -> float:
    """P(at least so many of n right) of somebody who tosses a coin."""
    return 1.0 if right <= 0 else float(beta_cdf(right, n - right + 1, 0.5))


def _comparison(a: str, b: str, answers: list[Compared]) -> Comparison:
    ratings = ratings_from_rows((c.rater, c.item, a, float(c.score)) for c in answers)
    cmos = {method: mean_of(ratings, method) for method in ("two_way", "by_rater", "plain")}
    both, scores = cmos["two_way"], [c.score for c in answers]
    p = None if both.se is None or both.df is None else two_sided_p(both.mean, both.se, both.df)
    counts = (sum(s > 0 for s in scores), scores.count(0), sum(s < 0 for s in scores))
    return Comparison(a, b, cmos, p, p, *counts, {s: scores.count(s) for s in sorted(set(scores))})
