"""A second opinion on mean opinion scores: a cumulative logit mixed model, with raters and scripts random.

A rater r who hears script i by system s says at most the level c_k with the chance

    P(Y <= c_k) = logistic(theta_k - beta_s - u_r - v_i - w_rs - z_is)

with thresholds theta, locations beta of the systems, and normal effects of raters (u), of scripts (v), of a rater's
taste (w) and of a script's favour (z) (Agresti 2010, "Analysis of Ordinal Categorical Data", chapter 10; Christensen
2019, R's ``ordinal``). Scores are ordered words to it: nobody has to believe that the step from 1 to 2 is as long as
that from 4 to 5. Fitted by maximum likelihood in the Laplace approximation, with a weak prior that keeps deviations off
nought where there are few raters or scripts (Chung et al. 2013, Psychometrika 78), and locations finite where a system
got nothing but the best score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import F8, I8, Ratings, Scale
from studio.mos.stats.compare import Difference, holm
from studio.mos.stats.distributions import logistic, logit, t_cdf
from studio.mos.stats.interval import Interval, present, t_quantile
from studio.mos.stats.ordinal.estimate import Estimate, estimate

Term = Literal["rater", "script", "taste", "favour"]
TERMS: tuple[Term, ...] = ("rater", "script", "taste", "favour")
MOST_LEVELS = 11  # of a scale whose answers are words rather than numbers
MOST_EFFECTS = 4000  # beyond which a fit takes minutes
_NODES: tuple[F8, F8] = np.polynomial.hermite_e.hermegauss(41)  # of an integral over a normal effect


@dataclass(frozen=True)
class Ordinal:
    """What the model says.

    Attributes:
        systems: the mean score that other raters are expected to give each system on other scripts; systems without
            ratings are left out.
        locations: of each system in logits, their mean being nought.
        differences: of locations in logits, for every pair; exp of one is a ratio of odds.
        levels: the scores that were given.
        thresholds: between them, in logits.
        sd: of each term, in logits; beside them the scatter of single answers is pi / sqrt(3) = 1.81.
        log_likelihood: without the prior.
    """

    systems: dict[str, Interval]
    locations: dict[str, Interval]
    differences: list[Difference]
    levels: list[float]
    thresholds: list[float]
    sd: dict[str, float]
    log_likelihood: float


def ordinal_model(ratings: Ratings, terms: Sequence[Term] = TERMS, prior: bool = True, level: float = 0.95) -> Ordinal:
    """Fit the model to scores.

    Intervals have t with min(raters, scripts) - 1 degrees of freedom, as those of means have, and rest on the curvature
    of the likelihood by all that is estimated. A mean's ends are those of its logit on the scale, so they stay on it.

    Args:
        ratings: scores on a scale of few levels.
        terms: what is random; a single system has neither taste nor favour.
        prior: False for plain maximum likelihood, as R's ``ordinal::clmm`` fits it, which may run away in small tests.
        level: nominal coverage.

    Raises:
        BadOption: fewer than two raters or scripts, scores that are all alike, more levels or effects than the model
            takes, or no convergence.
    """
    used = np.unique(ratings.system)
    system = np.searchsorted(used, ratings.system).astype(np.int64)
    levels, answer = np.unique(ratings.score, return_inverse=True)
    groupings = _groupings(ratings, system, len(used), terms)
    _check(ratings, levels, groupings)
    fitted = estimate(answer.astype(np.int64), system, list(groupings.values()), prior)
    said = _Said(ratings, used, levels, fitted, level)
    sd = {str(term): float(value) for term, value in zip(groupings, fitted.sd, strict=True)}
    return Ordinal(
        said.means(),
        said.locations(),
        said.differences(),
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
        raise BadOption("there are no ratings", "the model takes two raters and two scripts at least")
    raters, scripts = present(ratings.rater), present(ratings.item)
    effects = sum(int(codes.max()) + 1 for codes in groupings.values())
    if raters < 2 or scripts < 2:
        raise BadOption(f"raters and scripts are {raters} and {scripts}", "the model takes two of each at least")
    if len(levels) < 2:
        raise BadOption("all scores are alike", "the model takes two levels at least")
    if len(levels) > MOST_LEVELS:
        raise BadOption(f"{len(levels)} levels were given", f"the model takes {MOST_LEVELS} at the most")
    if effects > MOST_EFFECTS:
        raise BadOption(f"raters and scripts have {effects} effects", f"the model takes {MOST_EFFECTS} at the most")


class _Said:
    """The intervals of an estimate."""

    def __init__(self, ratings: Ratings, used: I8, levels: F8, fitted: Estimate, level: float) -> None:
        self._ratings, self._used, self._levels, self._fitted, self._level = ratings, used, levels, fitted, level
        self._scale = ratings.scale or Scale(float(levels[0]), float(levels[-1]))
        self._df = min(present(ratings.rater), present(ratings.item)) - 1
        self._reach = t_quantile(self._df, level)
        self._cuts = len(fitted.thresholds)

    def means(self) -> dict[str, Interval]:
        found: dict[str, Interval] = {}
        for at, code in enumerate(self._used):
            mean, slope = self._mean(at)
            low, high = self._scale.low, self._scale.high
            share, se = (mean - low) / (high - low), self._se(slope)
            reach = self._reach * se / ((high - low) * share * (1 - share))
            ends = low + (high - low) * logistic(logit(share) + np.array([-reach, reach]))
            found[self._ratings.systems[code]] = self._interval(mean, se, ends, [code])
        return found

    def locations(self) -> dict[str, Interval]:
        found: dict[str, Interval] = {}
        for at, code in enumerate(self._used):
            slope = np.zeros(len(self._fitted.covariance))
            slope[self._cuts + at] = 1
            found[self._ratings.systems[code]] = self._about(self._fitted.locations[at], slope, [code])
        return found

    def differences(self) -> list[Difference]:
        names, found = self._ratings.systems, list[Difference]()
        places = [(at, int(code)) for at, code in enumerate(self._used)]
        for (at, a), (beside, b) in combinations(places, 2):
            slope = np.zeros(len(self._fitted.covariance))
            slope[self._cuts + at], slope[self._cuts + beside] = 1, -1
            gap = self._fitted.locations[at] - self._fitted.locations[beside]
            p = float(2 * t_cdf(self._df, -abs(gap) / self._se(slope)))
            found.append(Difference(names[a], names[b], self._about(gap, slope, [a, b]), p, p))
        corrected = holm(np.array([d.p for d in found], np.float64))
        return [replace(d, p_holm=float(p)) for d, p in zip(found, corrected, strict=True)]

    def _mean(self, at: int) -> tuple[float, F8]:
        """The expected score of the system at this place, over raters and scripts, and its slope by all estimates."""
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
        raters, items = present(self._ratings.rater[mine]), present(self._ratings.item[mine])
        low, high = (float(end) for end in ends)
        return Interval(float(value), low, high, se, self._df, int(mine.sum()), raters, items, "ordinal", self._level)
