"""Tests of equal systems, checked by simulation: family-wise error of differences, and tests with a margin.

The raters are those of ``simulated_raters``; the planner draws normal scores with the variances of a large pilot.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from studio.bench.mos.settings import FamilySetting, MarginSetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.measure.report import bar, print_table
from studio.mos.stats.bradley_terry import points
from studio.mos.stats.columns import Ratings, ScoreScale, Votes
from studio.mos.stats.equivalence import ALPHA, Claim, MarginTest, margin_test, power_share
from studio.mos.stats.interval import mean_interval
from studio.mos.stats.margin_plan import PAIR_TESTS, MarginAsk, raters_for_margin
from studio.mos.stats.means import difference, pairwise_differences
from studio.mos.stats.pilot import rating_population
from studio.mos.stats.planner import PlannedTest

Draw = Callable[[np.random.Generator, int, int, bool], Ratings]
_TRUE_SCRIPTS = 25  # per rater of the true difference
# by how much the quality of the worse system is lower; the margin is the resulting true difference
_WORSE: dict[PlannedTest, float] = {"mos": 0.25, "mushra": 0.25, "cmos": 0.2, "preference": 0.2}
_PLANNED: dict[PlannedTest, float] = {"mos": 0.2, "mushra": 5.0, "cmos": 0.4, "preference": 0.1}  # margins
_SIZES = ((12, 10), (20, 30), (60, 20))  # raters, scripts
_EQUAL_SIZES = ((20, 30), (20, 10), (12, 12))  # raters, scripts
_EFFECTS = (0.0, 0.1, 0.2)  # standard deviation of tastes of raters, and of favours of scripts


@dataclass(frozen=True)
class MarginCell:
    """One simulated test: ``worse`` is by how much the quality of the first system is below the second's."""

    test: PlannedTest
    raters: int
    scripts: int
    worse: float = 0.0


def bench_mos_margin(setting: MarginSetting) -> dict[str, Any]:
    """Error at the margin of every test and size, and the power of planned tests of equal systems."""
    cells = [MarginCell(test, *size, _WORSE[test]) for test in setting.tests for size in _SIZES]
    sizes = [_size(cell, n, setting) for n, cell in enumerate(bar(cells, "at the margin", setting.quiet))]
    claims: tuple[Claim, ...] = ("not_worse", "equivalent")
    plans: list[tuple[PlannedTest, Claim]] = [(test, claim) for test in setting.tests for claim in claims]
    powers = [_power(plan[0], plan[1], n, setting) for n, plan in enumerate(bar(plans, "planned tests", setting.quiet))]
    worst = max((row[claim] for row in sizes for claim in claims), default=0.0)
    off = max((abs(row["power"] - row["planned"]) for row in powers), default=0.0)
    about = {"runs": setting.runs, "seed": setting.seed, "alpha": ALPHA, "pilot": list(setting.pilot)}
    return {**about, "sizes": sizes, "powers": powers, "worst_size": worst, "largest_power_error": off}


def show_margins(out: Mapping[str, Any]) -> None:
    """Print the tables of a new or a stored result."""
    rows = [[f"{r['test']}, {r['raters']} x {r['scripts']}", r["margin"], *_claims(r)] for r in out["sizes"]]
    rows.append(["worst", None, out["worst_size"], None])
    note = (
        f"Share of {out['runs']} tests that wrongly show the claim, the true difference being the margin; raters x "
        f"scripts. At most {out['alpha']:g} is allowed."
    )
    print_table("Tests with a margin: errors at the margin", ("", "margin", "not worse", "equivalent"), rows, note)
    rows = [
        [f"{r['test']}, {r['claim'].replace('_', ' ')}", r["margin"], r["raters"], r["planned"], r["power"]]
        for r in out["powers"]
    ]
    pilot = " x ".join(map(str, out["pilot"]))
    note = (
        f"Planned from a pilot of {pilot} raters and scripts, 30 scripts, equal systems; power: share of {out['runs']} "
        "tests of another population that show the claim."
    )
    print_table("Planned and achieved power", ("", "margin", "raters", "planned", "power"), rows, note)


def _claims(row: Mapping[str, Any]) -> list[float]:
    return [row["not_worse"], row["equivalent"]]


def _size(cell: MarginCell, number: int, setting: MarginSetting) -> dict[str, Any]:
    rng = np.random.default_rng([setting.seed, number])
    draw = _draw(cell)
    margin = -_estimate(cell.test, draw(rng, setting.population_size, _TRUE_SCRIPTS, True))
    tests = [tested(cell.test, draw(rng, cell.raters, cell.scripts, False), margin) for _ in range(setting.runs)]
    claims: tuple[Claim, ...] = ("not_worse", "equivalent")
    about = {"test": cell.test, "raters": cell.raters, "scripts": cell.scripts, "margin": margin}
    return about | {claim: power_share(tests, claim) for claim in claims}


def _power(test: PlannedTest, claim: Claim, number: int, setting: MarginSetting) -> dict[str, Any]:
    rng, scripts = np.random.default_rng([setting.seed, 1000 + number]), 30
    draw = _draw(MarginCell(test, 0, scripts))
    ask = MarginAsk(test, _PLANNED[test], claim, items=scripts)
    plan = raters_for_margin(ask, rating_population(draw(rng, *setting.pilot, False)), setting.plan_runs, setting.seed)
    tests = [tested(test, draw(rng, plan.raters, scripts, False), ask.margin) for _ in range(setting.runs)]
    row = {"test": test, "claim": claim, "margin": ask.margin, "raters": plan.raters, "planned": plan.power}
    return row | {"power": power_share(tests, claim)}


def tested(test: PlannedTest, ratings: Ratings, margin: float) -> MarginTest:
    """The test of the first system against the second, or of one pair."""
    if test not in PAIR_TESTS:
        interval, scale = difference(ratings, "s1", "s2").interval, ratings.scale
        return margin_test("s1", "s2", interval, margin, None if scale is None else scale.difference_scale)
    null = 0.5 if test == "preference" else 0.0
    columns = ratings.score, ratings.rater, ratings.item
    interval = mean_interval(*columns, "two_way", 0.95, ratings.scale, null)
    return margin_test("s1", "s2", interval, margin, ratings.scale, null)


def _estimate(test: PlannedTest, ratings: Ratings) -> float:
    if test in PAIR_TESTS:
        return float(ratings.score.mean()) - (0.5 if test == "preference" else 0.0)
    means = np.bincount(ratings.system, ratings.score) / np.bincount(ratings.system)
    return float(means[0] - means[1])


def _draw(cell: MarginCell) -> Draw:
    quality = 3.4
    raters = SimulatedRaters(systems=(quality - cell.worse, quality))
    if cell.test == "mos":
        return raters.ratings
    if cell.test == "mushra":
        return raters.sliders
    if cell.test == "cmos":  # of the second system against the first
        return replace(raters, systems=(quality, quality - cell.worse)).comparisons
    return lambda rng, n, scripts, own: shares(raters.votes(rng, n, scripts, scripts, own))


def shares(votes: Votes) -> Ratings:
    """Votes on one pair as scores of its first system, 0 to 1."""
    assert votes.rater is not None and votes.item is not None, "simulated raters and scripts are known"
    worth = np.where(votes.a == 0, points(votes), 1 - points(votes))
    pair = np.zeros_like(votes.a)
    return Ratings(worth, votes.rater, votes.item, pair, votes.raters, votes.items, ["s1 : s2"], ScoreScale(0, 1))


@dataclass(frozen=True)
class FamilyCell:
    """One simulated MOS test of three equal systems."""

    raters: int
    scripts: int
    effects: float


def bench_mos_family(setting: FamilySetting) -> dict[str, Any]:
    """Share of tests with a significant difference, in every cell."""
    cells = setting.cells or tuple(FamilyCell(*size, effects) for size in _EQUAL_SIZES for effects in _EFFECTS)
    rows = [
        _equal_systems(cell, setting.runs, np.random.default_rng([setting.seed, n]))
        for n, cell in enumerate(bar(cells, "three equal systems", setting.quiet))
    ]
    errors = [row["family_wise"] for row in rows]
    out = {"runs": setting.runs, "seed": setting.seed, "cells": rows}
    out |= {"mean": float(np.mean(errors)), "least": min(errors), "most": max(errors)}
    return out


def show_family(out: Mapping[str, Any]) -> None:
    """Print the table of a new or a stored result."""
    rows: list[list[Any]] = [
        [f"MOS {row['raters']} x {row['scripts']}", row["effects"], row["family_wise"], row["single"]]
        for row in out["cells"]
    ]
    rows.append(["mean", None, out["mean"], None])
    note = (
        f"Share of {out['runs']} tests of three equal systems in which a difference is significant after Holm's "
        f"correction (of {ALPHA:g}), and of single differences without it; raters x scripts. Tastes and favours: "
        "standard deviation of each in steps of the scale."
    )
    print_table("Family-wise error", ("", "tastes and favours", "family-wise", "single"), rows, note)


def _equal_systems(cell: FamilyCell, runs: int, rng: np.random.Generator) -> dict[str, Any]:
    population = SimulatedRaters((3.3, 3.3, 3.3), taste_sd=cell.effects, favour_sd=cell.effects, clickers=0.0)
    wrong = single = 0
    for _ in range(runs):
        differences = pairwise_differences(population.ratings(rng, cell.raters, cell.scripts))
        wrong += any(d.p_holm is not None and d.p_holm < ALPHA for d in differences)
        single += sum(d.p is not None and d.p < ALPHA for d in differences)
    about = {"raters": cell.raters, "scripts": cell.scripts, "effects": cell.effects}
    return about | {"family_wise": wrong / runs, "single": single / (3 * runs)}
