"""How small a p value has to be at each of several looks, so that all looks together err as seldom as one.

Lan & DeMets (1983, Biometrika 70): a function says how much of the error may be spent by each share of the raters; the
levels follow by integrating a Gaussian walk look by look (Armitage, McPherson & Rowe 1969). Any number of looks will
do, at any shares, since what is spent does not depend on how often one looks. Answers of later raters on the same
scripts hang together with those of earlier ones more than the walk's, so that the error is less than said, not more.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8
from studio.mos.stats.distributions import normal_cdf, normal_inverse

Spending = Literal["obrien_fleming", "pocock"]
_POINTS = 201  # of the walk's distribution at a look
_FAR = 10.0  # standard deviations, beyond which nobody comes
_EXACT = 1e-10


def spent(share: float, alpha: float = 0.05, spending: Spending = "obrien_fleming") -> float:
    """The two-sided error that may have been spent when ``share`` of all raters has finished.

    ``obrien_fleming`` is 4 (1 - Phi(z / sqrt(share))) with z of alpha / 4, half to either side: next to nothing early.
    ``pocock`` is alpha ln(1 + (e - 1) share): about as much at each look.

    Raises:
        BadOption: another function, or a share outside 0 to 1.
    """
    if not 0 < share <= 1:
        raise BadOption(f"the share is {share}", "it is above 0, 1 at most")
    if spending == "obrien_fleming":
        return float(4 * normal_cdf(normal_inverse(alpha / 4) / np.sqrt(share)))
    if spending == "pocock":
        return float(alpha * np.log(1 + (np.e - 1) * share))
    raise BadOption(f"{spending!r} is no way of spending the error", "known are obrien_fleming, pocock")


def levels(looks: Sequence[int], alpha: float = 0.05, spending: Spending = "obrien_fleming") -> list[float]:
    """The p value, two-sided, at or under which a difference is beyond doubt at each look.

    Args:
        looks: rising numbers of raters; at the last all of the error is spent.
        alpha: of all looks together.
        spending: how it is spread over them (``spent``).
    """
    return list(_levels(tuple(looks), alpha, spending))


@lru_cache(64)
def _levels(looks: tuple[int, ...], alpha: float, spending: Spending) -> tuple[float, ...]:
    found: list[float] = []
    share, before = np.array(looks, np.float64) / looks[-1], 0.0
    at, density = np.zeros(1), np.ones(1)  # of the walk that has not crossed yet: where it is, with what weight
    for k, now in enumerate(share):
        step = float(np.sqrt(now - (share[k - 1] if k else 0.0)))
        total = spent(float(now), alpha, spending)
        edge = _edge(at, density, step, total - before, _FAR * float(np.sqrt(now)))
        found.append(float(2 * normal_cdf(-edge / np.sqrt(now))))
        nodes, weights = _grid(edge)
        density = weights * (_bell((nodes[:, None] - at[None, :]) / step) / step @ density)
        at, before = nodes, total
    return tuple(found)


def _edge(at: F8, density: F8, step: float, wanted: float, far: float) -> float:
    """Where the walk is on with its next step by the chance ``wanted``, to either side."""
    low, high = 0.0, far
    while high - low > _EXACT * far:
        middle = (low + high) / 2
        beyond = float(density @ (normal_cdf((at - middle) / step) + normal_cdf((-at - middle) / step)))
        low, high = (middle, high) if beyond > wanted else (low, middle)
    return high


def _grid(edge: float) -> tuple[F8, F8]:
    """Nodes and weights of an integral from -edge to edge (Gauss and Legendre)."""
    nodes, weights = _LEGENDRE
    return edge * nodes, edge * weights


def _bell(x: F8) -> F8:
    return np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)


_LEGENDRE: tuple[F8, F8] = np.polynomial.legendre.leggauss(_POINTS)
