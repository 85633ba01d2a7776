"""Reads tables of text: CSV as Excel, R, pandas and other programs write it.

Supported: UTF-8, UTF-16 and Windows-1252; a comma, semicolon, tab or bar between cells, or blanks as in R's
``write.table``, with its row names; Excel's line ``sep=;``; blank lines and comments before the header; blanks around
cells; column names in any case. ``parse_number`` reads a decimal comma.
"""

import csv
import io
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Literal, Protocol

from studio.core.errors import BadFile
from studio.core.files import decode_text, read_bounded

MAX_TABLE_BYTES = 16 << 20
MAX_LINES = 500_000
MAX_COLUMNS = 1_000
_SEPARATORS = ",;\t|"
# Comment lines are skipped if a line with a separator follows. One with a separator may be the header.
_BLANK = re.compile(r"[\s,;\"\ufeff]*(?:(?:#[^,;\t|\r\n]*+[\r\n][\s\"\ufeff]*+)++(?=[^\r\n]*[,;\t|]))?")
_SEP_LINE = re.compile(r"\"?sep=([,;|\t]|\\t)\"?[,;|\t ]*(?:\r\n|\r|\n|\Z)", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d{1,4})?", re.ASCII)
_ROWS_AT_A_TIME = 256  # few enough that garbage collection rarely sees them
_LINE_BREAK = re.compile("\r\n|\r|\n")
_HEADER_BYTES = 1 << 16  # the line with the column names
_LINES_SEEN = 20  # lines used to detect the separator


@dataclass(frozen=True)
class Table:
    """A table: ``columns`` are the keys of the rows (``column_key``), ``titles`` the names as written, in order.

    ``rows`` yields the line number and the cells of each row that is not blank, once; it raises BadFile with the line
    if the text is not CSV or a row has more cells than columns. Missing cells are empty. ``by_column`` returns the same
    as line numbers [N] and cells [N] of each column, for many rows: equal cells share one string.
    """

    name: str
    columns: tuple[str, ...]
    titles: tuple[str, ...]
    rows: Iterator[tuple[int, dict[str, str]]]
    by_column: Callable[[], tuple[Sequence[int], dict[str, list[str]]]]

    def need(self, *columns: str, more: Sequence[str] = ()) -> None:
        """Raise BadFile if a column is missing. ``more``: further columns, for the message."""
        if missing := [one for one in columns if one not in self.columns]:
            named = f"the first line names {', '.join(columns)}" + (
                f", and if wanted {', '.join(more)}" if more else ""
            )
            there = ", ".join(self.titles)[:200] or "(none)"
            raise BadFile(f"{self.name} has no column {', '.join(missing)}, but {there}", named)


def read_table(
    source: Path | bytes | str,
    name: str = "",
    *,
    max_bytes: int = MAX_TABLE_BYTES,
    max_lines: int = MAX_LINES,
    exact: bool = False,
) -> Table:
    """Read a table whose first line that is not blank names the columns. Columns without a name are left out.

    Args:
        source: a file, its bytes or its text.
        name: the file's name in messages.
        exact: keep blanks around cells, for files that are known to have a comma and no such blanks.

    Raises:
        BadFile: it cannot be read, is no text, is larger than ``max_bytes``, or names a column twice. While its rows
            are read: a line is no CSV, or there are more than ``max_lines``.
    """
    name = name or (source.name if isinstance(source, Path) else "the table")
    text = source if isinstance(source, str) else decode_text(_bytes_of(source, name, max_bytes), name)
    text = text.removeprefix("\ufeff")
    start, separator = _after_blank_lines(text, 0), ""
    if not exact and (match := _SEP_LINE.match(text, start)):
        separator = match[1].replace("\\t", "\t")
        start = _after_blank_lines(text, match.end())
    skipped = sum(text.count(one, 0, start) for one in "\r\n") - text.count("\r\n", 0, start)
    head = text[start : start + _HEADER_BYTES]
    separator = separator or ("," if exact else _separator_of(head))
    reader = _reader(text, start, separator, exact)
    try:
        titles = tuple(cell.strip().strip("\ufeff") for cell in next(reader, list[str]()))
        if not exact and _has_row_names(head, separator):
            titles = ("", *titles)
    except csv.Error as error:
        raise BadFile(f"line {skipped + 1} of {name} is not CSV: {error}", "save it again as CSV") from error
    keys = [column_key(title) for title in titles]
    if len(keys) > MAX_COLUMNS:
        raise BadFile(f"{name} has {len(keys):,} columns", f"at most {MAX_COLUMNS:,} are read")
    if twice := next((key for key in keys if key and keys.count(key) > 1), None):
        raise BadFile(f"{name} has two columns {twice[:80]!r}", "give each column a name of its own")
    lines = _Lines(name, skipped, max_lines, len(keys), strip=not exact)
    named = [(key, title) for key, title in zip(keys, titles, strict=True) if key]
    return Table(
        name,
        tuple(key for key, _ in named),
        tuple(title for _, title in named),
        _rows(reader, keys, lines),
        partial(_by_column, reader, keys, lines),
    )


def column_key(title: str) -> str:
    """A column's name as rows have it: lower case, with one underscore for blanks and hyphens ("Start-s": start_s)."""
    return re.sub(r"[\s\-]+", "_", title.strip().casefold())


def parse_number(text: str, where: str, hint: str = "write a number such as 1.25") -> float:
    """A decimal number, with a point or a comma; infinite beyond the range of a double. Raises BadFile."""
    written = text.strip().replace("\u2212", "-")
    if len(written) > 60 or not _NUMBER.fullmatch(written):
        raise BadFile(f"{where}: {text.strip()[:40]!r} is not a number", hint)
    return float(written.replace(",", "."))


def _bytes_of(source: Path | bytes, name: str, max_bytes: int) -> bytes:
    try:
        data = source if isinstance(source, bytes) else read_bounded(source, max_bytes)
    except FileNotFoundError as error:
        raise BadFile(f"there is no file {source}", "check the path") from error
    except OSError as error:
        raise BadFile(f"{name} cannot be read: {error.strerror}", "check the path and its permissions") from error
    if len(data) > max_bytes:
        raise BadFile(f"{name} has {len(data):,} bytes", f"at most {max_bytes:,} are read")
    return data


def _after_blank_lines(text: str, start: int) -> int:
    """Index of the first line that is not blank, from ``start``, the start of a line."""
    match = _BLANK.match(text, start)
    end = match.end() if match else start
    return max(text.rfind("\n", start, end), text.rfind("\r", start, end), start - 1) + 1


def _separator_of(text: str) -> str:
    """The separator that gives the line of column names most cells; a comma if there is one cell.

    Blanks, if the first lines have equally many cells, and each has a number or is quoted as by R.
    """
    best = max(_SEPARATORS, key=lambda one: len(_first_rows(text, one, 1)[0]))
    if len(_first_rows(text, best, 1)[0]) > 1:
        return best
    names, *rows = _first_rows(text, " ", _LINES_SEEN)
    is_quoted = text.count('"', 0, text.find("\n")) == 2 * len(names)
    is_regular = len(names) > 2 and bool(rows) and {len(row) - len(names) for row in rows} in ({0}, {1})
    return " " if is_regular and all(is_quoted or any(map(_NUMBER.fullmatch, row)) for row in rows) else best


def _first_rows(text: str, separator: str, most: int) -> list[list[str]]:
    """The complete rows at the start of a text; one empty row if there are none."""
    lines = text.splitlines()[: most + 1]
    rows = csv.reader(lines[: most if len(lines) > most else None], delimiter=separator, skipinitialspace=True)
    return [row for row in rows if row] or [[]]


def _has_row_names(text: str, separator: str) -> bool:
    """Whether each row has one more cell than the header: the row number that R's ``write.table`` adds."""
    names, *rows = _first_rows(text, separator, _LINES_SEEN)
    numbers = [row[0] for row in rows if len(row) == len(names) + 1]
    return bool(rows) and numbers == [str(at) for at in range(1, len(rows) + 1)]


class _Cells(Protocol):
    """What csv.reader returns."""

    @property
    def line_num(self) -> int: ...
    def __iter__(self) -> "Iterator[list[str]]": ...
    def __next__(self) -> list[str]: ...


def _reader(text: str, start: int, separator: str, exact: bool) -> _Cells:
    """The first reader without an error: of CSV; with blanks after quotes; without quoting (tab or bar only)."""

    def read(text: str = text, quoting: Literal[0, 3] = csv.QUOTE_MINIMAL) -> _Cells:
        lines = io.StringIO(text, newline="")
        lines.seek(start)
        return csv.reader(lines, delimiter=separator, strict=True, skipinitialspace=not exact, quoting=quoting)

    def is_good(reader: _Cells) -> bool:
        try:
            deque(islice(reader, MAX_LINES), maxlen=0)
        except csv.Error:
            return False
        return True

    if exact or is_good(read()):
        return read()
    tight = text[:start] + re.sub(rf'" +(?=[{re.escape(separator)}\r\n]|\Z)', '"', text[start:])
    if is_good(read(tight)):
        return read(tight)
    return read(quoting=csv.QUOTE_NONE) if separator in "\t|" else read()


@dataclass(frozen=True)
class _Lines:
    """The file's name, the lines before the reader's first, the most that are read, and the number of columns."""

    name: str
    skipped: int
    most: int
    columns: int
    strip: bool

    def cells(self, number: int, row: list[str]) -> list[str] | None:
        """Cells [columns] of the reader's row that ends in line ``number``; None if it is blank. Raises BadFile."""
        if number > self.most:
            raise BadFile(f"{self.name} has more than {self.most:,} lines", "divide it")
        cells = [cell.strip() for cell in row] if self.strip else row
        if not any(cells):
            return None
        if len(cells) > self.columns:  # also empty ones: a comma without quotes may have moved the others
            raise BadFile(
                f"line {self.skipped + number} of {self.name} has {len(cells)} cells, its header {self.columns}",
                "put quotes around a cell that holds a separator",
            )
        return cells + [""] * (self.columns - len(cells))

    def no_csv(self, number: int, error: csv.Error) -> BadFile:
        return BadFile(f"line {self.skipped + number} of {self.name} is not CSV: {error}", "save it again as CSV")


def _rows(reader: _Cells, keys: list[str], lines: _Lines) -> Iterator[tuple[int, dict[str, str]]]:
    unnamed = "" in keys
    try:
        for row in reader:
            if (cells := lines.cells(reader.line_num, row)) is None:
                continue
            record = dict(zip(keys, cells, strict=True))
            if unnamed:
                del record[""]
            yield lines.skipped + reader.line_num, record
    except csv.Error as error:
        raise lines.no_csv(reader.line_num, error) from error


class _Shared(dict[str, str]):
    """One string for equal cells; without blanks around it if ``strip``."""

    def __init__(self, strip: bool) -> None:
        super().__init__()
        self._strip = strip

    def __missing__(self, cell: str) -> str:
        text = cell.strip() if self._strip else cell
        self[cell] = shared = self.setdefault(text, text)
        return shared


def _last_lines(rows: list[list[str]], first: int, last: int) -> Sequence[int]:
    """Number of the line in which each row ends, for rows of the lines after ``first`` up to ``last``."""
    if last - first == len(rows):
        return range(first + 1, last + 1)
    lengths = (1 + sum(len(_LINE_BREAK.findall(cell)) for cell in row) for row in rows)
    return list(accumulate(lengths, initial=first))[1:]


def _by_column(reader: _Cells, keys: list[str], lines: _Lines) -> tuple[Sequence[int], dict[str, list[str]]]:
    """Numbers and cells as ``_rows``; many rows at a time, each column in one pass."""
    shared = _Shared(lines.strip)
    numbers, columns = array("q"), [list[str]() for _ in keys]
    error: csv.Error | None = None
    while error is None:
        rows, first = list[list[str]](), reader.line_num
        try:
            rows.extend(islice(reader, _ROWS_AT_A_TIME))
        except csv.Error as one:
            error = one  # raised after errors of the lines before it
        if not rows and error is None:
            break
        ends = _last_lines(rows, first, reader.line_num)
        is_regular = set(map(len, rows)) == {lines.columns} and ends[-1] <= lines.most
        if not is_regular or not all(map(str.strip, next(zip(*rows, strict=True)))):
            found = [(end, cells) for end, row in zip(ends, rows, strict=True) if (cells := lines.cells(end, row))]
            ends, rows = [end for end, _ in found], [cells for _, cells in found]
        numbers.extend(lines.skipped + end for end in ends)
        for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
            column.extend(map(shared.__getitem__, cells))
    if error is not None:
        raise lines.no_csv(reader.line_num, error) from error
    return numbers, {key: column for key, column in zip(keys, columns, strict=True) if key}
