"""Number of raters for which all intervals of a listening test are narrow enough in most simulated tests.

Simulated raters deliberately violate the assumptions of every interval: they differ in level, taste and noise, scripts
differ, and some raters answer at random.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy  # pyright: ignore[reportMissingTypeStubs]

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import fit
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, B, Mask, Ratings, ScoreScale, Votes
from studio.mos.stats.elo_intervals import clustered_intervals
from studio.mos.stats.means import by_system


@dataclass(frozen=True)
class RatingPopulation:
    """Population of raters and scripts for scores. Standard deviations are in steps of the scale."""

    systems: tuple[float, ...] = (2.6, 3.2, 3.6, 4.0)  # quality of each system before rounding and clipping
    rater_sd: float = 0.4  # raters
    item_sd: float = 0.3  # scripts
    taste_sd: float = 0.2  # rater x system
    item_system_sd: float = 0.2  # script x system
    noise_sd: float = 0.7  # single answers of a median rater
    noise_spread: float = 0.3  # standard deviation of ln noise over raters
    clickers: float = 0.05  # share of raters who answer at random
    low: int | None = 1  # lowest score, like ``high``; None leaves scores unrounded
    high: int = 5


@dataclass(frozen=True)
class VotePopulation:
    """Population of raters and scripts for pairwise votes. Standard deviations are in Elo."""

    systems: tuple[float, ...] = (-300, -200, -100, 0, 100, 200, 300)  # Elo of each system
    taste_sd: float = 60.0  # rater x system
    item_system_sd: float = 60.0  # script x system
    noise_spread: float = 0.3  # standard deviation of ln of the raters' noise; 1 is the Bradley-Terry noise
    clickers: float = 0.05  # share of raters who answer at random
    ties: float = 0.1  # share of ties between equal systems; fewer between unequal ones (Davidson 1970)
    both_bad: float = 0.05  # share of 'both bad' votes, independent of the systems


def draw_ratings(
    population: RatingPopulation,
    rng: np.random.Generator,
    raters: int,
    items: int,
    own_items: bool = False,
    share: float = 1.0,
) -> Ratings:
    """Ratings of every system on every item by every rater.

    ``own_items``: whether each rater has scripts of their own, so that many raters represent all scripts; ``share``:
    part of the items that each rater rates, drawn per rater.
    """
    systems = len(population.systems)
    shape = (raters, items, systems)
    scripts = raters if own_items else 1
    level = np.array(population.systems) + rng.normal(0, population.rater_sd, (raters, 1, 1))
    level = level + rng.normal(0, population.taste_sd, (raters, 1, systems))
    level = level + rng.normal(0, population.item_sd, (scripts, items, 1))
    level = level + rng.normal(0, population.item_system_sd, (scripts, items, systems))
    scatter = population.noise_sd * np.exp(rng.normal(0, population.noise_spread, (raters, 1, 1)))
    score = level + scatter * rng.standard_normal(shape)
    if population.low is not None:
        score = np.clip(np.rint(score), population.low, population.high)
        clicks = rng.random(raters) < population.clickers
        score[clicks] = rng.integers(population.low, population.high + 1, (int(clicks.sum()), items, systems))
    rater, item, system = (axis.ravel() for axis in np.indices(shape))
    if own_items:
        item = rater * items + item
    names = _names("r", raters), _names("i", items * scripts), _names("s", systems)
    scale = None if population.low is None else ScoreScale(population.low, population.high)
    ratings = Ratings(score.ravel(), rater, item, system, *names, scale)
    return ratings if share >= 1 else ratings.where(_assigned_items(rng, raters, items, share)[rater, item])


def draw_votes(
    population: VotePopulation, rng: np.random.Generator, raters: int, pairs: int, scripts: int | None = None
) -> Votes:
    """Votes of every rater on ``pairs`` random pairs of systems, each on one of ``scripts`` (None: a new one each)."""
    systems, n = len(population.systems), raters * pairs
    if systems < 2:
        raise BadOption("a population of one system has no pairs", "at least two are needed")
    rater = np.repeat(np.arange(raters), pairs)
    a = rng.integers(systems, size=n)
    b = (a + rng.integers(1, systems, size=n)) % systems
    script = np.arange(n) if scripts is None else rng.integers(scripts, size=n)
    elo = np.array(population.systems, np.float64)
    taste = rng.normal(0, population.taste_sd, (raters, systems))
    suits = rng.normal(0, population.item_system_sd, (n if scripts is None else scripts, systems))
    gap = elo[a] - elo[b] + taste[rater, a] - taste[rater, b] + suits[script, a] - suits[script, b]
    scale = np.exp(rng.normal(0, population.noise_spread, raters))[rater]
    clicks = (rng.random(raters) < population.clickers)[rater]
    half = np.where(clicks, 0.0, np.clip(gap / (400 * scale), -99, 99)) * np.log(10) / 2
    tie = 2 * population.ties / (1 - population.ties)
    parts = np.cumsum([np.exp(half), np.exp(-half), np.full(n, tie)], axis=0)
    outcome = (rng.random(n) * parts[2] > parts[:2]).sum(axis=0)
    outcome = np.array([A, B, TIE])[outcome]
    outcome = np.where(rng.random(n) < population.both_bad, BOTH_BAD, outcome)
    names = _names("i", n if scripts is None else scripts)
    return Votes(a, b, outcome.astype(np.uint8), rater, _names("s", systems), _names("r", raters), script, names)


def _assigned_items(rng: np.random.Generator, raters: int, items: int, share: float) -> Mask:
    """[raters, items]: the items of each rater; the same number for all."""
    rank: F8 = rng.random((raters, items)).argsort(axis=1).argsort(axis=1).astype(np.float64)
    return rank < max(1, round(items * share))


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k + 1}" for k in range(count)]


MAX_RATERS = 1024
ASSURANCE = 0.8  # share of simulated tests that meet the width
PlannedTest = Literal["mos", "mushra", "cmos", "preference", "elo"]
ShowStep = Callable[[int, float], None]


class WidthNotReached(BadOption):
    """The requested half-width needs more than the maximum number of raters."""


@dataclass(frozen=True)
class RaterPlan:
    """Result of a sample size search."""

    raters: int  # fewest raters with which all intervals are narrow enough in a share ``sure`` of the simulated tests
    half_width: float  # the ``sure`` quantile of the widest half-width
    sure: float  # the required share of tests
    # (raters, half-width) for every number tried, increasing in raters, with simulation noise removed by isotonic
    # regression (``monotone_widths``), which does not change the result
    curve: list[tuple[int, float]]


def default_population(test: PlannedTest, systems: int) -> RatingPopulation:
    """Default population for planning without a pilot; in a test of pairs its systems are the pairs.

    Standard deviations are in the unit of the score: steps of 1 to 5 (mos) or of -3 to 3 (cmos), points of 100
    (mushra), shares (preference). They are rough values for tests of speech synthesis; prefer your own pilot.
    """
    pairs = systems * (systems - 1) // 2
    if systems < (1 if test in ("mos", "mushra") else 2):
        raise BadOption(f"systems is {systems}", "a test of pairs needs at least two")
    if test == "mos":
        return RatingPopulation(tuple(np.linspace(2.6, 4.0, systems).tolist()))
    if test == "mushra":
        return replace(_UNROUNDED, **_named(systems, 8.0, 5.0, 6.0, 8.0, 12.0))
    if test == "cmos":
        return replace(_UNROUNDED, **_named(pairs, 0.2, 0.1, 0.3, 0.4, 1.1))
    if test == "preference":
        return replace(_UNROUNDED, **_named(pairs, 0.0, 0.0, 0.1, 0.1, 0.45))
    raise BadOption(f"{test} is not planned by means", "use raters_for_elo")


_UNROUNDED = RatingPopulation(clickers=0.0, low=None)


def _named(systems: int, rater: float, item: float, taste: float, item_system: float, noise: float) -> dict[str, Any]:
    sds = {"rater_sd": rater, "item_sd": item, "taste_sd": taste, "item_system_sd": item_system, "noise_sd": noise}
    return {"systems": (0.0,) * systems, **sds}


HALF_RANGE: dict[PlannedTest, float | None] = {"mos": 2.0, "mushra": 50.0, "cmos": 3.0, "preference": 0.5, "elo": None}


def raters_for_means(
    half_width: float,
    population: RatingPopulation,
    items: int = 30,
    share: float = 1.0,
    runs: int = 200,
    seed: int = 0,
    show: ShowStep | None = None,
    half_range: float | None = None,
) -> RaterPlan:
    """Fewest raters for intervals by rater and script of all systems (or pairs) jointly, by bisection.

    Args:
        half_width: requested, in the unit of the score.
        population: variance components: ``default_population``, or those of a pilot (``pilot.rating_population``).
        items: scripts in the test.
        share: part of them that each rater rates, for every system.
        runs: simulated tests per number of raters.
        seed: of the draws, the same for every number.
        show: called with each number of raters and its half-width.
        half_range: half the range of the scale, which bounds every interval; None for an unbounded scale.

    Raises:
        WidthNotReached: even 1,024 raters do not reach the width; more scripts are needed.
        BadOption: an invalid number.
    """
    _check(half_width, runs)
    if half_range is not None and half_width >= half_range:
        raise BadOption(f"the half-width is {half_width:g}", f"below {half_range:g}, which covers the whole scale")
    if items < 2 or not 0 < share <= 1:
        raise BadOption(f"items, share are {items}, {share}", "at least 2 items; share in (0, 1]")

    def widths(raters: int) -> F8:
        half = half_widths(population, raters, items, share, runs, seed)
        return half if half_range is None else np.minimum(half, half_range)

    return _min_raters(half_width, widths, f"use more than {items} items", show)


def raters_for_elo(
    half_width: float,
    population: VotePopulation | None = None,
    pairs: int = 20,
    scripts: int = 100,
    runs: int = 100,
    seed: int = 0,
) -> RaterPlan:
    """Fewest raters for intervals by rater and script of the centred Elo of all systems jointly.

    Args:
        half_width: requested, in Elo.
        population: systems and variance components, e.g. of a pilot (``pilot.vote_population``).
        pairs: votes of each rater, on random pairs of systems, each on one of ``scripts``.
        runs, seed: as for ``raters_for_means``.

    Raises as ``raters_for_means``.
    """
    population = VotePopulation() if population is None else population
    _check(half_width, runs)
    if pairs < 1 or scripts < 2:
        raise BadOption(f"pairs, scripts are {pairs}, {scripts}", "at least 1 pair and 2 scripts")

    def widths(raters: int) -> F8:
        return elo_half_widths(population, raters, pairs, scripts, runs, seed)

    hint = f"give each rater more than {pairs} pairs, or use more than {scripts} items"
    return _min_raters(half_width, widths, hint)


def half_widths(population: RatingPopulation, raters: int, items: int, share: float, runs: int, seed: int) -> F8:
    """Widest half-width over the systems in each simulated test [runs]; infinite if there is none."""
    rng = np.random.default_rng(seed)
    widest = np.full(runs, np.inf)
    for run in range(runs):
        intervals = by_system(draw_ratings(population, rng, raters, items, share=share)).values()
        widest[run] = max(np.inf if i.half_width is None else i.half_width for i in intervals)
    return widest


def elo_half_widths(population: VotePopulation, raters: int, pairs: int, scripts: int, runs: int, seed: int) -> F8:
    """Widest half-width of Elo over the systems in each simulated test [runs]; infinite if there is none."""
    rng = np.random.default_rng(seed)
    widths = np.full(runs, np.inf)
    for run in range(runs):
        votes = draw_votes(population, rng, raters, pairs, scripts)
        spread = clustered_intervals(votes, fit(votes))
        widest = float(np.max(spread.high - spread.low)) / 2
        widths[run] = widest if np.isfinite(widest) else np.inf
    return widths


def monotone_widths(widths: Sequence[float]) -> list[float]:
    """Nearest non-increasing widths in least squares (isotonic regression)."""
    result: Any = scipy.optimize.isotonic_regression(np.array(widths), increasing=False)  # scipy has no type stubs
    return [float(width) for width in result.x]


def _check(half_width: float, runs: int) -> None:
    if not half_width > 0:
        raise BadOption(f"the half-width is {half_width}", "half-width must be positive")
    if runs < 1:
        raise BadOption(f"runs is {runs}", "it must be at least 1")


def _min_raters(
    half_width: float, widths_of: Callable[[int], F8], hint: str, show: ShowStep | None = None
) -> RaterPlan:
    """Bisection over numbers of raters by the ``ASSURANCE`` quantile of the simulated widths."""
    curve: dict[int, float] = {}

    def quantile(raters: int) -> float:
        curve[raters] = float(np.quantile(widths_of(raters), ASSURANCE, method="higher"))
        if show:
            show(raters, curve[raters])
        return curve[raters]

    few, enough = 1, 2
    while quantile(enough) > half_width:
        if enough >= MAX_RATERS:
            raise WidthNotReached(f"{enough} raters reach {curve[enough]:.3g}, not {half_width}", hint)
        few, enough = enough, enough * 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if quantile(middle) <= half_width else (middle, enough)
    raters = sorted(curve)
    widths = monotone_widths([curve[r] for r in raters])
    fitted = dict(zip(raters, widths, strict=True))
    return RaterPlan(enough, fitted[enough], ASSURANCE, list(fitted.items()))
