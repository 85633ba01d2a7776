"""How often the studio's intervals hold the truth where labs live: few raters, few scripts, scores near the ceiling.

The truth is what the same estimator says of very many raters of the same crowd, each with scripts of their own: an
interval by rater and script is about other raters *and* other scripts.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from studio.bench.mos.crowd import Crowd
from studio.core.errors import BadOption
from studio.measure.report import console, no_bar, print_table
from studio.mos.stats.bradley_terry.error import clustered_spread
from studio.mos.stats.bradley_terry.fit import centred, fit
from studio.mos.stats.columns import F8, Ratings, Votes
from studio.mos.stats.compare import all_pairs as all_differences
from studio.mos.stats.interval import Clusters, Interval
from studio.mos.stats.means import by_system
from studio.mos.stats.ordinal.model import ordinal_model
from studio.mos.stats.preference import preference

METHODS: tuple[Clusters, ...] = ("two_way", "by_rater")
_LABELS = {"two_way": "by rater and script", "by_rater": "by rater", "ordinal": "ordinal model"}
_THEIR_SCRIPTS = 25  # of each of those who stand for the truth
Step = Callable[[], None]


@dataclass(frozen=True)
class CoverageSetting:
    """Which tests are simulated, and how often; ``everybody`` is how many raters stand for the truth."""

    runs: int = 400
    everybody: int = 40_000
    seed: int = 0
    tests: tuple[str, ...] = ("preference", "elo", "mos")
    quiet: bool = False


@dataclass(frozen=True)
class Cell:
    """One simulated test.

    Attributes:
        test: preference, elo, mos or ordinal (the scores of mos, by the ordinal model).
        part: the row of the summary that it belongs to.
        each: pairs of each rater (votes).
    """

    test: str
    part: str
    crowd: Crowd
    raters: int
    scripts: int
    each: int = 0


def cells(tests: tuple[str, ...]) -> list[Cell]:
    """Every test that is simulated."""
    found: list[Cell] = []
    for scripts in (10, 100):
        where = f"{scripts} scripts"
        for gap in (0.0, 0.3, 1.0):
            for favour in (0.1, 0.25, 0.4):
                crowd = Crowd(systems=(gap, 0.0), favour_sd=favour)
                found.append(Cell("preference", f"preference 20 x 50, {where}", crowd, 20, scripts, 50))
        for systems in (3, 7):
            for favour in (0.1, 0.25, 0.4):
                crowd = Crowd(systems=tuple(np.linspace(-0.8, 0.8, systems).tolist()), favour_sd=favour)
                found.append(Cell("elo", f"Elo 40 x 40, {where}", crowd, 40, scripts, 40))
    for raters in (3, 5):
        for quality, clickers in ((4.5, 0.05), (5.0, 0.05), (5.5, 0.05), (6.0, 0.05), (5.5, 0.0), (6.5, 0.0)):
            crowd = Crowd(systems=(quality, quality - 0.5), clickers=clickers)
            found.append(Cell("mos", f"MOS {raters} x 6 near the ceiling", crowd, raters, 6))
    for quality in (2.5, 3.3, 4.0):
        crowd = Crowd(systems=(quality, quality - 0.3))
        found.append(Cell("mos", "MOS 20 x 30", crowd, 20, 30))
    found += [replace(cell, test="ordinal") for cell in found if cell.test == "mos"]
    return [cell for cell in found if cell.test in tests]


def bench_mos_coverage(setting: CoverageSetting) -> dict[str, Any]:
    """Coverage of every cell; what the summary says of each part: the mean over its cells, and the worst cell."""
    wanted = cells(setting.tests)
    rows: list[dict[str, Any]] = []
    with _progress(len(wanted) * setting.runs, setting.quiet) as step:
        for number, cell in enumerate(wanted):
            rng = np.random.default_rng([setting.seed, number])
            rows += list(_ROWS[cell.test](cell, rng, setting, step))
    out = {"runs": setting.runs, "seed": setting.seed, "cells": rows, "parts": _parts(rows)}
    if not setting.quiet:
        show(out)
    return out


def show(out: Mapping[str, Any]) -> None:
    """Print the summary, fresh or read back from bench/results."""
    rows = [
        [f"{p['part']}: {p['over']}", p["method"], p["mean"], p["worst"], p["none"], p["zero_width"], p["half_width"]]
        for p in out["parts"]
    ]
    columns = ("", "interval", "mean", "worst cell", "none, worst cell", "no width, worst cell", "half width")
    note = "Share of intervals that hold the truth, nominal 0.95; a test that has none counts as a miss."
    if any(p["method"] == _LABELS["ordinal"] for p in out["parts"]):
        note += " The ordinal model has none where all scores are alike."
    print_table(f"Coverage, {out['runs']} tests a cell", columns, rows, note)


def _preference(cell: Cell, rng: np.random.Generator, setting: CoverageSetting, step: Step) -> Iterator[dict[str, Any]]:
    everybody = cell.crowd.votes(rng, setting.everybody, _THEIR_SCRIPTS, 1, own_scripts=True)
    truth = np.array([preference(everybody, "s1", "s2", "exact").share.mean])
    tally = _Tally(cell, "share", truth)
    for _ in range(setting.runs):
        votes = cell.crowd.votes(rng, cell.raters, cell.each, cell.scripts)
        for method in METHODS:
            tally.mark_all(method, [preference(votes, "s1", "s2", method).share])
        step()
    yield from tally.rows(setting.runs)


def _elo(cell: Cell, rng: np.random.Generator, setting: CoverageSetting, step: Step) -> Iterator[dict[str, Any]]:
    truth = centred(fit(cell.crowd.votes(rng, setting.everybody, _THEIR_SCRIPTS, 1, own_scripts=True)).elo())
    upper = np.triu_indices(len(truth), 1)
    scores, gaps = _Tally(cell, "scores", truth), _Tally(cell, "differences", (truth[:, None] - truth)[upper])
    for _ in range(setting.runs):
        votes: Votes = cell.crowd.votes(rng, cell.raters, cell.each, cell.scripts)
        fitted = fit(votes)
        middle = fitted.elo().mean()
        for method in METHODS:
            found = clustered_spread(votes, fitted, clusters=method)
            scores.mark(method, found.low - middle, found.high - middle)
            gaps.mark(method, found.difference_low[upper], found.difference_high[upper])
        step()
    yield from scores.rows(setting.runs)
    yield from gaps.rows(setting.runs)


def _mos(cell: Cell, rng: np.random.Generator, setting: CoverageSetting, step: Step) -> Iterator[dict[str, Any]]:
    everybody = cell.crowd.ratings(rng, setting.everybody, _THEIR_SCRIPTS, own_scripts=True)
    truth = np.bincount(everybody.system, everybody.score) / np.bincount(everybody.system)
    means, gaps = _Tally(cell, "means", truth), _Tally(cell, "differences", truth[:1] - truth[1:])
    for _ in range(setting.runs):
        ratings: Ratings = cell.crowd.ratings(rng, cell.raters, cell.scripts)
        for method in METHODS:
            means.mark_all(method, list(by_system(ratings, method).values()))
            gaps.mark_all(method, [d.interval for d in all_differences(ratings, method)])
        step()
    yield from means.rows(setting.runs)
    yield from gaps.rows(setting.runs)


def _ordinal(cell: Cell, rng: np.random.Generator, setting: CoverageSetting, step: Step) -> Iterator[dict[str, Any]]:
    everybody = cell.crowd.ratings(rng, setting.everybody, _THEIR_SCRIPTS, own_scripts=True)
    truth = np.bincount(everybody.system, everybody.score) / np.bincount(everybody.system)
    tally = _Tally(cell, "means", truth)
    for _ in range(setting.runs):
        ratings = cell.crowd.ratings(rng, cell.raters, cell.scripts)
        try:
            tally.mark_all("ordinal", list(ordinal_model(ratings).systems.values()))
        except BadOption:  # all scores are alike
            tally.mark("ordinal", *np.full((2, len(truth)), np.nan))
        step()
    yield from tally.rows(setting.runs)


_ROWS = {"preference": _preference, "elo": _elo, "mos": _mos, "ordinal": _ordinal}


class _Tally:
    """Hits and widths of one cell by method, over systems or pairs."""

    def __init__(self, cell: Cell, over: str, truth: F8) -> None:
        self.cell, self.over, self.truth = cell, over, truth
        self.held: dict[str, F8] = {}
        self.flat: dict[str, int] = {}
        self.none: dict[str, int] = {}
        self.width: dict[str, float] = {}

    def mark_all(self, method: str, intervals: list[Interval]) -> None:
        ends = [(np.nan if i.low is None else i.low, np.nan if i.high is None else i.high) for i in intervals]
        self.mark(method, *(np.array(end) for end in zip(*ends, strict=True)))

    def mark(self, method: str, low: F8, high: F8) -> None:
        """Count one test's intervals; where there is none (NaN) the truth is not held."""
        held = (low <= self.truth) & (self.truth <= high)
        self.held[method] = self.held.get(method, np.zeros(len(self.truth))) + held
        self.flat[method] = self.flat.get(method, 0) + int((high - low <= 0).sum())
        known = np.isfinite(high - low)
        self.none[method] = self.none.get(method, 0) + int((~known).sum())
        self.width[method] = self.width.get(method, 0.0) + float((high - low)[known].sum()) / 2

    def rows(self, runs: int) -> Iterator[dict[str, Any]]:
        cell = self.cell
        about = {"test": cell.test, "part": cell.part, "over": self.over, "raters": cell.raters}
        about |= {"scripts": cell.scripts, "systems": list(cell.crowd.systems), "favour_sd": cell.crowd.favour_sd}
        for method, held in self.held.items():
            yield about | {
                "truth": self.truth.tolist(),
                "method": method,
                "each": (held / runs).tolist(),
                "covered": float(held.mean() / runs),
                "none": self.none[method] / (runs * len(self.truth)),
                "zero_width": self.flat[method] / (runs * len(self.truth)),
                "half_width": self.width[method] / max(1, runs * len(self.truth) - self.none[method]),
            }


def _parts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    keys = dict.fromkeys((row["part"], row["over"], row["method"]) for row in rows)
    parts: list[dict[str, Any]] = []
    for part, over, method in keys:
        mine = [r for r in rows if (r["part"], r["over"], r["method"]) == (part, over, method)]
        covered = [r["covered"] for r in mine]
        parts.append(
            {
                "part": part,
                "over": over,
                "method": _LABELS[method],
                "cells": len(mine),
                "mean": float(np.mean(covered)),
                "worst": min(covered),
                "none": max(r["none"] for r in mine),
                "zero_width": max(r["zero_width"] for r in mine),
                "half_width": float(np.mean([r["half_width"] for r in mine])),
            }
        )
    return parts


@contextmanager
def _progress(total: int, quiet: bool) -> Iterator[Step]:
    from rich.progress import Progress

    with Progress(console=console(), transient=True, disable=no_bar(quiet)) as progress:
        bar = progress.add_task("simulated tests", total=total)
        yield lambda: progress.advance(bar)
