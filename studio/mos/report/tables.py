"""The tables of a report in the papers' own form: plain text in cells, so that each format escapes in its own way."""

import time
from collections.abc import Mapping
from typing import Any

from studio.mos.analysis.stopping_rule import widths
from studio.mos.report.cells import (
    MINUS,
    NONE,
    PM,
    TWO_WAY,
    Table,
    between,
    digits_of,
    few_raters,
    median_and_quartiles,
    number,
    p_value,
    plus_minus,
    with_interval,
)
from studio.mos.report.choices import choice_tables, more_choice_tables
from studio.mos.report.latency import latency_tables
from studio.mos.report.pairs import comparison_tables, identity_tables, pair_intervals, screened_table
from studio.mos.report.raters import consensus_table, consistency_tables, post_hoc_tables, take_table
from studio.mos.report.tags import tag_tables

UNEQUAL_SCRIPTS = (
    "The systems have not been rated on the same scripts, so their means are of different scripts; differences are of "
    "the scripts that both of two said."
)


def paper_tables(results: Mapping[str, Any]) -> list[Table]:
    """What the papers print: means by system (000, 004), a page of systems (002), preferences (001), Elo (002).

    And what the recommendations do: MUSHRA before and after its post-screening, CMOS, and shares of X found.
    """
    tables = results["tables"]
    found: list[Table] = []
    if "post_screen" in tables:
        found.append(screened_table(results))
    elif any(t["n"] for t in tables.get("questions", {}).values()):
        found.append(_page_of_systems(results) if results["kind"] == "scale" else _means(results))
    found += comparison_tables(tables.get("comparisons", {})) + identity_tables(tables.get("identity", {"n": 0}))
    choices = tables.get("choices", {"n": 0})
    if choices["n"]:
        found += choice_tables(choices)
    return found + post_hoc_tables(results["consensus"])


def asked(results: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The questions that were asked of single sounds, each with its tables."""
    tables = results["tables"].get("questions", {})
    return [(q, tables[q["id"]]) for q in results["questions"] if q["id"] in tables]


def detail_tables(results: Mapping[str, Any]) -> list[Table]:
    """What stands beside: other intervals, differences between systems, agreement, single stimuli."""
    found: list[Table] = []
    for question, table in asked(results):
        if table["n"]:
            digits = digits_of(question)
            found += [_intervals(question["id"], table, digits), _differences(question["id"], table, digits)]
            found += [_agreement(question["id"], table), _stimuli(question["id"], table, digits)]
    found.append(_asking(results["tables"].get("asking", {})))
    found += [pair_intervals(name, t) for name, t in results["tables"].get("comparisons", {}).items() if t["n"]]
    choices = results["tables"].get("choices", {"n": 0})
    if choices["n"]:
        found += more_choice_tables(choices)
    found += [*tag_tables(results), *latency_tables(results), take_table(results["takes"])]
    found += [*consistency_tables(results["consistency"]), consensus_table(results["consensus"])]
    return [table for table in found if table.rows]


def stop_rule(results: Mapping[str, Any]) -> str | None:
    """Whether the campaign has what it wants to stop at, and what the looks saw; None where it wants nothing."""
    wanted, decided = results["rule"]["half_width"], results["rule"]["decided"]
    rules = [f"every 95% interval at most {PM}{wanted:g}"] if wanted is not None else []
    rules += ["every pair decided"] if decided else []
    if not rules:
        return None
    rows, taken = widths(results["tables"]), results["looks"]
    said = f"Stopping rule ({' or '.join(rules)})"
    if taken:
        seen = taken[-1]
        on = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seen["at"]))
        state = "met, so the campaign was closed" if seen["met"] else "not met"
        looked = f"{said}: {state} at the look at {seen['raters']} raters on {on}: {seen['why']}."
        return f"{looked} {_ONE_LOOK}" if decided else looked
    if not rows:
        return f"{said}: no answers yet."
    first = f"First look at {results['rule']['looks'][0]} finished raters." + (f" {_ONE_LOOK}" if decided else "")
    if wanted is None:
        return f"{said}: {first}"
    open_still = [name for name, half in rows if half is None or half > wanted]
    if open_still:
        return f"{said}: not reached by {len(open_still)} of {len(rows)}, {open_still[0]} among them. {first}"
    return f"{said}: reached. {first}"


_ONE_LOOK = "The tables' p values are of a single look: whoever watches decides at the planned looks alone."


def _names(results: Mapping[str, Any]) -> list[str]:
    return [s["name"] for s in results["systems"]]


def _means(results: Mapping[str, Any]) -> Table:
    """Table II of paper 000: a row for each system, a column for each question."""
    found_of = [(q, t) for q, t in asked(results) if t["n"]]
    rows: list[list[str]] = []
    for name in _names(results):
        found = [t["systems"]["two_way"].get(name) for _, t in found_of]
        if any(found):
            cells = [with_interval(i, digits_of(q)) if i else NONE for (q, _), i in zip(found_of, found, strict=True)]
            rows.append([name, *cells, str(max(i["n"] for i in found if i))])
    columns = ["System", *(f"{q['id']} ({q['low']}-{q['high']})" for q, _ in found_of), "ratings"]
    caption = "Degradation mean opinion score" if results["kind"] == "dcr" else "Mean opinion score"
    notes = [TWO_WAY, *few_raters(i for _, t in found_of for i in t["systems"]["two_way"].values())]
    if any(d["left_out"] for _, t in found_of for d in t["differences"]):
        items = found_of[0][1]["systems"]["two_way"]
        counts = ", ".join(f"{name} {i['items']}" for name, i in items.items())
        notes.append(f"Scripts with ratings: {counts}. {UNEQUAL_SCRIPTS}")
    return Table(f"{caption} {PM} 95% interval", columns, rows, notes)


def _page_of_systems(results: Mapping[str, Any]) -> Table:
    """Paper 002's table, which prints one standard error, and the 95% interval beside it."""
    question = results["questions"][0]
    table, digits = results["tables"]["questions"][question["id"]], digits_of(question)
    rows = [
        [
            name,
            plus_minus(plain["mean"], plain["se"], digits),
            with_interval(both, digits),
            str(both["n"]),
        ]
        for name in _names(results)
        if (both := table["systems"]["two_way"].get(name)) and (plain := table["systems"]["plain"][name])
    ]
    columns = ["System", f"mean {PM} one standard error", f"mean {PM} 95% interval", "ratings"]
    note = "One standard error is s / sqrt(n), ratings taken as independent, as paper 002 prints it; it is no interval."
    caption = f"{question['id']} ({question['low']}-{question['high']}), all systems on one page"
    return Table(caption, columns, rows, [note, TWO_WAY, *few_raters(table["systems"]["two_way"].values())])


def _intervals(question: str, table: Mapping[str, Any], digits: int) -> Table:
    rows: list[list[str]] = []
    for name, both in table["systems"]["two_way"].items():
        by_rater, plain = table["systems"]["by_rater"][name], table["p808"][name]
        rows.append(
            [
                name,
                number(both["mean"], digits + 1),
                between(both["low"], both["high"], digits + 1),
                between(by_rater["low"], by_rater["high"], digits + 1),
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
        "By rater: for these scripts only. P.808: 1.96 s / sqrt(N), as though every rating were independent; none "
        "where all ratings are alike."
    )
    return Table(f"{question}: intervals side by side", columns, rows, [note])


def _differences(question: str, table: Mapping[str, Any], digits: int) -> Table:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], digits) if d["interval"]["items"] else NONE,
            between(d["interval"]["low"], d["interval"]["high"], digits),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in table["differences"]
    ]
    notes = ["What a rater or a script does to both systems cancels; p corrected for all pairs (Holm 1979)."]
    notes += few_raters(d["interval"] for d in table["differences"] if d["interval"]["items"])
    columns = ["Pair", "difference", "95% interval", "p", "p, Holm"]
    if any(d["left_out"] for d in table["differences"]):
        columns.append("common scripts")
        rows = [[*row, str(d["interval"]["items"])] for row, d in zip(rows, table["differences"], strict=True)]
        notes.append(UNEQUAL_SCRIPTS)
    return Table(f"{question}: differences", columns, rows, notes)


def _agreement(question: str, table: Mapping[str, Any]) -> Table:
    found, icc = table["agreement"], table["agreement"]["icc"]
    rows = [
        ["Krippendorff's alpha, ordinal", number(found["alpha_ordinal"], 3)],
        ["Krippendorff's alpha, interval", number(found["alpha_interval"], 3)],
    ]
    if icc is not None:
        rows += [["ICC(2,1)", number(icc["single"], 3)], ["ICC(2,k)", number(icc["average"], 3)]]
    return Table(f"{question}: agreement between raters", ["Measure", "value"], rows)


def _asking(found: Mapping[str, Any]) -> Table:
    """Means by the order in which a screen's questions were asked."""
    rows = [
        [question, ", ".join(row["order"]), with_interval(row, 2), str(row["raters"]), str(row["n"])]
        for question, orders in found.items()
        for row in orders
    ]
    note = "A rater has one order in the whole sitting; as many raters of a sound have one as the other."
    return Table("Order of asking", ["Scale", "asked in the order", "mean", "raters", "ratings"], rows, [note])


def _stimuli(question: str, table: Mapping[str, Any], digits: int) -> Table:
    rows = [
        [
            s["item"],
            s["system"],
            number(s["mean"], digits),
            between(s["low"], s["high"], digits),
            str(s["n"]),
        ]
        for s in table["stimuli"]
    ]
    columns = ["Script", "System", "mean", "95% interval, by rater", "ratings"]
    return Table(f"{question}: every stimulus", columns, rows)
