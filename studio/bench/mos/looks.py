"""How often a test that may be watched stops for a difference that is not there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from studio.bench.mos.crowd import Crowd
from studio.measure.report import console, no_bar, print_table
from studio.mos.analysis.stopping_rule import ALPHA, met
from studio.mos.campaign.config import StopRule
from studio.mos.stats import compare, preference
from studio.mos.stats.columns import Votes
from studio.mos.stats.interval import Clusters

LOOKS = [10, 20, 30, 40, 50]


@dataclass(frozen=True)
class Cell:
    """A test of two systems that are alike: of pairs with so many votes of each rater, or of scores (0)."""

    scripts: int
    votes: int
    favour_sd: float


CELLS = (
    *(Cell(10, votes, favour_sd) for votes in (10, 50, 0) for favour_sd in (0.1, 0.25, 0.4)),
    Cell(100, 50, 0.25),
    Cell(30, 0, 0.25),
)


@dataclass(frozen=True)
class LooksSetting:
    """How many tests are run in which two systems are alike."""

    runs: int = 2000
    cells: tuple[Cell, ...] = CELLS
    seed: int = 0
    quiet: bool = False


def bench_mos_looks(setting: LooksSetting) -> dict[str, Any]:
    """Share of tests without a difference that stop at one of five looks; and what it was by rater, and uncorrected."""
    from rich.progress import track

    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(setting.cells):
        rng = np.random.default_rng([setting.seed, number])
        runs = track(range(setting.runs), "tests", console=console(), transient=True, disable=no_bar(setting.quiet))
        stopped = np.array([_stops(cell, rng) for _ in runs])
        rows.append(asdict(cell) | dict(zip(_WAYS, stopped.mean(axis=0).tolist(), strict=True)))
    held = [row["stopped"] for row in rows]
    about = {"runs": setting.runs, "seed": setting.seed, "looks": LOOKS, "cells": rows}
    out = {**about, "mean": float(np.mean(held)), "worst": max(held)}
    if not setting.quiet:
        show(out)
    return out


_WAYS = ("stopped", "by_rater", "uncorrected")


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
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
        f"Looks at {', '.join(map(str, out['looks']))} raters, two systems alike, {out['runs']} tests each. By "
        "rater: as though scripts were all scripts. Uncorrected: p under 0.05 at any look."
    )
    columns = ("", "scripts' favour", "stops", "by rater", "uncorrected")
    print_table("Tests without a difference that stop for one, five looks", columns, rows, note)


def _stops(cell: Cell, rng: np.random.Generator) -> list[bool]:
    """Whether it stops by the rule, by the rule with p values by rater, and with p values as they are."""
    rule = StopRule(decided=True, looks=LOOKS)
    crowd = Crowd(systems=(3.2, 3.2), favour_sd=cell.favour_sd)
    found = [False, False, False]
    p_at = _p_of_scores(crowd, cell, rng) if not cell.votes else _p_of_votes(crowd, cell, rng)
    for raters, p in p_at:
        for way, clusters in enumerate(("two_way", "by_rater")):
            row = {"a": "s1", "b": "s2", "p_holm": p(clusters)}
            found[way] |= met(rule, {"questions": {"q": {"differences": [row]}}}, raters)[0]
            found[2] |= clusters == "two_way" and row["p_holm"] is not None and row["p_holm"] <= ALPHA
    return found


PValue = Callable[[Clusters], float | None]


def _p_of_votes(crowd: Crowd, cell: Cell, rng: np.random.Generator) -> Iterator[tuple[int, PValue]]:
    votes: Votes = crowd.votes(rng, LOOKS[-1], cell.votes, cell.scripts)
    assert votes.rater is not None, "the crowd knows its raters"
    for raters in LOOKS:
        seen = votes.where(votes.rater < raters)
        yield raters, lambda clusters, seen=seen: preference.preference(seen, "s1", "s2", clusters).p


def _p_of_scores(crowd: Crowd, cell: Cell, rng: np.random.Generator) -> Iterator[tuple[int, PValue]]:
    ratings = crowd.ratings(rng, LOOKS[-1], cell.scripts)
    for raters in LOOKS:
        seen = ratings.where(ratings.rater < raters)
        yield raters, lambda clusters, seen=seen: compare.difference(seen, "s1", "s2", clusters).p
