"""Tables in addition to means: Friedman and Wilcoxon tests, and MOS without the raters' bias (P.913)."""

from collections.abc import Mapping
from typing import Any

from studio.core.plurals import counted
from studio.mos.report.cells import (
    MINUS,
    PM,
    ReportTable,
    decimals_for,
    number,
    p_value,
    rated_questions,
    small_sample_notes,
    with_interval,
)

_BLOCKS = {
    "rater": "raters (mean over their scripts)",
    "item": "scripts (mean over their raters)",
    "systems": "raters, without hidden reference and anchors",
}


def rank_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Friedman's test and Wilcoxon's signed-rank tests of each question."""
    tables: list[ReportTable] = []
    for question, _ in rated_questions(results):
        tests = results["rank_tests"].get(question["id"])
        if tests and not tests["reason"]:
            tables += [_friedman(question["id"], tests), _wilcoxon(question, tests["rater"])]
    return [table for table in tables if table.rows]


def _friedman(question: str, tests: Mapping[str, Any]) -> ReportTable:
    rows = [
        [what, str(f["systems"]), str(f["blocks"]), number(f["chi2"], 2), p_value(f["p"]), number(f["w"], 2)]
        for name, what in _BLOCKS.items()
        if tests[name] is not None and (f := tests[name]["friedman"]) is not None
    ]
    notes = [
        "Null hypothesis: all systems are alike. Blocks must be independent, so they are raters or scripts, not single "
        "answers; each test generalises to other blocks of its kind only. W: Kendall's coefficient of concordance."
    ]
    if left_out := tests["rater"]["left_out"]:
        notes.append(f"left out: {counted(left_out, 'rater')} without ratings of every system.")
    columns = ["Blocks", "systems", "blocks", "chi-squared", "p", "W"]
    return ReportTable(f"{question}: Friedman's test", columns, rows, notes)


def _wilcoxon(question: Mapping[str, Any], tests: Mapping[str, Any]) -> ReportTable:
    rows = [
        [
            f"{pair['a']} {MINUS} {pair['b']}",
            number(pair["median"], decimals_for(question)),
            number(pair["effect"], 2),
            p_value(pair["p"]),
            p_value(pair["p_holm"]),
            str(pair["blocks"] + pair["equal"]),
        ]
        for pair in tests["pairs"]
    ]
    note = (
        "Wilcoxon's signed-rank test over the raters' means of common scripts, two-sided; p corrected for pairs (Holm "
        "1979). Effect: matched-pairs rank-biserial correlation. It generalises to other raters on these scripts."
    )
    columns = ["Pair", "median difference", "effect", "p", "p, Holm", "raters"]
    return ReportTable(f"{question['id']}: Wilcoxon's signed-rank tests", columns, rows, [note])


def subject_bias_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Means without the raters' bias next to plain means, one table for each question."""
    tables: list[ReportTable] = []
    for question, table in rated_questions(results):
        model, digits = results["subject_bias"].get(question["id"]), decimals_for(question)
        if not model or model["reason"]:
            continue
        plain = table["systems"]["two_way"]
        rows = [
            [name, with_interval(plain[name], digits), with_interval(model["systems"][name], digits)]
            for name in plain
            if name in model["systems"]
        ]
        notes = [_BIAS, _range(model, digits), *small_sample_notes(model["systems"].values())]
        notes += [_SHRUNK] if model["is_shrunk"] else []
        if model["left_out"]:
            notes.append(f"left out: {counted(model['left_out'], 'rater')} with fewer than three answers.")
        columns = ["System", f"mean {PM} 95% interval", f"without bias {PM} 95% interval"]
        tables.append(ReportTable(f"{question['id']}: without the raters' bias (P.913)", columns, rows, notes))
    return tables


_BIAS = (
    "ITU-T P.913, 12.6: score = quality of the stimulus + bias of the rater + inconsistency of the rater x noise, by "
    "maximum likelihood; inconsistent raters weigh less. Biases are relative to this panel, so this interval ignores a "
    "common bias of the whole panel; that of the plain mean includes it."
)
_SHRUNK = (
    "The likelihood has no maximum here (one rater would explain everything): the raters' variances are shrunk towards "
    "their mean with the weight of four answers."
)


def _range(model: Mapping[str, Any], digits: int) -> str:
    raters = model["raters"]
    bias, spread = ([one[name] for one in raters] for name in ("bias", "inconsistency"))
    low, high = number(min(bias), digits), number(max(bias), digits)
    return (
        f"{counted(len(raters), 'rater')}: bias {low} to {high}, inconsistency {number(min(spread), digits)} to "
        f"{number(max(spread), digits)}."
    )
