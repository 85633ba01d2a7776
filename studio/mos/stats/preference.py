"""Which of two systems people prefer: the share of wins, ties and 'both bad' counted apart and half a win each."""

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, Votes
from studio.mos.stats.distributions import beta_inverse
from studio.mos.stats.interval import Interval, bounds, finite, present, t_quantile, tails, z_quantile

Method = Literal["raters", "exact", "wilson"]
_NO_SPREAD = 1e-12


@dataclass(frozen=True)
class Preference:
    """How ``a`` fared against ``b``.

    Attributes:
        wins_a: votes for a; likewise ``wins_b``.
        ties: votes that both are alike.
        both_bad: votes that neither will do.
        share: (wins_a + (ties + both_bad) / 2) / votes, 0 to 1.
    """

    a: str
    b: str
    wins_a: int
    wins_b: int
    ties: int
    both_bad: int
    share: Interval


def all_pairs(
    votes: Votes, method: Method = "raters", level: float = 0.95, seed: int = 0, replicates: int = 1000
) -> list[Preference]:
    """``preference`` of every pair of systems that met, in the order of ``votes.systems``."""
    met = {(min(p), max(p)) for p in zip(votes.a.tolist(), votes.b.tolist(), strict=True)}
    return [
        preference(votes, votes.systems[i], votes.systems[j], method, level, seed, replicates)
        for i, j in combinations(range(len(votes.systems)), 2)
        if (i, j) in met
    ]


def preference(
    votes: Votes,
    a: str,
    b: str,
    method: Method = "raters",
    level: float = 0.95,
    seed: int = 0,
    replicates: int = 1000,
) -> Preference:
    """The share of votes for ``a`` against ``b``, cut to 0..1.

    Methods:
        raters: bootstrap over raters, standard error times t(raters - 1); 20 raters x 50 pairs are not 1,000 votes.
            Where all raters have the same share, ``exact`` in its stead and no standard error; where that share is
            0 or 1, with one vote a rater.
        exact: Clopper & Pearson (1934), votes as independent; half wins count as they are.
        wilson: Wilson (1927), votes as independent.

    Raises:
        BadOption: systems that never met, an unknown method, or ``raters`` where raters are not known.
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
    share = _share(point, votes, method, level, seed, replicates)
    return Preference(a, b, wins_a, len(votes) - wins_a - ties - both_bad, ties, both_bad, share)


def _share(point: F8, votes: Votes, method: Method, level: float, seed: int, replicates: int) -> Interval:
    n, mean = len(point), float(point.mean())
    raters = None if votes.rater is None else present(votes.rater)
    df: float | None = None
    if method == "raters":
        if votes.rater is None or raters is None:
            raise BadOption("the votes have no raters", "ask for exact or wilson")
        se, df = rater_error(point, np.unique(votes.rater, return_inverse=True)[1], seed, replicates), raters - 1
        low, high = bounds(mean, se, t_quantile(df, level))
        if se < _NO_SPREAD:  # raters who do not differ tell nothing of their spread
            votes_worth = raters if mean in (0.0, 1.0) else n
            se, (low, high) = float("nan"), _exact(mean * votes_worth, votes_worth, level)
    elif method == "exact":
        se, (low, high) = float("nan"), _exact(float(point.sum()), n, level)
    elif method == "wilson":
        se, (low, high) = float("nan"), _wilson(mean, n, level)
    else:
        raise BadOption(f"{method!r} is not an interval of shares", "known are raters, exact, wilson")
    low, high = (None if low is None else max(low, 0.0)), (None if high is None else min(high, 1.0))
    return Interval(mean, low, high, finite(se), df, n, raters, None, method, level)


def rater_error(point: F8, rater: np.ndarray, seed: int, replicates: int) -> float:
    """Bootstrap standard error of the mean of ``point`` [N] when raters (codes 0 to R - 1, [N]) are drawn anew."""
    votes, points = np.bincount(rater), np.bincount(rater, point)
    raters = len(votes)
    if raters < 2:
        return float("nan")
    rng = np.random.default_rng(seed)
    means = np.empty(replicates)
    for k in range(replicates):
        drawn = rng.integers(raters, size=raters)
        means[k] = points[drawn].sum() / votes[drawn].sum()
    return float(means.std(ddof=1))


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
