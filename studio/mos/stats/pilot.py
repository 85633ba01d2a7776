"""Variance components of a pilot, and their upper bounds, for planning the number of raters.

Components are estimated by moments: mean products of residuals over pairs of answers that share a rater, a script, a
system, or two of these, are covariances, and their differences are the variances (Henderson's first method; for any
design).

The variances of a small pilot are unreliable, and planning with too small ones gives too few raters. So each component
is replaced by the upper end of its one-sided interval: its mean square times df / chi2_{1 - sure}(df), minus the other
terms of that mean square (Burdick & Graybill 1992, section 2.4). Those of a large pilot hardly change.
"""

from dataclasses import dataclass, replace

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import ELO_PER_E, fit, points
from studio.mos.stats.columns import BOTH_BAD, F8, I8, Ratings, Votes, distinct
from studio.mos.stats.interval import count_distinct, gamma_inverse
from studio.mos.stats.planner import ASSURANCE, RatingPopulation, VotePopulation, draw_votes

_SIMULATED_RATERS, _PAIRS, _ROUNDS = 3000, 40, 2  # votes per rater; corrections
_MIN_COUNT = 3  # raters and scripts
SMALL_PILOT = 30  # raters or scripts below which variances are unreliable


def rating_population(ratings: Ratings) -> RatingPopulation:
    """Population with the variance components of these scores; its scores are not rounded.

    In a test of pairs the systems are the pairs. Negative estimates are set to zero.

    Raises BadOption: fewer than three raters or scripts.
    """
    _check_size(ratings.rater, ratings.item)
    used = distinct(ratings.system)
    means = np.array([ratings.score[ratings.system == s].mean() for s in used])
    system = np.searchsorted(used, ratings.system)
    residual = ratings.score - means[system]
    moments = _RatingMoments(residual, ratings.rater, ratings.item, system)
    rater, script = moments.shared("rater"), moments.shared("item")
    taste, favour = moments.shared("rater", "system") - rater, moments.shared("item", "system") - script
    rater, script, taste, favour = (max(0.0, v) for v in (rater, script, taste, favour))
    total = float(residual @ residual) / len(residual) + moments.of_means
    noise = max(0.0, total - rater - script - taste - favour)
    return RatingPopulation(
        systems=tuple(means.tolist()),
        rater_sd=rater**0.5,
        item_sd=script**0.5,
        taste_sd=taste**0.5,
        item_system_sd=favour**0.5,
        noise_sd=noise**0.5,
        noise_spread=0.0,
        clickers=0.0,
        low=None,
    )


def vote_population(votes: Votes) -> VotePopulation:
    """Population whose simulated votes match the Elo, variance components and ties of these votes.

    Random effects and ties attenuate the estimates, so a first guess is corrected by the estimates from its simulation
    (method of simulated moments).

    Raises BadOption: raters or scripts are unknown, or fewer than three.
    """
    if votes.rater is None or votes.item is None:
        raise BadOption("the votes have no raters or no scripts", "plan without a pilot")
    _check_size(votes.rater, votes.item)
    tie = fit(votes, "davidson").tie or 0.0
    both_bad = float((votes.outcome == BOTH_BAD).mean())
    target = _VoteMoments.of(votes)
    population = VotePopulation(
        systems=tuple(target.elo.tolist()),
        taste_sd=target.taste,
        item_system_sd=target.favour,
        noise_spread=target.sharpness,
        clickers=0.0,
        ties=max(0.0, tie / (2 + tie) - both_bad),  # Davidson's nu covers both
        both_bad=both_bad,
    )
    for _ in range(_ROUNDS):
        simulated = _VoteMoments.of(
            draw_votes(population, np.random.default_rng(0), _SIMULATED_RATERS, _PAIRS, _SIMULATED_RATERS // 10)
        )
        along = float(simulated.elo @ target.elo) / max(1e-9, float(target.elo @ target.elo))
        population = replace(
            population,
            systems=tuple((np.array(population.systems) / (along if 0.3 < along < 3 else 1.0)).tolist()),
            taste_sd=population.taste_sd * _ratio(target.taste, simulated.taste),
            item_system_sd=population.item_system_sd * _ratio(target.favour, simulated.favour),
            noise_spread=population.noise_spread * _ratio(target.sharpness, simulated.sharpness),
        )
    return population


def _ratio(target: float, simulated: float) -> float:
    return float(np.clip(target / simulated, 0.3, 3.0)) if simulated > 0 else 1.0


@dataclass(frozen=True)
class _VoteMoments:
    """Estimates from votes, ties as half a win: centred Elo [S], standard deviations in Elo, noise spread in ln."""

    elo: F8
    taste: float
    favour: float
    sharpness: float

    @staticmethod
    def of(votes: Votes) -> "_VoteMoments":
        assert votes.rater is not None and votes.item is not None, "they are known here"
        log_p = fit(votes).log_p
        gap = log_p[votes.a] - log_p[votes.b]
        chance = 1 / (1 + np.exp(-gap))
        slopes = _VoteCovariance(votes, points(votes) - chance, chance * (1 - chance), gap)
        taste, sharpness = slopes.spread(votes.rater)
        favour, _ = slopes.spread(votes.item)
        elo = ELO_PER_E * (log_p - log_p.mean())
        return _VoteMoments(elo, float(ELO_PER_E * taste), float(ELO_PER_E * favour), sharpness)


class _VoteCovariance:
    """Covariance of the residuals r of two votes of the same rater (or on the same script).

    It is modelled as w w' (s^2 (d . d') + k^2 g g'), where w is p(1 - p), d is 1 for the first system and -1 for the
    second, g is the gap in ln p, s the standard deviation of the effects on systems, k that of the slope. Both are
    fitted by least squares to all pairs of votes that share the one factor and not the other.
    """

    def __init__(self, votes: Votes, residual: F8, weight: F8, gap: F8) -> None:
        assert votes.rater is not None and votes.item is not None, "they are known here"
        self._votes, self._residual, self._weight, self._gap = votes, residual, weight, gap
        self._both = votes.rater * (int(votes.item.max()) + 1) + votes.item

    def spread(self, codes: I8) -> tuple[float, float]:
        """s and k over raters or scripts, given by their codes [N]; both in ln p."""
        products, design = np.zeros(2), np.zeros((2, 2))
        for sign, group in ((1, codes), (-1, self._both)):
            leaning = self._by_system(group, self._residual * self._weight)
            sharp = np.bincount(group, self._residual * self._weight * self._gap)
            products += sign * np.array([(leaning**2).sum(), sharp @ sharp])
            mixed = self._by_system(group, self._weight**2 * self._gap)
            gaps = np.bincount(group, (self._weight * self._gap) ** 2)
            cross = (mixed**2).sum()
            design += sign * np.array([[self._squares(group), cross], [cross, gaps @ gaps]])
        solution = np.linalg.lstsq(design, products, rcond=None)[0]
        if solution[1] < 0:
            solution = np.array([products[0] / design[0, 0] if design[0, 0] > 0 else 0.0, 0.0])
        return float(np.sqrt(max(0.0, solution[0]))), float(np.sqrt(max(0.0, solution[1])))

    def _by_system(self, group: I8, values: F8) -> F8:
        """Sums of values times d within groups, [G, S]."""
        size, count = len(self._votes.systems), int(group.max()) + 1
        first, second = (np.bincount(group * size + of, values, count * size) for of in (self._votes.a, self._votes.b))
        return (first - second).reshape(count, size).astype(np.float64)

    def _squares(self, group: I8) -> float:
        """Sum over pairs of votes of one group of (w w' (d . d'))^2."""
        size, count = len(self._votes.systems), int(group.max()) + 1
        first, second = np.minimum(self._votes.a, self._votes.b), np.maximum(self._votes.a, self._votes.b)
        cells = np.bincount((group * size + first) * size + second, self._weight**2, count * size * size)
        half = cells.reshape(count, size, size)
        whole = half + half.swapaxes(1, 2)
        return float((whole**2).sum() + (whole.sum(axis=2) ** 2).sum())


class _RatingMoments:
    """Mean products of the residuals of two answers, by the factors that they share."""

    def __init__(self, residual: F8, rater: I8, item: I8, system: I8) -> None:
        self._residual = residual
        self._codes = {"rater": rater, "item": item, "system": system}
        answers, systems = np.bincount(system)[system], int(system.max()) + 1
        each = np.array([self._of_mean(np.where(system == s, residual / answers, 0.0)) for s in range(systems)])
        together = self._of_mean(residual / answers / systems)
        self.of_means = float(each.mean())
        # Residuals around means of the same answers lack the covariance of these means.
        self._of_two = 0.0 if systems < 2 else (systems**2 * together - each.sum()) / (systems * (systems - 1))

    def shared(self, *what: str) -> float:
        """Covariance of two answers that share exactly the factors ``what``."""
        others = [name for name in ("rater", "item", "system") if name not in what]
        total, pairs = 0.0, 0.0
        for mask in range(2 ** len(others)):  # inclusion-exclusion over the factors that must differ
            also = [name for bit, name in enumerate(others) if mask >> bit & 1]
            sums, counts = self._sums(self._residual, *what, *also), self._sums(None, *what, *also)
            total, pairs = total + (-1) ** len(also) * float(sums @ sums), pairs + (-1) ** len(also) * counts @ counts
        return total / pairs + (self.of_means if "system" in what else self._of_two) if pairs > 0 else 0.0

    def _of_mean(self, influence: F8) -> float:
        """Variance of a mean over raters and scripts (``interval.clustered_error`` without small-sample factors)."""
        by_rater, by_item, both = (self._sums(influence, *w) for w in (("rater",), ("item",), ("rater", "item")))
        return max(0.0, float(by_rater @ by_rater + by_item @ by_item - both @ both))

    def _sums(self, values: F8 | None, *what: str) -> F8:
        group = np.zeros(len(self._residual), np.int64)
        for name in what:
            group = group * (int(self._codes[name].max()) + 1) + self._codes[name]
        return np.bincount(np.unique(group, return_inverse=True)[1], values).astype(np.float64)


def _check_size(rater: I8, item: I8) -> None:
    for name, count in (("raters", count_distinct(rater)), ("scripts", count_distinct(item))):
        if count < _MIN_COUNT:
            raise BadOption(f"the pilot has {count} {name}", f"at least {_MIN_COUNT} are needed, preferably more")


def conservative_ratings(population: RatingPopulation, ratings: Ratings) -> RatingPopulation:
    """``population``, as estimated from these scores (``rating_population``), with variances at their upper bounds."""
    raters, items, systems = (count_distinct(codes) for codes in (ratings.rater, ratings.item, ratings.system))
    n = len(ratings)
    noise, taste, favour = population.noise_sd**2, population.taste_sd**2, population.item_system_sd**2
    own = max(1, systems - 1)  # with one system, rater effects are part of taste
    bounds = {
        "taste_sd": _upper_bound(taste, noise * raters * systems / n, own * (raters - 1)),
        "item_system_sd": _upper_bound(favour, noise * items * systems / n, own * (items - 1)),
        "noise_sd": _upper_bound(noise, 0.0, n - systems * (raters + items)),
    }
    if systems > 1:
        rater, item = population.rater_sd**2, population.item_sd**2
        bounds["rater_sd"] = _upper_bound(rater, taste / systems + noise * raters / n, raters - 1)
        bounds["item_sd"] = _upper_bound(item, favour / systems + noise * items / n, items - 1)
    return replace(population, **{name: variance**0.5 for name, variance in bounds.items()})


def conservative_votes(population: VotePopulation, votes: Votes) -> VotePopulation:
    """``population``, as estimated from these votes (``vote_population``), with variances at their upper bounds."""
    assert votes.rater is not None and votes.item is not None, "a pilot's are known"
    log_p = fit(votes).log_p
    chance = 1 / (1 + np.exp(log_p[votes.b] - log_p[votes.a]))
    systems = len(votes.systems)
    # Information on a system's Elo in all votes.
    known = 2 * float((chance * (1 - chance)).sum()) / systems / ELO_PER_E**2
    raters, items = count_distinct(votes.rater), count_distinct(votes.item)
    taste = _upper_bound(population.taste_sd**2, raters / known, (systems - 1) * (raters - 1))
    favour = _upper_bound(population.item_system_sd**2, items / known, (systems - 1) * (items - 1))
    return replace(population, taste_sd=taste**0.5, item_system_sd=favour**0.5)


def _upper_bound(variance: float, other_terms: float, df: int) -> float:
    """Upper bound of a variance whose mean square has ``df`` degrees of freedom and also contains ``other_terms``."""
    df = max(1, df)
    quantile = 2 * float(gamma_inverse(df / 2, 1 - ASSURANCE))
    return max(variance, (variance + other_terms) * df / quantile - other_terms)
