"""The report as one HTML file: no network, no script, every text escaped, readable on paper."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from studio.mos.exchange.data_dictionary import DICTIONARY
from studio.mos.report.cells import (
    NONE,
    Table,
    between_percent,
    confidence,
    digits_of,
    number,
    p_value,
    percent,
    with_interval,
)
from studio.mos.report.charts import Mark, bars, histogram, intervals, matrix, shares
from studio.mos.report.choices import elo_interval, elo_score, ranked
from studio.mos.report.design import design_rows
from studio.mos.report.latency import latency_figures
from studio.mos.report.predicted import predicted_tables
from studio.mos.report.second_opinion import second_opinion_tables
from studio.mos.report.tables import asked, detail_tables, paper_tables, stop_rule

_CSS = Path(__file__).with_name("page.css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MANY = 12  # systems from which on a matrix is drawn small
_MANY_PAIRS = 45  # pairs that are shown at once
STAGES = {
    "consent": "agreed",
    "screening": "passed the screening",
    "instructions": "read the instructions",
    "headphones": "past the headphone check",
    "environment": "past the environment test",
    "level": "set the level",
    "trials": "answered every screen",
    "comments": "past the comments",
    "done": "reached the last page",
    "screened_out": "screened out",
    "withdrawn": "left",
    "full": "came when all places were taken",
}
GATES = {
    "traps": "traps answered to the point",
    "golds": "golds within one step",
    "variance": "ratings vary",
    "repeats": "repeated screens answered alike",
    "pace": "time enough to hear the sounds",
    "headphones": "headphone check",
    "environment": "environment test (P.808)",
    "consensus": "answers go with the others'",
    "accept": "accept: pay them",
    "use": "use: analyse them",
}


def html(results: Mapping[str, Any]) -> str:
    """The whole report of ``studio.mos.analysis.results.results`` as one file."""
    tables = results["tables"]
    body = [_head(results)]
    body += [_question(results, question, table) for question, table in asked(results)]
    body += [_compared(q, tables["comparisons"][q["id"]]) for q in results["questions"] if "comparisons" in tables]
    if "identity" in tables:
        body.append(_identified(results["prompt"], tables["identity"]))
    if "choices" in tables:
        body.append(_choices(results["prompt"], tables["choices"]))
    if figures := latency_figures(results):
        body.append(_section("Latency while typing", *(_figure(drawn, caption) for drawn, caption in figures)))
    body += [_section("Tables", *(_table(t) for t in paper_tables(results)))]
    second = second_opinion_tables(results)
    body += [_section("A second opinion", *(_table(t) for t in second))] if second else []
    foreseen = predicted_tables(results)
    body += [_section("Predicted, not rated", *(_table(t) for t in foreseen))] if foreseen else []
    details = detail_tables(results)
    body += [_section("More tables", *(_folded(t) for t in details))] if details else []
    body += [_raters(results), _design(results), _codebook()]
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    foot = f'<p class="note">Made by Streaming-TTS Studio, {made}. This file loads nothing from anywhere.</p>'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(results['title'])}: results</title>\n<style>\n{_CSS.read_text(encoding='utf-8')}</style>\n"
        f"</head>\n<body><main>\n{''.join(body)}\n{foot}\n</main></body>\n</html>\n"
    )


def gate_table(caption: str, gates: Mapping[str, Mapping[str, int]], design: Mapping[str, Any]) -> Table:
    """What each gate said, and the two decisions: how many raters are ok, fail and unknown."""
    rows = [
        [GATES[gate], *(str(gates[gate].get(verdict, 0)) for verdict in ("ok", "fail", "unknown"))] for gate in GATES
    ]
    notes = ["Unknown excludes nobody: the gate did not run for them, or not yet."]
    if design["gates"]["headphones"] != "none" and not design["gates"]["headphones_required"]:
        notes.append("The headphone check is told for information: this campaign leaves nobody out for it.")
    if design["gates"]["environment"] and not design["gates"]["environment_required"]:
        notes.append("The environment test is told for information: this campaign leaves nobody out for it.")
    if design["gates"]["min_consensus"] and not design["gates"]["consensus_required"]:
        notes.append("Agreement with the others is told for information: this campaign leaves nobody out for it.")
    return Table(caption, ["Gate", "ok", "fail", "unknown"], rows, notes)


def _head(results: Mapping[str, Any]) -> str:
    gone = results["forgotten"]
    tiles = [
        ("raters", str(results["raters"])),
        ("finished", str(results["finished"])),
        ("answers", str(results["answers"])),
        *([("answers wanted", str(results["wanted"]))] if results["wanted"] else []),
        *([("to traps, golds, practice, repeats", str(results["aside"]))] if results["aside"] else []),
        ("raters left out", str(results["left_out"])),
    ]
    tiles += [("asked to be forgotten", str(gone["raters"]))] if gone["raters"] else []
    shown = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles)
    rule = stop_rule(results)
    return (
        f"<h1>{escape(results['title'])}</h1>"
        f'<p class="muted">Campaign {escape(results["name"])}, {escape(results["state"])}</p>'
        f'<dl class="tiles">{shown}</dl>' + (f"<p>{escape(rule)}</p>" if rule else "")
    )


def _question(results: Mapping[str, Any], question: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    if not table["n"]:
        gone = "post_screen" in results["tables"]
        return _section(question["id"], f"<p>{'The post-screening left nobody.' if gone else 'No answers yet.'}</p>")
    digits = digits_of(question)
    found = table["systems"]["two_way"]
    names = [s["name"] for s in results["systems"] if s["name"] in found]
    marks = [
        Mark(
            n,
            found[n]["mean"],
            found[n]["low"],
            found[n]["high"],
            with_interval(found[n], digits),
        )
        for n in names
    ]
    small = "".join(histogram(table["histogram"][n], question["low"], n) for n in names)
    return _section(
        question["id"],
        f'<p class="muted">{escape(question["prompt"])}</p>',
        _figure(
            intervals(marks, question["low"], question["high"], f"means of {question['id']} by system"),
            "Mean and 95% interval, by rater and script.",
        ),
        f'<h3>How often each score was given</h3><div class="small">{small}</div>',
    )


def _compared(question: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    if not table["n"]:
        return _section(question["id"], "<p>No answers yet.</p>")
    marks: list[Mark] = []
    for pair in table["pairs"]:
        found = pair["cmos"]["two_way"]
        shown = with_interval(found, digits_of(question))
        marks.append(Mark(f"{pair['a']} : {pair['b']}", found["mean"], found["low"], found["high"], shown))
    return _section(
        question["id"],
        f'<p class="muted">{escape(question["prompt"])}</p>',
        _figure(
            intervals(marks, question["low"], question["high"], f"CMOS of {question['id']} by pair"),
            "CMOS and 95% interval, by rater and script; above nought the first of the two is better.",
        ),
        f'<p class="note">Second sound against first, whatever they were: mean {number(table["order"]["mean"], 2)}. '
        "Far from nought, raters judged the place.</p>",
    )


def _identified(prompt: str, table: Mapping[str, Any]) -> str:
    if not table["n"]:
        return _section("ABX", "<p>No answers yet.</p>")
    marks: list[Mark] = []
    for pair in table["pairs"]:
        found = pair["share"]["two_way"]
        low, high = (None if found[end] is None else 100 * found[end] for end in ("low", "high"))
        marks.append(Mark(f"{pair['a']} : {pair['b']}", 100 * found["mean"], low, high, percent(found["mean"])))
    said = ", ".join(f"{side.upper()} {n}" for side, n in table["said"].items())
    return _section(
        "ABX",
        f'<p class="muted">{escape(prompt)}</p>' if prompt else "",
        _figure(
            intervals(marks, 0, 100, "share of X found by pair"),
            "Percent of answers that found X, and 95% interval, by rater and script; 50 is guessing.",
        ),
        f'<p class="note">Whatever X was, raters said: {said}.</p>',
    )


def _share(pair: Mapping[str, Any]) -> Mark:
    share = pair["share"]
    shown = f"{percent(share['mean'])} {between_percent(share)}, p {p_value(pair['p_holm'])}"
    return Mark(pair["a"], share["mean"], share["low"], share["high"], shown)


def _choices(prompt: str, choices: Mapping[str, Any]) -> str:
    if not choices["n"]:
        return _section("Preference", "<p>No answers yet.</p>")
    met = choices["pairs"]["two_way"]
    pairs = [(p["a"], p["b"], (p["wins_a"], p["ties"], p["both_bad"], p["wins_b"]), _share(p)) for p in met]
    key = "".join(
        f'<span style="--c:var(--{colour})">{what}</span>'
        for colour, what in (("accent", "left"), ("soft", "no difference"), ("bad", "both bad"), ("lost", "right"))
    )
    chart = f'<div class="key">{key}</div>' + _figure(
        shares(pairs, "preference of each pair"),
        "Votes of each pair; below, the share of the left, a tie being half a win each, with its 95% interval by rater "
        "and script, and p against one half (the dashed line), corrected for all pairs (Holm).",
    )
    elo = choices["elo"]["gamma"]
    marks = [_rung(name, row) for name, row in ranked(elo) if row["elo"] is not None]
    sides = ", ".join(f"{_SIDES[k]} {n}" for k, n in choices["sides"].items() if n or k in ("a", "b"))
    return _section(
        "Preference",
        f'<p class="muted">{escape(prompt)}</p>' if prompt else "",
        chart if len(pairs) <= _MANY_PAIRS else f"<details><summary>{len(pairs)} pairs</summary>{chart}</details>",
        "<h3>Elo</h3>",
        _figure(intervals(marks, title="Elo by system"), f"Converged; 95%, {elo['interval']}.") if marks else "",
        *(f'<p class="note">{escape(said)}.</p>' for said in (elo["reason"], *elo["notes"]) if said),
        "<h3>Who is better than whom</h3>",
        '<p class="note">Probability that the row&#x27;s score is above the column&#x27;s: '
        f"{escape(elo['p_better_is'])}.</p>",
        _matrix(choices["names"], elo["p_better"], elo["p_better"], percent=True),
        "<h3>Wins</h3>",
        '<p class="note">Votes of the row against the column; a tie is half a win each.</p>',
        _matrix(choices["names"], _won_shares(elo["wins"]), elo["wins"], percent=False),
        f'<p class="note">Whatever was on it: {sides}. Sides that are far apart were not alike to raters.</p>',
    )


def _rung(name: str, row: Mapping[str, Any]) -> Mark:
    """A system on the Elo ladder; one without a finite strength stands at its bound, and goes on from there."""
    value = {"undefeated": row["lo"], "winless": row["hi"]}.get(row["state"])
    shown = elo_interval(row) if row["state"] else f"{elo_score(row)} {elo_interval(row)}"
    return Mark(name, row["elo"] if value is None else value, row["lo"], row["hi"], shown)


_SIDES = {"a": "first sound", "b": "second sound", "tie": "no difference", "both_bad": "both bad"}


def _won_shares(wins: Sequence[Sequence[float]]) -> list[list[float | None]]:
    size = range(len(wins))
    return [[wins[i][j] / n if (n := wins[i][j] + wins[j][i]) else None for j in size] for i in size]


def _matrix(
    names: Sequence[str], tint: Sequence[Sequence[float | None]], cells: Sequence[Sequence[Any]], percent: bool
) -> str:
    size = range(len(names))
    shown = {
        (i, j): NONE if cells[i][j] is None else confidence(cells[i][j]) if percent else f"{cells[i][j]:g}"
        for i in size
        for j in size
    }
    found = matrix(names, tint, shown)
    many = found.replace('class="matrix"', 'class="matrix many"', 1) if len(names) > _MANY else found
    return f'<div class="wide">{many}</div>'


def _raters(results: Mapping[str, Any]) -> str:
    most = max((row["raters"] for row in results["funnel"]), default=0) or 1
    steps = [(STAGES[r["stage"]], r["raters"], f"{r['raters']} ({r['raters'] / most:.0%})") for r in results["funnel"]]
    gates, design = results["gates"], results["design"]
    left = f"{results['left_out']} raters are left out of every table"
    if results["everyone"]:
        left = "Nobody is left out of the tables, whatever the gates say"
    days = [_folded(gate_table(f"Joined on {day}", g, design)) for day, g in gates["by_day"].items()]
    effort, gone = results["effort"], results["forgotten"]
    facts = [left]
    if effort["median_response_ms"] is not None:
        facts.append(f"median time to answer {effort['median_response_ms'] / 1000:.1f} s")
    if effort["mean_plays"] is not None:
        facts.append(f"sounds played {effort['mean_plays']:.1f} times on average")
    if gone["raters"]:
        facts.append(f"{gone['raters']} raters asked to be forgotten, and {gone['answers']} answers went with them")
    return _section(
        "Raters",
        _figure(bars(steps, "raters by stage"), "How many have each stage behind them."),
        f"<p>{'; '.join(facts)}.</p>",
        _table(gate_table("What the gates say", gates["all"], design)),
        *days,
    )


def _design(results: Mapping[str, Any]) -> str:
    voices = [json.dumps(s["voice"], ensure_ascii=False) if s["voice"] else NONE for s in results["systems"]]
    systems = [[s["name"], s["role"], voice] for s, voice in zip(results["systems"], voices, strict=True)]
    return _section(
        "Design and methods",
        _table(Table("", ["Setting", "value"], design_rows(results)), "words"),
        _table(Table("Systems", ["System", "role", "voice"], systems), "words"),
    )


def _codebook() -> str:
    rows = [[c.name, c.type, c.meaning] for c in DICTIONARY]
    table = _table(Table("", ["Column", "type", "meaning"], rows), "words")
    return _section("Codebook", "<p>Columns of the exported answers, one row a score or a choice.</p>", table)


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>\n"


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(table: Table, kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(c)}</td>" for c in row[1:])}</tr>'
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    notes = "".join(f'<p class="note">{escape(n)}</p>' for n in table.notes)
    opened = f'<table class="{kind}">' if kind else "<table>"
    return (
        f'<div class="wide">{opened}{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}'
    )


def _folded(table: Table) -> str:
    plain = Table("", table.columns, table.rows, table.notes)
    return f"<details><summary>{escape(table.caption)}</summary>{_table(plain)}</details>"
