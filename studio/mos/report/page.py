"""Report as one HTML file: no network, no scripts, all text escaped, printable."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from studio.core.plurals import counted, plural
from studio.mos.import_export.export import DICTIONARY
from studio.mos.report.cells import (
    NONE,
    WIDE,
    ReportTable,
    confidence,
    decimals_for,
    number,
    p_value,
    percent,
    percent_interval,
    rated_questions,
    scaled,
    with_interval,
)
from studio.mos.report.charts import (
    IntervalMark,
    bar_chart,
    binned,
    histogram,
    interval_chart,
    matrix_table,
    share_chart,
)
from studio.mos.report.design import STAGE_LABELS, design_rows, gate_table
from studio.mos.report.margins import TITLE as MARGIN_TITLE
from studio.mos.report.margins import margin_figures, margin_sentences, margin_tables
from studio.mos.report.models import latency_figures, predicted_tables, second_opinion_tables
from studio.mos.report.pairs import elo_interval, elo_score, ranked
from studio.mos.report.tables import detail_tables, paper_tables, stopping_rule_text

_CSS = Path(__file__).with_name("page.css")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MANY_SYSTEMS = 12  # systems above which a matrix is drawn small
_MANY_PAIRS = 45  # pairs above which the chart is folded


def html(results: Mapping[str, Any]) -> str:
    """Report of ``studio.mos.analysis.results.results`` as one file."""
    tables, prompt = results["tables"], results["prompt"]
    body = [_head(results)]
    body += [_question_section(results, question, table) for question, table in rated_questions(results)]
    body += [_cmos_section(q, tables["comparisons"][q["id"]]) for q in results["questions"] if "comparisons" in tables]
    body += [_abx_section(prompt, tables["identity"])] if "identity" in tables else []
    body += [_preference_section(prompt, tables["choices"])] if "choices" in tables else []
    figures = [_figure(chart, caption) for chart, caption in latency_figures(results)]
    for title, parts in (
        (MARGIN_TITLE, _margin_parts(results)),
        ("Latency while typing", figures),
        ("Tables", [_table(t) for t in paper_tables(results)]),
        ("A second opinion", [_table(t) for t in second_opinion_tables(results)]),
        ("Predicted, not rated", [_table(t) for t in predicted_tables(results)]),
        ("More tables", [_folded(t) for t in detail_tables(results)]),
    ):
        body += [_section(title, *parts)] if parts or title == "Tables" else []
    body += [_rater_section(results), _design_section(results), _codebook()]
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    foot = f'<p class="note">Created by Streaming-TTS Studio, {created}. This file loads no external resources.</p>'
    return document(f"{results['title']}: results", f"{''.join(body)}\n{foot}", _POLICY)


def document(title: str, body: str, policy: str = "", more_css: str = "") -> str:
    """HTML page with the report's style sheet, and a content security policy if given."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n' if policy else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{meta}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_CSS.read_text(encoding='utf-8')}{more_css}</style>\n"
        f"</head>\n<body><main>\n{body}\n</main></body>\n</html>\n"
    )


def tiles(facts: Iterable[tuple[str, object]]) -> str:
    """Numbers with names, side by side."""
    entries = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    return f'<dl class="tiles">{entries}</dl>'


def _head(results: Mapping[str, Any]) -> str:
    erased, rule = results["forgotten"]["raters"], stopping_rule_text(results)
    given = plural(results["answers"], "answer")
    facts = [
        (plural(results["raters"], "rater"), results["raters"]),
        ("finished", results["finished"]),
        (given if results["answers"] == results["counted"] else f"{given} given", results["answers"]),
        *([("answers that count", results["counted"])] if results["answers"] != results["counted"] else []),
        *([("answers wanted", results["wanted"])] if results["wanted"] else []),
        *([("on traps, golds, practice, repeats", results["aside"])] if results["aside"] else []),
        ("raters excluded", results["left_out"]),
        *([("erased on request", erased)] if erased else []),
    ]
    return (
        f"<h1>{escape(results['title'])}</h1>"
        f'<p class="muted">Campaign {escape(results["name"])}, {escape(results["state"])}</p>'
        f"{tiles(facts)}" + (f"<p>{escape(rule)}</p>" if rule else "")
    )


def _question_section(results: Mapping[str, Any], question: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    title = question["id"]
    if not table["n"]:
        is_screened = "post_screen" in results["tables"]
        return _empty_section(title, "The post-screening excluded all raters." if is_screened else _NO_ANSWERS)
    digits, intervals = decimals_for(question), table["systems"]["two_way"]
    names = [s["name"] for s in results["systems"] if s["name"] in intervals]
    marks = [_mark(n, intervals[n], with_interval(intervals[n], digits)) for n in names]
    tallest = max(n for name in names for _, n in binned(table["histogram"][name], question["low"]))
    small = "".join(histogram(table["histogram"][n], question["low"], n, tallest) for n in names)
    return _section(
        title,
        _prompt(question["prompt"]),
        _figure(
            interval_chart(marks, question["low"], question["high"], f"means of {title} by system"),
            "Mean and 95% interval, by rater and script.",
        ),
        f'<h3>Distribution of scores</h3><div class="small">{small}</div>',
    )


def _cmos_section(question: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    title, digits = question["id"], decimals_for(question)
    if not table["n"]:
        return _empty_section(title)
    intervals = [(f"{p['a']} : {p['b']}", p["cmos"]["two_way"]) for p in table["pairs"]]
    marks = [_mark(pair, interval, with_interval(interval, digits)) for pair, interval in intervals]
    return _section(
        title,
        _prompt(question["prompt"]),
        _figure(
            interval_chart(marks, question["low"], question["high"], f"CMOS of {title} by pair"),
            "CMOS and 95% interval, by rater and script; above zero the first of the two is better.",
        ),
        f'<p class="note">Order effect, second stimulus against first: mean {number(table["order"]["mean"], 2)}. '
        "Far from zero, the position influenced the answers.</p>",
    )


def _abx_section(prompt: str, table: Mapping[str, Any]) -> str:
    if not table["n"]:
        return _empty_section("ABX")
    shares = [(f"{p['a']} : {p['b']}", p["share"]["two_way"]) for p in table["pairs"]]
    marks = [_mark(pair, share, percent(share["mean"]), 100) for pair, share in shares]
    counts = ", ".join(f"{side.upper()} {n}" for side, n in table["said"].items())
    return _section(
        "ABX",
        _prompt(prompt) if prompt else "",
        _figure(
            interval_chart(marks, 0, 100, "share of X found by pair"),
            "Percent of correct answers, and 95% interval, by rater and script; 50 is guessing.",
        ),
        f'<p class="note">Answers, whatever X was: {counts}.</p>',
    )


def _mark(label: str, interval: Mapping[str, Any], value_text: str, scale: float = 1) -> IntervalMark:
    at = scaled(interval, scale)
    return IntervalMark(label, at["mean"], at["low"], at["high"], value_text)


_NO_ANSWERS = "No answers yet."


def _empty_section(title: str, why: str = _NO_ANSWERS) -> str:
    return _section(title, f"<p>{why}</p>")


def _prompt(text: str) -> str:
    return f'<p class="muted">{escape(text)}</p>'


def _share(pair: Mapping[str, Any]) -> IntervalMark:
    share = pair["share"]
    value_text = f"{percent(share['mean'])} {percent_interval(share)}, p {p_value(pair['p_holm'])}"
    return _mark(pair["a"], share, value_text)


def _preference_section(prompt: str, choices: Mapping[str, Any]) -> str:
    if not choices["n"]:
        return _empty_section("Preference")
    met = choices["pairs"]["two_way"]
    pairs = [(p["a"], p["b"], (p["wins_a"], p["ties"], p["both_bad"], p["wins_b"]), _share(p)) for p in met]
    key = "".join(
        f'<span style="--c:var(--{colour})">{what}</span>'
        for colour, what in (("accent", "left"), ("soft", "no difference"), ("bad", "both bad"), ("lost", "right"))
    )
    chart = f'<div class="key">{key}</div>' + _figure(
        share_chart(pairs, "preference of each pair"),
        "Votes of each pair; below, the share of the left system (a tie is half a win each) with its 95% interval by "
        "rater and script, and p against one half (the dashed line), corrected for all pairs (Holm).",
    )
    elo = choices["elo"]["gamma"]
    marks = [_elo_mark(name, row) for name, row in ranked(elo) if row["elo"] is not None]
    sides = ", ".join(f"{_SIDES[k]} {n}" for k, n in choices["sides"].items() if n or k in ("a", "b"))
    return _section(
        "Preference",
        _prompt(prompt) if prompt else "",
        chart if len(pairs) <= _MANY_PAIRS else f"<details><summary>{len(pairs)} pairs</summary>{chart}</details>",
        "<h3>Elo</h3>",
        _figure(interval_chart(marks, title="Elo by system"), f"Converged; 95%, {elo['interval']}.") if marks else "",
        *(f'<p class="note">{escape(note)}.</p>' for note in (elo["reason"], *elo["notes"]) if note),
        "<h3>Probability of being better</h3>",
        '<p class="note">Probability that the row&#x27;s score is above the column&#x27;s: '
        f"{escape(elo['p_better_is'])}.</p>",
        _matrix(choices["names"], elo["p_better"], elo["p_better"], confidence),
        "<h3>Wins</h3>",
        '<p class="note">Votes of the row against the column; a tie is half a win each.</p>',
        _matrix(choices["names"], _won_shares(elo["wins"]), elo["wins"], "{:g}".format),
        f'<p class="note">Votes by side: {sides}. A large difference is a bias towards one side.</p>',
    )


def _elo_mark(name: str, row: Mapping[str, Any]) -> IntervalMark:
    """Mark of a system in the Elo chart; without a finite strength it stands at its bound, with an open end."""
    value = {"undefeated": row["lo"], "winless": row["hi"]}.get(row["state"])
    value_text = elo_interval(row) if row["state"] else f"{elo_score(row)} {elo_interval(row)}"
    return IntervalMark(name, row["elo"] if value is None else value, row["lo"], row["hi"], value_text)


_SIDES = {"a": "first sound", "b": "second sound", "tie": "no difference", "both_bad": "both bad"}


def _won_shares(wins: Sequence[Sequence[float]]) -> list[list[float | None]]:
    size = range(len(wins))
    return [[wins[i][j] / n if (n := wins[i][j] + wins[j][i]) else None for j in size] for i in size]


def _matrix(
    names: Sequence[str],
    tint: Sequence[Sequence[float | None]],
    cells: Sequence[Sequence[Any]],
    text: Callable[[Any], str],
) -> str:
    table = matrix_table(names, tint, [[NONE if c is None else text(c) for c in row] for row in cells])
    many = table.replace('class="matrix"', 'class="matrix many"', 1) if len(names) > _MANY_SYSTEMS else table
    return f"{WIDE}{many}</div>"


def _rater_section(results: Mapping[str, Any]) -> str:
    most = max((row["raters"] for row in results["funnel"]), default=0) or 1
    steps = [
        (STAGE_LABELS[r["stage"]], r["raters"], f"{r['raters']} ({r['raters'] / most:.0%})") for r in results["funnel"]
    ]
    gates, design = results["gates"], results["design"]
    if gates is None:  # of a file
        facts = [f"{n} rows left out: {why}" for why, n in results["left_out_rows"].items()] + results["read_notes"]
        return _section("Rows", f"<p>{escape('; '.join(facts))}.</p>") if facts else ""
    excluded = f"{counted(results['left_out'], 'rater')} excluded from every table"
    if results["everyone"]:
        excluded = "No rater is excluded from the tables, whatever the quality checks found"
    days = [_folded(gate_table(f"Joined on {day}", g, design)) for day, g in gates["by_day"].items()]
    effort, erased = results["effort"], results["forgotten"]
    facts = [excluded]
    if effort["median_response_ms"] is not None:
        facts.append(f"median time to answer {effort['median_response_ms'] / 1000:.1f} s")
    if effort["mean_plays"] is not None:
        facts.append(f"stimuli played {effort['mean_plays']:.1f} times on average")
    if erased["raters"]:
        facts.append(
            f"{counted(erased['raters'], 'rater')} erased on request, with {counted(erased['answers'], 'answer')}"
        )
    return _section(
        "Raters",
        _figure(bar_chart(steps, "raters by stage"), "Raters who completed each stage."),
        f"<p>{'; '.join(facts)}.</p>",
        _table(gate_table("Verdicts of the gates", gates["all"], design)),
        *days,
    )


def _design_section(results: Mapping[str, Any]) -> str:
    voices = [json.dumps(s["voice"], ensure_ascii=False) if s["voice"] else NONE for s in results["systems"]]
    systems = [[s["name"], s["role"], voice] for s, voice in zip(results["systems"], voices, strict=True)]
    return _section(
        "Design and methods",
        _table(ReportTable("", ["Setting", "value"], design_rows(results)), "words"),
        _table(ReportTable("Systems", ["System", "role", "voice"], systems), "words"),
    )


def _codebook() -> str:
    rows = [[c.name, c.type, c.meaning] for c in DICTIONARY]
    table = _table(ReportTable("", ["Column", "type", "meaning"], rows), "words")
    return _section("Codebook", "<p>Columns of the exported answers, one row per score or choice.</p>", table)


def _margin_parts(results: Mapping[str, Any]) -> list[str]:
    sentences = [f"<p><strong>{escape(text)}</strong></p>" for text in margin_sentences(results)]
    figures = [_figure(chart, caption) for chart, caption in margin_figures(results)]
    return [*sentences, *figures, *(_folded(table) for table in margin_tables(results))]


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>\n"


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(table: ReportTable, kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(c)}</td>" for c in row[1:])}</tr>'
        for row in table.rows
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    notes = "".join(f'<p class="note">{escape(n)}</p>' for n in table.notes)
    opened = f'<table class="{kind}">' if kind else "<table>"
    return f"{WIDE}{opened}{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{notes}"


def _folded(table: ReportTable) -> str:
    plain = ReportTable("", table.columns, table.rows, table.notes)
    return f"<details><summary>{escape(table.caption)}</summary>{_table(plain)}</details>"
