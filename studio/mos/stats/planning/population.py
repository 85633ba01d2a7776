"""People who do not exist: drawn ratings and votes, to try intervals and plans on.

The draws break the assumptions of every interval on purpose: raters differ in level, in taste and in noise, scripts
differ, and some raters click at random.
"""

from dataclasses import dataclass

import numpy as np

from studio.core.errors import BadOption
from studio.mos.stats.columns import BOTH_BAD, F8, TIE, A, B, Mask, Ratings, Scale, Votes


@dataclass(frozen=True)
class Listeners:
    """A population of raters and scripts for scores. Deviations are in steps of the scale.

    Attributes:
        systems: the quality of each system before rounding and clipping.
        rater_sd: how raters differ in level.
        item_sd: how scripts differ, for all systems alike.
        taste_sd: how a rater's liking of one system differs from the others'.
        item_system_sd: how a script suits one system.
        noise_sd: a median rater's own scatter.
        noise_spread: standard deviation of ln of that scatter over raters.
        clickers: share of raters who answer at random.
        low: of the scale, like ``high``; None leaves scores unrounded.
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
class Voters:
    """A population of raters and scripts for pair votes. Deviations are in Elo.

    Attributes:
        systems: Elo of each system.
        taste_sd: how a rater's liking of one system differs from the others'.
        item_system_sd: how a script suits one system.
        noise_spread: standard deviation of ln of a rater's noise over raters; 1 is Bradley-Terry's own noise.
        clickers: share of raters who answer at random.
        ties: share of votes between equals that are a tie; fewer where one is better (Davidson 1970).
        both_bad: share of votes that neither will do, whoever they are.
    """

    systems: tuple[float, ...] = (-300, -200, -100, 0, 100, 200, 300)
    taste_sd: float = 60.0
    item_system_sd: float = 60.0
    noise_spread: float = 0.3
    clickers: float = 0.05
    ties: float = 0.1
    both_bad: float = 0.05


def draw_ratings(
    who: Listeners, rng: np.random.Generator, raters: int, items: int, own_items: bool = False, share: float = 1.0
) -> Ratings:
    """Every rater scores every system on every item.

    Args:
        who: the population.
        rng: where the draws come from.
        raters: how many.
        items: how many scripts.
        own_items: give each rater scripts of their own, so that many raters stand for all scripts too.
        share: part of the items that each rater hears, drawn for each.
    """
    systems = len(who.systems)
    shape = (raters, items, systems)
    scripts = raters if own_items else 1
    level = np.array(who.systems) + rng.normal(0, who.rater_sd, (raters, 1, 1))
    level = level + rng.normal(0, who.taste_sd, (raters, 1, systems)) + rng.normal(0, who.item_sd, (scripts, items, 1))
    level = level + rng.normal(0, who.item_system_sd, (scripts, items, systems))
    scatter = who.noise_sd * np.exp(rng.normal(0, who.noise_spread, (raters, 1, 1)))
    score = level + scatter * rng.standard_normal(shape)
    if who.low is not None:
        score = np.clip(np.rint(score), who.low, who.high)
        clicks = rng.random(raters) < who.clickers
        score[clicks] = rng.integers(who.low, who.high + 1, (int(clicks.sum()), items, systems))
    rater, item, system = (axis.ravel() for axis in np.indices(shape))
    if own_items:
        item = rater * items + item
    names = _names("r", raters), _names("i", items * scripts), _names("s", systems)
    scale = None if who.low is None else Scale(who.low, who.high)
    drawn = Ratings(score.ravel(), rater, item, system, *names, scale)
    return drawn if share >= 1 else drawn.where(_heard(rng, raters, items, share)[rater, item])


def draw_votes(who: Voters, rng: np.random.Generator, raters: int, pairs: int, scripts: int | None = None) -> Votes:
    """Every rater votes on ``pairs`` pairs, each of two random systems on one of ``scripts`` (None: each its own)."""
    systems, n = len(who.systems), raters * pairs
    if systems < 2:
        raise BadOption("a population of one system has no pairs", "give two systems at least")
    rater = np.repeat(np.arange(raters), pairs)
    a = rng.integers(systems, size=n)
    b = (a + rng.integers(1, systems, size=n)) % systems
    script = np.arange(n) if scripts is None else rng.integers(scripts, size=n)
    elo = np.array(who.systems, np.float64)
    taste = rng.normal(0, who.taste_sd, (raters, systems))
    suits = rng.normal(0, who.item_system_sd, (n if scripts is None else scripts, systems))
    gap = elo[a] - elo[b] + taste[rater, a] - taste[rater, b] + suits[script, a] - suits[script, b]
    scale = np.exp(rng.normal(0, who.noise_spread, raters))[rater]
    clicks = (rng.random(raters) < who.clickers)[rater]
    half = np.where(clicks, 0.0, np.clip(gap / (400 * scale), -99, 99)) * np.log(10) / 2
    tie = 2 * who.ties / (1 - who.ties)
    parts = np.cumsum([np.exp(half), np.exp(-half), np.full(n, tie)], axis=0)
    outcome = (rng.random(n) * parts[2] > parts[:2]).sum(axis=0)
    outcome = np.array([A, B, TIE])[outcome]
    outcome = np.where(rng.random(n) < who.both_bad, BOTH_BAD, outcome)
    names = _names("i", n if scripts is None else scripts)
    return Votes(a, b, outcome.astype(np.uint8), rater, _names("s", systems), _names("r", raters), script, names)


def _heard(rng: np.random.Generator, raters: int, items: int, share: float) -> Mask:
    """[raters, items]: which items each rater hears; the same number for all."""
    rank: F8 = rng.random((raters, items)).argsort(axis=1).argsort(axis=1).astype(np.float64)
    return rank < max(1, round(items * share))


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k + 1}" for k in range(count)]
