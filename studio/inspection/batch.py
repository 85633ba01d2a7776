"""Measure many utterances in parallel, resuming a stopped run from its journal."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from studio import __version__
from studio.core.errors import BadFile, BadOption, BadText, Unavailable, bad_file, needs
from studio.inspection.batch_tables import TABLES, Rows, rows_of
from studio.inspection.opening import Source, find_sources, open_file, with_word_times
from studio.inspection.textgrid import read_words
from studio.measure.tables import FORMATS, write_rows

JOURNAL = "measured.jsonl"
_CHUNK = 8  # utterances per task of a process
Progress = Callable[[int, int], None]


@dataclass
class BatchTables:
    """The three tables of many utterances, and error messages of those that could not be measured."""

    utterances: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    words: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    seams: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problems: list[str] = field(default_factory=list[str])

    def frame(self, table: str = "utterances") -> Any:
        """A table as a pandas DataFrame; ``studio.inspection.batch_tables`` describes its columns.

        Raises NeedsPackage: pandas is not installed.
        """
        with needs("a DataFrame needs pandas", do="pip install pandas, or use the rows"):
            import pandas
        return pandas.DataFrame(getattr(self, table), columns=[column.name for column in TABLES[table]])

    def save(self, out: Path, kind: str = ".parquet") -> list[Path]:
        """Write the tables into a folder.

        Raises BadFile: a file cannot be written; NeedsPackage: Parquet without pyarrow.
        """
        paths = [out / f"{name}{kind}" for name in TABLES]
        for path in paths:
            rows = getattr(self, path.stem)
            write_rows(path, TABLES[path.stem], rows, {}, f"{path.stem}, measured by studio {__version__}")
        return paths


def measure(
    paths: Iterable[str | Path],
    *,
    with_pitch: bool = True,
    workers: int | None = None,
    journal: Path | None = None,
    progress: Progress = lambda done, of: None,
) -> BatchTables:
    """Measure traces and recordings.

    Raises BadFile, BadOption: there is nothing to measure, a manifest is damaged; Unavailable: the journal cannot be
    written; NeedsPackage: pitch without pyworld.

    Args:
        paths: files and folders (``find_sources``).
        workers: number of processes, by default that of CPU cores; a few files are measured in this process.
        journal: file of the results so far; unchanged files in it are not measured again.
        progress: called with the numbers of finished and of all utterances.
    """
    sources = find_sources(Path(path) for path in paths)
    known = {} if journal is None else _read_journal(journal)
    stamps = {one.file: _stamp(one, with_pitch) for one in sources}
    rows = {one.file: known[one.file]["rows"] for one in sources if _is_current(known, one.file, stamps[one.file])}
    todo = [one for one in sources if one.file not in rows]
    tables = BatchTables()
    progress(len(rows), len(sources))
    for source, measured in _measure_all(todo, with_pitch, workers or os.cpu_count() or 1):
        if isinstance(measured, str):
            tables.problems.append(measured)
        else:
            rows[source.file] = measured
            if journal is not None:
                _append_journal(journal, {"file": source.file, "stamp": stamps[source.file], "rows": measured})
        progress(len(rows) + len(tables.problems), len(sources))
    for one in sources:
        for table, more in rows.get(one.file, {}).items():
            getattr(tables, table).extend(more)
    return tables


def check_kind(kind: str) -> str:
    """The suffix of a format's files. Raises BadOption."""
    ending = f".{kind.removeprefix('.')}"
    if ending not in FORMATS:
        raise BadOption(f"the format is {kind!r:.40}", f"it may be {', '.join(one[1:] for one in FORMATS)}")
    return ending


def _measure_all(todo: Sequence[Source], with_pitch: bool, workers: int) -> Iterable[tuple[Source, Rows | str]]:
    if workers == 1 or len(todo) <= _CHUNK:
        for one in todo:
            yield one, _measure(one, with_pitch)
        return
    with ProcessPoolExecutor(min(workers, len(todo)), get_context("spawn")) as pool:
        parts = [todo[at : at + _CHUNK] for at in range(0, len(todo), _CHUNK)]
        running = [pool.submit(_measure_chunk, part, with_pitch) for part in parts]
        try:
            for done in as_completed(running):
                yield from done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _measure_chunk(part: Sequence[Source], with_pitch: bool) -> list[tuple[Source, Rows | str]]:
    return [(one, _measure(one, with_pitch)) for one in part]


def _measure(source: Source, with_pitch: bool) -> Rows | str:
    """An utterance's rows, or an error message."""
    try:
        trace = open_file(source.path, source.text or None)
        reference = read_words(source.reference) if source.reference else []
        if reference and trace.meta.get("source") == "recording":
            trace, reference = with_word_times(trace, reference), []
        about = {"file": source.file, "system": source.system, "item": source.item}
        return rows_of(trace, about, reference, with_pitch=with_pitch)
    except (BadFile, BadOption, BadText, Unavailable, OSError, ValueError, ArithmeticError, RecursionError) as error:
        return f"{source.file}: {error}"


def _stamp(source: Source, with_pitch: bool) -> list[Any]:
    """Identifies the inputs of a measurement; empty where the file is missing."""
    try:
        at = source.path.stat()
        beside = source.reference.stat() if source.reference else None
    except OSError:
        return []
    grid = [beside.st_size, beside.st_mtime_ns] if beside else []
    settings = [source.system, source.item, source.text, with_pitch, __version__]
    return [at.st_size, at.st_mtime_ns, *grid, *settings]


def _is_current(known: dict[str, Any], file: str, stamp: list[Any]) -> bool:
    return file in known and bool(stamp) and known[file]["stamp"] == stamp


def _read_journal(path: Path) -> dict[str, Any]:
    """Stored results by file; incomplete lines are ignored."""
    stored: dict[str, Any] = {}
    if path.exists() and not path.is_file():
        raise BadFile(f"{path} is no file", "choose another folder")
    with bad_file(f"{path} cannot be read", "remove it to measure everything again", UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                one = json.loads(line)
                if _is_whole(one["rows"]):
                    stored[one["file"]] = {"stamp": one["stamp"], "rows": one["rows"]}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
    return stored


def _is_whole(rows: Any) -> bool:
    """Whether these are rows of this version's columns."""
    wanted = {name: {column.name for column in columns} for name, columns in TABLES.items()}
    return set(rows) == set(wanted) and all(set(row) == wanted[name] for name in rows for row in rows[name])


def _append_journal(path: Path, one: dict[str, Any]) -> None:
    with bad_file(f"{path} cannot be written", "choose another folder"), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(one) + "\n")
