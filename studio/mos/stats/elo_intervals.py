"""Intervals of Elo: cluster-robust over raters and scripts, and posterior by Gibbs sampling; gain of one more vote."""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

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
from studio.mos.stats.clusters import (
    ClusterVariance,
    degrees_of_freedom,
    effective_of_sums,
    independent_variance,
    small_sample_correction,
    two_way_variance,
)
from studio.mos.stats.columns import F8, I8, Votes
from studio.mos.stats.interval import Clusters, count_distinct, t_cdf, t_inverse, tail_probabilities

_MIN_VARIANCE = 1e-9  # Elo squared
# Relative to independent votes; below it raters do not differ, up to the effect of the prior.
_MIN_RELATIVE_VARIANCE = 1e-4
BETTER_LABEL = "one-sided confidence, from the standard error of the difference"


def clustered_intervals(
    votes: Votes, fitted: Fit, c: float = 2000.0, level: float = 0.95, clusters: Clusters = "two_way"
) -> EloIntervals:
    """Intervals by rater and script: standard error of the centred scores times t(min(R*, I*) - 1).

    Each vote moves the estimate by its score times the inverse information; the variance is that of the sums of these
    influence values over raters and over scripts, as for a mean (``interval.clustered_error``). It agrees with a
    jackknife in simulation. Raters and scripts count by their share in the information on each score
    (``clusters.effective_clusters``); differences have the degrees of freedom of ``two_way_variance``. There is no
    clustering by unknown raters or scripts, or by a single script, as the label states. If wins do not connect all
    systems, only systems within a connected group have an interval, around the group's mean: distances between groups
    are determined by the prior.
    """
    elo, size = fitted.elo(c), len(votes.systems)
    by_rater = votes.rater is not None
    by_item = votes.item is not None and clusters == "two_way" and count_distinct(votes.item) > 1
    label = _LABELS[by_rater, by_item]
    row, square = np.full(size, np.nan), np.full((size, size), np.nan)
    missing = EloIntervals(row, row, square, square, square, label, BETTER_LABEL)
    if fitted.reason:
        return replace(missing, reason=fitted.reason)
    half_width, apart, p, better = row.copy(), square.copy(), square.copy(), square.copy()
    np.fill_diagonal(better, 0.5)
    degrees, reasons, upper = list[float](), list[str](), tail_probabilities(level)[1]
    for part in (np.array(group) for group in groups(fitted.wins) if len(group) > 1):
        inside = np.isin(votes.a, part) & np.isin(votes.b, part)
        scores, differences = _errors(votes.where(inside), fitted, part, by_rater, by_item)
        if reason := scores.reason or differences.reason:
            reasons.append(reason)
            continue
        degrees += scores.df.tolist()
        among, se = np.ix_(part, part), np.sqrt(differences.variance)
        half_width[part] = t_inverse(scores.df, upper) * np.sqrt(scores.variance)
        apart[among] = t_inverse(differences.df, upper) * se
        t = (elo[part][:, None] - elo[part][None, :]) / np.where(se > 0, se, 1.0)  # the diagonal is 0 / 1
        better[among], p[among] = t_cdf(differences.df, t), 2 * t_cdf(differences.df, -np.abs(t))
    if not degrees:
        return replace(missing, reason=reasons[0] if reasons else "wins connect no two systems both ways")
    least, most = (f"{df:.3g}" for df in (min(degrees), max(degrees)))
    label = f"{label}: standard error times t({least if least == most else f'{least} to {most}'})"
    gap = elo[:, None] - elo[None, :]
    ends = elo - half_width, elo + half_width, gap - apart, gap + apart
    return EloIntervals(*ends, better, label, BETTER_LABEL, p)


_LABELS = {  # whether votes are clustered by rater, and by script
    (True, True): "by rater and script",
    (True, False): "by rater, for these scripts only",
    (False, True): "by script, votes of one rater taken as independent",
    (False, False): "votes taken as independent, raters and scripts are not known",
}


@dataclass(frozen=True)
class _Errors:
    """Variances in Elo squared and degrees of freedom: of centred scores [P], or of differences [P, P]."""

    variance: F8
    df: F8
    reason: str | None = None  # why there is no interval


def _errors(votes: Votes, fitted: Fit, part: I8, by_rater: bool, by_item: bool) -> tuple[_Errors, _Errors]:
    """Errors of the scores of ``part``, and of their differences; every vote is between two of these systems."""
    by_item = by_item and votes.item is not None and count_distinct(votes.item) > 1
    each = np.arange(len(votes))
    rater = votes.rater if by_rater and votes.rater is not None else each
    item = votes.item if by_item and votes.item is not None else each
    if count_distinct(rater) < 2:
        none = _Errors(np.zeros(0), np.zeros(0), "one rater gives no interval; at least two are needed")
        return none, none
    by_group = _grouped_variances(votes, fitted, part)
    by_each, by_both = by_group(rater), by_group(rater * (int(item.max()) + 1) + item)
    by_script = by_group(item) if by_item else (None, None)
    scores, differences = (
        _combined(by_each[k], by_script[k], by_both[k], tested) for k, tested in enumerate((False, True))
    )
    if (scores.variance < _MIN_VARIANCE).any():
        scores = replace(scores, reason="every vote is a tie, so the variance is unknown")
    return scores, differences


def _combined(rater: ClusterVariance, item: ClusterVariance | None, both: ClusterVariance, tested: bool) -> _Errors:
    """``item``: None to cluster by rater only."""
    if item is not None:
        return _Errors(*two_way_variance(rater, item, both, tested))
    independent = independent_variance(both)
    by_rater = rater.variance(independent)
    varies = by_rater > _MIN_RELATIVE_VARIANCE * independent
    return _Errors(np.where(varies, by_rater, independent), degrees_of_freedom(rater.groups))


_ByGroup = tuple[ClusterVariance, ClusterVariance]  # of centred scores [P] and of differences [P, P]


def _grouped_variances(votes: Votes, fitted: Fit, part: I8) -> Callable[[I8], _ByGroup]:
    """Function from cluster codes [N] to variances by these clusters."""
    size, log_p = len(part), fitted.log_p[part]
    index = np.full(len(fitted.log_p), -1)
    index[part] = np.arange(size)
    a, b = index[votes.a], index[votes.b]
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
    # [P * P, P]: share of a vote on each pair in the variance of each score if votes are independent.
    pulls = influence[:, :size].T[:, None, :] - influence[:, :size].T[None, :, :]
    leverage = (moments.point_variance[:, :, None] * pulls**2).reshape(size * size, size)

    def by_group(codes: I8) -> _ByGroup:
        cluster = np.unique(codes, return_inverse=True)[1]
        count, rows = int(cluster.max()) + 1, np.tile(cluster, len(columns))
        sums = scipy.sparse.csr_array(
            (np.concatenate(values), (rows, np.concatenate(columns))), shape=(count, len(hessian))
        )
        covariance = influence @ np.asarray((sums.T @ sums).toarray(), np.float64) @ influence.T
        squares = np.diag(covariance), _contrasts(covariance)
        if 2 * count > len(cluster):  # mostly single votes: they get equal weights
            sizes = np.bincount(cluster).astype(np.float64)
            powers = [[np.asarray((sizes**k).sum()) for k in (1, 2, 3)]] * 2
        else:
            pairs = scipy.sparse.csr_array((np.ones(len(cluster)), (cluster, a * size + b)), shape=(count, size * size))
            powers = _power_sums(np.asarray(pairs @ leverage, np.float64))
        scores, differences = (
            ClusterVariance(
                value,
                np.broadcast_to(effective_of_sums(*sums[:2]), value.shape),
                np.broadcast_to(small_sample_correction(*sums), value.shape),
            )
            for value, sums in zip(squares, powers, strict=True)
        )
        return scores, differences

    return by_group


def _power_sums(shares: F8) -> list[list[F8]]:
    """Sums over clusters of shares [G, P], their squares and cubes: for scores [P], and for differences [P, P].

    The share of a cluster in a difference is taken as the sum of its shares in the two scores.
    """
    total, square = shares.sum(axis=0), shares.T @ shares
    mixed = (shares**2).T @ shares  # [P, P]: squared share of the row's times that of the column's
    own, cube = np.diag(square), np.diag(mixed)
    squares = own[:, None] + own[None, :] + 2 * square
    cubes = cube[:, None] + cube[None, :] + 3 * (mixed + mixed.T)
    return [[total, own, cube], [total[:, None] + total[None, :], squares, cubes]]


def _contrasts(covariance: F8) -> F8:
    """Variances of all differences [P, P]."""
    variance = np.diag(covariance)
    return variance[:, None] + variance[None, :] - 2 * covariance


def expected_error_reduction(wins: F8, waiting: F8, a0: float = 0.1, b0: float = 0.1) -> F8:
    """Expected decrease of the sum of standard errors, in Elo, by one more vote on each pair: [S, S], zero on the
    diagonal.

    The arena uses it to choose the next pair. Scores are those of ``fit`` with its Gamma prior, whose rate ``b0`` above
    zero makes errors finite before the first vote. Their inverse covariance is the curvature of the posterior in ln p,
    H = sum over pairs of n_ij w_ij (e_i - e_j)(e_i - e_j)' + diag(b0 p) with w_ij = P(i beats j) P(j beats i). A vote
    on (i, j) adds w_ij d d', d = e_i - e_j, for any outcome, so the covariance C becomes C - w C d d' C / (1 + w
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
