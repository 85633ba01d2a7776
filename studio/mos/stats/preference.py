"""Which of two systems people prefer: the share of wins, ties and 'both bad' counted apart and half a win each."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, Scale, Votes
from studio.mos.stats.compare import holm
from studio.mos.stats.distributions import beta_inverse
from studio.mos.stats.interval import Interval, of_mean, p_against, present, tails, z_quantile

Method = Literal["two_way", "by_rater", "exact", "wilson"]
SHARES = Scale(0.0, 1.0)


@dataclass(frozen=True)
class Preference:
    """How ``a`` fared against ``b``.

    Attributes:
        wins_a: votes for a; likewise ``wins_b``.
        ties: votes that both are alike.
        both_bad: votes that neither will do.
        share: (wins_a + (ties + both_bad) / 2) / votes, 0 to 1.
        p: two-sided, of the share against one half; None of ``exact`` and ``wilson``, and where the data cannot say.
        p_holm: corrected for all pairs that were compared (Holm 1979).
    """

    a: str
    b: str
    wins_a: int
    wins_b: int
    ties: int
    both_bad: int
    share: Interval
    p: float | None = None
    p_holm: float | None = None


def all_pairs(votes: Votes, method: Method = "two_way", level: float = 0.95) -> list[Preference]:
    """``preference`` of every pair of systems that met, in the order of ``votes.systems``, p values corrected."""
    met = {(min(p), max(p)) for p in zip(votes.a.tolist(), votes.b.tolist(), strict=True)}
    found = [
        preference(votes, votes.systems[i], votes.systems[j], method, level)
        for i, j in combinations(range(len(votes.systems)), 2)
        if (i, j) in met
    ]
    corrected = iter(holm(np.array([f.p for f in found if f.p is not None], np.float64)))
    return [f if f.p is None else replace(f, p_holm=float(next(corrected))) for f in found]


def preference(votes: Votes, a: str, b: str, method: Method = "two_way", level: float = 0.95) -> Preference:
    """The share of votes for ``a`` against ``b``.

    Methods:
        two_way: clustered by rater and script, t with min(G) - 1 degrees of freedom; 20 raters x 50 pairs on 10 scripts
            are neither 1,000 votes nor 20 (``interval.clustered``, ``ends``).
        by_rater: clustered by rater, t(raters - 1); says nothing about other scripts.
        exact: Clopper & Pearson (1934), votes as independent; half wins count as they are.
        wilson: Wilson (1927), votes as independent.

    Raises:
        BadOption: systems that never met, an unknown method, or raters (scripts) that are not known and asked for.
    """
    unknown = {a, b} - set(votes.systems)
    if unknown:
        raise BadOption(f"there is no system {min(unknown)!r}", f"known are {', '.join(votes.systems)}")
    i, j = votes.systems.index(a), votes.systems.index(b)
    votes = votes.where(((votes.a == i) & (votes.b == j)) | ((votes.a == j) & (votes.b == i)))
    if not len(votes):
        raise BadOption(f"{a!r} and {b!r} were never compared", "choose a pair that was voted on")
    ties, both_bad = int((votes.outcome == TIE).sum()), int((votes.outcome == BOTH_BAD).sum())
    won = np.where(votes.outcome == A, votes.a, votes.b) == i
    point = np.where((votes.outcome == TIE) | (votes.outcome == BOTH_BAD), 0.5, won)
    wins_a = int((point == 1).sum())
    share = _share(point, votes, method, level)
    p = p_against(share, 0.5, SHARES) if method in ("two_way", "by_rater") else None
    return Preference(a, b, wins_a, len(votes) - wins_a - ties - both_bad, ties, both_bad, share, p, p)


def _share(point: F8, votes: Votes, method: Method, level: float) -> Interval:
    n, mean = len(point), float(point.mean())
    if method == "two_way" or method == "by_rater":
        if votes.rater is None:
            raise BadOption("the votes have no raters", "ask for exact or wilson")
        if votes.item is None and method == "two_way":
            raise BadOption("the votes have no scripts", "ask for by_rater")
        item = np.arange(n) if votes.item is None else votes.item
        found = of_mean(point, votes.rater, item, method, level, SHARES, null=0.5)
        return replace(found, items=None) if votes.item is None else found
    if method == "exact":
        low, high = _exact(float(point.sum()), n, level)
    elif method == "wilson":
        low, high = _wilson(mean, n, level)
    else:
        raise BadOption(f"{method!r} is not an interval of shares", "known are two_way, by_rater, exact, wilson")
    raters, items = (None if c is None else present(c) for c in (votes.rater, votes.item))
    return Interval(mean, max(low, 0.0), min(high, 1.0), None, None, n, raters, items, method, level)


def _exact(won: float, n: int, level: float) -> tuple[float, float]:
    under, over = tails(level)
    low = float(beta_inverse(won, n - won + 1, under)) if won > 0 else 0.0
    high = float(beta_inverse(won + 1, n - won, over)) if won < n else 1.0
    return low, high


def _wilson(mean: float, n: int, level: float) -> tuple[float, float]:
    z = z_quantile(level)
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    width = z / (1 + z * z / n) * np.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return float(middle - width), float(middle + width)
