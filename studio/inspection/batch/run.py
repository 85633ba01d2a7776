"""Measuring many utterances at once, and going on where a stopped run was."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from studio import __version__
from studio.core.errors import BadFile, BadOption, BadText, NeedsPackage
from studio.inspection.batch.columns import TABLES
from studio.inspection.batch.rows import Rows, rows_of
from studio.inspection.batch.sources import Source, find_sources
from studio.inspection.opening import open_file, placed
from studio.inspection.textgrid import read_words
from studio.measure.tables.write import FORMATS, write_rows

JOURNAL = "measured.jsonl"
_CHUNK = 8  # utterances that a process is given at once
Told = Callable[[int, int], None]


@dataclass
class Measures:
    """The three tables of many utterances, and what could not be measured, in words."""

    utterances: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    words: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    seams: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[str] = field(default_factory=list[str])

    def frame(self, table: str = "utterances") -> Any:
        """A table as a pandas DataFrame; ``studio.inspection.batch.columns`` says what its columns mean.

        Raises:
            NeedsPackage: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise NeedsPackage("a DataFrame needs pandas", "pip install pandas, or use the rows") from error
        return pandas.DataFrame(getattr(self, table), columns=[column.name for column in TABLES[table]])

    def save(self, out: Path, kind: str = ".parquet") -> list[Path]:
        """Write the tables into a folder: utterances, words and seams.

        Raises:
            BadFile: they cannot be written.
            NeedsPackage: Parquet without pyarrow.
        """
        paths = [out / f"{name}{kind}" for name in TABLES]
        for path in paths:
            rows = getattr(self, path.stem)
            write_rows(path, TABLES[path.stem], rows, {}, f"{path.stem}, measured by studio {__version__}")
        return paths


def measure(
    places: Iterable[str | Path],
    *,
    with_pitch: bool = True,
    workers: int | None = None,
    journal: Path | None = None,
    told: Told = lambda done, of: None,
) -> Measures:
    """Measure traces and recordings.

    Args:
        places: files and folders (``find_sources``).
        workers: processes; as many as there are cores unless given, and none for a few files.
        journal: keeps what was measured as it comes; what is in it and has not changed is not measured again.
        told: hears how many are done, and of how many.

    Raises:
        BadFile, BadOption: there is nothing to measure, a manifest is damaged, the journal cannot be written.
        NeedsPackage: pitch without pyworld.
    """
    sources = find_sources(Path(place) for place in places)
    known = {} if journal is None else _read_journal(journal)
    stamps = {one.file: _stamp(one, with_pitch) for one in sources}
    rows = {one.file: known[one.file]["rows"] for one in sources if _is_known(known, one.file, stamps[one.file])}
    todo = [one for one in sources if one.file not in rows]
    found = Measures()
    told(len(rows), len(sources))
    for source, measured in _all_measured(todo, with_pitch, workers or os.cpu_count() or 1):
        if isinstance(measured, str):
            found.problems.append(measured)
        else:
            rows[source.file] = measured
            if journal is not None:
                _note(journal, {"file": source.file, "stamp": stamps[source.file], "rows": measured})
        told(len(rows) + len(found.problems), len(sources))
    for one in sources:
        for table, more in rows.get(one.file, {}).items():
            getattr(found, table).extend(more)
    return found


def check_kind(kind: str) -> str:
    """The ending of a format's files. Raises BadOption."""
    ending = f".{kind.removeprefix('.')}"
    if ending not in FORMATS:
        raise BadOption(f"the format is {kind!r:.40}", f"it may be {', '.join(one[1:] for one in FORMATS)}")
    return ending


def _all_measured(todo: Sequence[Source], with_pitch: bool, workers: int) -> Iterable[tuple[Source, Rows | str]]:
    if workers == 1 or len(todo) <= _CHUNK:
        for one in todo:
            yield one, _measured(one, with_pitch)
        return
    with ProcessPoolExecutor(min(workers, len(todo)), get_context("spawn")) as pool:
        parts = [todo[at : at + _CHUNK] for at in range(0, len(todo), _CHUNK)]
        running = [pool.submit(_part_measured, part, with_pitch) for part in parts]
        try:
            for done in as_completed(running):
                yield from done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _part_measured(part: Sequence[Source], with_pitch: bool) -> list[tuple[Source, Rows | str]]:
    return [(one, _measured(one, with_pitch)) for one in part]


def _measured(source: Source, with_pitch: bool) -> Rows | str:
    """An utterance's rows, or why there are none."""
    try:
        trace = open_file(source.path, source.text or None)
        reference = read_words(source.reference) if source.reference else []
        if reference and trace.meta.get("source") == "recording":
            trace, reference = placed(trace, reference), []
        about = {"file": source.file, "system": source.system, "item": source.item}
        return rows_of(trace, about, reference, with_pitch=with_pitch)
    except (BadFile, BadOption, BadText, ValueError, ArithmeticError, RecursionError) as error:
        return f"{source.file}: {error}"


def _stamp(source: Source, with_pitch: bool) -> list[Any]:
    """Another one means that it has to be measured again."""
    try:
        at = source.path.stat()
        beside = source.reference.stat() if source.reference else None
    except OSError:
        return []
    grid = [beside.st_size, beside.st_mtime_ns] if beside else []
    said = [source.system, source.item, source.text, with_pitch, __version__]
    return [at.st_size, at.st_mtime_ns, *grid, *said]


def _is_known(known: dict[str, Any], file: str, stamp: list[Any]) -> bool:
    return file in known and bool(stamp) and known[file]["stamp"] == stamp


def _read_journal(path: Path) -> dict[str, Any]:
    """What was measured before; a last line that was cut off is as if it were not there."""
    found: dict[str, Any] = {}
    if path.exists() and not path.is_file():
        raise BadFile(f"{path} is no file", "choose another folder")
    try:
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                one = json.loads(line)
                if _is_whole(one["rows"]):
                    found[one["file"]] = {"stamp": one["stamp"], "rows": one["rows"]}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}", "remove it; everything is measured again then") from error
    return found


def _is_whole(rows: Any) -> bool:
    """Whether they are the rows of an utterance as this version makes them."""
    wanted = {name: {column.name for column in columns} for name, columns in TABLES.items()}
    return set(rows) == set(wanted) and all(set(row) == wanted[name] for name in rows for row in rows[name])


def _note(path: Path, one: dict[str, Any]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error}", "choose another folder") from error
