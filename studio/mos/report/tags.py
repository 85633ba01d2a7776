"""Tables by the tags of scripts: means, comparisons and Elo of each kind of script, each by its own answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from studio.mos.report.cells import NONE, Table, digits_of, few_raters, with_interval
from studio.mos.report.choices import elo_interval, elo_score, ranked

_NOTE = "Each tag by the answers on its own scripts; a script of two tags is in both."


def tag_tables(results: Mapping[str, Any]) -> list[Table]:
    """A table for every question, and one of Elo; none where no script has a tag."""
    tables, asked = results["tables"], {q["id"]: q for q in results["questions"]}
    found: list[Table] = []
    for name, table in tables.get("questions", {}).items():
        if tags := table.get("tags"):
            systems = list(table["systems"]["two_way"])
            digits = digits_of(asked[name])
            cells = {t: {s: with_interval(i, digits) for s, i in of["systems"].items()} for t, of in tags.items()}
            intervals = [i for of in tags.values() for i in of["systems"].values()]
            found.append(_table(f"{name}, by tag", "System", systems, tags, cells, intervals))
    for name, table in tables.get("comparisons", {}).items():
        if tags := table.get("tags"):
            pairs = [_pair(p) for p in table["pairs"]]
            cells = {
                t: {_pair(p): with_interval(p["cmos"]["two_way"], 2) for p in of["pairs"]} for t, of in tags.items()
            }
            intervals = [p["cmos"]["two_way"] for of in tags.values() for p in of["pairs"]]
            found.append(_table(f"{name}: CMOS by tag", "Pair", pairs, tags, cells, intervals))
    choices = tables.get("choices", {})
    if tags := choices.get("tags"):
        systems = [name for name, _ in ranked(choices["elo"]["gamma"])]
        cells = {t: {s: _elo(row) for s, row in of["elo"]["systems"].items()} for t, of in tags.items()}
        found.append(_table("Elo by tag", "System", systems, tags, cells, [of["elo"] for of in tags.values()]))
    return found


def _table(
    caption: str,
    first: str,
    names: list[str],
    tags: Mapping[str, Any],
    cells: Mapping[str, Mapping[str, str]],
    counted: Sequence[Mapping[str, Any]],
) -> Table:
    """``counted`` says of how many raters and scripts each interval is."""
    columns = [first, *(f"{tag} ({of['items']} script{'s' * (of['items'] != 1)})" for tag, of in tags.items())]
    rows = [[name, *(cells[tag].get(name, NONE) for tag in tags)] for name in names]
    counts = ", ".join(f"{tag} {of['n']}" for tag, of in tags.items())
    return Table(caption, columns, rows, [f"{_NOTE} Answers: {counts}.", *few_raters(counted)])


def _elo(row: Mapping[str, Any]) -> str:
    return elo_interval(row) if row["state"] else f"{elo_score(row)} {elo_interval(row)}"


def _pair(pair: Mapping[str, Any]) -> str:
    return f"{pair['a']} against {pair['b']}"
