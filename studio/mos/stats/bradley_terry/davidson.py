"""Davidson's model of pairs with ties (Davidson 1970, JASA 65): maximum likelihood.

With z = (p_a / p_b)^(1/2), a wins : b wins : tie = z : 1/z : nu. It is an exponential family in what a vote is worth
to a (1, 0, 1/2) and in whether it is a tie, so that slopes are what was seen less what is expected, and the curvature
is a covariance.
"""

from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import F8

_MOST_TURNS = 200
_MAX_STEP = 1.0
_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Expected:
    """Moments of one vote between each two systems, [S, S] by row against column.

    Attributes:
        point: mean of what it is worth to the row.
        tie: chance of a tie.
        point_variance: of what it is worth.
        covariance: of what it is worth and whether it is a tie.
    """

    point: F8
    tie: F8
    point_variance: F8
    covariance: F8


def expected(log_p: F8, nu: float) -> Expected:
    """The moments at strengths [S]."""
    half = (log_p[:, None] - log_p[None, :]) / 2
    parts = np.exp(np.stack([half, -half]))
    win, loss = parts / (parts.sum(axis=0) + nu)
    tie = 1 - win - loss
    point = win + tie / 2
    return Expected(point, tie, win + tie / 4 - point**2, tie * (0.5 - point))


def information(log_p: F8, nu: float, games: F8) -> F8:
    """Curvature of the log likelihood in (ln p, ln nu), [S + 1, S + 1], of so many games [S, S].

    It is flat along a common change of ln p.
    """
    at, size = expected(log_p, nu), len(log_p)
    bend = np.zeros((size + 1, size + 1))
    weight = games * at.point_variance
    bend[:size, :size] = np.diag(weight.sum(axis=1)) - weight
    bend[:size, size] = bend[size, :size] = (games * at.covariance).sum(axis=1)
    bend[size, size] = (games * at.tie * (1 - at.tie)).sum() / 2
    return bend


def solve(wins: F8, ties: F8) -> tuple[F8, float]:
    """ln p [S] at geometric mean 1, and nu; the caller has to know that wins connect all systems.

    Args:
        wins: [S, S], decided votes, row beats column.
        ties: [S, S], half a tie to each of the two.
    """
    size, said = len(wins), float(ties.sum())
    games = wins + wins.T + ties + ties.T
    theta, eta = np.zeros(size), np.log(max(2 * said, 1.0) / max(float(wins.sum()), 1.0))
    won = (wins + ties).sum(axis=1)
    for _ in range(_MOST_TURNS):
        nu = float(np.exp(eta)) if said else 0.0
        at = expected(theta, nu)
        slope = np.append(won - (games * at.point).sum(axis=1), said - (games * at.tie).sum() / 2)
        bend = information(theta, nu, games)
        bend[:size, :size] += 1 / size  # the common scale is free
        if not said:
            bend[size, size] = 1.0
        step = np.linalg.solve(bend, slope)
        if slope @ step < _TOLERANCE:
            return theta - theta.mean(), nu
        step *= min(1.0, _MAX_STEP / float(np.abs(step).max()))
        theta, eta = theta + step[:size], eta + float(step[size])
    raise AssertionError("Newton's method did not settle on a concave likelihood")
