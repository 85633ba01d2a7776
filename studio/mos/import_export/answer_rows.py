"""Rows of answers from files of other programs: columns by name, by preset or by option.

A row is a score (rater, item, system, score), a vote (a, b, outcome), a comparison (a, b, score: the second against the
first) or a count of votes (a, b, wins_a, wins_b, ties). Exports of the studio have their own reader
(studio.mos.import_export.answer_files), since they hold whole trials.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

from studio.core.csv_files import column_key, parse_number, read_table
from studio.core.errors import BadFile, BadOption
from studio.core.files import read_bounded

MAX_ANSWERS_BYTES = 1 << 28
MAX_LINES = 5_000_000
MAX_SYSTEMS = 500
MAX_SCORE = 100  # of every scale, on either side of 0
_MAX_VOTES = 5_000_000  # of a file with counts
_NAME_CHARS = 300
Cells = Mapping[str, str]


@dataclass(frozen=True)
class AnswerTable:
    """Lines of a file: cells by lower-case column name, and where each line is, for messages."""

    name: str
    columns: tuple[str, ...]
    lines: list[tuple[str, dict[str, str]]]
    whole: dict[str, Any] = field(default_factory=dict[str, Any])  # of an export in JSON: what precedes the rows
    is_csv: bool = False


@dataclass(frozen=True)
class AnswerRow:
    """One answer: a score of ``system``, or a choice or score of ``a`` against ``b``; rater and item may be unknown."""

    rater: str | None
    item: str | None
    question: str = ""
    system: str = ""
    score: float | None = None
    a: str = ""
    b: str = ""
    outcome: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """Column names of a program's files, and what its files do not say."""

    columns: Mapping[str, tuple[str, ...]]  # by field: the first that the file has
    about: str
    scale: tuple[int, int] | None = None
    reference: str = ""


_RATERS = ("rater", "participant", "subject", "listener", "worker", "user", "judge", "voter", "annotator", "assessor")
_ITEMS = ("item", "script", "sentence", "utterance", "text_id", "stimulus", "sample", "clip", "page", "trial")
_SYSTEMS = ("system", "model", "method", "condition", "algorithm", "codec")
_SCORES = ("score", "rating", "vote", "mos", "value", "opinion")


def _with_ids(names: Sequence[str]) -> tuple[str, ...]:
    return (*names, *(f"{name}{end}" for name in names for end in ("_id", "id", "_name", "_uuid")))


_PAIRED = {"rater": _with_ids(_RATERS), "item": _with_ids(_ITEMS), "tags": ("tags",)}
PRESETS: Mapping[str, Preset] = {
    "webmushra": Preset(
        {"rater": ("session_uuid",), "item": ("trial_id",), "system": ("rating_stimulus",), "score": ("rating_score",)},
        "mushra.csv of webMUSHRA",
        (0, 100),
        "reference",
    ),
    "pymushra": Preset(
        {
            "rater": ("questionaire_uuid",),
            "item": ("wm_id",),
            "system": ("responses_stimulus",),
            "score": ("responses_score",),
        },
        "tables of pymushra, CSV or JSON, and its database",
        (0, 100),
        "reference",
    ),
    "p808": Preset(
        {
            "rater": ("workerid",),
            "file": ("file",),
            "score": ("vote",),
            "question": ("question_type",),
            "system": ("condition", "system", "model"),
        },
        "votes_per_worker and raw answers of the P.808 toolkit; system and item are the last two parts of the address",
        (1, 5),
    ),
    "arena": Preset(
        {**_PAIRED, "a": ("model_a",), "b": ("model_b",), "outcome": ("winner",)},
        "votes with model_a, model_b, winner",
    ),
    "counts": Preset(
        {
            "a": ("a", "player1", "system_a", "model_a"),
            "b": ("b", "player2", "system_b", "model_b"),
            "wins_a": ("wins_a", "win1"),
            "wins_b": ("wins_b", "win2"),
            "ties": ("ties",),
        },
        "counts of votes per pair: a, b, wins_a, wins_b, as BradleyTerry2 has them",
    ),
    "votes": Preset(
        {
            **_PAIRED,
            "a": ("a", "system_a", "model_a", "first", "left"),
            "b": ("b", "system_b", "model_b", "second", "right"),
            "outcome": ("outcome", "winner", "choice", "preference", "preferred"),
        },
        "a, b, outcome, and rater and item where known",
    ),
    "comparisons": Preset(
        {
            **_PAIRED,
            "a": ("a", "system_a", "first"),
            "b": ("b", "system_b", "second"),
            "score": _SCORES,
            "question": ("question",),
        },
        "a, b, score: the second against the first (CMOS)",
    ),
    "scores": Preset(
        {
            **_PAIRED,
            "system": _with_ids(_SYSTEMS),
            "score": _SCORES,
            "question": ("question", "question_type", "scale", "attribute"),
        },
        "rater, item, system, score, and question where there are several",
    ),
}
_NEEDED = {
    "counts": ("a", "b", "wins_a", "wins_b"),
    "votes": ("a", "b", "outcome"),
    "arena": ("a", "b", "outcome"),
    "comparisons": ("a", "b", "score"),
    "p808": ("score", "rater", "file"),
}
_SCORED = ("system", "score")
_OF_SCORES = ("rater", "item", "system", "score", "question", "tags", "file")
FIELDS = (*_OF_SCORES, "a", "b", "outcome", "wins_a", "wins_b", "ties")


def read_answer_table(path: Path) -> AnswerTable:
    """Read a CSV or JSON file. JSON: a list of objects, an export of the studio, or a database of pymushra.

    Raises BadFile: the file is missing, too large, neither of both, or has no rows.
    """
    data = _bytes_of(path)
    if path.suffix.lower() == ".json":
        table = _json_table(data, path.name)
    else:
        read = read_table(data, path.name, max_bytes=MAX_ANSWERS_BYTES, max_lines=MAX_LINES, exact=_is_export(data))
        lines = [(f"line {number} of {path.name}", cells) for number, cells in read.rows]
        table = AnswerTable(path.name, read.columns, lines, is_csv=True)
    if any(column.endswith("_url") and _VOTE_COLUMN.fullmatch(column) for column in table.columns):
        table = _melted(table)
    if not table.lines:
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
    """Whether a CSV is an export as the studio wrote it, in which blanks around names belong to the names."""
    return data.startswith(b"campaign,rater,")


def _json_table(data: bytes, name: str) -> AnswerTable:
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{name} cannot be read as JSON: {error}", "give a list of objects, or CSV") from error
    whole: dict[str, Any] = {}
    if isinstance(document, dict):
        whole = cast("dict[str, Any]", document)
        rows = whole.pop("rows", None)
        document = _of_tinydb(whole) if rows is None else rows
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in cast("list[Any]", document)):
        raise BadFile(f"{name} is no list of answers", "give a list of objects with the same keys, or CSV")
    records = cast("list[dict[str, Any]]", document)
    columns = tuple(dict.fromkeys(column_key(str(key)) for row in records for key in row))
    lines = [
        (
            f"row {number} of {name}",
            {**dict.fromkeys(columns, ""), **{column_key(str(k)): _cell(v) for k, v in row.items()}},
        )
        for number, row in enumerate(records, start=1)
    ]
    return AnswerTable(name, columns, lines, whole)


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _of_tinydb(document: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The responses in a database of pymushra (TinyDB), with the column names of its tables; None if it is none."""
    tables = [cast("dict[str, Any]", table) for table in document.values() if isinstance(table, dict)]
    trials = [cast("dict[str, Any]", t) for table in tables for t in table.values() if isinstance(t, dict)]
    if not trials or not all(isinstance(t.get("responses"), list) for t in trials):
        return None
    return [
        {
            **{f"responses_{key}": value for key, value in cast("dict[str, Any]", response).items()},
            "questionaire_uuid": dict(t.get("questionaire") or {}).get("uuid"),
            "wm_id": t.get("id"),
        }
        for t in trials
        for response in t["responses"]
        if isinstance(response, dict)
    ]


def choose_preset(table: AnswerTable, name: str, mapped: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The preset of a table and the column of each field; ``name`` is empty to recognise it by its columns.

    Raises BadOption: no preset or field has that name, or the table lacks a column that was named; BadFile: the table
    fits no preset.
    """
    if name and name not in PRESETS:
        raise BadOption(f"there is no preset {name!r:.80}", f"choose studio, {', '.join(PRESETS)}")
    if unknown := sorted(set(mapped) - set(FIELDS)):
        raise BadOption(f"there is no field {unknown[0]!r:.80}", f"map {', '.join(FIELDS)}")
    for what, column in mapped.items():
        if column_key(column) not in table.columns:
            raise BadOption(f"{table.name} has no column {column!r:.80} for {what}", _has(table))
    closest: list[str] = []
    for preset in (name,) if name else PRESETS:
        columns = {
            what: next((c for c in names if c in table.columns), "") for what, names in PRESETS[preset].columns.items()
        }
        columns |= {what: column_key(column) for what, column in mapped.items()}
        if missing := [what for what in _NEEDED.get(preset, _SCORED) if not columns.get(what)]:
            closest = missing if not closest or len(missing) < len(closest) else closest
        else:
            return preset, {what: column for what, column in columns.items() if column}
    lacking = ", ".join(closest)
    raise BadFile(
        f"{table.name} has no column that is known as {lacking}", f"map it: --column {closest[0]}=NAME; {_has(table)}"
    )


def _has(table: AnswerTable) -> str:
    return f"its columns are {', '.join(table.columns[:30])}"


def read_rows(table: AnswerTable, columns: Mapping[str, str]) -> tuple[list[AnswerRow], Counter[str]]:
    """Answers of a table by the columns of ``choose_preset``, and the number of lines left out by reason.

    Lines without a score or outcome are left out. Raises BadFile, naming the line: a name is missing or too long, or a
    score or outcome cannot be read; also if no answer is left.
    """
    rows: list[AnswerRow] = []
    left_out: Counter[str] = Counter()
    for where, line in table.lines:
        cells = {what: line[column].strip() for what, column in columns.items()}
        empty = next((what for what in ("score", "outcome") if what in cells and not cells[what]), None)
        if empty:
            left_out[f"without {'an' if empty == 'outcome' else 'a'} {empty}"] += 1
            continue
        if "file" in cells:
            cells = {**_of_file(cells.pop("file")), **{k: v for k, v in cells.items() if v}}
        _check_names(cells, where)
        rows += _votes(cells, where) if "wins_a" in cells else [_row(cells, where)]
        if len(rows) > _MAX_VOTES:
            raise BadFile(f"{table.name} has more than {_MAX_VOTES:,} votes", "give a part of them")
    if not rows:
        why = "; ".join(f"{count} left out: {reason}" for reason, count in left_out.items())
        raise BadFile(f"{table.name} has no answers that count ({why})", "fill the column of scores or outcomes")
    systems = {name for row in rows for name in (row.system, row.a, row.b) if name}
    if len(systems) > MAX_SYSTEMS:
        raise BadFile(
            f"{table.name} has {len(systems):,} systems, {MAX_SYSTEMS} are allowed", "map the column of the systems"
        )
    return rows, left_out


def _check_names(cells: Cells, where: str) -> None:
    for what in ("rater", "item", "system", "a", "b"):
        if what in cells and not cells[what]:
            raise BadFile(
                f"{where} has no {what}", f"fill that column in every line, or leave the column of {what} out"
            )
        if len(cells.get(what, "")) > _NAME_CHARS:
            raise BadFile(f"{where} has a {what} of {len(cells[what])} characters", f"{_NAME_CHARS} are allowed")


def _row(cells: Cells, where: str) -> AnswerRow:
    a, b = cells.get("a", ""), cells.get("b", "")
    if (a or b) and a == b:
        raise BadFile(f"{where} compares {a!r} with itself", "name two systems")
    return AnswerRow(
        rater=cells.get("rater"),
        item=cells.get("item"),
        question=cells.get("question", ""),
        system=cells.get("system", ""),
        score=_score(cells["score"], where) if "score" in cells else None,
        a=a,
        b=b,
        outcome=read_outcome(cells["outcome"], a, b, where) if "outcome" in cells else "",
        tags=tuple(tag for tag in cells.get("tags", "").split(";") if tag),
    )


def _score(text: str, where: str) -> float:
    if not abs(score := parse_number(text, where, "write a score such as 4 or 3.5")) <= MAX_SCORE:
        raise BadFile(f"{where} has the score {text!r:.40}", f"scores may be -{MAX_SCORE} to {MAX_SCORE}")
    return int(score) if score == int(score) else score  # as a campaign has them


def _votes(cells: Cells, where: str) -> list[AnswerRow]:
    """The votes that a line with counts stands for."""
    counts = {k: parse_number(cells.get(k) or "0", where) for k in ("wins_a", "wins_b", "ties")}
    if bad := [k for k, n in counts.items() if n < 0 or n != int(n) or n > _MAX_VOTES]:
        raise BadFile(f"{where} has {cells[bad[0]]!r:.40} {bad[0]}", "a count is a whole number from 0 on")
    out: list[AnswerRow] = []
    for outcome, name in (("a", "wins_a"), ("b", "wins_b"), ("tie", "ties")):
        out += [_row({**cells, "outcome": outcome}, where)] * int(counts[name])
    return out


_OUTCOMES = {
    "a": ("a", "model_a", "system_a", "left", "first", "1", "a_wins", "a wins", "player1"),
    "b": ("b", "model_b", "system_b", "right", "second", "2", "b_wins", "b wins", "player2"),
    "tie": ("tie", "draw", "equal", "same", "no preference", "no difference", "none", "0", "x", "="),
    "both_bad": ("both_bad", "bothbad", "both bad", "tie (bothbad)", "tie (both bad)", "tie_bothbad", "neither"),
}
_OUTCOME_OF = {word: outcome for outcome, words in _OUTCOMES.items() for word in words}


def read_outcome(text: str, a: str, b: str, where: str) -> str:
    """a, b, tie or both_bad from what a file says: one of the usual words, or the name of the preferred system.

    Raises BadFile, naming the line.
    """
    if text in (a, b):  # before the words: a system may be called b
        return "a" if text == a else "b"
    if (outcome := _OUTCOME_OF.get(text.casefold())) is None:
        raise BadFile(
            f"{where} has the outcome {text!r:.80}", "write a, b, tie or both_bad, or the name of the preferred system"
        )
    return outcome


def _of_file(address: str) -> dict[str, str]:
    """System and item from the last two parts of a file's path or address."""
    path = PurePosixPath(address.replace("\\", "/").split("?")[0])
    return {"system": path.parent.name, "item": path.stem}


_VOTE_COLUMN = re.compile(r"answer\.(q\d+)(_\w+)?")


def _melted(table: AnswerTable) -> AnswerTable:
    """Raw answers of the P.808 toolkit, a line per session, as a line per rated clip."""
    return AnswerTable(table.name, (*table.columns, "file", "vote", "question_type"), list(_clips(table)))


def _clips(table: AnswerTable) -> Iterator[tuple[str, dict[str, str]]]:
    vote_columns = [match for column in table.columns if (match := _VOTE_COLUMN.fullmatch(column))]
    for where, line in table.lines:
        for match in vote_columns:
            url = line.get(f"answer.{match[1]}_url", "")
            if url and match[2] != "_url" and line[match[0]].strip():
                yield where, {**line, "file": url, "vote": line[match[0]], "question_type": (match[2] or "").strip("_")}
