"""Designs of listening tests, checked by simulation: false positives with interim looks, the planned number of raters.

The planner draws normal scores with the variances of a pilot, the tests are drawn from ``simulated_raters``: another
population with the same variances. A large pilot shows the error of the planner itself, small ones the effect of
estimated variances.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.bench.mos.margins import shares
from studio.bench.mos.settings import LooksSetting, PlanSetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.measure.report import bar, print_table
from studio.mos.analysis.stopping_rule import ALPHA, evaluate_rule
from studio.mos.campaign.config import StopRule
from studio.mos.stats import means, preference
from studio.mos.stats.bradley_terry import fit
from studio.mos.stats.columns import Ratings, Votes
from studio.mos.stats.elo_intervals import clustered_intervals
from studio.mos.stats.interval import Clusters
from studio.mos.stats.means import by_system
from studio.mos.stats.pilot import conservative_ratings, conservative_votes, rating_population, vote_population
from studio.mos.stats.planner import (
    MAX_RATERS,
    PlannedTest,
    RaterPlan,
    WidthNotReached,
    raters_for_elo,
    raters_for_means,
)

Draw = Callable[[np.random.Generator, int, int], Ratings | Votes]
_ELO_PAIRS = 20  # per rater
LOOKS = [10, 20, 30, 40, 50]


@dataclass(frozen=True)
class PlanCase:
    """A planned test: the half-width required of all its intervals, and the number of scripts."""

    test: PlannedTest
    half_width: float
    scripts: int
    draw: Draw


def plan_cases(names: tuple[PlannedTest, ...]) -> list[PlanCase]:
    """The planned tests."""
    four = SimulatedRaters(systems=(2.8, 3.2, 3.6, 4.0))
    two = SimulatedRaters(systems=(3.4, 3.0))
    five = SimulatedRaters(systems=(-0.6, -0.3, 0.0, 0.3, 0.6))
    every = [
        PlanCase("mos", 0.25, 30, four.ratings),
        PlanCase("mushra", 5.0, 30, four.sliders),
        PlanCase("cmos", 0.4, 20, four.comparisons),
        PlanCase("preference", 0.08, 30, lambda rng, raters, scripts: shares(two.votes(rng, raters, scripts, scripts))),
        PlanCase("elo", 50.0, 30, lambda rng, raters, scripts: five.votes(rng, raters, _ELO_PAIRS, scripts)),
    ]
    return [one for one in every if one.test in names]


def bench_mos_plan(setting: PlanSetting) -> dict[str, Any]:
    """Planned number of raters of each test, and the share of tests in which every interval met the half-width."""
    rows: list[dict[str, Any]] = []
    cases = plan_cases(setting.tests)
    for number, case in enumerate(bar(cases, "plans", setting.quiet)):
        rng = np.random.default_rng([setting.seed, number])
        plan = _planned(case, case.draw(rng, *setting.pilot), setting)
        share = _met(case, plan.raters, rng, setting.runs)
        row = {"test": case.test, "half_width": case.half_width, "scripts": case.scripts}
        rows.append(row | {"raters": plan.raters, "met": share} | _small(case, rng, setting))
    about = {"runs": setting.runs, "seed": setting.seed, "pilot": list(setting.pilot), "small": list(setting.small)}
    return {**about, "tests": rows}


def _small(case: PlanCase, rng: np.random.Generator, setting: PlanSetting) -> dict[str, Any]:
    """Results of small pilots: 10%, 50% and 90% quantiles of the number of raters, and how often the half-width is met.

    Planned as by the command, with variances at their upper bounds (``pilot.conservative_ratings``), and with estimated
    ones. A pilot for which no number of raters is enough counts as none.
    """
    pilots = [case.draw(rng, *setting.small) for _ in range(setting.small_pilots)]
    results: dict[str, Any] = {}
    for key, cautious in (("small_pilot", True), ("small_pilot_as_shown", False)):
        results |= {f"{key}_{what}": value for what, value in _of_pilots(case, pilots, cautious, rng, setting).items()}
    return results


def _of_pilots(
    case: PlanCase, pilots: Sequence[Ratings | Votes], cautious: bool, rng: np.random.Generator, setting: PlanSetting
) -> dict[str, Any]:
    if not pilots:
        return {"raters": None, "none": None, "met": None}
    planned: list[int] = []
    for pilot in pilots:
        with suppress(WidthNotReached):
            planned.append(_planned(case, pilot, setting, cautious).raters)
    shares = [_met(case, raters, rng, max(1, setting.runs // len(pilots))) for raters in planned]
    none = len(pilots) - len(planned)
    ranked = [*sorted(planned), *[MAX_RATERS + 1] * none]
    return {
        "raters": [int(q) for q in np.percentile(ranked, (10, 50, 90), method="nearest")],
        "none": none / len(pilots),
        "met": float(np.mean(shares)) if shares else None,
    }


def show_plan(out: Mapping[str, Any]) -> None:
    rows = [
        [
            f"{r['test']}, {r['scripts']} scripts",
            f"{r['half_width']:g}",
            r["raters"],
            r["met"],
            "{} ({} to {})".format(*(_raters(s[k]) for k in (1, 0, 2))) if (s := r["small_pilot_raters"]) else None,
            r["small_pilot_none"],
            r["small_pilot_met"],
            r.get("small_pilot_as_shown_met"),  # missing in old results
        ]
        for r in out["tests"]
    ]
    pilot, small = (f"{n[0]} x {n[1]}" for n in (out["pilot"], out["small"]))
    columns = ("", "half width", "raters", "met", f"raters, pilots of {small}", "none", "met", "met, point estimates")
    note = (
        f"Met: share of {out['runs']} tests in which no interval was wider. Planned from a pilot of {pilot} raters "
        "and scripts, with its point estimates. Small pilots: the median number of raters (10% and 90%), the share "
        "of pilots for which no number of raters suffices with so many scripts, and the share of tests with the "
        "planned numbers in which no interval was wider: with variances at their upper 80% bounds, and with point "
        "estimates."
    )
    print_table("The planned number of raters in another population", columns, rows, note)


def _raters(number: int) -> str:
    return f"> {MAX_RATERS}" if number > MAX_RATERS else str(number)


def _planned(case: PlanCase, pilot: Ratings | Votes, setting: PlanSetting, cautious: bool = False) -> RaterPlan:
    runs, seed = setting.plan_runs, setting.seed
    if isinstance(pilot, Votes):
        voters = vote_population(pilot)
        voters = conservative_votes(voters, pilot) if cautious else voters
        return raters_for_elo(case.half_width, voters, _ELO_PAIRS, case.scripts, runs, seed)
    listeners = rating_population(pilot)
    listeners = conservative_ratings(listeners, pilot) if cautious else listeners
    return raters_for_means(case.half_width, listeners, case.scripts, runs=runs, seed=seed)


def _met(case: PlanCase, raters: int, rng: np.random.Generator, runs: int) -> float:
    met = 0
    for _ in range(runs):
        sample = case.draw(rng, raters, case.scripts)
        if isinstance(sample, Votes):
            spread = clustered_intervals(sample, fit(sample))
            widest = float(np.max(spread.high - spread.low)) / 2
        else:
            widest = max(np.inf if i.half_width is None else i.half_width for i in by_system(sample).values())
        met += widest <= case.half_width
    return met / runs


@dataclass(frozen=True)
class LooksCell:
    """A test of two equal systems: pairs with ``votes`` votes per rater, or scores (0)."""

    scripts: int
    votes: int
    favour_sd: float


CELLS = (
    *(LooksCell(10, votes, favour_sd) for votes in (10, 50, 0) for favour_sd in (0.1, 0.25, 0.4)),
    LooksCell(100, 50, 0.25),
    LooksCell(30, 0, 0.25),
)


def bench_mos_looks(setting: LooksSetting) -> dict[str, Any]:
    """Share of tests of equal systems that stop at one of five looks: by the rule, by rater, and uncorrected."""
    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(setting.cells or CELLS):
        rng = np.random.default_rng([setting.seed, number])
        stopped = np.array([_stops(cell, rng) for _ in bar(range(setting.runs), "tests", setting.quiet)])
        rows.append(asdict(cell) | dict(zip(_WAYS, stopped.mean(axis=0).tolist(), strict=True)))
    rates = [row["stopped"] for row in rows]
    about = {"runs": setting.runs, "seed": setting.seed, "looks": LOOKS, "cells": rows}
    return {**about, "mean": float(np.mean(rates)), "worst": max(rates)}


_WAYS = ("stopped", "by_rater", "uncorrected")


def show_looks(out: Mapping[str, Any]) -> None:
    rows = [
        [
            f"{'preference, ' + str(c['votes']) + ' votes each' if c['votes'] else 'MOS'}, {c['scripts']} scripts",
            c["favour_sd"],
            *(c[way] for way in _WAYS),
        ]
        for c in out["cells"]
    ]
    rows.append(["mean, worst", None, f"{out['mean']:.3f}, {out['worst']:.3f}", None, None])
    note = (
        f"Looks at {', '.join(map(str, out['looks']))} raters, two equal systems, {out['runs']} tests each. By "
        "rater: scripts treated as fixed. Uncorrected: p below 0.05 at any look."
    )
    columns = ("", "scripts' favour", "stops", "by rater", "uncorrected")
    print_table("Tests of equal systems that stop, five looks", columns, rows, note)


def _stops(cell: LooksCell, rng: np.random.Generator) -> list[bool]:
    """Whether the test stops by the rule, by the rule with p values by rater, and with uncorrected p values."""
    rule = StopRule(decided=True, looks=LOOKS)
    population = SimulatedRaters(systems=(3.2, 3.2), favour_sd=cell.favour_sd)
    stops = [False, False, False]
    p_at = _p_of_scores(population, cell, rng) if not cell.votes else _p_of_votes(population, cell, rng)
    for raters, p in p_at:
        for way, clusters in enumerate(("two_way", "by_rater")):
            row = {"a": "s1", "b": "s2", "p_holm": p(clusters)}
            stops[way] |= evaluate_rule(rule, {"questions": {"q": {"differences": [row]}}}, raters)[0]
            stops[2] |= clusters == "two_way" and row["p_holm"] is not None and row["p_holm"] <= ALPHA
    return stops


PValue = Callable[[Clusters], float | None]


def _p_of_votes(population: SimulatedRaters, cell: LooksCell, rng: np.random.Generator) -> Iterator[tuple[int, PValue]]:
    votes: Votes = population.votes(rng, LOOKS[-1], cell.votes, cell.scripts)
    assert votes.rater is not None, "simulated raters are known"
    for raters in LOOKS:
        seen = votes.where(votes.rater < raters)
        yield raters, lambda clusters, seen=seen: preference.preference(seen, "s1", "s2", clusters).p


def _p_of_scores(
    population: SimulatedRaters, cell: LooksCell, rng: np.random.Generator
) -> Iterator[tuple[int, PValue]]:
    ratings = population.ratings(rng, LOOKS[-1], cell.scripts)
    for raters in LOOKS:
        seen = ratings.where(ratings.rater < raters)
        yield raters, lambda clusters, seen=seen: means.difference(seen, "s1", "s2", clusters).p
