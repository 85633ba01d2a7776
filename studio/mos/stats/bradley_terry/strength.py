"""Solvers for the strengths of the Bradley-Terry model and of Davidson's model with ties.

P(i beats j) = p_i / (p_i + p_j). Win matrices are float [..., S, S], row beats column; a tie is half a win each.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from studio.mos.stats.columns import BOTH_BAD, F8, I8, TIE, A, Mask, Votes

MAX_STEP = 2.0  # of ln p; limits Newton steps
TOLERANCE = 1e-14  # twice the expected gain in log likelihood of a step
MAX_ITERATIONS = 500


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
    label: I8 = np.asarray(connected_components(csr_array(wins > 0), directed=True, connection="strong")[1], np.int64)
    return [np.flatnonzero(label == g).tolist() for g in range(int(label.max(initial=-1)) + 1)]


def solve(wins: F8, a0: float = 0.0, b0: float = 0.0) -> F8:
    """ln p [..., S] at which likelihood times prior Gamma(a0, rate b0) is stationary in ln p, by Newton's method.

    This is the fixed point of the update of Caron & Doucet (2010); with a0 = b0 = 0 the maximum-likelihood estimate at
    geometric mean 1, whose existence the caller checks (``groups``).

    Args:
        wins: [..., S, S].
        a0: shape of the prior.
        b0: rate of the prior.
    """
    size = wins.shape[-1]
    theta: F8 = np.zeros(wins.shape[:-1])
    games = wins + np.swapaxes(wins, -1, -2)
    won = wins.sum(axis=-1) + a0
    diagonal = np.arange(size)
    for _ in range(MAX_ITERATIONS):
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
        theta = theta + step * np.minimum(1.0, MAX_STEP / np.maximum(length, MAX_STEP))
        if (gradient * step).sum(axis=-1).max(initial=0.0) < TOLERANCE:
            return _scaled(theta, a0, b0)
    raise AssertionError("Newton's method did not settle on a concave likelihood")


def sweep(wins: F8, a0: float, b0: float, sweeps: int) -> F8:
    """p [S] after simultaneous updates from p = 1, as in paper 002 (Caron & Doucet 2010, posterior mean)."""
    p = np.ones(len(wins))
    for _ in range(sweeps):
        p = (a0 + wins.sum(axis=1)) / (b0 + rate_update(wins, p))
    return p


def rate_update(wins: F8, p: F8) -> F8:
    """Sum over opponents of n_ij / (p_i + p_j), [S]: the data's addition to the rate of each posterior Gamma."""
    return ((wins + wins.T) / (p[:, None] + p[None, :])).sum(axis=1)


def _scaled(theta: F8, a0: float, b0: float) -> F8:
    """Fix the common scale: geometric mean 1 without a prior, else mean p = a0 / b0, which every fixed point has."""
    if b0 == 0:
        return theta - theta.mean(axis=-1, keepdims=True)
    top = theta.max(axis=-1, keepdims=True)
    return theta - top - np.log(np.exp(theta - top).mean(axis=-1, keepdims=True)) + np.log(a0 / b0)


_MAX_ITERATIONS = 200
_MAX_STEP = 1.0
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class VoteMoments:
    """Moments of one vote in Davidson's model (Davidson 1970, JASA 65), [S, S], row against column.

    With z = (p_a / p_b)^(1/2), a wins : b wins : tie = z : 1/z : nu. It is an exponential family in the value of a vote
    (1, 0, 1/2) and in whether it is a tie, so gradients are observed minus expected moments, and the information is a
    covariance.

    Attributes:
        point: mean value to the row.
        tie: probability of a tie.
        point_variance: variance of the value.
        covariance: of the value and the tie indicator.
    """

    point: F8
    tie: F8
    point_variance: F8
    covariance: F8


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

    Args:
        wins: [S, S], decided votes, row beats column.
        ties: [S, S], half a tie to each of the two.
    """
    size, tie_count = len(wins), float(ties.sum())
    games = wins + wins.T + ties + ties.T
    theta, eta = np.zeros(size), np.log(max(2 * tie_count, 1.0) / max(float(wins.sum()), 1.0))
    won = (wins + ties).sum(axis=1)
    for _ in range(_MAX_ITERATIONS):
        nu = float(np.exp(eta)) if tie_count else 0.0
        moments = vote_moments(theta, nu)
        gradient = np.append(won - (games * moments.point).sum(axis=1), tie_count - (games * moments.tie).sum() / 2)
        hessian = information(theta, nu, games)
        hessian[:size, :size] += 1 / size  # the common scale is free
        if not tie_count:
            hessian[size, size] = 1.0
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < _TOLERANCE:
            return theta - theta.mean(), nu
        step *= min(1.0, _MAX_STEP / float(np.abs(step).max()))
        theta, eta = theta + step[:size], eta + float(step[size])
    raise AssertionError("Newton's method did not settle on a concave likelihood")
