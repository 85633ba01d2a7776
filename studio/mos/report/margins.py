"""Non-inferiority and equivalence in reports: a sentence for each pair, a picture, and a table."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    ReportTable,
    confidence,
    interval_text,
    number,
    p_value,
    scaled,
    small_sample_notes,
)
from studio.mos.report.charts import IntervalMark, interval_chart

TITLE = "No worse by more than a margin"
_METHOD = (
    "Two one-sided tests (Schuirmann 1987) on the interval by rater and script: no worse is shown (p at most 0.05) if "
    "the 90% interval is above the lower margin, equivalent if within both. Verdicts use p corrected for the pairs "
    "of the table (Holm 1979)."
)
_POSTERIOR = (
    "Posterior: probability that the true difference is above the lower margin, and within both; prior flat over "
    "the scale."
)
_DECLARED = "The margin is that of the test's settings."
_CHOSEN = (
    "The margin or the baseline was chosen for this analysis, not in the test's settings: fix a margin before "
    "the answers are seen."
)
_DISPLAY = {"share": (100.0, 1), "points": (1.0, 1), "steps": (1.0, 2)}  # factor and digits
_UNITS = {"share": "percentage points of the votes", "points": "points", "steps": "steps"}


def margin_sentences(results: Mapping[str, Any]) -> list[str]:
    """One sentence for each pair, with the question if there are several."""
    tests = results["margins"]["tests"]
    prefixes = [f"{test['name']}: " if len(tests) > 1 else "" for test in tests]
    return [prefix + pair["sentence"] for prefix, test in zip(prefixes, tests, strict=True) for pair in test["pairs"]]


def margin_figures(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Charts of the intervals against the margins, with captions."""
    figures: list[tuple[str, str]] = []
    for test in results["margins"]["tests"]:
        factor, digits = _DISPLAY[test["unit"]]
        marks: list[IntervalMark] = []
        for pair in test["pairs"]:
            mean, low, high = scaled(pair["interval"], factor).values()
            assert mean is not None, "an interval has a mean"
            label = f"{number(mean, digits)} {interval_text(low, high, digits)}"
            marks.append(IntervalMark(f"{pair['a']} {MINUS} {pair['b']}", mean, low, high, label))
        margin = factor * test["margin"]
        title = f"{test['name']}: differences against the margin"
        caption = (
            f"{test['name']}: difference and 90% interval, by rater and script, {_UNITS[test['unit']]}; dashed: the "
            f"margins of {MINUS}{margin:g} and {margin:g}."
        )
        figures.append((interval_chart(marks, title=title, limits=(-margin, margin)), caption))
    return figures


def margin_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """One table per question, and one of preferences; none without a margin."""
    tables: list[ReportTable] = []
    for test in results["margins"]["tests"]:
        factor, digits = _DISPLAY[test["unit"]]
        rows: list[list[str]] = []
        for pair in test["pairs"]:
            mean, low, high = scaled(pair["interval"], factor).values()
            tests = [p_value(pair[f"p_{claim}_holm"]) for claim in ("not_worse", "not_better", "equivalent")]
            posterior = [confidence(pair[f"posterior_{claim}"]) for claim in ("not_worse", "equivalent")]
            difference = number(mean, digits) if pair["interval"]["df"] else NONE
            rows.append(
                [f"{pair['a']} {MINUS} {pair['b']}", difference, interval_text(low, high, digits), *tests, *posterior]
            )
        margin = f"{factor * test['margin']:g} {_UNITS[test['unit']]}"
        columns = ["Pair", "difference", "90% interval", "p, first no worse", "p, second no worse", "p, equivalent"]
        columns += ["posterior, first no worse", "posterior, equivalent"]
        declared = _DECLARED if results["margins"]["is_declared"] else _CHOSEN
        few = small_sample_notes(pair["interval"] for pair in test["pairs"] if pair["interval"]["df"])
        sentences = [pair["sentence"] for pair in test["pairs"]]
        notes = [*sentences, _METHOD, _POSTERIOR, declared, *few]
        tables.append(ReportTable(f"{test['name']}: {TITLE.lower()} of {margin}", columns, rows, notes))
    return tables
