"""Coverage of the studio's intervals: few raters, few scripts, scores near the ceiling, raters of unequal diligence.

The true value is the same estimator's result for very many raters of the same population, each with different scripts,
because an interval by rater and script generalises to other raters *and* other scripts.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from studio.bench.mos.settings import CoverageSetting
from studio.bench.mos.simulated_raters import SimulatedRaters
from studio.core.errors import BadOption
from studio.measure.report import bar, print_table
from studio.mos.stats.bradley_terry import centred, fit
from studio.mos.stats.columns import F8, I8, Ratings, Votes
from studio.mos.stats.elo import elo_report, rank_ranges
from studio.mos.stats.elo_intervals import clustered_intervals
from studio.mos.stats.interval import Clusters, Interval
from studio.mos.stats.means import by_system, pairwise_differences
from studio.mos.stats.ordinal import ordinal_model
from studio.mos.stats.preference import preference

METHODS: tuple[Clusters, ...] = ("two_way", "by_rater")
_LABELS = {"two_way": "by rater and script", "by_rater": "by rater", "ordinal": "ordinal model"}
_TRUE_SCRIPTS = 25  # per rater of the true value


@dataclass(frozen=True)
class CoverageCell:
    """One simulated test."""

    # preference, elo, ladder (ranges of ranks), mos, mushra or ordinal (the scores of mos with the ordinal model)
    test: str
    part: str  # row of the summary
    population: SimulatedRaters
    raters: int
    scripts: int
    each: int | tuple[int, ...] = 0  # votes of each rater, or rated scripts (0: all)
    own_scripts: bool = False  # every vote has a different script, as in an arena
    top_script: float = 0.0  # additional share of the votes on one script

    def votes(self, rng: np.random.Generator) -> Votes:
        layout = self.own_scripts, self.top_script
        return self.population.votes(rng, self.raters, self.each or self.scripts, self.scripts, *layout)

    @property
    def draw(self) -> Callable[..., Ratings]:
        return self.population.sliders if self.test == "mushra" else self.population.ratings

    def ratings(self, rng: np.random.Generator) -> Ratings:
        ratings = self.draw(rng, self.raters, self.scripts)
        if not self.each:
            return ratings
        rank: I8 = rng.permuted(np.tile(np.arange(self.scripts), (self.raters, 1)), axis=1)
        rated = rank < np.broadcast_to(self.each, self.raters)[:, None]
        return ratings.where(rated[ratings.rater, ratings.item])


def coverage_cells(tests: tuple[str, ...]) -> list[CoverageCell]:
    """All simulated tests of these kinds; ``unequal`` are those of ``_unequal_cells``."""
    if "unequal" in tests:
        return _unequal_cells()
    result: list[CoverageCell] = []
    for scripts in (10, 100):
        size = f"{scripts} scripts"
        for difference in (0.0, 0.3, 1.0):
            for favour in (0.1, 0.25, 0.4):
                population = SimulatedRaters(systems=(difference, 0.0), favour_sd=favour)
                result.append(CoverageCell("preference", f"preference 20 x 50, {size}", population, 20, scripts, 50))
        for systems in (3, 7):
            for favour in (0.1, 0.25, 0.4):
                population = SimulatedRaters(systems=tuple(np.linspace(-0.8, 0.8, systems).tolist()), favour_sd=favour)
                result.append(CoverageCell("elo", f"Elo 40 x 40, {size}", population, 40, scripts, 40))
    for raters in (3, 5):
        for quality, clickers in ((4.5, 0.05), (5.0, 0.05), (5.5, 0.05), (6.0, 0.05), (5.5, 0.0), (6.5, 0.0)):
            population = SimulatedRaters(systems=(quality, quality - 0.5), clickers=clickers)
            result.append(CoverageCell("mos", f"MOS {raters} x 6 near the ceiling", population, raters, 6))
    for quality in (2.5, 3.3, 4.0):
        population = SimulatedRaters(systems=(quality, quality - 0.3))
        result.append(CoverageCell("mos", "MOS 20 x 30", population, 20, 30))
    result += [replace(cell, test="ordinal") for cell in result if cell.test == "mos"]
    return [cell for cell in result if cell.test in tests]


_ZIPF = tuple(max(1, round(400 / rank)) for rank in range(1, 81))
_UNEQUAL = {  # votes of each rater
    "Zipf, 80 raters": _ZIPF,
    "one of 400 among 80 of 5": (400, *[5] * 80),
    "two of 300 among 80 of 5": (300, 300, *[5] * 80),
}
# At most 20 battles a day and 5 on a pair, that is 30 for four systems; most visitors come once.
_ARENA = (*[30] * 8, *[20] * 8, *[5] * 20, *[2] * 20, *[1] * 24)


def _unequal_cells() -> list[CoverageCell]:
    """Tests in which a few raters or one script account for many of the answers."""
    result: list[CoverageCell] = []
    for taste in (0.2, 0.5):
        two, four = (SimulatedRaters(systems=of, taste_sd=taste) for of in ((0.3, 0.0), (0.6, 0.2, -0.2, -0.6)))
        for name, each in _UNEQUAL.items():
            result.append(CoverageCell("preference", f"preference, {name}", two, len(each), 100, each))
            result.append(CoverageCell("elo", f"Elo, {name}", four, len(each), 100, each))
        result.append(CoverageCell("elo", "Elo, arena at its caps", four, len(_ARENA), 1, _ARENA, own_scripts=True))
    for favour in (0.2, 0.5):
        population = SimulatedRaters(systems=(0.3, 0.0), favour_sd=favour)
        half = CoverageCell("preference", "preference, one script of half", population, 40, 40, 30, top_script=0.5)
        result += [half, replace(half, test="elo", part="Elo, one script of half")]
    each = (90, 90, *[6] * 30)
    for test, systems in (("mos", (3.6, 3.3)), ("mushra", (4.4, 3.6, 3.3))):
        for rater in (0.4, 0.8):
            population = SimulatedRaters(systems=systems, rater_sd=rater)
            part = f"{test.upper()}, two raters of 90 among 30 of 6"
            result.append(CoverageCell(test, part, population, len(each), 90, each))
    for cell in [cell for cell in result if cell.test == "elo"]:  # ranges are most often wrong if systems are close
        close = replace(cell.population, systems=(0.03, 0.01, -0.01, -0.03))
        result.append(replace(cell, test="ladder", part=cell.part.replace("Elo", "ladder"), population=close))
    return result


def bench_mos_coverage(setting: CoverageSetting) -> dict[str, Any]:
    """Coverage of every cell, and mean and worst cell of each part."""
    cells = coverage_cells(setting.tests)
    rows: list[dict[str, Any]] = []
    for number, cell in enumerate(cells):
        rng = np.random.default_rng([setting.seed, number])
        tallies, run_test = _CASES[cell.test](cell, rng, setting.population_size)
        for _ in bar(range(setting.runs), f"simulated tests, cell {number + 1} of {len(cells)}", setting.quiet):
            run_test()
        rows += [row for tally in tallies for row in tally.rows(setting.runs)]
    return {"runs": setting.runs, "seed": setting.seed, "cells": rows, "parts": _parts(rows)}


def show(out: Mapping[str, Any]) -> None:
    """Print the summary of a new or a stored result."""
    rows = [
        [f"{p['part']}: {p['over']}", p["method"], p["mean"], p["worst"], p["none"], p["zero_width"], p["half_width"]]
        for p in out["parts"]
    ]
    columns = ("", "interval", "mean", "worst cell", "none, worst cell", "zero width, worst cell", "half-width")
    note = "Share of intervals that cover the true value, nominal 0.95; a missing interval counts as a miss."
    if any(p["method"] == _LABELS["ordinal"] for p in out["parts"]):
        note += " The ordinal model has none if all scores are equal."
    print_table(f"Coverage, {out['runs']} tests per cell", columns, rows, note)


Case = tuple[list["_CoverageTally"], Callable[[], None]]  # tallies, and the simulation of one test


def _preference(cell: CoverageCell, rng: np.random.Generator, raters: int) -> Case:
    true_votes = cell.population.votes(rng, raters, _TRUE_SCRIPTS, 1, own_scripts=True)
    tally = _CoverageTally(cell, "share", np.array([preference(true_votes, "s1", "s2", "exact").share.mean]))

    def run_test() -> None:
        votes = cell.votes(rng)
        for method in METHODS:
            tally.mark_all(method, [preference(votes, "s1", "s2", method).share])

    return [tally], run_test


def _elo(cell: CoverageCell, rng: np.random.Generator, raters: int) -> Case:
    truth = centred(fit(cell.population.votes(rng, raters, _TRUE_SCRIPTS, 1, own_scripts=True)).elo())
    upper = np.triu_indices(len(truth), 1)
    scores = _CoverageTally(cell, "scores", truth)
    gaps = _CoverageTally(cell, "differences", (truth[:, None] - truth)[upper])

    def run_test() -> None:
        votes = cell.votes(rng)
        fitted = fit(votes)
        mean = fitted.elo().mean()
        for method in METHODS:
            intervals = clustered_intervals(votes, fitted, clusters=method)
            scores.mark(method, intervals.low - mean, intervals.high - mean)
            gaps.mark(method, intervals.difference_low[upper], intervals.difference_high[upper])

    return [scores, gaps], run_test


def _ladder(cell: CoverageCell, rng: np.random.Generator, raters: int) -> Case:
    """Ranges of ranks of the systems, whose order is given by the population."""
    del raters
    ranks = 1.0 + np.argsort(np.argsort(-np.array(cell.population.systems))).astype(np.float64)
    tally = _CoverageTally(cell, "ranks", ranks)

    def run_test() -> None:
        votes = cell.votes(rng)
        for method in METHODS:
            ranges = rank_ranges(elo_report(votes, clusters=method)["differences"], votes.systems)
            tally.mark(method, *np.array([ranges[name] for name in votes.systems], np.float64).T)

    return [tally], run_test


def _true_means(cell: CoverageCell, rng: np.random.Generator, raters: int) -> F8:
    true_ratings = cell.draw(rng, raters, _TRUE_SCRIPTS, own_scripts=True)
    return np.bincount(true_ratings.system, true_ratings.score) / np.bincount(true_ratings.system)


def _mos(cell: CoverageCell, rng: np.random.Generator, raters: int) -> Case:
    truth = _true_means(cell, rng, raters)
    one, other = np.triu_indices(len(truth), 1)
    means, gaps = _CoverageTally(cell, "means", truth), _CoverageTally(cell, "differences", truth[one] - truth[other])

    def run_test() -> None:
        ratings = cell.ratings(rng)
        for method in METHODS:
            means.mark_all(method, list(by_system(ratings, method).values()))
            gaps.mark_all(method, [d.interval for d in pairwise_differences(ratings, method)])

    return [means, gaps], run_test


def _ordinal(cell: CoverageCell, rng: np.random.Generator, raters: int) -> Case:
    tally = _CoverageTally(cell, "means", _true_means(cell, rng, raters))

    def run_test() -> None:
        ratings = cell.population.ratings(rng, cell.raters, cell.scripts)
        try:
            tally.mark_all("ordinal", list(ordinal_model(ratings).systems.values()))
        except BadOption:  # all scores are equal
            tally.mark("ordinal", *np.full((2, len(tally.truth)), np.nan))

    return [tally], run_test


_CASES = {"preference": _preference, "elo": _elo, "ladder": _ladder, "mos": _mos, "mushra": _mos, "ordinal": _ordinal}


class _CoverageTally:
    """Hits and widths of one cell by method, over systems or pairs."""

    def __init__(self, cell: CoverageCell, over: str, truth: F8) -> None:
        self.cell, self.over, self.truth = cell, over, truth
        self.held: dict[str, F8] = {}
        self.flat: dict[str, int] = {}
        self.none: dict[str, int] = {}
        self.width: dict[str, float] = {}

    def mark_all(self, method: str, intervals: list[Interval]) -> None:
        ends = [(np.nan if i.low is None else i.low, np.nan if i.high is None else i.high) for i in intervals]
        self.mark(method, *(np.array(end) for end in zip(*ends, strict=True)))

    def mark(self, method: str, low: F8, high: F8) -> None:
        """Count the intervals of one test; a missing interval (NaN) is a miss."""
        held = (low <= self.truth) & (self.truth <= high)
        self.held[method] = self.held.get(method, np.zeros(len(self.truth))) + held
        self.flat[method] = self.flat.get(method, 0) + int((high - low <= 0).sum())
        known = np.isfinite(high - low)
        self.none[method] = self.none.get(method, 0) + int((~known).sum())
        self.width[method] = self.width.get(method, 0.0) + float((high - low)[known].sum()) / 2

    def rows(self, runs: int) -> Iterator[dict[str, Any]]:
        cell = self.cell
        about = {"test": cell.test, "part": cell.part, "over": self.over, "raters": cell.raters}
        about |= {
            "scripts": cell.scripts,
            "systems": list(cell.population.systems),
            "favour_sd": cell.population.favour_sd,
        }
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
