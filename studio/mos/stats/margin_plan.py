"""Number of raters with which non-inferiority or equivalence is shown in most simulated tests."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.equivalence import ALPHA, Claim, margin_test, power_share
from studio.mos.stats.interval import mean_interval
from studio.mos.stats.means import difference
from studio.mos.stats.planner import MAX_RATERS, PlannedTest, RatingPopulation, draw_ratings, monotone_widths

PAIR_TESTS: tuple[PlannedTest, ...] = ("cmos", "preference")  # one score for a pair of systems
RUNS = 2000  # simulated tests per number of raters near the result: a standard error of .009 at a power of .8
_FIRST_RUNS = 200  # enough where the power is far from the wanted one
_FAR = 4.0  # standard errors
_MAX_CLAIMS = 100


class PowerNotReached(BadOption):
    """The wanted power needs more than the maximum number of raters."""


@dataclass(frozen=True)
class MarginAsk:
    """A claim to show about a candidate and a baseline, and its test. Raises BadOption for invalid values."""

    test: PlannedTest  # kind of test, not ``elo``
    margin: float  # largest harmless difference, in the unit of the score (a share of the votes for ``preference``)
    claim: Claim = "not_worse"
    # candidate minus baseline, before rounding and random answers of the population
    true_difference: float = 0.0
    power: float = 0.8  # wanted share of tests that show the claim
    claims: int = 1  # number of pairs with this claim, each tested at ALPHA / claims: Holm's first step
    items: int = 30  # scripts in the test
    share: float = 1.0  # part of them that each rater rates, for both systems

    def __post_init__(self) -> None:
        if self.test == "elo":
            raise BadOption("elo is not planned by a margin", "choose mos, mushra, cmos, preference")
        if not self.margin > 0:
            raise BadOption(f"the margin is {self.margin:g}", "it must be above 0")
        difference, is_two_sided = self.true_difference, self.claim == "equivalent"
        if not difference > -self.margin or (is_two_sided and not difference < self.margin):
            what = f"with a true difference of {difference:g} the claim is false for a margin of {self.margin:g}"
            raise BadOption(what, "plan with a difference within the margin")
        if not ALPHA < self.power < 1:
            raise BadOption(f"the power is {self.power:g}", f"choose between {ALPHA:g} and 1, usually 0.8 or 0.9")
        if not 1 <= self.claims <= _MAX_CLAIMS:
            raise BadOption(f"claims is {self.claims}", f"it must be 1 to {_MAX_CLAIMS}")
        if self.items < 2 or not 0 < self.share <= 1:
            raise BadOption(f"items, share are {self.items}, {self.share}", "at least 2 items; share in (0, 1]")


@dataclass(frozen=True)
class MarginPlan:
    """Result of a search for the number of raters."""

    raters: int  # fewest raters with which a share ``wanted`` of the simulated tests shows the claim
    power: float  # share of the simulated tests that shows it with so many
    wanted: float
    curve: list[tuple[int, float]]  # (raters, power) for every number tried, smoothed to rise with the number


def raters_for_margin(
    ask: MarginAsk,
    population: RatingPopulation,
    runs: int = RUNS,
    seed: int = 0,
    show: Callable[[int, float], None] | None = None,
) -> MarginPlan:
    """Fewest raters for a claim with a margin, by bisection over simulated tests.

    Args:
        ask: the claim and the test.
        population: variance components; the means of its systems are not used.
        runs: simulated tests per number of raters near the result.
        seed: of the draws, the same for every number.
        show: called with each number of raters and its power.

    Raises:
        PowerNotReached: even 1,024 raters do not reach the power.
        BadOption: fewer than one run.
    """
    if runs < 1:
        raise BadOption(f"runs is {runs}", "it must be at least 1")
    curve: dict[int, float] = {}

    def is_enough(raters: int) -> bool:
        power = simulated_power(ask, population, raters, min(runs, _FIRST_RUNS), seed)
        if runs > _FIRST_RUNS and abs(power - ask.power) < _FAR * (ask.power * (1 - ask.power) / _FIRST_RUNS) ** 0.5:
            power = simulated_power(ask, population, raters, runs, seed)
        curve[raters] = power
        if show:
            show(raters, power)
        return power >= ask.power

    few, enough = 1, 2
    while not is_enough(enough):
        if enough >= MAX_RATERS:
            hint = f"use more than {ask.items} items, a wider margin or less power"
            raise PowerNotReached(f"{enough} raters reach a power of {curve[enough]:.2f}, not {ask.power:g}", hint)
        few, enough = enough, enough * 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if is_enough(middle) else (middle, enough)
    tried = sorted(curve)
    smooth = [-value for value in monotone_widths([-curve[raters] for raters in tried])]
    fitted = dict(zip(tried, smooth, strict=True))
    return MarginPlan(enough, fitted[enough], ask.power, list(fitted.items()))


def simulated_power(ask: MarginAsk, population: RatingPopulation, raters: int, runs: int, seed: int) -> float:
    """Share of ``runs`` simulated tests of so many raters that show the claim."""
    rng, is_of_pairs = np.random.default_rng(seed), ask.test in PAIR_TESTS
    middle = 0.0 if population.low is None else float(np.mean(population.systems))
    half = ask.true_difference / 2
    systems = (ask.true_difference,) if is_of_pairs else (middle + half, middle - half)
    drawn_from, power_sum = replace(population, systems=systems), 0.0
    for _ in range(runs):
        ratings = draw_ratings(drawn_from, rng, raters, ask.items, share=ask.share)
        if is_of_pairs:
            interval = mean_interval(
                ratings.score, ratings.rater, ratings.item, "two_way", 0.95, ratings.scale, null=0.0
            )
        else:
            interval = difference(ratings, ratings.systems[0], ratings.systems[1]).interval
        scale = ratings.scale if is_of_pairs or ratings.scale is None else ratings.scale.difference_scale
        power_sum += power_share([margin_test("", "", interval, ask.margin, scale)], ask.claim, ALPHA / ask.claims)
    return power_sum / runs
