"""Cumulative logit mixed model of opinion scores, with random raters and scripts, as a second analysis beside means.

The probability that rater r gives script i by system s at most level c_k is

    P(Y <= c_k) = logistic(theta_k - beta_s - u_r - v_i - w_rs - z_is)

with thresholds theta, system locations beta, and normal effects of raters (u), scripts (v), rater x system (w, "taste")
and script x system (z, "favour") (Agresti 2010, "Analysis of Ordinal Categorical Data", chapter 10; Christensen 2019,
R's ``ordinal``). Scores are treated as ordered categories: equal distances are not assumed. The fit is maximum
likelihood in the Laplace approximation, with a weak prior that keeps standard deviations above zero for few raters or
scripts (Chung et al. 2013, Psychometrika 78), and locations finite for a system with nothing but the best score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Ratings, ScoreScale
from studio.mos.stats.distributions import logistic, logit, t_cdf
from studio.mos.stats.interval import Interval, count_distinct, t_quantile
from studio.mos.stats.means import Difference, holm
from studio.mos.stats.ordinal.estimate import Estimate, estimate

Term = Literal["rater", "script", "taste", "favour"]
TERMS: tuple[Term, ...] = ("rater", "script", "taste", "favour")
MOST_LEVELS = 11  # of an ordinal scale
MOST_EFFECTS = 4000  # above it a fit takes minutes
_NODES: tuple[F8, F8] = np.polynomial.hermite_e.hermegauss(41)  # Gauss-Hermite


@dataclass(frozen=True)
class OrdinalResult:
    """Estimates of the model.

    Attributes:
        systems: expected mean score of each rated system, by other raters on other scripts.
        locations: of each system in logits, with mean zero.
        differences: of locations in logits, for every pair; exp of one is an odds ratio.
        levels: observed scores.
        thresholds: between them, in logits.
        sd: standard deviation of each term, in logits; that of single answers is pi / sqrt(3) = 1.81.
        log_likelihood: without the prior.
    """

    systems: dict[str, Interval]
    locations: dict[str, Interval]
    differences: list[Difference]
    levels: list[float]
    thresholds: list[float]
    sd: dict[str, float]
    log_likelihood: float


def ordinal_model(
    ratings: Ratings, terms: Sequence[Term] = TERMS, prior: bool = True, level: float = 0.95
) -> OrdinalResult:
    """Fit the model to scores.

    Intervals are based on the curvature of the likelihood in all parameters and use t with min(raters, scripts) - 1
    degrees of freedom. The interval of a mean is computed for its logit on the scale, so it stays on the scale.

    Args:
        ratings: scores on a scale of few levels.
        terms: random effects; a single system has neither taste nor favour.
        prior: False for plain maximum likelihood as in R's ``ordinal::clmm``, which may diverge for small tests.
        level: nominal coverage.

    Raises:
        BadOption: fewer than two raters or scripts, equal scores only, too many levels or effects, or no convergence.
    """
    used = np.unique(ratings.system)
    system = np.searchsorted(used, ratings.system).astype(np.int64)
    levels, answer = np.unique(ratings.score, return_inverse=True)
    groupings = _groupings(ratings, system, len(used), terms)
    _check(ratings, levels, groupings)
    fitted = estimate(answer.astype(np.int64), system, list(groupings.values()), prior)
    summary = _Summary(ratings, used, levels, fitted, level)
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
        raise BadOption(f"there are {raters} raters and {scripts} scripts", "the model needs at least two of each")
    if len(levels) < 2:
        raise BadOption("all scores are equal", "the model needs at least two levels")
    if len(levels) > MOST_LEVELS:
        raise BadOption(f"the scores have {len(levels)} levels", f"the model supports at most {MOST_LEVELS}")
    if effects > MOST_EFFECTS:
        raise BadOption(f"raters and scripts have {effects} effects", f"the model supports at most {MOST_EFFECTS}")


class _Summary:
    """Intervals of an estimate."""

    def __init__(self, ratings: Ratings, used: I8, levels: F8, fitted: Estimate, level: float) -> None:
        self._ratings, self._used, self._levels, self._fitted, self._level = ratings, used, levels, fitted, level
        self._scale = ratings.scale or ScoreScale(float(levels[0]), float(levels[-1]))
        self._df = min(count_distinct(ratings.rater), count_distinct(ratings.item)) - 1
        self._reach = t_quantile(self._df, level)
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
        intervals: dict[str, Interval] = {}
        for at, code in enumerate(self._used):
            slope = np.zeros(len(self._fitted.covariance))
            slope[self._cuts + at] = 1
            intervals[self._ratings.systems[code]] = self._about(self._fitted.locations[at], slope, [code])
        return intervals

    def differences(self) -> list[Difference]:
        names, result = self._ratings.systems, list[Difference]()
        coded = [(at, int(code)) for at, code in enumerate(self._used)]
        for (at, a), (beside, b) in combinations(coded, 2):
            slope = np.zeros(len(self._fitted.covariance))
            slope[self._cuts + at], slope[self._cuts + beside] = 1, -1
            gap = self._fitted.locations[at] - self._fitted.locations[beside]
            p = float(2 * t_cdf(self._df, -abs(gap) / self._se(slope)))
            result.append(Difference(names[a], names[b], self._about(gap, slope, [a, b]), p, p))
        corrected = holm(np.array([d.p for d in result], np.float64))
        return [replace(d, p_holm=float(p)) for d, p in zip(result, corrected, strict=True)]

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
        return Interval(float(value), low, high, se, self._df, int(mine.sum()), raters, items, "ordinal", self._level)
