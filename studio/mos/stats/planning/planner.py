"""How many raters a listening test needs: the number with which every interval is narrow enough in most tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression  # pyright: ignore[reportMissingTypeStubs]

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import fit
from studio.mos.stats.columns import F8
from studio.mos.stats.means import by_system
from studio.mos.stats.planning.population import Listeners, Voters, draw_ratings, draw_votes

MOST_RATERS = 1024
SURE = 0.8  # share of the simulated tests that meet the width
Test = Literal["mos", "mushra", "cmos", "preference", "elo"]
Show = Callable[[int, float], None]


class NotReached(BadOption):
    """The wanted width is out of reach, however many raters there are."""


@dataclass(frozen=True)
class Plan:
    """What it takes.

    Attributes:
        raters: the fewest raters with whom ``sure`` of the simulated tests have no interval wider than wanted.
        half_width: that of the widest interval which ``sure`` of the tests keep to.
        sure: their share.
        curve: (raters, half width) of every number that was tried, rising in raters. The widths never rise:
            what the simulation's noise had turned round is evened out (``evened``), which moves nothing across the
            wanted width, so the answer is that of the widths themselves.
    """

    raters: int
    half_width: float
    sure: float
    curve: list[tuple[int, float]]


def usual(test: Test, systems: int) -> Listeners:
    """A population to plan with where there is no pilot; of a test of pairs its systems are the pairs.

    Deviations are in the unit of the score: steps of 1 to 5 (mos) or of -3 to 3 (cmos), points of 100 (mushra), shares
    (preference). They are our guess at what tests of speech synthesis show; a pilot of one's own knows better.
    """
    pairs = systems * (systems - 1) // 2
    if systems < (1 if test in ("mos", "mushra") else 2):
        raise BadOption(f"systems is {systems}", "a test of pairs needs two")
    if test == "mos":
        return Listeners(tuple(np.linspace(2.6, 4.0, systems).tolist()))
    if test == "mushra":
        return replace(_UNROUNDED, **_named(systems, 8.0, 5.0, 6.0, 8.0, 12.0))
    if test == "cmos":
        return replace(_UNROUNDED, **_named(pairs, 0.2, 0.1, 0.3, 0.4, 1.1))
    if test == "preference":
        return replace(_UNROUNDED, **_named(pairs, 0.0, 0.0, 0.1, 0.1, 0.45))
    raise BadOption(f"{test} is not planned by means", "plan it by raters_for_elo")


_UNROUNDED = Listeners(clickers=0.0, low=None)


def _named(systems: int, rater: float, item: float, taste: float, item_system: float, noise: float) -> dict[str, Any]:
    sds = {"rater_sd": rater, "item_sd": item, "taste_sd": taste, "item_system_sd": item_system, "noise_sd": noise}
    return {"systems": (0.0,) * systems, **sds}


REACH: dict[Test, float | None] = {"mos": 2.0, "mushra": 50.0, "cmos": 3.0, "preference": 0.5, "elo": None}


def raters_for_means(
    half_width: float,
    who: Listeners,
    items: int = 30,
    share: float = 1.0,
    runs: int = 200,
    seed: int = 0,
    level: float = 0.95,
    show: Show | None = None,
    reach: float | None = None,
) -> Plan:
    """The fewest raters for intervals by rater and script of all systems (or pairs) at once, found by bisection.

    Args:
        half_width: wanted, in the unit of the score.
        who: the variance components: ``usual``, or a pilot's (``pilot.listeners_of``).
        items: scripts in the test.
        share: part of them that each rater hears, of every system.
        runs: simulated tests for each number of raters.
        seed: of the draws, the same for every number.
        level: nominal coverage.
        show: called with each number of raters and its half width, as they are found.
        reach: half the width of the scale, which no interval leaves; None for a scale without ends.

    Raises:
        NotReached: a width that even 1,024 raters do not reach; scripts vary too, and more of them are needed.
        BadOption: a number that cannot be.
    """
    _check(half_width, runs)
    if reach is not None and half_width >= reach:
        raise BadOption(f"the half width is {half_width:g}", f"under {reach:g}, with which the whole scale is covered")
    if items < 2 or not 0 < share <= 1:
        raise BadOption(f"items, share are {items}, {share}", "2 items at least; share 0 to 1")

    def found(raters: int) -> F8:
        widths = half_widths(who, raters, items, share, runs, seed, level)
        return widths if reach is None else np.minimum(widths, reach)

    return _fewest(half_width, found, f"use more than {items} items", show)


def raters_for_elo(
    half_width: float,
    who: Voters | None = None,
    pairs: int = 20,
    scripts: int = 100,
    runs: int = 100,
    seed: int = 0,
    level: float = 0.95,
    show: Show | None = None,
) -> Plan:
    """The fewest raters for intervals by rater and script of the centred Elo of all systems at once.

    Args:
        half_width: wanted, in Elo.
        who: the systems and the variance components, perhaps a pilot's (``pilot.voters_of``).
        pairs: votes of each rater, on random pairs of systems.
        scripts: in the test.
        runs: simulated tests for each number of raters.
        seed: of the draws, the same for every number.
        level: nominal coverage.
        show: called with each number of raters and its half width, as they are found.

    Raises:
        NotReached: a width that even 1,024 raters do not reach.
        BadOption: a number that cannot be.
    """
    who = Voters() if who is None else who
    _check(half_width, runs)
    if pairs < 1 or scripts < 2:
        raise BadOption(f"pairs, scripts are {pairs}, {scripts}", "1 pair and 2 scripts at least")

    def found(raters: int) -> F8:
        return elo_half_widths(who, raters, pairs, scripts, runs, seed, level)

    return _fewest(
        half_width, found, f"give each rater more than {pairs} pairs, or use more than {scripts} items", show
    )


def half_widths(who: Listeners, raters: int, items: int, share: float, runs: int, seed: int, level: float = 0.95) -> F8:
    """The widest half width over the systems, by rater and item, in each simulated test [runs]; infinite for none."""
    rng = np.random.default_rng(seed)
    widest = np.full(runs, np.inf)
    for run in range(runs):
        found = by_system(draw_ratings(who, rng, raters, items, share=share), level=level).values()
        widest[run] = max(np.inf if i.half_width is None else i.half_width for i in found)
    return widest


def elo_half_widths(
    who: Voters, raters: int, pairs: int, scripts: int, runs: int, seed: int, level: float = 0.95
) -> F8:
    """The widest half width of an Elo interval over the systems, [runs]; infinite where there is none."""
    rng = np.random.default_rng(seed)
    found = np.full(runs, np.inf)
    for run in range(runs):
        votes = draw_votes(who, rng, raters, pairs, scripts)
        spread = clustered_spread(votes, fit(votes), level=level)
        widest = float(np.max(spread.high - spread.low)) / 2
        found[run] = widest if np.isfinite(widest) else np.inf
    return found


def evened(widths: Sequence[float]) -> list[float]:
    """The widths that never rise and are nearest to these in squares (isotonic regression)."""
    found: Any = isotonic_regression(np.array(widths), increasing=False)  # scipy comes without types
    return [float(width) for width in found.x]


def _check(half_width: float, runs: int) -> None:
    if not half_width > 0:
        raise BadOption(f"the half width is {half_width}", "it is above 0")
    if runs < 1:
        raise BadOption(f"runs is {runs}", "1 at the least")


def _fewest(half_width: float, found: Callable[[int], F8], otherwise: str, show: Show | None) -> Plan:
    """Bisection over numbers of raters by what ``SURE`` of the tests that ``found`` draws with each keep to."""
    curve: dict[int, float] = {}

    def kept_to(raters: int) -> float:
        curve[raters] = float(np.quantile(found(raters), SURE, method="higher"))
        if show:
            show(raters, curve[raters])
        return curve[raters]

    few, enough = 1, 2
    while kept_to(enough) > half_width:
        if enough >= MOST_RATERS:
            raise NotReached(f"{enough} raters reach {curve[enough]:.3g}, not {half_width}", otherwise)
        few, enough = enough, enough * 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if kept_to(middle) <= half_width else (middle, enough)
    raters = sorted(curve)
    widths = evened([curve[r] for r in raters])
    fitted = dict(zip(raters, widths, strict=True))
    return Plan(enough, fitted[enough], SURE, list(fitted.items()))
