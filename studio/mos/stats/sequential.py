"""Group-sequential testing: nominal p values at several looks that keep the overall type I error.

Error spending after Lan & DeMets (1983, Biometrika 70): a function gives the error that may be spent at each
information fraction; the levels follow by numerical integration of a Gaussian walk (Armitage, McPherson & Rowe 1969).
Number and times of looks are free. Later raters on the same scripts are more correlated with earlier ones than the walk
assumes, so the actual error is smaller than nominal.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8
from studio.mos.stats.distributions import normal_cdf, normal_inverse

Spending = Literal["obrien_fleming", "pocock"]
_POINTS = 201  # quadrature nodes per look
_MAX_Z = 10.0  # upper limit of boundaries, in standard deviations
_TOLERANCE = 1e-10


def alpha_spent(share: float, alpha: float = 0.05, spending: Spending = "obrien_fleming") -> float:
    """Cumulative two-sided error at ``share`` of all raters.

    ``obrien_fleming`` is 4 (1 - Phi(z / sqrt(share))) with z of alpha / 4: almost nothing early.
    ``pocock`` is alpha ln(1 + (e - 1) share): about the same at each look.

    Raises:
        BadOption: an unknown function, or a share outside (0, 1].
    """
    if not 0 < share <= 1:
        raise BadOption(f"the share is {share}", "it must be in (0, 1]")
    if spending == "obrien_fleming":
        return float(4 * normal_cdf(normal_inverse(alpha / 4) / np.sqrt(share)))
    if spending == "pocock":
        return float(alpha * np.log(1 + (np.e - 1) * share))
    raise BadOption(f"{spending!r} is not a spending function", "choose obrien_fleming, pocock")


def nominal_levels(looks: Sequence[int], alpha: float = 0.05, spending: Spending = "obrien_fleming") -> list[float]:
    """Two-sided nominal level at each look.

    Args:
        looks: increasing numbers of raters; all error is spent at the last one.
        alpha: overall error.
        spending: spending function (``alpha_spent``).
    """
    return list(_nominal_levels(tuple(looks), alpha, spending))


@lru_cache(64)
def _nominal_levels(looks: tuple[int, ...], alpha: float, spending: Spending) -> tuple[float, ...]:
    levels: list[float] = []
    share, spent = np.array(looks, np.float64) / looks[-1], 0.0
    at, density = np.zeros(1), np.ones(1)  # of the walk before crossing
    for k, now in enumerate(share):
        step = float(np.sqrt(now - (share[k - 1] if k else 0.0)))
        total = alpha_spent(float(now), alpha, spending)
        edge = _boundary(at, density, step, total - spent, _MAX_Z * float(np.sqrt(now)))
        levels.append(float(2 * normal_cdf(-edge / np.sqrt(now))))
        nodes, weights = _grid(edge)
        density = weights * (_normal_density((nodes[:, None] - at[None, :]) / step) / step @ density)
        at, spent = nodes, total
    return tuple(levels)


def _boundary(at: F8, density: F8, step: float, probability: float, bound: float) -> float:
    """Boundary that the walk crosses in its next step with ``probability``, on either side."""
    low, high = 0.0, bound
    while high - low > _TOLERANCE * bound:
        middle = (low + high) / 2
        crossing = float(density @ (normal_cdf((at - middle) / step) + normal_cdf((-at - middle) / step)))
        low, high = (middle, high) if crossing > probability else (low, middle)
    return high


def _grid(edge: float) -> tuple[F8, F8]:
    """Gauss-Legendre nodes and weights on [-edge, edge]."""
    nodes, weights = _LEGENDRE
    return edge * nodes, edge * weights


def _normal_density(x: F8) -> F8:
    return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


_LEGENDRE: tuple[F8, F8] = np.polynomial.legendre.leggauss(_POINTS)
