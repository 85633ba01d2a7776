"""The tables about raters rather than about systems' scores: what they heard while they typed, how steady they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.mos.report.cells import Table, number, percent


def take_table(found: Sequence[Mapping[str, Any]]) -> Table:
    """How soon each voice was heard while raters typed."""
    columns = ["System", "first sound, ms", "95th percentile, ms", "latest key, ms", "takes"]
    rows = [
        [t["system"], *(number(t[name], 1) for name in ("latency_ms", "latency_p95_ms", "late_ms")), str(t["takes"])]
        for t in found
    ]
    note = (
        "First sound: from the last word that the first segment needed to the first audible sample, median. "
        "Latest key: by how much late keys told on the voice where it heard the typing again."
    )
    return Table("First sound while typing", columns, rows, [note])


def consistency_tables(found: Mapping[str, Any]) -> list[Table]:
    """Repeated screens: how alike the answers are, by question and by rater."""

    def cells(row: Mapping[str, Any]) -> list[str]:
        shown = [percent(row["exact"]), number(row["steps"], 2), percent(row["apart"]), number(row["r"], 2)]
        return [*shown, str(row["n"])]

    columns = ["the same", "mean difference, steps", "of the scale", "correlation", "marks given twice"]
    note = "The same screen, shown twice to the same rater. Of the scale: 100% for another choice."
    questions = [[name, *cells(row)] for name, row in found["questions"].items()]
    raters = [[row["rater"], *cells(row)] for row in found["raters"]]
    return [
        Table("Self-consistency of raters", ["Question", *columns], questions, [note]),
        Table("Self-consistency of each rater", ["Rater", *columns], raters, [note]),
    ]
