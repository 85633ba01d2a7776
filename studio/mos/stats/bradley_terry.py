"""Strengths of the Bradley-Terry model by four methods, with the Gamma quantiles of paper 002.

P(i beats j) = p_i / (p_i + p_j) = 1 / (1 + 10^((E_j - E_i) / 400)) with E = c + 400 log10 p (paper 002, Bayesian Elo).
Only differences within one campaign are comparable. Win matrices are float [..., S, S], row beats column; a tie is half
a win each.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, I8, TIE, A, Mask, Votes
from studio.mos.stats.interval import beta_cdf, gamma_inverse, log_gamma_ratio_inverse, tail_probabilities

_MAX_STEP = 2.0  # of ln p; limits Newton steps
_TOLERANCE = 1e-14  # twice the expected gain in log likelihood of a step
_MAX_ITERATIONS = 500


def win_matrix(votes: Votes) -> F8:
    """Win matrix [S, S] of all votes; ties and 'both bad' are half a win each."""
    size = len(votes.systems)
    point = points(votes)
    won = np.bincount(votes.a * size + votes.b, point, size * size)
    won += np.bincount(votes.b * size + votes.a, 1 - point, size * size)
    return won.reshape(size, size).astype(np.float64)


def points(votes: Votes) -> F8:
    """Value of each vote [N] to its ``a``: 1, 0, or 0.5 for a tie and for 'both bad'."""
    return np.where(undecided(votes), 0.5, (votes.outcome == A).astype(np.float64))


def undecided(votes: Votes) -> Mask:
    """Mask [N] of ties and 'both bad'."""
    return (votes.outcome == TIE) | (votes.outcome == BOTH_BAD)


def groups(wins: F8) -> list[list[int]]:
    """Strongly connected groups of systems as lists of indices.

    The maximum-likelihood estimate exists only if there is one group (Ford 1957).
    """
    label = _labels(wins, directed=True, connection="strong")
    return [np.flatnonzero(label == g).tolist() for g in range(int(label.max(initial=-1)) + 1)]


def solve(wins: F8, a0: float = 0.0, b0: float = 0.0) -> F8:
    """ln p [..., S] at which likelihood times prior Gamma(a0, rate b0) is stationary in ln p, by Newton's method.

    This is the fixed point of the update of Caron & Doucet (2010); with a0 = b0 = 0 the maximum-likelihood estimate at
    geometric mean 1, whose existence the caller checks (``groups``).
    """
    size = wins.shape[-1]
    theta: F8 = np.zeros(wins.shape[:-1])
    games = wins + np.swapaxes(wins, -1, -2)
    won = wins.sum(axis=-1) + a0
    diagonal = np.arange(size)
    for _ in range(_MAX_ITERATIONS):
        theta = _scaled(theta, a0, b0)
        chance = 1 / (1 + np.exp(np.clip(theta[..., None, :] - theta[..., :, None], -500, 500)))
        prior = b0 * np.exp(theta)
        gradient = won - (games * chance).sum(axis=-1) - prior
        weight = games * chance * (1 - chance)
        hessian = -weight
        hessian[..., diagonal, diagonal] += weight.sum(axis=-1) + prior
        if b0 == 0:  # the common scale is free and its gradient zero: any curvature will do
            hessian += hessian[..., diagonal, diagonal].mean(axis=-1)[..., None, None] / size
        step: F8 = np.asarray(np.linalg.solve(hessian, gradient[..., None]), np.float64)[..., 0]
        length: F8 = np.abs(step).max(axis=-1, keepdims=True, initial=0.0)
        theta = theta + step * np.minimum(1.0, _MAX_STEP / np.maximum(length, _MAX_STEP))
        if (gradient * step).sum(axis=-1).max(initial=0.0) < _TOLERANCE:
            return _scaled(theta, a0, b0)
    raise AssertionError("Newton's method did not settle on a concave likelihood")


def sweep(wins: F8, a0: float, b0: float, sweeps: int) -> F8:
    """p [S] after simultaneous updates from p = 1, as in paper 002 (Caron & Doucet 2010, posterior mean)."""
    p, games = np.ones(len(wins)), wins + wins.T
    for _ in range(sweeps):
        p = (a0 + wins.sum(axis=1)) / (b0 + (games / (p[:, None] + p[None, :])).sum(axis=1))
    return p


def _scaled(theta: F8, a0: float, b0: float) -> F8:
    """Fix the common scale: geometric mean 1 without a prior, else mean p = a0 / b0, which every fixed point has."""
    if b0 == 0:
        return theta - theta.mean(axis=-1, keepdims=True)
    top = theta.max(axis=-1, keepdims=True)
    return theta - top - np.log(np.exp(theta - top).mean(axis=-1, keepdims=True)) + np.log(a0 / b0)


_DAVIDSON_ITERATIONS, _DAVIDSON_STEP, _DAVIDSON_TOLERANCE = 200, 1.0, 1e-12


@dataclass(frozen=True)
class VoteMoments:
    """Moments of one vote in Davidson's model (Davidson 1970, JASA 65), [S, S], row against column.

    With z = (p_a / p_b)^(1/2), a wins : b wins : tie = z : 1/z : nu. It is an exponential family in the value of a vote
    (1, 0, 1/2) and in whether it is a tie, so gradients are observed minus expected moments, and the information is a
    covariance.
    """

    point: F8  # mean value to the row
    tie: F8  # probability of a tie
    point_variance: F8  # variance of the value
    covariance: F8  # of the value and the tie indicator


def vote_moments(log_p: F8, nu: float) -> VoteMoments:
    """Moments at log strengths [S]."""
    half = (log_p[:, None] - log_p[None, :]) / 2
    parts = np.exp(np.stack([half, -half]))
    win, loss = parts / (parts.sum(axis=0) + nu)
    tie = 1 - win - loss
    point = win + tie / 2
    return VoteMoments(point, tie, win + tie / 4 - point**2, tie * (0.5 - point))


def information(log_p: F8, nu: float, games: F8) -> F8:
    """Information in (ln p, ln nu), [S + 1, S + 1], of ``games`` [S, S]; singular along a common change of ln p."""
    moments, size = vote_moments(log_p, nu), len(log_p)
    matrix = np.zeros((size + 1, size + 1))
    weight = games * moments.point_variance
    matrix[:size, :size] = np.diag(weight.sum(axis=1)) - weight
    matrix[:size, size] = matrix[size, :size] = (games * moments.covariance).sum(axis=1)
    matrix[size, size] = (games * moments.tie * (1 - moments.tie)).sum() / 2
    return matrix


def solve_davidson(wins: F8, ties: F8) -> tuple[F8, float]:
    """ln p [S] at geometric mean 1, and nu; the caller checks that wins connect all systems.

    ``wins`` [S, S] are decided votes, row beats column; ``ties`` [S, S] half a tie to each of the two.
    """
    size, tie_count = len(wins), float(ties.sum())
    games = wins + wins.T + ties + ties.T
    theta, eta = np.zeros(size), np.log(max(2 * tie_count, 1.0) / max(float(wins.sum()), 1.0))
    won = (wins + ties).sum(axis=1)
    for _ in range(_DAVIDSON_ITERATIONS):
        nu = float(np.exp(eta)) if tie_count else 0.0
        moments = vote_moments(theta, nu)
        gradient = np.append(won - (games * moments.point).sum(axis=1), tie_count - (games * moments.tie).sum() / 2)
        hessian = information(theta, nu, games)
        hessian[:size, :size] += 1 / size  # the common scale is free
        if not tie_count:
            hessian[size, size] = 1.0
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < _DAVIDSON_TOLERANCE:
            return theta - theta.mean(), nu
        step *= min(1.0, _DAVIDSON_STEP / float(np.abs(step).max()))
        theta, eta = theta + step[:size], eta + float(step[size])
    raise AssertionError("Newton's method did not settle on a concave likelihood")


FitMethod = Literal["mle", "gamma", "dsm", "davidson"]
FIT_METHODS: tuple[FitMethod, ...] = ("mle", "gamma", "dsm", "davidson")

ELO_PER_E = 400 / np.log(10)
DSM_SWEEPS = 30
GAMMA_LABEL = "by independent Gammas, votes as independent"


@dataclass(frozen=True)
class Fit:
    """Estimated strengths."""

    method: FitMethod
    a0: float
    b0: float
    log_p: F8  # [S], ln p; NaN if the estimate does not exist
    wins: F8  # [S, S], row beats column, a tie is half a win each
    shape: F8  # [S], of the posterior Gamma of each p; undefined without a prior
    rate: F8  # [S], likewise
    connected: bool  # whether wins connect all systems in both directions
    reason: str | None  # why there are no strengths; None if there are
    tie: float | None = None  # Davidson's nu, the tie parameter; None in the other methods

    def elo(self, c: float = 2000.0) -> F8:
        """Elo scores [S]."""
        return c + ELO_PER_E * self.log_p


@dataclass(frozen=True)
class EloIntervals:
    """Intervals of scores and differences; arrays are NaN where not estimable."""

    low: F8  # [S], bounds of the scores on the scale with constant c
    high: F8
    difference_low: F8  # [S, S], bounds of the score of the row minus that of the column
    difference_high: F8
    better: F8  # [S, S], P(row's score is above column's), as defined in ``better_label``; 0.5 on the diagonal
    label: str  # how the intervals were made
    better_label: str
    p: F8 | None = None  # [S, S], two-sided p values of no difference; None if there is no test
    reason: str | None = None  # why there are no intervals; None if there are


def fit(votes: Votes, method: FitMethod = "gamma", a0: float = 0.1, b0: float = 0.1) -> Fit:
    """Estimate strengths.

    Methods:
        mle: maximum likelihood at geometric mean 1; exists only if wins connect all systems.
        gamma: prior Gamma(a0, rate b0) on each p, fixed point of the update of Caron & Doucet.
        dsm: the same update stopped after 30 sweeps, as in paper 002; differences have nearly converged, the common
            scale has not.
        davidson: maximum likelihood of Davidson's model (1970), in which a tie is an outcome of its own rather than
            half a win each, so that ties do not shrink differences.

    Raises BadOption: an unknown method, or prior parameters outside 0.001 to 1000.
    """
    if method not in FIT_METHODS:
        raise BadOption(f"{method!r} is not a scoring method", f"choose {', '.join(FIT_METHODS)}")
    if not (1e-3 <= a0 <= 1e3 and 1e-3 <= b0 <= 1e3):
        raise BadOption(f"the prior is {a0}, {b0}", "shape a0 and rate b0 must be 0.001 to 1000")
    wins = win_matrix(votes)
    if method == "mle" or method == "davidson":
        return _without_prior(votes, wins, method)
    log_p = np.log(sweep(wins, a0, b0, DSM_SWEEPS)) if method == "dsm" else solve(wins, a0, b0)
    # As in paper 002, the Gamma whose mean is the last p.
    shape = a0 + wins.sum(axis=1)
    rate = shape / np.exp(log_p)
    return Fit(method, a0, b0, log_p, wins, shape, rate, len(groups(wins)) < 2, None)


def _without_prior(votes: Votes, wins: F8, method: FitMethod) -> Fit:
    # In Davidson's model ties do not connect systems: against an undefeated system they only inform the tie parameter.
    decided = wins if method == "mle" else win_matrix(votes.where(~undecided(votes)))
    connected_groups = groups(decided)
    reason = _missing_reason(decided, wins, votes.systems, connected_groups)
    missing, tie = np.full(len(wins), np.nan), None
    if reason:
        log_p = missing
    elif method == "mle":
        log_p = solve(wins)
    else:
        log_p, tie = solve_davidson(decided, wins - decided)
    return Fit(method, 0.0, 0.0, log_p, wins, missing, missing, len(groups(wins)) < 2, reason, tie)


def gamma_quantiles(fitted: Fit, c: float = 2000.0, level: float = 0.95) -> EloIntervals:
    """Interval of paper 002: quantiles of each Gamma(shape, rate), the other strengths taken as known.

    It is too narrow for strong systems and ignores raters. Differences are quantiles of a ratio of independent Gammas.
    """
    assert fitted.a0 > 0, "there is no Gamma without a prior"
    a, b = fitted.shape, fitted.rate
    ends = [c + ELO_PER_E * np.log(gamma_inverse(a, q) / b) for q in tail_probabilities(level)]
    scale = np.log(b[None, :] / b[:, None])
    ratio = [log_gamma_ratio_inverse(a[:, None], a[None, :], q) for q in tail_probabilities(level)]
    apart = [ELO_PER_E * (scale + r) for r in ratio]
    for matrix in apart:
        np.fill_diagonal(matrix, 0.0)
    better = 1 - beta_cdf(a[:, None], a[None, :], b[:, None] / (b[:, None] + b[None, :]))
    np.fill_diagonal(better, 0.5)
    return EloIntervals(ends[0], ends[1], apart[0], apart[1], better, "DSM-compatible: Gamma quantiles", GAMMA_LABEL)


def centred(elo: F8) -> F8:
    """Scores [..., S] minus their mean: the common scale is arbitrary."""
    return elo - elo.mean(axis=-1, keepdims=True)


def components(wins: F8) -> I8:
    """Label [S] of each system's group; votes of any outcome connect systems, directly or through others."""
    return _labels(wins, directed=False)


def _labels(wins: F8, **connected: Any) -> I8:
    graph = scipy.sparse.csr_array(wins > 0)
    return np.asarray(scipy.sparse.csgraph.connected_components(graph, **connected)[1], np.int64)


def _missing_reason(wins: F8, games: F8, systems: list[str], strong: list[list[int]]) -> str | None:
    """Why maximum likelihood does not exist; ``games`` [S, S] includes ties, which ``wins`` may lack."""
    if not games.any():
        return "there are no votes"
    if not wins.any():
        return "every vote is a tie or 'both bad', so Davidson's model has no finite solution; use gamma or mle"
    if len(strong) < 2:
        return None
    for group in strong:
        names = ", ".join(systems[i] for i in group[:4])
        name = names if len(group) < 5 else f"{names} and {len(group) - 4} more"
        inside = np.isin(np.arange(len(wins)), group)
        won, lost = wins[inside][:, ~inside].any(), wins[~inside][:, inside].any()
        if not (won and lost):
            met = games[inside][:, ~inside].any()
            verb = "was" if len(group) == 1 else "were"
            apart = f"{verb} only tied with" if met else f"{verb} never compared with"
            did = apart if not won and not lost else "never lost to" if won else "never won against"
            return (
                f"maximum likelihood has no finite solution: {name} {did} the other systems; "
                "collect more votes, or use gamma"
            )
    raise AssertionError("a graph of strong groups has an end")
