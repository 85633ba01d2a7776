"""Simulated raters: random ratings and votes to test intervals and plans with.

The model deliberately violates the assumptions of every interval: raters differ in level, taste and noise, scripts
differ, and some raters answer at random.
"""

from dataclasses import dataclass

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, B, Mask, Ratings, ScoreScale, Votes


@dataclass(frozen=True)
class RatingPopulation:
    """Population of raters and scripts for scores. Standard deviations are in steps of the scale.

    Attributes:
        systems: quality of each system before rounding and clipping.
        rater_sd: raters.
        item_sd: scripts.
        taste_sd: rater x system.
        item_system_sd: script x system.
        noise_sd: single answers of a median rater.
        noise_spread: standard deviation of ln noise over raters.
        clickers: share of raters who answer at random.
        low: lowest score, like ``high``; None leaves scores unrounded.
    """

    systems: tuple[float, ...] = (2.6, 3.2, 3.6, 4.0)
    rater_sd: float = 0.4
    item_sd: float = 0.3
    taste_sd: float = 0.2
    item_system_sd: float = 0.2
    noise_sd: float = 0.7
    noise_spread: float = 0.3
    clickers: float = 0.05
    low: int | None = 1
    high: int = 5


@dataclass(frozen=True)
class VotePopulation:
    """Population of raters and scripts for pairwise votes. Standard deviations are in Elo.

    Attributes:
        systems: Elo of each system.
        taste_sd: rater x system.
        item_system_sd: script x system.
        noise_spread: standard deviation of ln of the raters' noise; 1 is the Bradley-Terry noise.
        clickers: share of raters who answer at random.
        ties: share of ties between equal systems; fewer between unequal ones (Davidson 1970).
        both_bad: share of 'both bad' votes, independent of the systems.
    """

    systems: tuple[float, ...] = (-300, -200, -100, 0, 100, 200, 300)
    taste_sd: float = 60.0
    item_system_sd: float = 60.0
    noise_spread: float = 0.3
    clickers: float = 0.05
    ties: float = 0.1
    both_bad: float = 0.05


def draw_ratings(
    population: RatingPopulation,
    rng: np.random.Generator,
    raters: int,
    items: int,
    own_items: bool = False,
    share: float = 1.0,
) -> Ratings:
    """Ratings of every system on every item by every rater.

    Args:
        population: the population.
        rng: random generator.
        raters: number of raters.
        items: number of scripts.
        own_items: whether each rater has scripts of their own, so that many raters represent all scripts.
        share: part of the items that each rater rates, drawn per rater.
    """
    systems = len(population.systems)
    shape = (raters, items, systems)
    scripts = raters if own_items else 1
    level = np.array(population.systems) + rng.normal(0, population.rater_sd, (raters, 1, 1))
    level = (
        level
        + rng.normal(0, population.taste_sd, (raters, 1, systems))
        + rng.normal(0, population.item_sd, (scripts, items, 1))
    )
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
    drawn = Ratings(score.ravel(), rater, item, system, *names, scale)
    return drawn if share >= 1 else drawn.where(_assigned_items(rng, raters, items, share)[rater, item])


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
