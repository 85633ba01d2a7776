"""The tables about raters rather than about systems' scores: what they heard while they typed, how steady they are."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.mos.report.cells import NONE, Table, number, percent, with_interval


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


def consensus_table(found: Mapping[str, Any]) -> Table:
    """How each rater's answers go with the others'."""
    rows = [[r["rater"], number(r["r"], 3), str(r["n"]), number(r["others"], 1), r["verdict"]] for r in found["raters"]]
    of = "stimulus" if found["by"] == "stimulus" else "system"
    note = (
        f"Pearson's correlation of a rater's answers with the mean of the others' for the same {of} (leave-one-out), "
        "about each question's mean; of answers that say which of two is better, about no difference. The others are "
        "all whom no other gate excludes."
    )
    columns = ["Rater", "r", "answers", "others beside each", "verdict"]
    return Table("Agreement of each rater with the others", columns, rows, [note])


def post_hoc_tables(found: Mapping[str, Any]) -> list[Table]:
    """What leaving out the raters below the minimum changes; nothing where none is below it."""
    if not found["failed"]:
        return []
    shown = "The other tables are without them" if found["required"] else "The other tables are with them"
    rows: list[list[str]] = []
    for estimate in found["estimates"]:
        left = estimate["kept"]
        without = [NONE, "0"] if left is None else [with_interval(left, 3), str(left["n"])]
        rows.append([estimate["name"], with_interval(estimate["everybody"], 3), *without])
    note = (
        f"Raters whose answers correlate less than {found['minimum']:g} with the mean of the others', of "
        f"{found['answers']} answers or more: {found['failed']}. This is a post-hoc exclusion: it looks at the very "
        f"answers that are analysed, and may widen differences and narrow intervals. {shown}."
    )
    columns = ["Estimate", "with them", "without them", "answers without"]
    return [Table("With and without raters who do not go with the others", columns, rows, [note])]
