"""Whether the planner's number of raters is enough: planned from a pilot, tried on tests of the same crowd.

The planner draws normal scores of the pilot's variances; the crowd that the tests are drawn from does not (``crowd``):
another population of the same variances. A large pilot shows the planner's own error; pilots as small as labs have them
show what their variances are worth.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.bench.mos.crowd import Crowd
from studio.measure.report import console, no_bar, print_table
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import fit
from studio.mos.stats.bradley_terry.strength import points
from studio.mos.stats.columns import Ratings, Votes
from studio.mos.stats.means import by_system
from studio.mos.stats.planning.cautious import cautious_listeners, cautious_voters
from studio.mos.stats.planning.pilot import listeners_of, voters_of
from studio.mos.stats.planning.planner import MOST_RATERS, NotReached, Plan, Test, raters_for_elo, raters_for_means

Draw = Callable[[np.random.Generator, int, int], Ratings | Votes]
_ELO_PAIRS = 20  # of each rater


@dataclass(frozen=True)
class PlanSetting:
    """How many tests are tried with the planned number, and what the pilots are like."""

    runs: int = 400
    tests: tuple[Test, ...] = ("mos", "mushra", "cmos", "preference", "elo")
    pilot: tuple[int, int] = (400, 120)  # raters and scripts of the large pilot
    small: tuple[int, int] = (10, 12)
    small_pilots: int = 40
    plan_runs: int = 200
    seed: int = 0
    quiet: bool = False


@dataclass(frozen=True)
class Wanted:
    """A test that is planned: the half width that all of its intervals are to have, on so many scripts."""

    test: Test
    half_width: float
    scripts: int
    draw: Draw


def tests(wanted: tuple[Test, ...]) -> list[Wanted]:
    """What is planned."""
    crowd = Crowd(systems=(2.8, 3.2, 3.6, 4.0))
    two = Crowd(systems=(3.4, 3.0))
    five = Crowd(systems=(-0.6, -0.3, 0.0, 0.3, 0.6))
    every = [
        Wanted("mos", 0.25, 30, crowd.ratings),
        Wanted("mushra", 5.0, 30, crowd.sliders),
        Wanted("cmos", 0.4, 20, crowd.comparisons),
        Wanted("preference", 0.08, 30, lambda rng, raters, scripts: _shares(two.votes(rng, raters, scripts, scripts))),
        Wanted("elo", 50.0, 30, lambda rng, raters, scripts: five.votes(rng, raters, _ELO_PAIRS, scripts)),
    ]
    return [one for one in every if one.test in wanted]


def bench_mos_plan(setting: PlanSetting) -> dict[str, Any]:
    """The number planned for each test, and in how many tests of the crowd its width was met by every interval."""
    from rich.progress import track

    rows: list[dict[str, Any]] = []
    asked = tests(setting.tests)
    for number, wanted in enumerate(
        track(asked, "plans", console=console(), transient=True, disable=no_bar(setting.quiet))
    ):
        rng = np.random.default_rng([setting.seed, number])
        plan = _planned(wanted, wanted.draw(rng, *setting.pilot), setting)
        met = _met(wanted, plan.raters, rng, setting.runs)
        row = {"test": wanted.test, "half_width": wanted.half_width, "scripts": wanted.scripts}
        rows.append(row | {"raters": plan.raters, "met": met} | _small(wanted, rng, setting))
    about = {"runs": setting.runs, "seed": setting.seed, "pilot": list(setting.pilot), "small": list(setting.small)}
    out = {**about, "tests": rows}
    if not setting.quiet:
        show(out)
    return out


def _small(wanted: Wanted, rng: np.random.Generator, setting: PlanSetting) -> dict[str, Any]:
    """What small pilots lead to: the 10%, 50% and 90% of their numbers, and how often the width is met.

    Planned as the command does it, with variances at their upper bounds (``planning.cautious``); and as they came out.

    A pilot whose scripts scatter so much that no number will do ("use more scripts") names none, and keeps nothing.
    """
    pilots = [wanted.draw(rng, *setting.small) for _ in range(setting.small_pilots)]
    found: dict[str, Any] = {}
    for key, cautious in (("small_pilot", True), ("small_pilot_as_shown", False)):
        found |= {f"{key}_{what}": value for what, value in _of_pilots(wanted, pilots, cautious, rng, setting).items()}
    return found


def _of_pilots(
    wanted: Wanted, pilots: Sequence[Ratings | Votes], cautious: bool, rng: np.random.Generator, setting: PlanSetting
) -> dict[str, Any]:
    if not pilots:
        return {"raters": None, "none": None, "met": None}
    found: list[int] = []
    for pilot in pilots:
        with suppress(NotReached):
            found.append(_planned(wanted, pilot, setting, cautious).raters)
    kept = [_met(wanted, raters, rng, max(1, setting.runs // len(pilots))) for raters in found]
    none = len(pilots) - len(found)
    ranked = [*sorted(found), *[MOST_RATERS + 1] * none]
    return {
        "raters": [int(q) for q in np.percentile(ranked, (10, 50, 90), method="nearest")],
        "none": none / len(pilots),
        "met": float(np.mean(kept)) if kept else None,
    }


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows = [
        [
            f"{r['test']}, {r['scripts']} scripts",
            f"{r['half_width']:g}",
            r["raters"],
            r["met"],
            "{} ({} to {})".format(*(_raters(s[k]) for k in (1, 0, 2))) if (s := r["small_pilot_raters"]) else None,
            r["small_pilot_none"],
            r["small_pilot_met"],
            r.get("small_pilot_as_shown_met"),  # results of before have none
        ]
        for r in out["tests"]
    ]
    pilot, small = (f"{n[0]} x {n[1]}" for n in (out["pilot"], out["small"]))
    columns = ("", "half width", "raters", "met", f"raters, pilots of {small}", "none", "met", "met, as shown")
    note = (
        f"Met: share of {out['runs']} tests in which no interval was wider. Pilot of {pilot} raters and scripts, as it "
        "shows them; beside it the median of small pilots (10% and 90%), the share of them after which no number of "
        "raters was enough on so many scripts, and the share of tests with the others' numbers in which no interval "
        "was wider: planned with variances at their upper 80% bounds, and as the pilot shows them."
    )
    print_table("The planner's number of raters, tried on another population", columns, rows, note)


def _raters(number: int) -> str:
    return f"> {MOST_RATERS}" if number > MOST_RATERS else str(number)


def _planned(wanted: Wanted, pilot: Ratings | Votes, setting: PlanSetting, cautious: bool = False) -> Plan:
    runs, seed = setting.plan_runs, setting.seed
    if isinstance(pilot, Votes):
        voters = voters_of(pilot)
        voters = cautious_voters(voters, pilot) if cautious else voters
        return raters_for_elo(wanted.half_width, voters, _ELO_PAIRS, wanted.scripts, runs, seed)
    listeners = listeners_of(pilot)
    listeners = cautious_listeners(listeners, pilot) if cautious else listeners
    return raters_for_means(wanted.half_width, listeners, wanted.scripts, runs=runs, seed=seed)


def _met(wanted: Wanted, raters: int, rng: np.random.Generator, runs: int) -> float:
    met = 0
    for _ in range(runs):
        drawn = wanted.draw(rng, raters, wanted.scripts)
        if isinstance(drawn, Votes):
            spread = clustered_spread(drawn, fit(drawn))
            widest = float(np.max(spread.high - spread.low)) / 2
        else:
            widest = max(np.inf if i.half_width is None else i.half_width for i in by_system(drawn).values())
        met += widest <= wanted.half_width
    return met / runs


def _shares(votes: Votes) -> Ratings:
    """Votes on one pair as scores of its first system, 0 to 1."""
    assert votes.rater is not None and votes.item is not None, "the crowd knows them"
    worth = np.where(votes.a == 0, points(votes), 1 - points(votes))
    return Ratings(worth, votes.rater, votes.item, np.zeros_like(votes.a), votes.raters, votes.items, ["s1 : s2"])
