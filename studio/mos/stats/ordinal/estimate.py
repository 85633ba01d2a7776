"""Penalised maximum likelihood of a cumulative logit mixed model, and the covariance of the estimates."""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8
from studio.mos.stats.ordinal.likelihood import OrdinalLikelihood

DEVIATION_PRIOR_MODE = 1.0  # of standard deviations, in logits: Gamma(shape 2, rate 1 / mode)
LOCATION_PRIOR_SD = 3.0  # in logits: odds of 20 to 1
_LEAST, _MOST = np.log(1e-4), 4.0  # bounds of ln standard deviations
_STEP = 1e-4  # of central differences
_MAX_GRADIENT = 0.05  # at convergence


@dataclass(frozen=True)
class Estimate:
    """Thresholds [K - 1], locations [S] and standard deviations [G], in logits.

    Attributes:
        covariance: of the three concatenated, [K - 1 + S + G, K - 1 + S + G].
        log_likelihood: without the prior.
    """

    thresholds: F8
    locations: F8
    sd: F8
    covariance: F8
    log_likelihood: float


def estimate(level: I8, system: I8, groupings: Sequence[I8], prior: bool) -> Estimate:
    """Mode of likelihood and prior, with the inverse of the curvature there.

    Args:
        level: code of each score [N], without gaps.
        system: code of each score's system [N], without gaps.
        groupings: code of each score's group [N] for every term, without gaps.
        prior: False for the likelihood alone.

    Raises:
        BadOption: no convergence.
    """
    target = _PenalisedLikelihood(level, system, groupings, prior)
    bounds = [(None, None)] * target.fixed + [(_LEAST, _MOST)] * len(groupings)
    options = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-6}
    optimum: Any = optimize.minimize(
        target.loss, target.start(), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    free: F8 = np.asarray(optimum.x, np.float64)
    slope = target.loss(free)[1]
    inside = (free > _LEAST + 1) | (np.arange(len(free)) < target.fixed)
    if not np.isfinite(slope).all() or np.abs(slope[inside]).max() > _MAX_GRADIENT:
        raise BadOption("the model does not converge", "use the means")
    jacobian = target.jacobian(free)[:, inside]
    covariance = jacobian @ _inverse(_curvature(target.loss, free, inside)) @ jacobian.T
    thresholds, locations, log_sd = target.parts(free)
    value = target.likelihood.at(thresholds, locations[system], log_sd)[0]
    return Estimate(thresholds, locations, np.exp(log_sd), covariance, value)


class _PenalisedLikelihood:
    """Objective in unconstrained parameters.

    These are the first threshold, ln of the gaps between thresholds, locations as orthogonal contrasts (with mean
    zero), and ln standard deviations.
    """

    def __init__(self, level: I8, system: I8, groupings: Sequence[I8], prior: bool) -> None:
        self.likelihood = OrdinalLikelihood(level, groupings)
        self._level, self._system, self._prior = level, system, prior
        self._cuts, self._systems, self._terms = int(level.max()), int(system.max()) + 1, len(groupings)
        self.fixed = self._cuts + self._systems - 1
        # Columns orthogonal to the mean and to each other.
        mean = np.ones((self._systems, 1))
        self._contrasts: F8 = np.linalg.qr(np.hstack([mean, np.eye(self._systems)[:, 1:]]))[0][:, 1:]

    def start(self) -> F8:
        """Thresholds for equal systems; standard deviations at the mode of the prior."""
        below = np.cumsum(np.bincount(self._level))[:-1] / len(self._level)
        cuts = np.log(below / (1 - below)) * 1.5
        return np.concatenate(
            [
                cuts[:1],
                np.log(np.diff(cuts)),
                np.zeros(self._systems - 1),
                np.full(self._terms, np.log(DEVIATION_PRIOR_MODE)),
            ]
        )

    def parts(self, free: F8) -> tuple[F8, F8, F8]:
        """Thresholds, locations, ln standard deviations."""
        cuts, contrasts, log_sd = np.split(free, [self._cuts, self.fixed])
        return np.cumsum(np.concatenate([cuts[:1], np.exp(cuts[1:])])), self._contrasts @ contrasts, log_sd

    def jacobian(self, free: F8) -> F8:
        """Derivatives of thresholds, locations and standard deviations by the free parameters."""
        out = np.zeros((self._cuts + self._systems + self._terms, len(free)))
        out[: self._cuts, : self._cuts] = np.tril(np.concatenate([[1.0], np.exp(free[1 : self._cuts])]))
        out[self._cuts : self._cuts + self._systems, self._cuts : self.fixed] = self._contrasts
        out[self._cuts + self._systems :, self.fixed :] = np.diag(np.exp(free[self.fixed :]))
        return out

    def loss(self, free: F8) -> tuple[float, F8]:
        """Negative log of likelihood and prior, and its gradient."""
        thresholds, locations, log_sd = self.parts(free)
        value, by = self.likelihood.at(thresholds, locations[self._system], log_sd)
        by_location, by_sd = np.bincount(self._system, by.eta, self._systems), by.log_sd * np.exp(-log_sd)
        if self._prior:
            sd = np.exp(log_sd)
            value += float(
                (log_sd - sd / DEVIATION_PRIOR_MODE).sum() - 0.5 * (locations @ locations) / LOCATION_PRIOR_SD**2
            )
            by_sd, by_location = (
                by_sd + 1 / sd - 1 / DEVIATION_PRIOR_MODE,
                by_location - locations / LOCATION_PRIOR_SD**2,
            )
        return -value, -np.concatenate([by.thresholds, by_location, by_sd]) @ self.jacobian(free)


def _curvature(loss: Any, free: F8, inside: Any) -> F8:
    """Hessian by central differences of the gradient, without parameters at a bound."""
    rows: list[F8] = []
    for at in np.flatnonzero(inside):
        step = np.zeros(len(free))
        step[at] = _STEP
        rows.append((loss(free + step)[1] - loss(free - step)[1])[inside] / (2 * _STEP))
    hessian = np.array(rows)
    return (hessian + hessian.T) / 2


def _inverse(curvature: F8) -> F8:
    values, vectors = np.linalg.eigh(curvature)
    if values.min() <= 0:
        raise BadOption("the model does not converge", "use the means")
    return (vectors / values) @ vectors.T
