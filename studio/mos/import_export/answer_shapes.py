"""Reads answer files of any layout (CSV, JSON, a column per clip or system) as tables with a line per answer."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from studio.core.csv_files import column_key, parse_number, read_table
from studio.core.errors import BadFile
from studio.core.files import read_bounded
from studio.mos.import_export.answer_json import read_json_rows
from studio.mos.import_export.answer_presets import UNKNOWN

MAX_ANSWERS_BYTES = 1 << 28
MAX_LINES = 5_000_000
MAX_SCORE = 100  # of every scale, on either side of 0


@dataclass(frozen=True)
class AnswerTable:
    """A file's cells by lower-case column name, ``cells[column][N]``; equal cells share one string.

    Attributes:
        numbers: number [N] of each line (CSV) or row (JSON) in the file, for messages.
        whole: metadata of a JSON export.
        titles: columns as written.
    """

    name: str
    cells: Mapping[str, Sequence[str]]
    numbers: Sequence[int]
    whole: dict[str, Any] = field(default_factory=dict[str, Any])
    is_csv: bool = False
    titles: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.cells)

    def where(self, row: int) -> str:
        """Position of a row in the file, for messages."""
        return f"{'line' if self.is_csv else 'row'} {self.numbers[row]} of {self.name}"

    def lines(self, columns: Mapping[str, str] | None = None) -> Iterator[tuple[str, dict[str, str]]]:
        """Position and cells of each row; ``columns``: the columns to return, by key; by default all."""
        names = dict(zip(self.columns, self.columns, strict=True)) if columns is None else columns
        for row, cells in enumerate(zip(*(self.cells[column] for column in names.values()), strict=True)):
            yield self.where(row), dict(zip(names, cells, strict=True))


def _table_of(
    name: str, columns: Sequence[str], rows: Iterable[tuple[int, Mapping[str, str]]], **more: Any
) -> AnswerTable:
    """A table from rows (number, cells by column); missing cells become empty."""
    shared: dict[str, str] = {}
    cells: dict[str, list[str]] = {column: [] for column in columns}
    numbers: list[int] = []
    for number, row in rows:
        numbers.append(number)
        for column, column_cells in cells.items():
            cell = row.get(column, "")
            column_cells.append(shared.setdefault(cell, cell))
    return AnswerTable(name, cells, numbers, **more)


def read_answer_table(path: Path) -> AnswerTable:
    """Read a CSV or JSON file, the latter in any layout of ``answer_json``.

    Raises BadFile: the file is missing, too large, neither CSV nor JSON, or has no rows.
    """
    data = _bytes_of(path)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        data = b"[" + b",".join(line for line in data.splitlines() if line.strip()) + b"]"
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        table = _json_table(data, path.name)
    else:
        read = read_table(data, path.name, max_bytes=MAX_ANSWERS_BYTES, max_lines=MAX_LINES, exact=_is_export(data))
        titles = dict(zip(read.columns, read.titles, strict=True))
        numbers, cells = read.by_column()
        table = AnswerTable(path.name, cells, numbers, is_csv=True, titles=titles)
    asked = [match for column in table.columns if (match := _ASKED.fullmatch(column))]
    if any(match[2] == "_url" or f"input.{match[1]}" in table.columns for match in asked):
        table = _melted(table)
    if {*_BS1116} <= set(table.columns):
        columns = (*table.columns, "stimuli", "stimuli_rating")
        table = _table_of(table.name, columns, _of_bs1116(table), is_csv=table.is_csv)
    if not table.numbers:
        raise BadFile(f"{path.name} has no answers", "write one line per answer under a header")
    return table


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bounded(path, MAX_ANSWERS_BYTES)
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {path}", "check the path") from error
    except OSError as error:
        raise BadFile(f"{path.name} cannot be read: {error.strerror}", "check the path and its permissions") from error


def _is_export(data: bytes) -> bool:
    """Whether a CSV is an unchanged export of the studio, in which blanks around a name are part of it."""
    return data.startswith(b"campaign,rater,")


def _json_table(data: bytes, name: str) -> AnswerTable:
    found, whole = read_json_rows(data, name)
    titles = {column_key(str(key)): str(key) for row in found for key in row}
    rows = ({column_key(str(k)): _cell(v) for k, v in row.items()} for row in found)
    return _table_of(name, tuple(titles), enumerate(rows, start=1), whole=whole, titles=titles)


def _cell(value: Any) -> str:
    return "" if value is None or value != value else value if isinstance(value, str) else str(value)


_ASKED = re.compile(r"answer\.(q\d+)(_\w+)?")


def _melted(table: AnswerTable) -> AnswerTable:
    """Convert raw answers of the P.808 toolkit from a line per session to a line per rated clip."""
    columns = (*table.columns, "file", "vote", "question_type")
    return _table_of(table.name, columns, _clips(table), is_csv=table.is_csv)


def _clips(table: AnswerTable) -> Iterator[tuple[int, dict[str, str]]]:
    asked = [match for column in table.columns if (match := _ASKED.fullmatch(column))]
    for number, (_, line) in zip(table.numbers, table.lines(), strict=True):
        for match in asked:
            url = line.get(f"answer.{match[1]}_url") or line.get(f"input.{match[1]}", "")
            if url and match[2] != "_url" and line[match[0]].strip():
                about = {"file": url, "vote": line[match[0]], "question_type": (match[2] or "").strip("_")}
                yield number, {**line, **about}


_BS1116 = tuple(f"rating_{side}{what}" for side in ("reference", "non_reference") for what in ("", "_score"))


def _of_bs1116(table: AnswerTable) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows per score of webMUSHRA's bs1116.csv, which has a line per pair of the hidden reference and another sound."""
    for number, (_, line) in zip(table.numbers, table.lines(), strict=True):
        for side in _BS1116[::2]:
            yield number, {**line, "stimuli": line[side], "stimuli_rating": line[f"{side}_score"]}


@dataclass(frozen=True)
class _Wide:
    """Meaning of a column of scores; a field is empty if the line has it, or if it is unknown."""

    column: str
    system: str = ""
    item: str = ""
    question: str = ""
    rater: str = ""


def scores_of_columns(
    table: AnswerTable, known: Mapping[str, str], chosen: Sequence[str] = ()
) -> tuple[AnswerTable, str] | None:
    """Convert a table with a column per system, question, rater or script, or per system and script, to one score per
    line.

    Args:
        known: columns of the known fields.
        chosen: the columns of scores; by default all that contain only scores.

    Returns:
        The table with the columns ``score`` and ``system``, ``question``, ``rater`` or ``item``, and a note on the
        conversion; None if there are no such columns.
    """
    taken = {column for column in known.values() if column}
    columns = list(chosen) or [
        c for c in table.columns if c not in taken and not _NOT_SCORES.fullmatch(c) and _holds_scores(table, c)
    ]
    has_system = bool(known.get("system") or known.get("file"))
    if not columns or (len(columns) < 2 and not has_system):
        return None
    titles = [table.titles.get(column, column) for column in columns]
    named = ", ".join(titles[:10]) + (" and others" if len(titles) > 10 else "")
    names = _inside_brackets(titles)
    if has_system:
        what = _field_of(titles, known)
        wide = [_Wide(c, **{what: t}) for c, t in zip(columns, titles, strict=True)]
        what = "scripts" if what == "item" else f"{what}s"
    elif not known.get("item") and (pairs := names_of_pairs(names)):
        wide = [_Wide(c, *pair) for c, pair in zip(columns, pairs, strict=True)]
        what = f"systems ({', '.join(dict.fromkeys(one.system for one in wide))}) and scripts"
    else:
        wide, what = [_Wide(c, system=t) for c, t in zip(columns, names, strict=True)], "systems"
    fields = [name for name in ("system", "item", "question", "rater") if getattr(wide[0], name)]
    cells: dict[str, list[str]] = {
        c: [cell for cell in column for _ in wide] for c, column in table.cells.items() if c not in columns
    }
    cells |= {name: [getattr(one, name) for one in wide] * len(table.numbers) for name in fields}
    scores = zip(*(table.cells[one.column] for one in wide), strict=True)
    cells["score"] = [cell for row in scores for cell in row]
    read = (
        f"the columns {named} are read as {what}" if len(columns) > 1 else f"the column {named} is read as a question"
    )
    note = f"{read}; --column score=NAME,NAME chooses others"
    return replace(table, cells=cells, numbers=[number for number in table.numbers for _ in wide]), note


# Numeric columns that are not scores.
_NOT_SCORES = re.compile(
    r"(unnamed.*|index|(.*_)?(id|uid|uuid|time|age|ms|sec|seconds|order|plays?|count|number|rank)|time_.*|timestamp|date.*"
    r"|duration.*|session.*|years?|rt|.*[._]rt|trial|trial_.*|page|page_.*|n|seed|version|gender|sex)"
)


_RATERS = re.compile(
    r"(?:r|p|l|rater|participant|subject|subj|listener|worker|user|judge|annotator|evaluator|assessor|vote)[-_ ]?\d+",
    re.I,
)
_SCRIPTS = re.compile(
    r"(?:s|u|item|utt|utterance|sentence|sent|clip|sample|page|text|script|stimulus|stim)[-_ ]?\d+", re.I
)
_NUMBERED = re.compile(r"(?:[a-z]|item|utt|utterance|sentence|sent|clip|sample|trial|page|text|script)?[-_ ]?\d+", re.I)


def _field_of(titles: Sequence[str], known: Mapping[str, str]) -> str:
    """The field (rater, item or question) to which the names of score columns belong, in a table with systems."""
    for field_name, pattern in (("rater", _RATERS), ("item", _SCRIPTS)):
        if not known.get(field_name) and len(titles) > 1 and all(map(pattern.fullmatch, titles)):
            return field_name
    return "question"


def _inside_brackets(titles: Sequence[str]) -> list[str]:
    """The text in brackets if only that differs, as in grids of Google Forms: ``How natural? [heron s1]``."""
    matches = [re.fullmatch(r"(.*?)\s*\[(.+)\]", title) for title in titles]
    found = [match for match in matches if match]
    return [match[2] for match in found] if len(found) == len(titles) and len({m[1] for m in found}) == 1 else [*titles]


def _holds_scores(table: AnswerTable, column: str) -> bool:
    cells = {cell.strip() for cell in table.cells[column]}
    cells = {cell for cell in cells if cell and cell.casefold() not in UNKNOWN}
    try:
        return bool(cells) and all(abs(parse_number(cell, column)) <= MAX_SCORE for cell in cells)
    except BadFile:
        return False


def names_of_pairs(titles: Sequence[str], *, is_crossed: bool = True) -> list[tuple[str, str]] | None:
    """System and item of titles such as ``heron_s1`` and ``teal_s1``; None if they do not have that form.

    Scripts are numbered (s1, 02, item3). If both parts are numbered, or neither, all combinations must occur, and the
    part with fewer names (else the first) is the system. ``is_crossed``: all combinations must occur in any case.
    """
    for separator in "_/-.:| ":
        for split in (str.split, str.rsplit):
            pairs = [tuple(split(title, separator, 1)) for title in titles]
            if any(len(pair) != 2 or not all(pair) for pair in pairs) or len(set(pairs)) < len(titles):
                continue
            first, second = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
            numbered = [all(_NUMBERED.fullmatch(name) for name in names) for names in (first, second)]
            is_clear = numbered[0] != numbered[1] and not is_crossed and len(titles) > max(len(first), len(second))
            if min(len(first), len(second)) < 2 or not (is_clear or len(titles) == len(first) * len(second)):
                continue
            is_system = numbered[1] if numbered[0] != numbered[1] else len(first) <= len(second)
            return [(a, b) if is_system else (b, a) for a, b in pairs]
    return None
