"""Intervals of Elo: cluster-robust over raters and scripts, and posterior by Gibbs sampling; gain by one more vote."""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import (
    ELO_PER_E,
    EloIntervals,
    Fit,
    centred,
    groups,
    information,
    points,
    solve,
    undecided,
    vote_moments,
)
from studio.mos.stats.columns import F8, I8, Votes
from studio.mos.stats.interval import Clusters, t_cdf, t_quantile, tail_probabilities

_MIN_VARIANCE = 1e-9  # Elo squared
# Relative to independent votes; below it raters do not differ, up to the effect of the prior.
_MIN_RELATIVE_VARIANCE = 1e-4
BETTER_LABEL = "one-sided confidence, from the standard error of the difference"


def clustered_intervals(
    votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95, clusters: Clusters = "two_way"
) -> EloIntervals:
    """Intervals by rater and script: standard error of the centred scores times t(min(raters, scripts) - 1).

    Each vote moves the estimate by its score times the inverse information; the variance is that of the sums of these
    influence values over raters and over scripts, as for a mean (``interval.clustered_error``). It agrees with a
    jackknife in simulation. Unknown raters or scripts are not clustered by, which the label states. If wins do not
    connect all systems, only systems within a connected group have an interval, around the group's mean: distances
    between groups are determined by the prior.
    """
    elo, size = fitted.elo(c), len(votes.systems)
    by_rater, by_item = votes.rater is not None, votes.item is not None and clusters == "two_way"
    label = _LABELS[by_rater, by_item]
    row, square = np.full(size, np.nan), np.full((size, size), np.nan)
    missing = EloIntervals(row, row, square, square, square, label, BETTER_LABEL)
    if fitted.reason:
        return replace(missing, reason=fitted.reason)
    half_width, apart, p, better = row.copy(), square.copy(), square.copy(), square.copy()
    np.fill_diagonal(better, 0.5)
    degrees, reasons = 0, list[str]()
    for part in (np.array(group) for group in groups(fitted.wins) if len(group) > 1):
        inside = np.isin(votes.a, part) & np.isin(votes.b, part)
        variances = _variances(votes.where(inside), fitted, part, by_rater, by_item)
        df, among = variances.df, np.ix_(part, part)
        degrees = max(degrees, df)
        if variances.reason:
            reasons.append(variances.reason)
            continue
        reach, se = t_quantile(df, level), np.sqrt(variances.differences)
        half_width[part], apart[among] = reach * np.sqrt(variances.scores), reach * se
        t = (elo[part][:, None] - elo[part][None, :]) / np.where(se > 0, se, 1.0)  # the diagonal is 0 / 1
        better[among], p[among] = t_cdf(df, t), 2 * t_cdf(df, -np.abs(t))
    if not degrees or not np.isfinite(half_width).any():
        return replace(missing, reason=reasons[0] if reasons else "wins connect no two systems both ways")
    label, gap = f"{label}: standard error times t({degrees})", elo[:, None] - elo[None, :]
    ends = elo - half_width, elo + half_width, gap - apart, gap + apart
    return EloIntervals(*ends, better, label, BETTER_LABEL, p)


_LABELS = {  # by whether raters and scripts are clustered by
    (True, True): "by rater and script",
    (True, False): "by rater, for these scripts only",
    (False, True): "by script, votes of one rater taken as independent",
    (False, False): "votes taken as independent, raters and scripts are not known",
}


@dataclass(frozen=True)
class _Variances:
    """Variances of centred scores [P] and of differences [P, P] in Elo squared."""

    scores: F8
    differences: F8
    df: int
    reason: str | None = None


def _variances(votes: Votes, fitted: Fit, part: I8, by_rater: bool, by_item: bool) -> _Variances:
    """Variances of the systems ``part``; every vote is between two of them."""
    each = np.arange(len(votes))
    rater = each if votes.rater is None or not by_rater else votes.rater
    item = each if votes.item is None or not by_item else votes.item
    both = rater * (int(item.max()) + 1) + item
    covariance = _cluster_covariance(votes, fitted, part)
    sums, counts = zip(*(covariance(codes) for codes in (rater, item, both)), strict=True)
    df = min(counts[0], counts[1]) - 1
    if df < 1:
        cluster = "rater" if counts[0] < 2 else "script"
        return _Variances(np.zeros(0), np.zeros(0), 0, f"one {cluster} gives no interval; at least two are needed")
    each_rater, each_item, each_both = ((np.diag(v), _contrasts(v)) for v in sums)
    scores, differences = (
        np.maximum(r + i - b, b) if by_item else np.where(r > _MIN_RELATIVE_VARIANCE * b, r, b)
        for r, i, b in zip(each_rater, each_item, each_both, strict=True)
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


def _contrasts(covariance: F8) -> F8:
    """Variances of all differences [P, P]."""
    variance = np.diag(covariance)
    return variance[:, None] + variance[None, :] - 2 * covariance


def expected_error_reduction(wins: F8, waiting: F8, a0: float = 0.1, b0: float = 0.1) -> F8:
    """Expected decrease of the sum of standard errors, in Elo, by one more vote on each pair: [S, S], zero on the
    diagonal.

    The arena chooses the next pair by it. Scores are those of ``fit`` with its Gamma prior, whose rate ``b0`` above
    zero makes errors finite before the first vote. Their inverse covariance is the curvature of the posterior in ln p,
    H = sum over pairs of n_ij w_ij (e_i - e_j)(e_i - e_j)' + diag(b0 p) with w_ij = P(i beats j) P(j beats i). A vote
    on (i, j) adds w_ij d d', d = e_i - e_j, whatever its outcome, so the covariance C becomes C - w C d d' C / (1 + w
    d' C d) (Sherman & Morrison 1950). Votes are taken as independent: clustering scales all intervals by about the same
    factor. ``wins``: [S, S], row beats column, a tie half a win each; ``waiting``: [S, S], symmetric: pending battles.
    """
    log_p = solve(wins, a0, b0)
    chance = 1 / (1 + np.exp(log_p[None, :] - log_p[:, None]))
    weight = chance * (1 - chance)
    hessian = -(wins + wins.T + waiting) * weight
    np.fill_diagonal(hessian, 0.0)
    np.fill_diagonal(hessian, b0 * np.exp(log_p) - hessian.sum(axis=1))
    covariance: F8 = np.asarray(np.linalg.inv(hessian), np.float64)
    # Of centred scores.
    covariance = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
    variance = np.diag(covariance)
    shifts = covariance[:, :, None] - covariance[:, None, :]  # [k, i, j]: covariance of k with i - j
    after = variance[:, None, None] - weight * shifts**2 / (1 + weight * _contrasts(covariance))
    gain = np.sqrt(variance)[:, None, None] - np.sqrt(np.maximum(after, 0.0))
    return ELO_PER_E * gain.sum(axis=0)


CHAINS = 8
_BURN_IN = 100  # iterations
_MAX_STEPPED_GROUPS = 4  # per iteration
_STEPS = (0.5, 2.0, 8.0)  # of ln p; large ones because the prior is wide
POSTERIOR_LABEL = "posterior probability under the prior, votes as independent"


def posterior_draws(wins: F8, a0: float = 0.1, b0: float = 0.1, samples: int = 500, seed: int = 0) -> F8:
    """Centred Elo scores drawn from the posterior, [8 * samples, S] (Caron & Doucet 2010, section 3).

    Each iteration draws a latent Z_ij ~ Gamma(n_ij, rate p_i + p_j) for every compared pair, then p_i ~ Gamma(a0 +
    wins_i, rate b0 + sum_j Z_ij). Two further moves improve mixing: the common scale is redrawn, because the sum of all
    p is Gamma(S a0, rate b0) for any votes (section 5), and if wins do not connect all systems, the distances between
    groups take Metropolis steps. Eight chains start at the posterior mode of ln p; each stores ``samples`` iterations
    after a burn-in.
    """
    if samples < 1:
        raise BadOption(f"samples is {samples}", "it must be at least 1")
    rng = np.random.default_rng(seed)
    games, parts = wins + wins.T, groups(wins)
    first, second = np.nonzero(np.triu(games))
    met = games[first, second]
    ends = np.zeros((len(first), len(wins)))
    ends[np.arange(len(first)), first] = ends[np.arange(len(first)), second] = 1.0
    won = a0 + wins.sum(axis=1)
    p = np.broadcast_to(np.exp(solve(wins, a0, b0)), (CHAINS, len(wins)))
    out = np.empty((samples, CHAINS, len(wins)))
    for iteration in range(-_BURN_IN, samples):
        latent = rng.standard_gamma(met, (CHAINS, len(met))) / (p[:, first] + p[:, second])
        p = rng.standard_gamma(won, p.shape) / (b0 + latent @ ends)
        for group in rng.permutation(len(parts))[:_MAX_STEPPED_GROUPS] if len(parts) > 1 else ():
            p = _metropolis_step(p, parts[int(group)], wins, a0, b0, rng)
        scale = rng.standard_gamma(len(wins) * a0, (CHAINS, 1)) / b0
        p = p * (scale / p.sum(axis=1, keepdims=True))
        if iteration >= 0:
            out[iteration] = p
    return centred(ELO_PER_E * np.log(out)).reshape(-1, len(wins))


def _metropolis_step(p: F8, group: list[int], wins: F8, a0: float, b0: float, rng: np.random.Generator) -> F8:
    """p [chains, S] with one group moved relative to the others where the step is accepted."""
    proposal = p.copy()
    proposal[:, group] *= np.exp(rng.choice(_STEPS) * rng.standard_normal((len(p), 1)))
    gain = _log_posterior(proposal, wins, a0, b0) - _log_posterior(p, wins, a0, b0)
    return np.where((np.log(rng.random(len(p))) < gain)[:, None], proposal, p)


def _log_posterior(p: F8, wins: F8, a0: float, b0: float) -> F8:
    """Log posterior density of ln p up to a constant, [chains]."""
    lost = np.log1p(p[:, None, :] / p[:, :, None])
    return (a0 * np.log(p) - b0 * p).sum(axis=1) - (wins * lost).sum(axis=(1, 2))


def posterior_intervals(
    fitted: Fit, c: float = 2000.0, samples: int = 500, seed: int = 0, level: float = 0.95
) -> EloIntervals:
    """Quantiles of the centred posterior on the scale of ``fitted``; votes are taken as independent.

    ``fitted`` is of method gamma. The interval is centred on the posterior, so it need not be symmetric.
    """
    assert fitted.method == "gamma", "the sampler needs the prior and its fixed point"
    elo = posterior_draws(fitted.wins, fitted.a0, fitted.b0, samples, seed=seed)
    middle = fitted.elo(c).mean()
    low, high = middle + np.quantile(elo, tail_probabilities(level), axis=0)
    apart = elo[:, :, None] - elo[:, None, :]
    difference_low, difference_high = np.quantile(apart, tail_probabilities(level), axis=0)
    better = (apart > 0).mean(axis=0)
    np.fill_diagonal(better, 0.5)
    label = "posterior: quantiles of Gibbs draws, votes taken as independent"
    return EloIntervals(low, high, difference_low, difference_high, better, label, POSTERIOR_LABEL)
