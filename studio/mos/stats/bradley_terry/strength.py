"""Bradley-Terry strengths from win counts: the solver under ``fit`` and ``gibbs``.

P(i beats j) = p_i / (p_i + p_j). Win matrices are float [..., S, S], row beats column; a tie is half a win each.
"""

# scipy comes without types.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from studio.mos.stats.columns import BOTH_BAD, F8, I8, TIE, A, Mask, Votes

MAX_STEP = 2.0  # of ln p; Newton from far away would overshoot
TOLERANCE = 1e-14  # of the gain in log likelihood that a step still promises (twice)
MAX_TURNS = 500


def wins_of(votes: Votes) -> F8:
    """The win matrix [S, S] of all votes, ties and 'both bad' as half a win each."""
    size = len(votes.systems)
    point = points(votes)
    won = np.bincount(votes.a * size + votes.b, point, size * size)
    won += np.bincount(votes.b * size + votes.a, 1 - point, size * size)
    return won.reshape(size, size).astype(np.float64)


def points(votes: Votes) -> F8:
    """What each vote [N] is worth to its ``a``: 1, 0, or one half of a tie and of 'both bad'."""
    return np.where(undecided(votes), 0.5, (votes.outcome == A).astype(np.float64))


def undecided(votes: Votes) -> Mask:
    """Which votes [N] are a tie or 'both bad'."""
    return (votes.outcome == TIE) | (votes.outcome == BOTH_BAD)


def connected(wins: F8) -> bool:
    """Whether a chain of wins (a tie counts both ways) leads from every system to every other.

    Only then does the maximum-likelihood estimate exist (Ford 1957).
    """
    return len(groups(wins)) < 2


def groups(wins: F8) -> list[list[int]]:
    """The strongly connected groups of the systems, as lists of their indices."""
    label: I8 = np.asarray(connected_components(csr_array(wins > 0), directed=True, connection="strong")[1], np.int64)
    return [np.flatnonzero(label == g).tolist() for g in range(int(label.max(initial=-1)) + 1)]


def solve(wins: F8, a0: float = 0.0, b0: float = 0.0) -> F8:
    """ln p [..., S] where the likelihood times the prior Gamma(a0, rate b0) on p is stationary in ln p.

    That is the fixed point of the update of Caron & Doucet (2010), found by Newton's method; with a0 = b0 = 0 the
    maximum-likelihood estimate at geometric mean 1, which the caller has to know to exist (``connected``).

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
    for _ in range(MAX_TURNS):
        theta = _scaled(theta, a0, b0)
        chance = 1 / (1 + np.exp(np.clip(theta[..., None, :] - theta[..., :, None], -500, 500)))
        pull = b0 * np.exp(theta)
        slope = won - (games * chance).sum(axis=-1) - pull
        weight = games * chance * (1 - chance)
        bend = -weight
        bend[..., diagonal, diagonal] += weight.sum(axis=-1) + pull
        if b0 == 0:  # the common scale is free: any curvature along it will do, and the slope there is zero
            bend += bend[..., diagonal, diagonal].mean(axis=-1)[..., None, None] / size
        step: F8 = np.asarray(np.linalg.solve(bend, slope[..., None]), np.float64)[..., 0]
        length: F8 = np.abs(step).max(axis=-1, keepdims=True, initial=0.0)
        theta = theta + step * np.minimum(1.0, MAX_STEP / np.maximum(length, MAX_STEP))
        if (slope * step).sum(axis=-1).max(initial=0.0) < TOLERANCE:
            return _scaled(theta, a0, b0)
    raise AssertionError("Newton's method did not settle on a concave likelihood")


def sweep(wins: F8, a0: float, b0: float, sweeps: int) -> F8:
    """p [S] after simultaneous updates from p = 1, as paper 002 runs them (Caron & Doucet 2010, posterior mean)."""
    p = np.ones(len(wins))
    for _ in range(sweeps):
        p = (a0 + wins.sum(axis=1)) / (b0 + pressure(wins, p))
    return p


def pressure(wins: F8, p: F8) -> F8:
    """Sum over opponents of n_ij / (p_i + p_j), [S]: what the rate of each posterior Gamma adds to b0."""
    return ((wins + wins.T) / (p[:, None] + p[None, :])).sum(axis=1)


def _scaled(theta: F8, a0: float, b0: float) -> F8:
    """The common scale: geometric mean 1 without a prior, else the mean of p that every fixed point has, a0 / b0."""
    if b0 == 0:
        return theta - theta.mean(axis=-1, keepdims=True)
    top = theta.max(axis=-1, keepdims=True)
    return theta - top - np.log(np.exp(theta - top).mean(axis=-1, keepdims=True)) + np.log(a0 / b0)
