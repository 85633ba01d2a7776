"""False positive rate of a test with interim looks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.bench.mos.settings import LooksSetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.measure.report import console, no_bar, print_table
from studio.mos.analysis.stopping_rule import ALPHA, evaluate_rule
from studio.mos.campaign.config import StopRule
from studio.mos.stats import means, preference
from studio.mos.stats.columns import Votes
from studio.mos.stats.interval import Clusters

LOOKS = [10, 20, 30, 40, 50]


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
    from rich.progress import track

    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(setting.cells or CELLS):
        rng = np.random.default_rng([setting.seed, number])
        runs = track(range(setting.runs), "tests", console=console(), transient=True, disable=no_bar(setting.quiet))
        stopped = np.array([_stops(cell, rng) for _ in runs])
        rows.append(asdict(cell) | dict(zip(_WAYS, stopped.mean(axis=0).tolist(), strict=True)))
    rates = [row["stopped"] for row in rows]
    about = {"runs": setting.runs, "seed": setting.seed, "looks": LOOKS, "cells": rows}
    out = {**about, "mean": float(np.mean(rates)), "worst": max(rates)}
    if not setting.quiet:
        show(out)
    return out


_WAYS = ("stopped", "by_rater", "uncorrected")


def show(out: Mapping[str, Any]) -> None:
    """Print the figures of a new or a stored result."""
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
        "rater: scripts taken as fixed. Uncorrected: p below 0.05 at any look."
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
