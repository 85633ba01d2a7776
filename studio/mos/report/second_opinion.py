"""The ordinal mixed model as tables of its own, beside the means that it is a second opinion on."""

from collections.abc import Mapping
from math import exp
from typing import Any

from studio.mos.report.cells import (
    MINUS,
    NONE,
    Table,
    between,
    digits_of,
    few_raters,
    number,
    p_value,
    with_interval,
)
from studio.mos.report.tables import asked

MODEL = (
    "Cumulative logit mixed model: scores are ordered words, not numbers, and raters, scripts, a rater's taste for a "
    "system and a script's favour for one are random. The expected score is what other raters are expected to say of "
    "other scripts; t intervals by the fewer of raters and scripts."
)
_SCATTER = {"rater": "raters", "script": "scripts", "taste": "tastes", "favour": "favours of scripts"}
_MOST_ODDS = 1000.0


def second_opinion_tables(results: Mapping[str, Any]) -> list[Table]:
    """Expected scores of each question that has means on a scale of few levels, and what lies between systems."""
    found: list[Table] = []
    for question, table in asked(results):
        said = results["second_opinion"].get(question["id"])
        if said is not None:
            found.append(_expected(question, table, said))
            if not said["reason"] and not any(MODEL in table.notes for table in found):
                found[-1].notes.insert(0, MODEL)
            found += [] if said["reason"] else [_apart(question["id"], said)]
    return [table for table in found if table.rows]


def _expected(question: Mapping[str, Any], table: Mapping[str, Any], said: Mapping[str, Any]) -> Table:
    digits, means = digits_of(question), table["systems"]["two_way"]
    caption = f"{question['id']}: a second opinion, by an ordinal mixed model"
    columns = ["System", "mean", "expected score", "location (logits)"]
    if said["reason"]:
        rows = [[name, with_interval(mean, digits), NONE, NONE] for name, mean in means.items()]
        return Table(caption, columns, rows, [f"No model: {said['reason']}."])
    rows = [
        [
            name,
            with_interval(mean, digits),
            f"{number(said['systems'][name]['mean'], digits)} {_ends(said['systems'][name], digits)}",
            f"{number(said['locations'][name]['mean'], 2)} {_ends(said['locations'][name], 2)}",
        ]
        for name, mean in means.items()
    ]
    scatter = ", ".join(f"{_SCATTER[term]} {sd:.2f}" for term, sd in said["sd"].items())
    steps = ", ".join(
        f"{low:g}|{high:g} {number(at, 2)}"
        for low, high, at in zip(said["levels"][:-1], said["levels"][1:], said["thresholds"], strict=True)
    )
    notes = [f"In logits: standard deviation of {scatter}, of single answers 1.81; thresholds {steps}."]
    return Table(caption, columns, rows, [*notes, *few_raters(said["systems"].values())])


def _apart(question: str, said: Mapping[str, Any]) -> Table:
    rows = [
        [
            f"{d['a']} {MINUS} {d['b']}",
            number(d["interval"]["mean"], 2),
            _ends(d["interval"], 2),
            _odds(d["interval"]["mean"]),
            p_value(d["p"]),
            p_value(d["p_holm"]),
        ]
        for d in said["differences"]
    ]
    note = (
        "Odds: how many times as likely as not a score above any step becomes, from the second system to the first; p "
        "corrected for all pairs (Holm 1979)."
    )
    columns = ["Pair", "difference (logits)", "95% interval", "times the odds", "p", "p, Holm"]
    return Table(f"{question}: differences by the ordinal model", columns, rows, [note])


def _ends(interval: Mapping[str, Any], digits: int) -> str:
    return between(interval["low"], interval["high"], digits)


def _odds(logits: float) -> str:
    odds = exp(min(logits, 50.0))
    if odds > _MOST_ODDS:
        return f"> {_MOST_ODDS:g}"
    if odds < 1 / _MOST_ODDS:
        return f"< {1 / _MOST_ODDS:g}"
    return f"{odds:.0f}" if odds >= 10 else f"{odds:.1f}" if odds >= 1 else f"{odds:.2g}"
