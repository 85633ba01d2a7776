"""Cluster-robust intervals of strengths over raters and scripts, and the expected gain in precision of one more vote.

Each vote moves the estimate by its score times the inverse information; the variance is that of the sums of these
influence values over raters and over scripts, as for a mean (``interval.clustered_error``). It agrees with a jackknife
in simulation.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from studio.mos.stats.bradley_terry.fit import ELO_PER_E, EloIntervals, Fit
from studio.mos.stats.bradley_terry.strength import groups, information, points, solve, undecided, vote_moments
from studio.mos.stats.columns import F8, I8, Votes
from studio.mos.stats.distributions import t_cdf
from studio.mos.stats.interval import Clusters, t_quantile

_MIN_VARIANCE = 1e-9  # Elo squared
# Relative to independent votes; below it raters do not differ, up to the effect of the prior.
_MIN_RELATIVE_VARIANCE = 1e-4
BETTER_LABEL = "one-sided confidence, from the standard error of the difference"


def clustered_intervals(
    votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95, clusters: Clusters = "two_way"
) -> EloIntervals:
    """Intervals by rater and script: standard error of the centred scores times t(min(raters, scripts) - 1).

    Unknown raters or scripts are not clustered by, which the label states. If wins do not connect all systems, only
    systems within a connected group have an interval, around the group's mean: distances between groups are determined
    by the prior.
    """
    size, clustering = len(votes.systems), _Clustering.of(votes, clusters)
    row, square = np.full(size, np.nan), np.full((size, size), np.nan)
    missing = EloIntervals(row, row, square, square, square, clustering.label(0), BETTER_LABEL)
    if fitted.reason:
        return replace(missing, reason=fitted.reason)
    table, reasons = _IntervalTable(fitted.elo(c)), list[str]()
    degrees = 0
    for part in groups(fitted.wins):
        if len(part) > 1:
            inside = np.isin(votes.a, part) & np.isin(votes.b, part)
            error = _variances(votes.where(inside), fitted, np.array(part), clustering, clusters)
            degrees = max(degrees, error.df)
            if reason := error.reason:
                reasons.append(reason)
            else:
                table.mark(np.array(part), error, level)
    if not degrees or not np.isfinite(table.low).any():
        return replace(missing, reason=reasons[0] if reasons else "wins connect no two systems both ways")
    return table.spread(clustering.label(degrees))


@dataclass(frozen=True)
class _Clustering:
    rater: bool
    item: bool

    @staticmethod
    def of(votes: Votes, clusters: Clusters) -> "_Clustering":
        return _Clustering(votes.rater is not None, votes.item is not None and clusters == "two_way")

    def label(self, df: int) -> str:
        by = {
            (True, True): "by rater and script",
            (True, False): "by rater, for these scripts only",
            (False, True): "by script, votes of one rater taken as independent",
            (False, False): "votes taken as independent, raters and scripts are not known",
        }
        return by[self.rater, self.item] + (f": standard error times t({df})" if df else "")


@dataclass(frozen=True)
class _Variances:
    """Variances of centred scores [P] and of differences [P, P] in Elo squared."""

    scores: F8
    differences: F8
    df: int
    reason: str | None = None


def _variances(votes: Votes, fitted: Fit, part: I8, clustering: _Clustering, clusters: Clusters) -> _Variances:
    """Variances of the systems ``part``; every vote is between two of them."""
    each = np.arange(len(votes))
    rater = each if votes.rater is None or not clustering.rater else votes.rater
    item = each if votes.item is None or not clustering.item else votes.item
    both = rater * (int(item.max()) + 1) + item
    covariance = _cluster_covariance(votes, fitted, part)
    sums, counts = zip(*(covariance(codes) for codes in (rater, item, both)), strict=True)
    df = min(counts[0], counts[1]) - 1
    if df < 1:
        cluster = "rater" if counts[0] < 2 else "script"
        return _Variances(np.zeros(0), np.zeros(0), 0, f"one {cluster} gives no interval; at least two are needed")
    by_rater, by_item, by_both = ((np.diag(v), _contrasts(v)) for v in sums)
    scores, differences = (
        np.maximum(r + i - b, b) if clustering.item else np.where(r > _MIN_RELATIVE_VARIANCE * b, r, b)
        for r, i, b in zip(by_rater, by_item, by_both, strict=True)
    )
    if (scores < _MIN_VARIANCE).any():
        return _Variances(scores, differences, df, "every vote is a tie, so the variance is unknown")
    return _Variances(scores, differences, df)


def _cluster_covariance(votes: Votes, fitted: Fit, part: I8) -> Callable[[I8], tuple[F8, int]]:
    """Function from cluster codes [N] to the covariance [P, P] of centred Elo and the number of clusters."""
    size, log_p = len(part), fitted.log_p[part]
    place = np.full(len(fitted.log_p), -1)
    place[part] = np.arange(size)
    a, b = place[votes.a], place[votes.b]
    games = np.bincount(a * size + b, minlength=size * size).reshape(size, size).astype(np.float64)
    moments = vote_moments(log_p, fitted.tie or 0.0)  # nu = 0: the Bradley-Terry model
    hessian = information(log_p, fitted.tie or 0.0, games + games.T)
    scores = points(votes) - moments.point[a, b]
    columns, values = [a, b], [scores, -scores]
    if fitted.tie:
        columns.append(np.full(len(a), size))
        values.append(undecided(votes) - moments.tie[a, b])
    else:
        hessian = hessian[:size, :size] + np.diag(fitted.b0 * np.exp(log_p))
    hessian[:size, :size] += np.trace(hessian) / size**2  # fixes the common scale; removed by centring
    influence: F8 = ELO_PER_E * np.asarray(np.linalg.inv(hessian), np.float64)[:size]
    influence = influence - influence.mean(axis=0)

    def covariance(codes: I8) -> tuple[F8, int]:
        cluster = np.unique(codes, return_inverse=True)[1]
        count = int(cluster.max()) + 1
        rows = np.tile(cluster, len(columns))
        sums = csr_array((np.concatenate(values), (rows, np.concatenate(columns))), shape=(count, len(hessian)))
        variance = influence @ np.asarray((sums.T @ sums).toarray(), np.float64) @ influence.T
        return variance * count / max(1, count - 1), count

    return covariance


class _IntervalTable:
    """Collects the intervals of connected groups."""

    def __init__(self, elo: F8) -> None:
        self.elo = elo
        self.low, self.high = (np.full(len(elo), np.nan) for _ in range(2))
        self.apart, self.p, self.better = (np.full((len(elo),) * 2, np.nan) for _ in range(3))
        np.fill_diagonal(self.better, 0.5)

    def mark(self, part: I8, error: _Variances, level: float) -> None:
        reach = t_quantile(error.df, level)
        self.low[part] = self.elo[part] - reach * np.sqrt(error.scores)
        self.high[part] = self.elo[part] + reach * np.sqrt(error.scores)
        square = np.ix_(part, part)
        gap, se = self.elo[part][:, None] - self.elo[part][None, :], np.sqrt(error.differences)
        self.apart[square] = reach * se
        t = gap / np.where(se > 0, se, 1.0)  # the diagonal is 0 / 1
        self.better[square] = t_cdf(error.df, t)
        self.p[square] = 2 * t_cdf(error.df, -np.abs(t))

    def spread(self, label: str) -> EloIntervals:
        gap = self.elo[:, None] - self.elo[None, :]
        return EloIntervals(
            self.low, self.high, gap - self.apart, gap + self.apart, self.better, label, BETTER_LABEL, self.p
        )


def _contrasts(covariance: F8) -> F8:
    """Variances of all differences [P, P]."""
    variance = np.diag(covariance)
    return variance[:, None] + variance[None, :] - 2 * covariance


def expected_error_reduction(wins: F8, waiting: F8, a0: float = 0.1, b0: float = 0.1) -> F8:
    """Expected decrease of the sum of standard errors, in Elo, by one more vote on each pair.

    The arena chooses the next pair by it. Scores are those of ``fit`` with its Gamma prior. Their inverse covariance is
    the curvature of the posterior in ln p, H = sum over pairs of n_ij w_ij (e_i - e_j)(e_i - e_j)' + diag(b0 p) with
    w_ij = P(i beats j) P(j beats i). A vote on (i, j) adds w_ij d d', d = e_i - e_j, whatever its outcome, so the
    covariance C becomes C - w C d d' C / (1 + w d' C d) (Sherman & Morrison 1950). Votes are taken as independent:
    clustering scales all intervals by about the same factor.

    Args:
        wins: [S, S], row beats column, a tie half a win each.
        waiting: [S, S], symmetric: pending battles.
        a0: shape of the prior on strengths.
        b0: its rate, above zero, so that errors are finite before the first vote.

    Returns:
        [S, S], symmetric, zero on the diagonal.
    """
    log_p = solve(wins, a0, b0)
    chance = 1 / (1 + np.exp(log_p[None, :] - log_p[:, None]))
    weight = chance * (1 - chance)
    hessian = -(wins + wins.T + waiting) * weight
    np.fill_diagonal(hessian, 0.0)
    np.fill_diagonal(hessian, b0 * np.exp(log_p) - hessian.sum(axis=1))
    covariance: F8 = np.asarray(np.linalg.inv(hessian), np.float64)
    covariance = (
        covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
    )  # of centred scores
    variance = np.diag(covariance)
    shifts = covariance[:, :, None] - covariance[:, None, :]  # [k, i, j]: covariance of k with i - j
    difference_variance = variance[:, None] + variance[None, :] - 2 * covariance
    after = variance[:, None, None] - weight * shifts**2 / (1 + weight * difference_variance)
    gain = np.sqrt(variance)[:, None, None] - np.sqrt(np.maximum(after, 0.0))
    return ELO_PER_E * gain.sum(axis=0)
