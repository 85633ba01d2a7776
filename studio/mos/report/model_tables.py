"""Tables of models beside the means of raters: the ordinal mixed model and predicted MOS."""

from collections.abc import Mapping
from math import exp
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    ReportTable,
    decimals_for,
    interval_text,
    number,
    p_value,
    small_sample_notes,
    with_interval,
)
from studio.mos.report.tables import rated_questions

MODEL = (
    "Cumulative logit mixed model: scores are ordered categories; raters, scripts, rater x system (taste) and script x "
    "system (favour) are random effects. The expected score is that of other raters on other scripts; t intervals by "
    "the smaller number of raters and scripts."
)
_SCATTER = {"rater": "raters", "script": "scripts", "taste": "tastes", "favour": "favours of scripts"}
_MOST_ODDS = 1000.0


def second_opinion_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """Expected scores by the ordinal model for each question with few levels, and differences between systems."""
    tables: list[ReportTable] = []
    for question, table in rated_questions(results):
        model = results["second_opinion"].get(question["id"])
        if model is not None:
            tables.append(_expected(question, table, model))
            if not model["reason"] and not any(MODEL in table.notes for table in tables):
                tables[-1].notes.insert(0, MODEL)
            tables += [] if model["reason"] else [_differences(question["id"], model)]
    return [table for table in tables if table.rows]


def _expected(question: Mapping[str, Any], table: Mapping[str, Any], model: Mapping[str, Any]) -> ReportTable:
    digits, means = decimals_for(question), table["systems"]["two_way"]
    caption = f"{question['id']}: a second opinion, by an ordinal mixed model"
    columns = ["System", "mean", "expected score", "location (logits)"]
    if model["reason"]:
        rows = [[name, with_interval(mean, digits), NONE, NONE] for name, mean in means.items()]
        return ReportTable(caption, columns, rows, [f"No model: {model['reason']}."])
    rows = [
        [
            name,
            with_interval(mean, digits),
            f"{number(model['systems'][name]['mean'], digits)} {_ends(model['systems'][name], digits)}",
            f"{number(model['locations'][name]['mean'], 2)} {_ends(model['locations'][name], 2)}",
        ]
        for name, mean in means.items()
    ]
    scatter = ", ".join(f"{_SCATTER[term]} {sd:.2f}" for term, sd in model["sd"].items())
    steps = ", ".join(
        f"{low:g}|{high:g} {number(at, 2)}"
        for low, high, at in zip(model["levels"][:-1], model["levels"][1:], model["thresholds"], strict=True)
    )
    notes = [f"In logits: standard deviation of {scatter}, of single answers 1.81; thresholds {steps}."]
    return ReportTable(caption, columns, rows, [*notes, *small_sample_notes(model["systems"].values())])


def _differences(question: str, model: Mapping[str, Any]) -> ReportTable:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], 2),
            _ends(d["interval"], 2),
            _odds(d["interval"]["mean"]),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in model["differences"]
    ]
    note = (
        "Odds ratio of a score above any threshold, first system against second; p corrected for all pairs (Holm 1979)."
    )
    columns = ["Pair", "difference (logits)", "95% interval", "odds ratio", "p", "p, Holm"]
    return ReportTable(f"{question}: differences by the ordinal model", columns, rows, [note])


def _ends(interval: Mapping[str, Any], digits: int) -> str:
    return interval_text(interval["low"], interval["high"], digits)


def _odds(logits: float) -> str:
    odds = exp(min(logits, 50.0))
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    if odds < 1 / _MOST_ODDS:
        return f"< {1 / _MOST_ODDS:g}"
    return f"{odds:.0f}" if odds >= 10 else f"{odds:.1f}" if odds >= 1 else f"{odds:.2g}"


def predicted_tables(results: Mapping[str, Any]) -> list[ReportTable]:
    """One row per system in the order of the campaign, whatever the scores; no table without predictions."""
    predicted = results["predicted"]
    if predicted is None:
        return []
    rated = [(q, t["systems"]["two_way"]) for q, t in rated_questions(results) if t["n"]]
    rows = [
        [
            name,
            number(one["mean"], 2),
            interval_text(one["low"], one["high"], 2),
            str(one["n"]),
            *(_by_people(question, means.get(name)) for question, means in rated),
        ]
        for name in (s["name"] for s in results["systems"])
        if (one := predicted["systems"].get(name))
    ]
    columns = ["System", "predicted MOS", "95% interval", "scripts", *(f"people: {q['id']}" for q, _ in rated)]
    notes = [
        f"Predicted by {predicted['predictor']} {predicted['version']} (weights {predicted['weights'][:12]}) for the "
        "rated clips. Predictions enter no mean, order or test of these results, and no system is ranked by them. 95% "
        "interval: bootstrap over scripts."
    ]
    return [ReportTable(f"Predicted by {predicted['predictor']}, not by people", columns, rows, notes)]


def _by_people(question: Mapping[str, Any], mean: Mapping[str, Any] | None) -> str:
    if mean is None:
        return number(None, 2)
    return with_interval(mean, decimals_for(question))
