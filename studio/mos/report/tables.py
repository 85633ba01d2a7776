"""The tables of a report in the papers' own form: plain text in cells, so that each format escapes in its own way."""

import time
from collections.abc import Mapping
from typing import Any

from studio.mos.analysis.stopping_rule import widths
from studio.mos.report.cells import (
    BY_RATER,
    MINUS,
    NONE,
    PM,
    TWO_WAY,
    Table,
    between,
    between_percent,
    digits_of,
    half_width,
    number,
    p_value,
    percent,
    plus_minus,
)
from studio.mos.report.pairs import comparison_tables, identity_tables, pair_intervals, screened_table
from studio.mos.report.raters import consistency_tables, take_table


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
        found += [_preferences(choices), _elo(choices)]
    return found


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
    found += [pair_intervals(name, t) for name, t in results["tables"].get("comparisons", {}).items() if t["n"]]
    choices = results["tables"].get("choices", {"n": 0})
    if choices["n"]:
        found.append(_shares(choices))
    found += [take_table(results["takes"])]
    found += consistency_tables(results["consistency"])
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
        return f"{said}: {state} at the look at {seen['raters']} raters on {on}: {seen['why']}."
    if not rows:
        return f"{said}: no answers yet."
    first = f"First look at {results['rule']['looks'][0]} finished raters."
    if wanted is None:
        return f"{said}: {first}"
    open_still = [name for name, half in rows if half is None or half > wanted]
    if open_still:
        return f"{said}: not reached by {len(open_still)} of {len(rows)}, {open_still[0]} among them. {first}"
    return f"{said}: reached. {first}"


def ranked(report: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The systems of an Elo report, the best first; those without a score last."""
    systems: Mapping[str, Mapping[str, Any]] = report["systems"]
    return sorted(systems.items(), key=lambda kv: (kv[1]["elo"] is None, -(kv[1]["elo"] or 0.0), kv[0]))


def _names(results: Mapping[str, Any]) -> list[str]:
    return [s["name"] for s in results["systems"]]


def _means(results: Mapping[str, Any]) -> Table:
    """Table II of paper 000: a row for each system, a column for each question."""
    found_of = [(q, t) for q, t in asked(results) if t["n"]]
    rows: list[list[str]] = []
    for name in _names(results):
        found = [t["systems"]["two_way"].get(name) for _, t in found_of]
        if any(found):
            cells = [
                plus_minus(i["mean"], half_width(i), digits_of(q)) if i else NONE
                for (q, _), i in zip(found_of, found, strict=True)
            ]
            rows.append([name, *cells, str(max(i["n"] for i in found if i))])
    columns = ["System", *(f"{q['id']} ({q['low']}-{q['high']})" for q, _ in found_of), "ratings"]
    caption = "Degradation mean opinion score" if results["kind"] == "dcr" else "Mean opinion score"
    return Table(f"{caption} {PM} 95% interval", columns, rows, [TWO_WAY])


def _page_of_systems(results: Mapping[str, Any]) -> Table:
    """Paper 002's table, which prints one standard error, and the 95% interval beside it."""
    question = results["questions"][0]
    table, digits = results["tables"]["questions"][question["id"]], digits_of(question)
    rows = [
        [
            name,
            plus_minus(plain["mean"], plain["se"], digits),
            plus_minus(both["mean"], half_width(both), digits),
            str(both["n"]),
        ]
        for name in _names(results)
        if (both := table["systems"]["two_way"].get(name)) and (plain := table["systems"]["plain"][name])
    ]
    columns = ["System", f"mean {PM} one standard error", f"mean {PM} 95% interval", "ratings"]
    note = "One standard error is s / sqrt(n), ratings taken as independent, as paper 002 prints it; it is no interval."
    caption = f"{question['id']} ({question['low']}-{question['high']}), all systems on one page"
    return Table(caption, columns, rows, [note, TWO_WAY])


def _preferences(choices: Mapping[str, Any]) -> Table:
    """Paper 001's preference: how often each of two was chosen."""
    rows: list[list[str]] = []
    for pair in choices["pairs"]["raters"]:
        votes, share = pair["share"]["n"], pair["share"]
        counts = [pair["wins_a"], pair["ties"], pair["both_bad"], pair["wins_b"]]
        rows.append(
            [
                pair["a"],
                pair["b"],
                *(percent(c / votes) for c in counts),
                f"{percent(share['mean'])} {between_percent(share)}",
                str(votes),
            ]
        )
    columns = ["A", "B", "A preferred", "no difference", "both bad", "B preferred", "share of A, 95% interval", "votes"]
    note = "The share counts a tie, and 'both bad', as half a win each. " + BY_RATER
    return Table("Preference", columns, rows, [note])


def _elo(choices: Mapping[str, Any]) -> Table:
    gamma, mle, dsm = (choices["elo"][m] for m in ("gamma", "mle", "dsm"))
    rows: list[list[str]] = []
    for name, row in ranked(gamma):
        beside = [other["systems"][name] for other in (mle, dsm)]
        others = [f"{number(r['elo'], 0)} {between(r['lo'], r['hi'], 0)}" for r in beside]
        rows.append([name, number(row["elo"], 0), between(row["lo"], row["hi"], 0), *others])
    constants = choices["constants"]
    notes = [
        f"Bradley-Terry with a prior Gamma(a0 = {constants['a0']:g}, rate b0 = {constants['b0']:g}) on each strength, "
        f"c = {constants['c']:g}, converged; {gamma['interval']}. Only differences within this test can be compared.",
        f"{dsm['interval']} after 30 sweeps from 1, as paper 002 prints it; too narrow for strong systems.",
    ]
    notes += [
        f"{label}: {r['reason']}." for label, r in (("Converged", gamma), ("Maximum likelihood", mle)) if r["reason"]
    ]
    columns = ["System", "Elo", "95% interval", "maximum likelihood", "DSM-compatible"]
    return Table("Elo", columns, rows, notes)


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
                NONE if plain["ci95"] is None else f"{PM} {plain['ci95']:.{digits + 1}f}",
                str(both["raters"]),
                str(both["items"]),
            ]
        )
    columns = ["System", "mean", "by rater and item", "by rater", "N", "s", "P.808 CI95", "raters", "scripts"]
    note = "By rater: for these scripts only. P.808: 1.96 s / sqrt(N), as though every rating were independent."
    return Table(f"{question}: intervals side by side", columns, rows, [note])


def _differences(question: str, table: Mapping[str, Any], digits: int) -> Table:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], digits),
            between(d["interval"]["low"], d["interval"]["high"], digits),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in table["differences"]
    ]
    note = "What a rater or a script does to both systems cancels; p corrected for all pairs (Holm 1979)."
    return Table(f"{question}: differences", ["Pair", "difference", "95% interval", "p", "p, Holm"], rows, [note])


def _agreement(question: str, table: Mapping[str, Any]) -> Table:
    found, icc = table["agreement"], table["agreement"]["icc"]
    rows = [
        ["Krippendorff's alpha, ordinal", number(found["alpha_ordinal"], 3)],
        ["Krippendorff's alpha, interval", number(found["alpha_interval"], 3)],
    ]
    if icc is not None:
        rows += [["ICC(2,1)", number(icc["single"], 3)], ["ICC(2,k)", number(icc["average"], 3)]]
    return Table(f"{question}: agreement between raters", ["Measure", "value"], rows)


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


def _shares(choices: Mapping[str, Any]) -> Table:
    by = choices["pairs"]
    rows = [
        [f"{raters['a']} against {raters['b']}", *(between_percent(p["share"]) for p in (raters, exact, wilson))]
        for raters, exact, wilson in zip(by["raters"], by["exact"], by["wilson"], strict=True)
    ]
    note = "Exact (Clopper & Pearson) and Wilson take votes as independent, which votes of one rater are not."
    return Table("Preference: intervals side by side", ["Pair", "by rater", "exact", "Wilson"], rows, [note])
