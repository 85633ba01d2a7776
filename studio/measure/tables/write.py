"""Rows written as CSV, JSON or Parquet, with what their columns mean wherever the format can hold it."""

# pyarrow is optional and comes without types.
# pyright: reportMissingImports=false, reportMissingTypeStubs=false

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studio.core.errors import BadFile, BadOption, NeedsPackage
from studio.measure.tables.columns import Column
from studio.measure.tables.spreadsheet import csv_text

FORMATS = (".csv", ".json", ".parquet")


def write_rows(
    path: Path, columns: Sequence[Column], rows: Sequence[dict[str, Any]], whole: Mapping[str, Any], about: str
) -> int:
    """Write rows of these columns into a .csv, .json or .parquet file; answers how many.

    Args:
        whole: what stands before the dictionary and the rows in JSON.
        about: what the rows are of; Parquet keeps it.

    Raises:
        BadOption: the file's name ends otherwise.
        BadFile: it cannot be written.
        NeedsPackage: Parquet without pyarrow.
    """
    if path.suffix not in FORMATS:
        raise BadOption(f"{path.name} is of no kind that is known", "end it in .csv, .json or .parquet")
    try:
        if path.suffix == ".csv":
            names = [column.name for column in columns]
            cells = ([row[name] for name in names] for row in rows)
            path.write_text(csv_text([names, *cells]), encoding="utf-8", newline="")
        elif path.suffix == ".json":
            said = {**whole, "dictionary": [asdict(column) for column in columns], "rows": list(rows)}
            path.write_text(json.dumps(said, ensure_ascii=False, indent=1), encoding="utf-8")
        else:
            _write_parquet(rows, columns, path, about)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error}", "choose another file") from error
    return len(rows)


def _write_parquet(rows: Sequence[dict[str, Any]], columns: Sequence[Column], path: Path, about: str) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NeedsPackage("Parquet needs pyarrow", "pip install pyarrow, or export .csv or .json") from error
    kinds = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    fields = [pa.field(c.name, kinds[c.type], metadata={"meaning": c.meaning}) for c in columns]
    schema = pa.schema(fields, metadata={"about": about})
    table: Any = pa.Table.from_pylist(list(rows), schema=schema)
    pq.write_table(table, path)
