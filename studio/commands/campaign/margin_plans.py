"""``studio campaign plan --margin``: the number of raters that shows "no worse by more than a margin"."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from studio.commands.common import progress_bar
from studio.core.errors import StudioError
from studio.core.terminal import print_json, print_line
from studio.mos.stats.margin_plan import MarginAsk, MarginPlan, PowerNotReached, raters_for_margin
from studio.mos.stats.pilot import SMALL_PILOT
from studio.mos.stats.planner import RatingPopulation, default_population

if TYPE_CHECKING:
    from studio.mos.analysis.planning import Pilot
    from studio.mos.stats.planner import RaterPlan


def plan_margin(ask: MarginAsk, known: "Pilot | None", name: str, runs: int, seed: int, *, as_json: bool) -> None:
    """Plan and print; ``known`` is the pilot ``name``, if any. Raises BadOption, PowerNotReached."""
    who = default_population(ask.test, 2) if known is None else known.cautious
    assert isinstance(who, RatingPopulation), "votes for Elo are not planned by a margin"
    as_shown = None
    if known is not None:
        assert isinstance(known.who, RatingPopulation), "as above"
        as_shown = _planned(ask, known.who, runs, seed)
    try:
        plan = _planned(ask, who, runs, seed)
    except PowerNotReached as error:
        if known is None or as_shown is None:
            raise
        raise with_pilot(error, name, known, as_shown.raters) from error
    if as_json:
        about: dict[str, Any] | None = None if known is None else {"name": name, **asdict(known)}
        before = None if as_shown is None else as_shown.raters
        print_json(
            {**asdict(ask), **asdict(plan), "population": asdict(who), "pilot": about, "raters_as_shown": before}
        )
        return
    for raters, power in plan.curve:
        print_line(f"{raters:5} raters  power {power:.2f}")
    claim = "no worse by more than" if ask.claim == "not_worse" else "equivalent within"
    pairs = "" if ask.claims == 1 else f" for each of {ask.claims} pairs"
    print_line(
        f"{plan.raters} raters show '{claim} {ask.margin:g}'{pairs} with a power of {plan.power:.2f} if the true "
        f"difference is {ask.true_difference:g}"
    )
    print_variances(known, as_shown, "a small pilot: take the number with the upper bounds, or run a larger one")


def with_pilot(error: StudioError, name: str, known: "Pilot", raters_as_shown: int) -> StudioError:
    """The error of a plan that no number of raters reaches, with the estimates from its pilot ``name``."""
    return type(error)(
        f"with the variances of pilot {name} at their upper bounds {error.what}; with its own "
        f"estimates {raters_as_shown} raters would be enough",
        f"{error.do}, or run a larger pilot: it had {known.raters} raters and {known.scripts} scripts",
    )


def print_variances(known: "Pilot | None", as_shown: "MarginPlan | RaterPlan | None", small_pilot: str) -> None:
    """Print which variances a plan uses; ``small_pilot`` is the warning for a small pilot."""
    if known is None or as_shown is None:
        print_line(
            "the variances are usual ones; --pilot uses those of one of your campaigns", err=True, colour="yellow"
        )
        return
    print_line(f"variances at their upper 80% bounds; with the pilot's own, {as_shown.raters} raters would be enough")
    if min(known.raters, known.scripts) < SMALL_PILOT:
        print_line(small_pilot, err=True, colour="yellow")


def _planned(ask: MarginAsk, who: RatingPopulation, runs: int, seed: int) -> MarginPlan:
    with progress_bar() as progress:
        bar = progress.add_task("simulating tests", total=None)

        def show(raters: int, power: float) -> None:
            progress.update(bar, description=f"{raters} raters: power {power:.2f}")

        return raters_for_margin(ask, who, runs, seed, show)
