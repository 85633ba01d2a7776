"""Cumulative logit mixed model of opinion scores, with random raters and scripts: a second analysis, besides means.

The probability that rater r gives script i by system s at most level c_k is

    P(Y <= c_k) = logistic(theta_k - beta_s - u_r - v_i - w_rs - z_is)

with thresholds theta, system locations beta, and normal effects of raters (u), scripts (v), rater x system (w, "taste")
and script x system (z, "favour") (Agresti 2010, "Analysis of Ordinal Categorical Data", chapter 10; Christensen 2019,
R's ``ordinal``). Scores are treated as ordered categories: equal distances are not assumed. The fit is maximum
likelihood in the Laplace approximation, with a weak prior that keeps standard deviations above zero for few raters or
scripts (Chung et al. 2013, Psychometrika 78), and locations finite for a system with only the best score.
"""

# scipy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy

from studio.core.errors import BadOption
from studio.core.plurals import counted
from studio.mos.stats.clusters import degrees_of_freedom, effective_clusters
from studio.mos.stats.columns import F8, I8, Ratings, ScoreScale, distinct
from studio.mos.stats.interval import Interval, count_distinct, logistic, logit, t_cdf, t_quantile
from studio.mos.stats.means import Difference, with_holm
from studio.mos.stats.ordinal_likelihood import OrdinalLikelihood

DEVIATION_PRIOR_MODE = 1.0  # of standard deviations, in logits: Gamma(shape 2, rate 1 / mode)
LOCATION_PRIOR_SD = 3.0  # in logits: odds of 20 to 1
_LEAST, _MOST = np.log(1e-4), 4.0  # bounds of ln standard deviations
_STEP = 1e-4  # of central differences
_MAX_GRADIENT = 0.05  # at convergence


@dataclass(frozen=True)
class Estimate:
    """Thresholds [K - 1], locations [S] and standard deviations [G], in logits."""

    thresholds: F8
    locations: F8
    sd: F8
    covariance: F8  # of the three concatenated, [K - 1 + S + G, K - 1 + S + G]
    log_likelihood: float  # without the prior


def estimate(level: I8, system: I8, groupings: Sequence[I8], prior: bool) -> Estimate:
    """Mode of likelihood and prior, with the inverse of the curvature there. Raises BadOption without convergence.

    ``level`` and ``system`` are codes [N] of each score, ``groupings`` the groups [N] of each term, all without gaps.
    """
    target = _PenalisedLikelihood(level, system, groupings, prior)
    bounds = [(None, None)] * target.fixed + [(_LEAST, _MOST)] * len(groupings)
    options = {"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-6}
    optimum: Any = scipy.optimize.minimize(
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
        log_sd = np.full(self._terms, np.log(DEVIATION_PRIOR_MODE))
        return np.concatenate([cuts[:1], np.log(np.diff(cuts)), np.zeros(self._systems - 1), log_sd])

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
            location_prior = 0.5 * (locations @ locations) / LOCATION_PRIOR_SD**2
            value += float((log_sd - sd / DEVIATION_PRIOR_MODE).sum() - location_prior)
            by_sd = by_sd + 1 / sd - 1 / DEVIATION_PRIOR_MODE
            by_location = by_location - locations / LOCATION_PRIOR_SD**2
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


Term = Literal["rater", "script", "taste", "favour"]
TERMS: tuple[Term, ...] = ("rater", "script", "taste", "favour")
MOST_LEVELS = 11  # of an ordinal scale
MOST_EFFECTS = 4000  # above it a fit takes minutes
_NODES: tuple[F8, F8] = np.polynomial.hermite_e.hermegauss(41)  # Gauss-Hermite


@dataclass(frozen=True)
class OrdinalResult:
    """Estimates of the model."""

    systems: dict[str, Interval]  # expected mean score of each rated system, by other raters on other scripts
    locations: dict[str, Interval]  # of each system in logits, with mean zero
    differences: list[Difference]  # of locations in logits, for every pair; exp of one is an odds ratio
    levels: list[float]  # observed scores
    thresholds: list[float]  # between them, in logits
    sd: dict[str, float]  # standard deviation of each term, in logits; that of single answers is pi / sqrt(3) = 1.81
    log_likelihood: float  # without the prior


def ordinal_model(ratings: Ratings, terms: Sequence[Term] = TERMS, prior: bool = True) -> OrdinalResult:
    """Fit the model to scores on a scale of few levels.

    Intervals are based on the curvature of the likelihood in all parameters and use t with min(R*, I*) - 1 degrees of
    freedom (``clusters.effective_clusters``). The interval of a mean is computed for its logit on the scale, so it
    stays on the scale. Raises BadOption: fewer than two raters or scripts, equal scores only, too many levels or
    effects, or no convergence.

    Args:
        terms: random effects; a single system has neither taste nor favour.
        prior: False for plain maximum likelihood as in R's ``ordinal::clmm``, which may diverge for small tests.
    """
    used = distinct(ratings.system)
    system = np.searchsorted(used, ratings.system).astype(np.int64)
    levels, answer = np.unique(ratings.score, return_inverse=True)
    groupings = _groupings(ratings, system, len(used), terms)
    _check(ratings, levels, groupings)
    fitted = estimate(answer.astype(np.int64), system, list(groupings.values()), prior)
    summary = _Summary(ratings, used, levels, fitted)
    sd = {str(term): float(value) for term, value in zip(groupings, fitted.sd, strict=True)}
    return OrdinalResult(
        summary.means(),
        summary.locations(),
        summary.differences(),
        levels.tolist(),
        fitted.thresholds.tolist(),
        sd,
        fitted.log_likelihood,
    )


def _groupings(ratings: Ratings, system: I8, systems: int, terms: Sequence[Term]) -> dict[Term, I8]:
    by: dict[Term, I8] = {"rater": ratings.rater, "script": ratings.item}
    if systems > 1:
        by |= {"taste": ratings.rater * systems + system, "favour": ratings.item * systems + system}
    return {term: np.unique(by[term], return_inverse=True)[1].astype(np.int64) for term in terms if term in by}


def _check(ratings: Ratings, levels: F8, groupings: dict[Term, I8]) -> None:
    if not len(ratings):
        raise BadOption("there are no ratings", "the model needs at least two raters and two scripts")
    raters, scripts = count_distinct(ratings.rater), count_distinct(ratings.item)
    effects = sum(int(codes.max()) + 1 for codes in groupings.values())
    if raters < 2 or scripts < 2:
        raise BadOption(
            f"the answers are of {counted(raters, 'rater')} and {counted(scripts, 'script')}",
            "the model needs at least two of each",
        )
    if len(levels) < 2:
        raise BadOption("all scores are equal", "the model needs at least two levels")
    if len(levels) > MOST_LEVELS:
        raise BadOption(f"the scores have {len(levels)} levels", f"the model supports at most {MOST_LEVELS}")
    if effects > MOST_EFFECTS:
        raise BadOption(f"raters and scripts have {effects} effects", f"the model supports at most {MOST_EFFECTS}")


class _Summary:
    """Intervals of an estimate."""

    def __init__(self, ratings: Ratings, used: I8, levels: F8, fitted: Estimate) -> None:
        self._ratings, self._used, self._levels, self._fitted = ratings, used, levels, fitted
        self._scale = ratings.scale or ScoreScale(float(levels[0]), float(levels[-1]))
        sizes = (np.bincount(codes).astype(np.float64) for codes in (ratings.rater, ratings.item))
        self._df = float(degrees_of_freedom(*map(effective_clusters, sizes)))
        self._reach = t_quantile(self._df, 0.95)
        self._cuts = len(fitted.thresholds)

    def means(self) -> dict[str, Interval]:
        intervals: dict[str, Interval] = {}
        for at, code in enumerate(self._used):
            mean, slope = self._mean(at)
            low, high = self._scale.low, self._scale.high
            share, se = (mean - low) / (high - low), self._se(slope)
            half_width = self._reach * se / ((high - low) * share * (1 - share))
            bounds = low + (high - low) * logistic(logit(share) + np.array([-half_width, half_width]))
            intervals[self._ratings.systems[code]] = self._interval(mean, se, bounds, [code])
        return intervals

    def locations(self) -> dict[str, Interval]:
        return {
            self._ratings.systems[code]: self._about(self._fitted.locations[at], self._slope({at: 1}), [code])
            for at, code in enumerate(self._used)
        }

    def _slope(self, weights: Mapping[int, float]) -> F8:
        """Gradient of a weighted sum of locations with respect to all parameters."""
        slope = np.zeros(len(self._fitted.covariance))
        for at, weight in weights.items():
            slope[self._cuts + at] = weight
        return slope

    def differences(self) -> list[Difference]:
        names, result = self._ratings.systems, list[Difference]()
        coded = [(at, int(code)) for at, code in enumerate(self._used)]
        for (at, a), (other, b) in combinations(coded, 2):
            slope = self._slope({at: 1, other: -1})
            gap = self._fitted.locations[at] - self._fitted.locations[other]
            p = float(2 * t_cdf(self._df, -abs(gap) / self._se(slope)))
            result.append(Difference(names[a], names[b], self._about(gap, slope, [a, b]), p, p))
        return with_holm(result)

    def _mean(self, at: int) -> tuple[float, F8]:
        """Expected score of a system over raters and scripts, and its gradient with respect to all parameters."""
        fitted, (nodes, weights) = self._fitted, (_NODES[0], _NODES[1] / _NODES[1].sum())
        spread = float(np.sqrt(fitted.sd @ fitted.sd))
        below = logistic(fitted.thresholds[:, None] - fitted.locations[at] - spread * nodes)
        density, steps = below * (1 - below), np.diff(self._levels)
        slope = np.zeros(len(fitted.covariance))
        slope[: self._cuts] = -steps * (density @ weights)
        slope[self._cuts + at] = -slope[: self._cuts].sum()
        by_spread = steps @ (density @ (weights * nodes))
        slope[len(slope) - len(fitted.sd) :] = by_spread * fitted.sd / max(spread, 1e-12)
        return float(self._levels[-1] - steps @ (below @ weights)), slope

    def _se(self, slope: F8) -> float:
        return float(np.sqrt(slope @ self._fitted.covariance @ slope))

    def _about(self, value: float, slope: F8, systems: Sequence[int]) -> Interval:
        se = self._se(slope)
        return self._interval(value, se, value + self._reach * np.array([-se, se]), systems)

    def _interval(self, value: float, se: float, ends: F8, systems: Sequence[int]) -> Interval:
        mine = np.isin(self._ratings.system, systems)
        raters, items = count_distinct(self._ratings.rater[mine]), count_distinct(self._ratings.item[mine])
        low, high = (float(end) for end in ends)
        return Interval(float(value), low, high, se, self._df, int(mine.sum()), raters, items, "ordinal", 0.95)
