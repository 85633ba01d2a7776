"""Coverage of the intervals in simulated populations that violate their assumptions.

The true value is the estimate from 20,000 raters of the same population, each with scripts of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import EloIntervals, Fit, FitMethod, centred, fit, gamma_quantiles
from studio.mos.stats.columns import F8, Mask, Ratings, Votes
from studio.mos.stats.elo_intervals import clustered_intervals, posterior_intervals
from studio.mos.stats.interval import z_quantile
from studio.mos.stats.means import by_system, difference
from studio.mos.stats.planner import RatingPopulation, VotePopulation, draw_ratings, draw_votes
from studio.mos.stats.preference import preference

TRUE_RATERS = 20_000
TRUE_ITEMS = 30

Ends = tuple[F8, F8]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class IntervalCoverage:
    """Coverage of one interval method."""

    method: str  # name of the interval
    over: str  # systems or pairs
    # share of runs in which the interval of each system (or pair) covers the true value; a missing interval counts as a
    # miss
    each: tuple[float, ...]
    half_width: float  # mean, in the unit of the score
    runs: int  # number of runs

    @property
    def mean(self) -> float:
        """Mean over systems or pairs."""
        return float(np.mean(self.each))

    @property
    def worst(self) -> float:
        """Lowest coverage of a system or pair."""
        return min(self.each)


def mos_coverage(
    population: RatingPopulation | None = None,
    raters: int = 20,
    items: int = 30,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[IntervalCoverage]:
    """Coverage of the intervals of MOS and of differences between systems.

    ``plain`` differences take the two means as independent, as in a two-sample t-test.

    Raises BadOption: fewer than two raters, items or systems, or no runs.
    """
    population = RatingPopulation() if population is None else population
    _check_counts(raters=raters, items=items, systems=len(population.systems))
    rng = np.random.default_rng(seed)
    truth = _means(draw_ratings(population, rng, TRUE_RATERS, TRUE_ITEMS, own_items=True))
    first, second = np.triu_indices(len(truth), 1)
    counts = _CoverageCounts(truth, truth[first] - truth[second])
    for _ in _runs(runs, progress):
        ratings = draw_ratings(population, rng, raters, items)
        for method in ("two_way", "by_rater", "plain", "plain_t"):
            intervals = by_system(ratings, method).values()
            ends = (np.array([i.low for i in intervals], float), np.array([i.high for i in intervals], float))
            counts.mark(method, ends, _mos_pairs(ratings, method))
    return counts.table(runs)


def preference_coverage(
    population: VotePopulation | None = None,
    raters: int = 20,
    pairs: int = 50,
    scripts: int = 10,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[IntervalCoverage]:
    """Coverage of the intervals of the share of votes between the first two systems.

    Raises BadOption: fewer than two raters, pairs, scripts or systems, or no runs.
    """
    population = (
        VotePopulation(systems=(0.0, 60.0))
        if population is None
        else replace(population, systems=population.systems[:2])
    )
    _check_counts(raters=raters, pairs=pairs, scripts=scripts, systems=len(population.systems))
    rng = np.random.default_rng(seed)
    a, b = draw_votes(population, rng, 1, 1).systems
    counts = _CoverageCounts(
        np.zeros(0), np.array([preference(draw_votes(population, rng, TRUE_RATERS, pairs), a, b, "exact").share.mean])
    )
    for _ in _runs(runs, progress):
        votes = draw_votes(population, rng, raters, pairs, scripts)
        for method in ("two_way", "by_rater", "exact"):
            share = preference(votes, a, b, method).share
            counts.mark(method, None, (np.array([share.low], float), np.array([share.high], float)))
    return counts.table(runs)


def elo_coverage(
    population: VotePopulation | None = None,
    raters: int = 40,
    pairs: int = 40,
    scripts: int = 10,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[IntervalCoverage]:
    """Coverage of the intervals of centred Elo and of differences between systems.

    Methods: ``mle`` and ``gamma`` by rater and script, ``gamma by rater``, ``gamma by vote``, ``dsm`` with the Gamma
    quantiles of paper 002, ``posterior``. Each is compared with the true value of its own estimator.

    Raises BadOption: fewer than two raters, pairs, scripts or systems, or no runs.
    """
    population = VotePopulation() if population is None else population
    _check_counts(raters=raters, pairs=pairs, scripts=scripts, systems=len(population.systems))
    rng = np.random.default_rng(seed)
    everyone = draw_votes(population, rng, TRUE_RATERS, pairs)
    names: tuple[FitMethod, ...] = ("mle", "gamma", "dsm")
    truth = {name: centred(fit(everyone, name).elo()) for name in names}
    counts_by_method = {name: _CoverageCounts(t, _pair_differences(t)) for name, t in truth.items()}
    for run in _runs(runs, progress):
        votes = draw_votes(population, rng, raters, pairs, scripts)
        for label, fitted, spread in _elo_spreads(votes, seed + run):
            middle = fitted.elo().mean()
            upper = np.triu_indices(len(votes.systems), 1)
            counts_by_method[fitted.method].mark(
                label,
                (spread.low - middle, spread.high - middle),
                (spread.difference_low[upper], spread.difference_high[upper]),
            )
    return [row for counts in counts_by_method.values() for row in counts.table(runs)]


def _elo_spreads(votes: Votes, seed: int) -> Iterator[tuple[str, Fit, EloIntervals]]:
    mle, gamma, dsm = fit(votes, "mle"), fit(votes, "gamma"), fit(votes, "dsm")
    alone = replace(votes, rater=None, raters=[], item=None, items=[])
    yield "mle", mle, clustered_intervals(votes, mle)
    yield "gamma", gamma, clustered_intervals(votes, gamma)
    yield "gamma by rater", gamma, clustered_intervals(votes, gamma, clusters="by_rater")
    yield "gamma by vote", gamma, clustered_intervals(alone, gamma)
    yield "posterior", gamma, posterior_intervals(gamma, seed=seed)
    yield "dsm", dsm, gamma_quantiles(dsm)


class _CoverageCounts:
    """Hits and widths by method, over systems and over pairs."""

    def __init__(self, systems: F8, pairs: F8) -> None:
        self.truth = {"systems": systems, "pairs": pairs}
        self.hits: dict[tuple[str, str], F8] = {}
        self.widths: dict[tuple[str, str], list[float]] = {}

    def mark(self, method: str, systems: Ends | None, pairs: Ends) -> None:
        """Count the intervals of one run."""
        for over, ends in (("systems", systems), ("pairs", pairs)):
            if ends is None:
                continue
            low, high = ends
            truth, key = self.truth[over], (method, over)
            held: Mask = (low <= truth) & (truth <= high)
            self.hits[key] = self.hits.get(key, np.zeros(len(truth))) + held
            self.widths.setdefault(key, []).append(float((high - low).mean() / 2))

    def table(self, runs: int) -> list[IntervalCoverage]:
        """One row per method and per systems or pairs."""
        return [
            IntervalCoverage(
                method, over, tuple((hits / runs).tolist()), float(np.nanmean(self.widths[method, over])), runs
            )
            for (method, over), hits in self.hits.items()
        ]


def _mos_pairs(ratings: Ratings, method: str) -> Ends:
    names = ratings.systems
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    if method in ("two_way", "by_rater"):
        clusters = "two_way" if method == "two_way" else "by_rater"
        intervals = [difference(ratings, a, b, clusters).interval for a, b in pairs]
        return np.array([i.low for i in intervals], float), np.array([i.high for i in intervals], float)
    plain = by_system(ratings, "plain")
    gap = np.array([plain[a].mean - plain[b].mean for a, b in pairs])
    error = np.array([np.hypot(plain[a].se or 0.0, plain[b].se or 0.0) for a, b in pairs])
    return gap - z_quantile(0.95) * error, gap + z_quantile(0.95) * error


def _means(ratings: Ratings) -> F8:
    return np.bincount(ratings.system, ratings.score) / np.bincount(ratings.system)


def _pair_differences(scores: F8) -> F8:
    first, second = np.triu_indices(len(scores), 1)
    return scores[first] - scores[second]


def _runs(runs: int, progress: Progress | None) -> Iterator[int]:
    if runs < 1:
        raise BadOption(f"runs is {runs}", "it must be at least 1, usually 400")
    for run in range(runs):
        yield run
        if progress:
            progress(run + 1, runs)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 2:
            raise BadOption(f"{name} is {count}", "it must be at least 2")
