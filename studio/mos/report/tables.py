"""Report tables in the form of the papers, and the report as LaTeX and Markdown."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from studio.core.plurals import counted
from studio.mos.analysis.stopping_rule import widths
from studio.mos.report.beside_means import rank_tables, subject_bias_tables
from studio.mos.report.cells import (
    MINUS,
    NONE,
    PM,
    TWO_WAY,
    ReportTable,
    answer_count,
    decimals_for,
    interval_text,
    latex_table,
    markdown_table,
    markdown_text,
    median_and_quartiles,
    number,
    one_line,
    p_value,
    plus_minus,
    rated_questions,
    small_sample_notes,
    with_interval,
)
from studio.mos.report.design import consensus_table, consistency_tables, post_hoc_tables, take_table
from studio.mos.report.margins import margin_tables
from studio.mos.report.models import latency_tables, predicted_tables, second_opinion_tables
from studio.mos.report.pairs import (
    choice_tables,
    comparison_tables,
    elo_interval,
    elo_score,
    excluded_table,
    identity_tables,
    more_choice_tables,
    pair_intervals,
    ranked,
    screened_table,
)

UNEQUAL_SCRIPTS = (
    "The systems were not rated on the same scripts, so their means are of different scripts; differences use the "
    "scripts that both systems have."
)


def latex(results: Mapping[str, Any]) -> str:
    """Tables of the papers, ordinal models and predictions as LaTeX floats without packages."""
    size = f"{counted(results['raters'], 'rater')}, {counted(results['answers'], 'answer')}"
    head = [f"% {one_line(results['name'])}: {size}"]
    tables = [*paper_tables(results), *margin_tables(results), *second_opinion_tables(results)]
    tables += predicted_tables(results)
    return "\n\n".join([*head, *(latex_table(t) for t in tables)]) + "\n"


def markdown(results: Mapping[str, Any]) -> str:
    """All tables as Markdown."""
    where = (
        f"{counted(results['raters'], 'rater')}, {results['finished']} finished; answers {answer_count(results)}; "
        f"{counted(results['left_out'], 'rater')} excluded by the gates."
    )
    if results["design"] is None:  # of a file
        where = f"{counted(results['raters'], 'rater')}; {counted(results['answers'], 'answer')}."
    parts = [f"# {markdown_text(results['title'])}", where]
    parts += [markdown_text(rule)] if (rule := stopping_rule_text(results)) else []
    tables = [*paper_tables(results), *margin_tables(results), *second_opinion_tables(results)]
    parts += [markdown_table(t) for t in [*tables, *detail_tables(results), *predicted_tables(results)]]
    return "\n\n".join(parts) + "\n"


def paper_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Tables of the papers: means by system (000, 004), all systems on one page (002), preferences (001), Elo (002).

    Also those of the ITU recommendations: MUSHRA before and after post-screening, CMOS, and ABX.
    """
    tables = results["tables"]
    result: list[ReportTable] = []
    if "post_screen" in tables:
        result += [screened_table(results), *rank_tables(results)]
    elif any(t["n"] for t in tables.get("questions", {}).values()):
        result.append(_page_of_systems(results) if results["kind"] == "scale" else _means(results))
    result += comparison_tables(tables.get("comparisons", {})) + identity_tables(tables.get("identity", {"n": 0}))
    choices = tables.get("choices", {"n": 0})
    if choices["n"]:
        result += choice_tables(choices)
    return result + post_hoc_tables(results["consensus"])


def detail_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Further tables: other intervals, differences between systems, agreement, single stimuli."""
    result: list[ReportTable] = []
    for question, table in rated_questions(results):
        if table["n"]:
            digits = decimals_for(question)
            result += [_intervals(question["id"], table, digits), _differences(question["id"], table, digits)]
            result += [_agreement(question["id"], table), _stimuli(question["id"], table, digits)]
    result += [] if "post_screen" in results["tables"] else rank_tables(results)
    result += subject_bias_tables(results)
    result += [excluded_table(results["tables"]["post_screen"])] if "post_screen" in results["tables"] else []
    result.append(_question_order(results["tables"].get("asking", {})))
    result += [pair_intervals(name, t) for name, t in results["tables"].get("comparisons", {}).items() if t["n"]]
    choices = results["tables"].get("choices", {"n": 0})
    if choices["n"]:
        result += more_choice_tables(choices)
    result += [*tag_tables(results), *latency_tables(results), take_table(results["takes"])]
    result += [*consistency_tables(results["consistency"]), consensus_table(results["consensus"])]
    return [table for table in result if table.rows]


def stopping_rule_text(results: Mapping[str, Any]) -> str | None:
    """State of the stopping rule and what the looks found; None without a rule."""
    half_width, needs_decisions = results["rule"]["half_width"], results["rule"]["decided"]
    rules = [f"every 95% interval at most {PM}{half_width:g}"] if half_width is not None else []
    rules += ["every pair decided"] if needs_decisions else []
    if not rules:
        return None
    rows, looks = widths(results["tables"]), results["looks"]
    prefix = f"Stopping rule ({' or '.join(rules)})"
    if looks:
        look = looks[-1]
        on = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(look["at"]))
        state = "met, so the campaign was closed" if look["met"] else "not met"
        looked = f"{prefix}: {state} at the look at {look['raters']} raters on {on}: {look['why']}."
        return f"{looked} {_ONE_LOOK}" if needs_decisions else looked
    if not rows:
        return f"{prefix}: no answers yet."
    first = f"First look at {results['rule']['looks'][0]} finished raters." + (
        f" {_ONE_LOOK}" if needs_decisions else ""
    )
    if half_width is None:
        return f"{prefix}: {first}"
    pending = [name for name, half in rows if half is None or half > half_width]
    if pending:
        return f"{prefix}: not reached by {len(pending)} of {len(rows)}, {pending[0]} among them. {first}"
    return f"{prefix}: reached. {first}"


_ONE_LOOK = "The tables' p values are for a single look; decisions are made only at the planned looks."


def _names(results: Mapping[str, Any]) -> list[str]:
    return [s["name"] for s in results["systems"]]


def _means(results: Mapping[str, Any]) -> ReportTable:
    """Table II of paper 000: a row per system, a column per question."""
    rated = [(q, t) for q, t in rated_questions(results) if t["n"]]
    rows: list[list[str]] = []
    for name in _names(results):
        intervals = [t["systems"]["two_way"].get(name) for _, t in rated]
        if any(intervals):
            cells = [
                with_interval(i, decimals_for(q)) if i else NONE for (q, _), i in zip(rated, intervals, strict=True)
            ]
            rows.append([name, *cells, str(max(i["n"] for i in intervals if i))])
    columns = ["System", *(f"{q['id']} ({q['low']}-{q['high']})" for q, _ in rated), "ratings"]
    caption = "Degradation mean opinion score" if results["kind"] == "dcr" else "Mean opinion score"
    notes = [TWO_WAY, *small_sample_notes(i for _, t in rated for i in t["systems"]["two_way"].values())]
    if any(d["left_out"] for _, t in rated for d in t["differences"]):
        items = rated[0][1]["systems"]["two_way"]
        counts = ", ".join(f"{name} {i['items']}" for name, i in items.items())
        notes.append(f"Scripts with ratings: {counts}. {UNEQUAL_SCRIPTS}")
    return ReportTable(f"{caption} {PM} 95% interval", columns, rows, notes)


def _page_of_systems(results: Mapping[str, Any]) -> ReportTable:
    """Table of paper 002 with one standard error, plus the 95% interval."""
    question = results["questions"][0]
    table, digits = results["tables"]["questions"][question["id"]], decimals_for(question)
    rows = [
        [name, plus_minus(plain["mean"], plain["se"], digits), with_interval(both, digits), str(both["n"])]
        for name in _names(results)
        if (both := table["systems"]["two_way"].get(name)) and (plain := table["systems"]["plain"][name])
    ]
    columns = ["System", f"mean {PM} one standard error", f"mean {PM} 95% interval", "ratings"]
    note = "One standard error is s / sqrt(n), ratings taken as independent, as in paper 002; it is not an interval."
    caption = f"{question['id']} ({question['low']}-{question['high']}), all systems on one page"
    return ReportTable(
        caption, columns, rows, [note, TWO_WAY, *small_sample_notes(table["systems"]["two_way"].values())]
    )


def _intervals(question: str, table: Mapping[str, Any], digits: int) -> ReportTable:
    rows: list[list[str]] = []
    for name, both in table["systems"]["two_way"].items():
        by_rater, plain = table["systems"]["by_rater"][name], table["p808"][name]
        rows.append(
            [
                name,
                number(both["mean"], digits + 1),
                interval_text(both["low"], both["high"], digits + 1),
                interval_text(by_rater["low"], by_rater["high"], digits + 1),
                str(plain["n"]),
                number(plain["s"], digits + 1),
                median_and_quartiles(table["quartiles"][name], digits),
                NONE if plain["ci95"] is None else f"{PM} {plain['ci95']:.{digits + 1}f}",
                str(both["raters"]),
                str(both["items"]),
            ]
        )
    columns = ["System", "mean", "by rater and script", "by rater", "N", "s", "median [quartiles]", "P.808 CI95"]
    columns += ["raters", "scripts"]
    note = (
        "By rater: for these scripts only. P.808: 1.96 s / sqrt(N), with independent ratings; none if all ratings are "
        "equal."
    )
    return ReportTable(f"{question}: intervals side by side", columns, rows, [note])


def _differences(question: str, table: Mapping[str, Any], digits: int) -> ReportTable:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], digits) if d["interval"]["items"] else NONE,
            interval_text(d["interval"]["low"], d["interval"]["high"], digits),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in table["differences"]
    ]
    notes = ["Effects of raters and scripts on both systems cancel; p corrected for all pairs (Holm 1979)."]
    notes += small_sample_notes(d["interval"] for d in table["differences"] if d["interval"]["items"])
    columns = ["Pair", "difference", "95% interval", "p", "p, Holm"]
    if any(d["left_out"] for d in table["differences"]):
        columns.append("common scripts")
        rows = [[*row, str(d["interval"]["items"])] for row, d in zip(rows, table["differences"], strict=True)]
        notes.append(UNEQUAL_SCRIPTS)
    return ReportTable(f"{question}: differences", columns, rows, notes)


def _agreement(question: str, table: Mapping[str, Any]) -> ReportTable:
    agreement, icc = table["agreement"], table["agreement"]["icc"]
    rows = [
        ["Krippendorff's alpha, ordinal", number(agreement["alpha_ordinal"], 3)],
        ["Krippendorff's alpha, interval", number(agreement["alpha_interval"], 3)],
    ]
    if icc is not None:
        rows += [["ICC(2,1)", number(icc["single"], 3)], ["ICC(2,k)", number(icc["average"], 3)]]
    return ReportTable(f"{question}: agreement between raters", ["Measure", "value"], rows)


def _question_order(by_question: Mapping[str, Any]) -> ReportTable:
    """Means by the order of a trial's questions."""
    rows = [
        [question, ", ".join(row["order"]), with_interval(row, 2), str(row["raters"]), str(row["n"])]
        for question, orders in by_question.items()
        for row in orders
    ]
    note = "Each rater has one order for the whole session; the orders are balanced over the raters of a stimulus."
    return ReportTable("Order of questions", ["Scale", "order", "mean", "raters", "ratings"], rows, [note])


def _stimuli(question: str, table: Mapping[str, Any], digits: int) -> ReportTable:
    rows = [
        [s["item"], s["system"], number(s["mean"], digits), interval_text(s["low"], s["high"], digits), str(s["n"])]
        for s in table["stimuli"]
    ]
    columns = ["Script", "System", "mean", "95% interval, by rater", "ratings"]
    return ReportTable(f"{question}: every stimulus", columns, rows)


_NOTE = "Each tag uses the answers on its scripts; a script with two tags counts for both."


def tag_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Tables by tag of scripts: one per question, and one of Elo; none without tags."""
    tables, questions = results["tables"], {q["id"]: q for q in results["questions"]}
    result: list[ReportTable] = []
    for name, table in tables.get("questions", {}).items():
        if tags := table.get("tags"):
            digits, systems = decimals_for(questions[name]), list(table["systems"]["two_way"])
            intervals = {tag: of["systems"] for tag, of in tags.items()}
            result.append(_by_tag(f"{name}, by tag", "System", systems, tags, intervals, digits))
    for name, table in tables.get("comparisons", {}).items():
        if tags := table.get("tags"):
            pairs = [_pair(p) for p in table["pairs"]]
            intervals = {tag: {_pair(p): p["cmos"]["two_way"] for p in of["pairs"]} for tag, of in tags.items()}
            result.append(_by_tag(f"{name}: CMOS by tag", "Pair", pairs, tags, intervals, 2))
    choices = tables.get("choices", {})
    if tags := choices.get("tags"):
        systems = [name for name, _ in ranked(choices["elo"]["gamma"])]
        cells = {tag: {s: _elo(row) for s, row in of["elo"]["systems"].items()} for tag, of in tags.items()}
        result.append(_table("Elo by tag", "System", systems, tags, cells, [of["elo"] for of in tags.values()]))
    return result


def _by_tag(
    caption: str, first: str, names: list[str], tags: Mapping[str, Any], intervals: Mapping[str, Any], digits: int
) -> ReportTable:
    cells = {tag: {name: with_interval(i, digits) for name, i in of.items()} for tag, of in intervals.items()}
    return _table(caption, first, names, tags, cells, [i for of in intervals.values() for i in of.values()])


def _table(
    caption: str,
    first: str,
    names: list[str],
    tags: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, str]],
    counted: Sequence[Mapping[str, Any]],
) -> ReportTable:
    """``counted`` has the numbers of raters and scripts of each interval."""
    columns = [first, *(f"{tag} ({of['items']} script{'s' * (of['items'] != 1)})" for tag, of in tags.items())]
    rows = [[name, *(cells[tag].get(name, NONE) for tag in tags)] for name in names]
    counts = ", ".join(f"{tag} {of['n']}" for tag, of in tags.items())
    return ReportTable(caption, columns, rows, [f"{_NOTE} Answers: {counts}.", *small_sample_notes(counted)])


def _elo(row: Mapping[str, Any]) -> str:
    return elo_interval(row) if row["state"] else f"{elo_score(row)} {elo_interval(row)}"


def _pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['a']} against {pair['b']}"
