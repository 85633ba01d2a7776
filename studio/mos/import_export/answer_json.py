"""Reads answers from JSON: lists of objects, tables of pandas, and files of pymushra and Label Studio."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, cast

from studio.core.csv_files import column_key
from studio.core.errors import BadFile
from studio.mos.import_export.answer_presets import PRESETS

SOUND_FILE = re.compile(r".*\.(?:wav|flac|mp3|ogg|oga|opus|m4a|aac|webm|aiff?)(?:[?#].*)?", re.IGNORECASE | re.DOTALL)
_Record = Mapping[str, Any]
_ANSWERS = {name for one in PRESETS.values() for what in ("score", "outcome") for name in one.columns.get(what, ())}


def read_json_rows(data: bytes, name: str) -> tuple[list[_Record], dict[str, Any]]:
    """Rows of a document, and the metadata of an export of the studio.

    Raises BadFile: it is not JSON, or contains no list of answers.
    """
    try:
        document: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        try:  # an object per line
            document = [json.loads(line) for line in data.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise BadFile(f"{name} cannot be read as JSON: {error}", "give a list of objects, or CSV") from error
    rows: Any = cast("dict[str, Any]", document).get("rows") if isinstance(document, dict) else None
    if isinstance(rows, list) and all(isinstance(row, dict) for row in cast("list[Any]", rows)):  # else it is a column
        whole = cast("dict[str, Any]", document)
        document = whole.pop("rows")
    else:
        whole = {}
        document = _rows_of(document)
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in cast("list[Any]", document)):
        raise BadFile(f"{name} is no list of answers", "give a list of objects with the same keys, or CSV")
    found = cast("list[_Record]", document)
    return (found if whole else [row for record in found for row in _unpacked(record)]), whole


def _rows_of(document: Any) -> Any:
    """The rows of a document in another layout; the document itself if none is recognised."""
    whole = _record(document)
    if not whole:
        return document
    if (found := _of_tinydb(whole)) is not None:
        return found
    if isinstance(titles := whole.get("columns"), list) and isinstance(lines := whole.get("data"), list):
        titles, lines = cast("list[Any]", titles), cast("list[Any]", lines)  # pandas, orient="split"
        if all(isinstance(line, list) and len(cast("list[Any]", line)) == len(titles) for line in lines):
            return [dict(zip(map(str, titles), line, strict=True)) for line in lines]
    values = list(whole.values())
    if all(isinstance(column, dict) for column in values):  # pandas: a column is {"0": cell, "1": cell}
        columns = cast("list[dict[str, Any]]", values)
        if all(column.keys() == columns[0].keys() and not _is_nested(column.values()) for column in columns):
            return _of_columns(whole, [[column[key] for key in columns[0]] for column in columns])
    lists = [cast("list[Any]", value) for value in values if isinstance(value, list)]
    is_table = len(lists) == len(values) and len({len(column) for column in lists}) == 1
    if is_table and not any(map(_is_nested, lists)):
        return _of_columns(whole, lists)
    records = [one for one in lists if one and all(isinstance(row, dict) for row in one)]
    return records[0] if len(records) == 1 else whole


def _is_nested(values: Iterable[Any]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _of_columns(titles: Sequence[str] | _Record, columns: Sequence[Sequence[Any]]) -> list[_Record]:
    return [dict(zip(titles, cells, strict=True)) for cells in zip_longest(*columns)]


def _of_tinydb(document: _Record) -> list[_Record] | None:
    """The responses in a database of pymushra (TinyDB), with the column names of its tables; None for others."""
    tables = [cast("dict[str, Any]", table) for table in document.values() if isinstance(table, dict)]
    trials = [cast("dict[str, Any]", t) for table in tables for t in table.values() if isinstance(t, dict)]
    if not trials or not all(isinstance(t.get("responses"), list) for t in trials):
        return None
    return [
        {
            **{f"responses_{key}": value for key, value in cast("dict[str, Any]", response).items()},
            "questionaire_uuid": _record(t.get("questionaire")).get("uuid"),
            "wm_id": t.get("id"),
        }
        for t in trials
        for response in t["responses"]
        if isinstance(response, dict)
    ]


def _unpacked(record: _Record) -> Iterator[_Record]:
    """One row per answer of a record: of a Label Studio task, or of a list of answers in the record; else itself."""
    if isinstance(record.get("annotations"), list) and isinstance(record.get("data"), dict):
        yield from _of_label_studio(record)
        return
    inner = [key for key, value in record.items() if _is_list_of_records(value)]
    outer = {key: value for key, value in record.items() if key not in inner}
    listed = cast("list[dict[str, Any]]", record[inner[0]]) if len(inner) == 1 else []
    if not listed or (_has_answer(outer) and not any(map(_has_answer, listed))):  # a log of the rater's actions
        yield record
        return
    for answer in listed:
        yield {**outer, **answer}


def _has_answer(record: _Record) -> bool:
    return any(column_key(key) in _ANSWERS for key in record)


def _is_list_of_records(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(cast("list[Any]", value))
        and all(isinstance(one, dict) for one in cast("list[Any]", value))
    )


def _of_label_studio(task: _Record) -> Iterator[_Record]:
    """Choices of a side (Pairwise, Choices), ratings and numbers; two sounds of a task form a pair, in this order."""
    about = {key: value for key, value in _record(task["data"]).items() if isinstance(value, str | int | float)}
    sounds = [value for value in about.values() if isinstance(value, str) and SOUND_FILE.fullmatch(value)]
    named = dict(zip(("a", "b") if len(sounds) == 2 else ("file",), sounds, strict=False))
    for annotation in map(_record, task["annotations"]):
        results = annotation.get("result")
        if annotation.get("was_cancelled") or not _is_list_of_records(results):
            continue
        by = annotation.get("completed_by")
        rater = (_record(by).get("email") or _record(by).get("id")) if isinstance(by, dict) else by
        for result in cast("list[dict[str, Any]]", results):
            value = _record(result.get("value"))
            choices = value.get("choices")
            first = next(iter(cast("list[Any]", choices)), None) if isinstance(choices, list) else None
            choice = value.get("selected") or first
            score = value.get("rating", value.get("number"))
            answer: dict[str, Any] = {"score": choice if score is None else score, "question": result.get("from_name")}
            if len(sounds) == 2 and score is None:
                answer = {"outcome": choice}
            if choice is not None or score is not None:
                yield {**about, **named, "rater": rater, **answer}


def _record(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
