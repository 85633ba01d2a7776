"""How often do the intervals hold what they promise? Coverage in populations that obey none of their models.

The truth is what the same estimator says of 20,000 raters of the same population, each with scripts of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import gibbs
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import Fit, Method, Spread, centred, fit, gamma_quantiles
from studio.mos.stats.columns import F8, Mask, Ratings, Votes
from studio.mos.stats.compare import difference
from studio.mos.stats.interval import z_quantile
from studio.mos.stats.means import by_system
from studio.mos.stats.planning.population import Listeners, Voters, draw_ratings, draw_votes
from studio.mos.stats.preference import preference

TRUE_RATERS = 20_000
TRUE_ITEMS = 30

Ends = tuple[F8, F8]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Coverage:
    """How often one interval held the truth.

    Attributes:
        method: the interval's name.
        over: systems or pairs.
        each: share of the runs in which the interval of each system (or pair) held it. No interval counts as a miss.
        half_width: mean, in the unit of the score.
        runs: how many.
    """

    method: str
    over: str
    each: tuple[float, ...]
    half_width: float
    runs: int

    @property
    def mean(self) -> float:
        """Over systems or pairs."""
        return float(np.mean(self.each))

    @property
    def worst(self) -> float:
        """The system or pair that fared worst."""
        return min(self.each)


def mos_coverage(
    who: Listeners | None = None,
    raters: int = 20,
    items: int = 30,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Coverage]:
    """Coverage of the intervals of MOS, and of differences between systems.

    ``plain`` differences take the two means as independent, as a t-test of two samples does.

    Raises:
        BadOption: fewer than two raters, items, systems or one run.
    """
    who = Listeners() if who is None else who
    _enough(raters=raters, items=items, systems=len(who.systems))
    rng = np.random.default_rng(seed)
    truth = _means(draw_ratings(who, rng, TRUE_RATERS, TRUE_ITEMS, own_items=True))
    first, second = np.triu_indices(len(truth), 1)
    board = _Board(truth, truth[first] - truth[second])
    for _ in _counted(runs, progress):
        drawn = draw_ratings(who, rng, raters, items)
        for method in ("two_way", "by_rater", "plain", "plain_t"):
            found = by_system(drawn, method).values()
            ends = (np.array([i.low for i in found], float), np.array([i.high for i in found], float))
            board.mark(method, ends, _mos_pairs(drawn, method))
    return board.table(runs)


def preference_coverage(
    who: Voters | None = None,
    raters: int = 20,
    pairs: int = 50,
    scripts: int = 10,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Coverage]:
    """Coverage of the intervals of one pair's share; the first two systems are compared.

    Raises:
        BadOption: fewer than two raters, pairs, scripts or systems, or one run.
    """
    who = Voters(systems=(0.0, 60.0)) if who is None else replace(who, systems=who.systems[:2])
    _enough(raters=raters, pairs=pairs, scripts=scripts, systems=len(who.systems))
    rng = np.random.default_rng(seed)
    a, b = draw_votes(who, rng, 1, 1).systems
    board = _Board(
        np.zeros(0), np.array([preference(draw_votes(who, rng, TRUE_RATERS, pairs), a, b, "exact").share.mean])
    )
    for _ in _counted(runs, progress):
        votes = draw_votes(who, rng, raters, pairs, scripts)
        for method in ("two_way", "by_rater", "exact"):
            share = preference(votes, a, b, method).share
            board.mark(method, None, (np.array([share.low], float), np.array([share.high], float)))
    return board.table(runs)


def elo_coverage(
    who: Voters | None = None,
    raters: int = 40,
    pairs: int = 40,
    scripts: int = 10,
    runs: int = 400,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Coverage]:
    """Coverage of the intervals of centred Elo, and of differences between systems.

    Methods: ``mle`` and ``gamma`` by rater and script, ``gamma by rater``, ``gamma by vote``, ``dsm`` with the Gamma
    quantiles of paper 002, ``posterior``. Each is held against the truth of its own estimator.

    Raises:
        BadOption: fewer than two raters, pairs, scripts or systems, or one run.
    """
    who = Voters() if who is None else who
    _enough(raters=raters, pairs=pairs, scripts=scripts, systems=len(who.systems))
    rng = np.random.default_rng(seed)
    everyone = draw_votes(who, rng, TRUE_RATERS, pairs)
    names: tuple[Method, ...] = ("mle", "gamma", "dsm")
    truth = {name: centred(fit(everyone, name).elo()) for name in names}
    boards = {name: _Board(t, _apart(t)) for name, t in truth.items()}
    for run in _counted(runs, progress):
        votes = draw_votes(who, rng, raters, pairs, scripts)
        for label, fitted, spread in _elo_spreads(votes, seed + run):
            middle = fitted.elo().mean()
            upper = np.triu_indices(len(votes.systems), 1)
            boards[fitted.method].mark(
                label,
                (spread.low - middle, spread.high - middle),
                (spread.difference_low[upper], spread.difference_high[upper]),
            )
    return [row for board in boards.values() for row in board.table(runs)]


def _elo_spreads(votes: Votes, seed: int) -> Iterator[tuple[str, Fit, Spread]]:
    mle, gamma, dsm = fit(votes, "mle"), fit(votes, "gamma"), fit(votes, "dsm")
    alone = replace(votes, rater=None, raters=[], item=None, items=[])
    yield "mle", mle, clustered_spread(votes, mle)
    yield "gamma", gamma, clustered_spread(votes, gamma)
    yield "gamma by rater", gamma, clustered_spread(votes, gamma, clusters="by_rater")
    yield "gamma by vote", gamma, clustered_spread(alone, gamma)
    yield "posterior", gamma, gibbs.spread(gamma, seed=seed)
    yield "dsm", dsm, gamma_quantiles(dsm)


class _Board:
    """Hits and widths by method, over systems and over pairs."""

    def __init__(self, systems: F8, pairs: F8) -> None:
        self.truth = {"systems": systems, "pairs": pairs}
        self.hits: dict[tuple[str, str], F8] = {}
        self.widths: dict[tuple[str, str], list[float]] = {}

    def mark(self, method: str, systems: Ends | None, pairs: Ends) -> None:
        """Count one run's intervals."""
        for over, ends in (("systems", systems), ("pairs", pairs)):
            if ends is None:
                continue
            low, high = ends
            truth, key = self.truth[over], (method, over)
            held: Mask = (low <= truth) & (truth <= high)
            self.hits[key] = self.hits.get(key, np.zeros(len(truth))) + held
            self.widths.setdefault(key, []).append(float((high - low).mean() / 2))

    def table(self, runs: int) -> list[Coverage]:
        """One row for each method and each of systems and pairs."""
        return [
            Coverage(method, over, tuple((hits / runs).tolist()), float(np.nanmean(self.widths[method, over])), runs)
            for (method, over), hits in self.hits.items()
        ]


def _mos_pairs(drawn: Ratings, method: str) -> Ends:
    names = drawn.systems
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    if method in ("two_way", "by_rater"):
        clusters = "two_way" if method == "two_way" else "by_rater"
        found = [difference(drawn, a, b, clusters).interval for a, b in pairs]
        return np.array([i.low for i in found], float), np.array([i.high for i in found], float)
    alone = by_system(drawn, "plain")
    gap = np.array([alone[a].mean - alone[b].mean for a, b in pairs])
    error = np.array([np.hypot(alone[a].se or 0.0, alone[b].se or 0.0) for a, b in pairs])
    return gap - z_quantile(0.95) * error, gap + z_quantile(0.95) * error


def _means(ratings: Ratings) -> F8:
    return np.bincount(ratings.system, ratings.score) / np.bincount(ratings.system)


def _apart(scores: F8) -> F8:
    first, second = np.triu_indices(len(scores), 1)
    return scores[first] - scores[second]


def _counted(runs: int, progress: Progress | None) -> Iterator[int]:
    if runs < 1:
        raise BadOption(f"runs is {runs}", "400 is usual")
    for run in range(runs):
        yield run
        if progress:
            progress(run + 1, runs)


def _enough(**counts: int) -> None:
    for name, count in counts.items():
        if count < 2:
            raise BadOption(f"{name} is {count}", "two at least")
