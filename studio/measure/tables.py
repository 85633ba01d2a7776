"""Tables as CSV, JSON or Parquet. CSV cells are escaped so that no spreadsheet runs them as formulas."""

# pyarrow is optional and comes without types.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from studio.core.errors import BadOption, bad_file, needs

FORMATS = (".csv", ".json", ".parquet")
Type = Literal["text", "integer", "number", "boolean"]

# Where a program may start a cell: after a line break, or after a separator other than ours. Excel uses the semicolon
# in half of Europe, and some programs split lines before they parse quotes.
_BEGINS = r"(?:^|(?<=[;\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]))"
_BLANKS = r"[ \0-\x08\x0e-\x1b\x1f\x7f\xa0\xad\u1680\u180e\u2000-\u200f\u202a-\u202f\u205f-\u2064\u3000\ufeff]*"
_FORMULA = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
_RISKY = re.compile(rf"(?:^(?=[\t\r\n]))|{_BEGINS}(?='|{_BLANKS}{_FORMULA})")
_CRLF = "\r\n"
_ESCAPED = re.compile(rf"{_BEGINS}'")


@dataclass(frozen=True)
class Column:
    """A column: its name, the type of its values (empty where not applicable) and its meaning."""

    name: str
    type: Type
    meaning: str


def safe_cell(value: object) -> object:
    """Prefix text that a spreadsheet could read as a formula with an apostrophe; numbers stay as they are.

    Also after a line break, semicolon or tab, and after leading blanks. An apostrophe of the text itself in such a
    place is doubled, so ``plain_text`` is the exact inverse.
    """
    return _RISKY.sub("'", value) if isinstance(value, str) else value


def plain_text(cell: str) -> str:
    """Inverse of ``safe_cell``."""
    return _ESCAPED.sub("", cell)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV with LF line ends; every text goes through ``safe_cell``, the header row too."""
    out = _LfRows()
    # Before 3.13, csv quotes a carriage return only where it is part of the line terminator.
    csv.writer(out, lineterminator=_CRLF).writerows(map(safe_cell, row) for row in rows)
    return out.getvalue()


class _LfRows(io.StringIO):
    """Ends each row that csv writes with a line feed."""

    def write(self, row: str, /) -> int:
        return super().write(row.removesuffix(_CRLF) + "\n")


def write_rows(
    path: Path, columns: Sequence[Column], rows: Sequence[dict[str, Any]], whole: Mapping[str, Any], about: str
) -> int:
    """Write rows to a .csv, .json or .parquet file and return how many. Raises BadOption, BadFile, NeedsPackage.

    Args:
        whole: keys that precede the dictionary and the rows in JSON.
        about: description of the rows, stored in Parquet.
    """
    if path.suffix not in FORMATS:
        raise BadOption(f"{path.name} is of no kind that is known", "end it in .csv, .json or .parquet")
    with bad_file(f"{path} cannot be written", "choose another file"):
        if path.suffix == ".csv":
            names = [column.name for column in columns]
            cells = ([row[name] for name in names] for row in rows)
            path.write_text(csv_text([names, *cells]), encoding="utf-8", newline="")
        elif path.suffix == ".json":
            document = {**whole, "dictionary": [asdict(column) for column in columns], "rows": list(rows)}
            path.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
        else:
            _write_parquet(rows, columns, path, about)
    return len(rows)


def _write_parquet(rows: Sequence[dict[str, Any]], columns: Sequence[Column], path: Path, about: str) -> None:
    with needs("Parquet needs pyarrow", do="pip install pyarrow, or export .csv or .json"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    kinds = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    fields = [pa.field(c.name, kinds[c.type], metadata={"meaning": c.meaning}) for c in columns]
    schema = pa.schema(fields, metadata={"about": about})
    table: Any = pa.Table.from_pylist(list(rows), schema=schema)
    pq.write_table(table, path)
