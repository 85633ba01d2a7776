"""Family-wise error of differences: how often three equal systems are reported to differ, with Holm's correction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from studio.bench.mos.settings import FamilySetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.measure.report import bar, print_table
from studio.mos.stats.means import pairwise_differences

ALPHA = 0.05
_SIZES = ((20, 30), (20, 10), (12, 12))  # raters, scripts
_EFFECTS = (0.0, 0.1, 0.2)  # standard deviation of tastes of raters, and of favours of scripts


@dataclass(frozen=True)
class FamilyCell:
    """One simulated MOS test of three equal systems."""

    raters: int
    scripts: int
    effects: float


def bench_mos_family(setting: FamilySetting) -> dict[str, Any]:
    """Share of tests with a significant difference, in every cell."""
    cells = setting.cells or tuple(FamilyCell(*size, effects) for size in _SIZES for effects in _EFFECTS)
    rows = [
        _row(cell, setting.runs, np.random.default_rng([setting.seed, n]))
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


def _row(cell: FamilyCell, runs: int, rng: np.random.Generator) -> dict[str, Any]:
    population = SimulatedRaters((3.3, 3.3, 3.3), taste_sd=cell.effects, favour_sd=cell.effects, clickers=0.0)
    wrong = single = 0
    for _ in range(runs):
        differences = pairwise_differences(population.ratings(rng, cell.raters, cell.scripts))
        wrong += any(d.p_holm is not None and d.p_holm < ALPHA for d in differences)
        single += sum(d.p is not None and d.p < ALPHA for d in differences)
    about = {"raters": cell.raters, "scripts": cell.scripts, "effects": cell.effects}
    return about | {"family_wise": wrong / runs, "single": single / (3 * runs)}
