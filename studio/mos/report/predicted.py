"""Predicted MOS as a table of its own, parted from what people said."""

from collections.abc import Mapping
from typing import Any

from studio.mos.report.cells import Table, between, digits_of, number, with_interval
from studio.mos.report.tables import asked


def predicted_tables(results: Mapping[str, Any]) -> list[Table]:
    """A row for each system, in the order of the systems whatever the scores; nothing where nothing was predicted."""
    found = results["predicted"]
    if found is None:
        return []
    people = [(q, t["systems"]["two_way"]) for q, t in asked(results) if t["n"]]
    rows = [
        [
            name,
            number(one["mean"], 2),
            between(one["low"], one["high"], 2),
            str(one["n"]),
            *(_by_people(question, means.get(name)) for question, means in people),
        ]
        for name in (s["name"] for s in results["systems"])
        if (one := found["systems"].get(name))
    ]
    columns = ["System", "predicted MOS", "95% interval", "scripts", *(f"people: {q['id']}" for q, _ in people)]
    notes = [
        f"What {found['predictor']} {found['version']} (weights {found['weights'][:12]}) foresees of the sounds that "
        "raters heard. It is no person: it enters no mean, order or test of these results, and no system is ranked by "
        "it. 95% interval: bootstrap over scripts."
    ]
    return [Table(f"Predicted by {found['predictor']}, not by people", columns, rows, notes)]


def _by_people(question: Mapping[str, Any], mean: Mapping[str, Any] | None) -> str:
    if mean is None:
        return number(None, 2)
    return with_interval(mean, digits_of(question))
