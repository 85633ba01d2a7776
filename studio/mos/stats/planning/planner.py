"""How many raters a listening test needs for intervals of a wanted width, by simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression  # pyright: ignore[reportMissingTypeStubs]

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import fit
from studio.mos.stats.columns import F8
from studio.mos.stats.means import mean_of
from studio.mos.stats.planning.population import Listeners, Voters, draw_ratings, draw_votes

MOST_RATERS = 1024

Show = Callable[[int, float], None]


@dataclass(frozen=True)
class Plan:
    """What it takes.

    Attributes:
        raters: the fewest raters whose median half width is at most the wanted one.
        half_width: that median.
        curve: (raters, median half width) of every number that was tried, rising in raters. The widths never rise:
            what the simulation's noise had turned round is evened out (``evened``), which moves nothing across the
            wanted width, so the answer is that of the medians themselves.
    """

    raters: int
    half_width: float
    curve: list[tuple[int, float]]


def raters_needed(
    half_width: float,
    who: Listeners | None = None,
    items: int = 30,
    share: float = 1.0,
    runs: int = 40,
    seed: int = 0,
    level: float = 0.95,
    show: Show | None = None,
) -> Plan:
    """The fewest raters for two-way intervals of a MOS with this median half width, found by bisection.

    Args:
        half_width: wanted, in steps of the scale.
        who: the variance components; its first system is the one simulated.
        items: scripts in the test.
        share: part of them that each rater hears.
        runs: simulated tests for each number of raters.
        seed: of the draws, the same for every number.
        level: nominal coverage.
        show: called with each number of raters and its median half width, as they are found.

    Raises:
        BadOption: a width that even 1,024 raters do not reach; scripts vary too, and more of them are needed.
    """
    who = Listeners() if who is None else who
    if not half_width > 0:
        raise BadOption(f"the half width is {half_width}", "it is above 0")
    if items < 2 or runs < 1 or not 0 < share <= 1:
        raise BadOption(f"items, runs, share are {items}, {runs}, {share}", "2 items, 1 run at least; share 0 to 1")
    one = replace(who, systems=who.systems[:1])

    def found(raters: int) -> F8:
        return half_widths(one, raters, items, share, runs, seed, level)

    return _fewest(half_width, found, f"use more than {items} items", show)


def raters_for_elo(
    half_width: float,
    who: Voters | None = None,
    pairs: int = 20,
    scripts: int = 100,
    runs: int = 20,
    seed: int = 0,
    level: float = 0.95,
    show: Show | None = None,
) -> Plan:
    """The fewest raters for intervals of centred Elo with this median half width, of the system that fares worst.

    The interval is the default one: Gamma prior, by rater and script.

    Args:
        half_width: wanted, in Elo.
        who: the systems and the variance components.
        pairs: votes of each rater, on random pairs of systems.
        scripts: in the test.
        runs: simulated tests for each number of raters.
        seed: of the draws, the same for every number.
        level: nominal coverage.
        show: called with each number of raters and its median half width, as they are found.

    Raises:
        BadOption: a width that even 1,024 raters do not reach.
    """
    who = Voters() if who is None else who
    if not half_width > 0:
        raise BadOption(f"the half width is {half_width}", "it is above 0")
    if pairs < 1 or scripts < 1 or runs < 1:
        raise BadOption(f"pairs, scripts, runs are {pairs}, {scripts}, {runs}", "1 of each at least")

    def found(raters: int) -> F8:
        return elo_half_widths(who, raters, pairs, scripts, runs, seed, level)

    return _fewest(half_width, found, f"give each rater more than {pairs} pairs", show)


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


def _fewest(half_width: float, found: Callable[[int], F8], otherwise: str, show: Show | None) -> Plan:
    """Bisection over numbers of raters by the median of what ``found`` says of each."""
    curve: dict[int, float] = {}

    def median(raters: int) -> float:
        curve[raters] = float(np.median(found(raters)))
        if show:
            show(raters, curve[raters])
        return curve[raters]

    few, enough = 1, 2
    while median(enough) > half_width:
        if enough >= MOST_RATERS:
            raise BadOption(f"{enough} raters reach {curve[enough]:.3g}, not {half_width}", otherwise)
        few, enough = enough, enough * 2
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if median(middle) <= half_width else (middle, enough)
    raters = sorted(curve)
    widths = evened([curve[r] for r in raters])
    fitted = dict(zip(raters, widths, strict=True))
    return Plan(enough, fitted[enough], list(fitted.items()))


def evened(widths: Sequence[float]) -> list[float]:
    """The widths that never rise and are nearest to these in squares (isotonic regression)."""
    found: Any = isotonic_regression(np.array(widths), increasing=False)  # scipy comes without types
    return [float(width) for width in found.x]


def half_widths(who: Listeners, raters: int, items: int, share: float, runs: int, seed: int, level: float = 0.95) -> F8:
    """Half widths [runs] of the two-way interval of one system in simulated tests; infinite where there is none."""
    rng = np.random.default_rng(seed)
    found = [mean_of(draw_ratings(who, rng, raters, items, share=share), level=level) for _ in range(runs)]
    return np.array([np.inf if f.half_width is None else f.half_width for f in found])
