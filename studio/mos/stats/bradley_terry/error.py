"""The error of strengths over raters and scripts: an estimate's influence values, summed within clusters.

Strengths are where the votes' slopes cancel, so each vote moves them by its slope times the inverse curvature, and the
variance is that of sums of these over raters and over scripts, as for a mean (``interval.clustered``). It needs no
draws, holds for any model of votes whose slopes are known, and agreed with a jackknife in simulation.
"""

# scipy comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from studio.mos.stats.bradley_terry import davidson
from studio.mos.stats.bradley_terry.fit import ELO_PER_E, Fit, Spread
from studio.mos.stats.bradley_terry.strength import groups, points, undecided
from studio.mos.stats.columns import F8, I8, Votes
from studio.mos.stats.distributions import t_cdf
from studio.mos.stats.interval import Clusters, t_quantile

_NO_SPREAD = 1e-9  # Elo squared
_ALIKE = 1e-4  # of the variance of independent votes, under which raters do not differ: a prior leaves a trace
BETTER = "one-sided confidence, from the standard error of the difference"


def clustered_spread(
    votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95, clusters: Clusters = "two_way"
) -> Spread:
    """Intervals by rater and script: standard error of the centred scores times t(min(raters, scripts) - 1).

    What is not known is not clustered by, and the label says so: without scripts the interval is for these scripts
    only; without raters votes of one rater are taken as independent. Of systems that wins do not connect
    only those within one group have an interval, around the group's mean: the distance between groups is the prior's.
    """
    size, known = len(votes.systems), _Known.of(votes, clusters)
    row, square = np.full(size, np.nan), np.full((size, size), np.nan)
    nothing = Spread(row, row, square, square, square, known.label(0), BETTER)
    if fitted.reason:
        return replace(nothing, reason=fitted.reason)
    found, reasons = _Board(fitted.elo(c)), list[str]()
    degrees = 0
    for part in groups(fitted.wins):
        if len(part) > 1:
            inside = np.isin(votes.a, part) & np.isin(votes.b, part)
            error = _error(votes.where(inside), fitted, np.array(part), known, clusters)
            degrees = max(degrees, error.df)
            if reason := error.reason:
                reasons.append(reason)
            else:
                found.mark(np.array(part), error, level)
    if not degrees or not np.isfinite(found.low).any():
        return replace(nothing, reason=reasons[0] if reasons else "wins connect no two systems both ways")
    return found.spread(known.label(degrees))


@dataclass(frozen=True)
class _Known:
    rater: bool
    item: bool

    @staticmethod
    def of(votes: Votes, clusters: Clusters) -> "_Known":
        return _Known(votes.rater is not None, votes.item is not None and clusters == "two_way")

    def label(self, df: int) -> str:
        by = {
            (True, True): "by rater and script",
            (True, False): "by rater, for these scripts only",
            (False, True): "by script, votes of one rater taken as independent",
            (False, False): "votes taken as independent, raters and scripts are not known",
        }
        return by[self.rater, self.item] + (f": standard error times t({df})" if df else "")


@dataclass(frozen=True)
class _Error:
    """Variances of centred scores [P] and of differences [P, P] in Elo squared."""

    scores: F8
    differences: F8
    df: int
    reason: str | None = None


def _error(votes: Votes, fitted: Fit, part: I8, known: _Known, clusters: Clusters) -> _Error:
    """Of the systems ``part``; every vote is between two of them."""
    each = np.arange(len(votes))
    rater = each if votes.rater is None or not known.rater else votes.rater
    item = each if votes.item is None or not known.item else votes.item
    both = rater * (int(item.max()) + 1) + item
    slopes = _slopes(votes, fitted, part)
    sums, counts = zip(*(slopes(codes) for codes in (rater, item, both)), strict=True)
    df = min(counts[0], counts[1]) - 1
    if df < 1:
        few = "rater" if counts[0] < 2 else "script"
        return _Error(np.zeros(0), np.zeros(0), 0, f"one {few} alone gives no interval: two at least")
    by_rater, by_item, by_both = ((np.diag(v), _contrasts(v)) for v in sums)
    scores, differences = (
        np.maximum(r + i - b, b) if known.item else np.where(r > _ALIKE * b, r, b)
        for r, i, b in zip(by_rater, by_item, by_both, strict=True)
    )
    if (scores < _NO_SPREAD).any():
        return _Error(scores, differences, df, "every vote is a tie, which says nothing of their spread")
    return _Error(scores, differences, df)


def _slopes(votes: Votes, fitted: Fit, part: I8) -> Callable[[I8], tuple[F8, int]]:
    """What sums the votes' influence on centred Elo within clusters: codes [N] to a covariance [P, P] and the count."""
    size, log_p = len(part), fitted.log_p[part]
    place = np.full(len(fitted.log_p), -1)
    place[part] = np.arange(size)
    a, b = place[votes.a], place[votes.b]
    games = np.bincount(a * size + b, minlength=size * size).reshape(size, size).astype(np.float64)
    at = davidson.expected(log_p, fitted.tie or 0.0)  # without ties it is Bradley and Terry's
    bend = davidson.information(log_p, fitted.tie or 0.0, games + games.T)
    seen = points(votes) - at.point[a, b]
    columns, values = [a, b], [seen, -seen]
    if fitted.tie:
        columns.append(np.full(len(a), size))
        values.append(undecided(votes) - at.tie[a, b])
    else:
        bend = bend[:size, :size] + np.diag(fitted.b0 * np.exp(log_p))
    bend[:size, :size] += np.trace(bend) / size**2  # the common scale, which slopes do not move and centring takes off
    moves: F8 = ELO_PER_E * np.asarray(np.linalg.inv(bend), np.float64)[:size]
    moves = moves - moves.mean(axis=0)

    def within(codes: I8) -> tuple[F8, int]:
        cluster = np.unique(codes, return_inverse=True)[1]
        count = int(cluster.max()) + 1
        rows = np.tile(cluster, len(columns))
        sums = csr_array((np.concatenate(values), (rows, np.concatenate(columns))), shape=(count, len(bend)))
        spread = moves @ np.asarray((sums.T @ sums).toarray(), np.float64) @ moves.T
        return spread * count / max(1, count - 1), count

    return within


class _Board:
    """Where the intervals of one group after another are put."""

    def __init__(self, elo: F8) -> None:
        self.elo = elo
        self.low, self.high = (np.full(len(elo), np.nan) for _ in range(2))
        self.apart, self.p, self.better = (np.full((len(elo),) * 2, np.nan) for _ in range(3))
        np.fill_diagonal(self.better, 0.5)

    def mark(self, part: I8, error: _Error, level: float) -> None:
        reach = t_quantile(error.df, level)
        self.low[part] = self.elo[part] - reach * np.sqrt(error.scores)
        self.high[part] = self.elo[part] + reach * np.sqrt(error.scores)
        square = np.ix_(part, part)
        gap, se = self.elo[part][:, None] - self.elo[part][None, :], np.sqrt(error.differences)
        self.apart[square] = reach * se
        t = gap / np.where(se > 0, se, 1.0)  # of a system and itself, 0 / 1
        self.better[square] = t_cdf(error.df, t)
        self.p[square] = 2 * t_cdf(error.df, -np.abs(t))

    def spread(self, label: str) -> Spread:
        gap = self.elo[:, None] - self.elo[None, :]
        return Spread(self.low, self.high, gap - self.apart, gap + self.apart, self.better, label, BETTER, self.p)


def _contrasts(covariance: F8) -> F8:
    """Variances of all differences [P, P]."""
    variance = np.diag(covariance)
    return variance[:, None] + variance[None, :] - 2 * covariance
