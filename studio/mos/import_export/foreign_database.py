"""Opens another studio's database read-only, with bounds on the amount of data read."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from studio.core.errors import BadFile, BadOption
from studio.mos.store.database import STUDIO_TABLES, Store, schema_version
from studio.mos.store.migrations import MIGRATIONS
from studio.mos.store.sqlite_files import copy_database, is_writable

MAX_CELL_BYTES = 2_000_000  # the longest possible typing is shorter
MAX_CAMPAIGNS = 10_000
_MAX_SCHEMA_BYTES = 100_000  # of one table's definition, which SQLite reads whole
_FILE = "give the file studio.sqlite of the other data folder"


@contextmanager
def open_other_database(other: str) -> Generator[tuple[Store, Path | None]]:
    """Open another studio's database and its clip folder, without changing them.

    A SQLite file is copied first; a database on a server must have this version's schema. Raises BadFile, BadOption: it
    is missing, or not a studio's database.
    """
    try:
        url = make_url(other) if "://" in other else None
    except ArgumentError as error:
        raise BadOption(f"{other!r} is not a database address", "give a file, or postgresql://...") from error
    if url is not None and url.get_backend_name() != "sqlite":
        _check_schema(schema_version(other), url.render_as_string(hide_password=True))
        with closing(Store(other)) as store:
            yield store, None
        return
    file = Path(other if url is None else url.database or "")
    if not file.is_file():
        raise BadFile(f"there is no database {file}", _FILE)
    with tempfile.TemporaryDirectory() as scratch:
        copy, source = Path(scratch) / "other.sqlite", file
        if not is_writable(file):  # SQLite could not read its log there
            source = Path(scratch) / "log.sqlite"
            copy_database(file, source)
        _copy(source, copy)
        with closing(Store(f"sqlite:///{copy}", max_cell_bytes=MAX_CELL_BYTES)) as store:
            yield store, file.parent / "clips"


def _check_schema(schema: int | None, name: str) -> None:
    """Check the schema before opening, which would migrate the database. Raises BadFile."""
    if schema is None:
        raise BadFile(f"{name} holds no listening tests", "check its name and its schema")
    if schema < len(MIGRATIONS):
        raise BadFile(
            f"{name} has schema {schema}, this studio reads {len(MIGRATIONS)}; another's database is not changed",
            "let its owner open it once with a studio of this version",
        )


def _copy(file: Path, copy: Path) -> None:
    """Copy a database, which may be in use."""
    address = f"{file.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as source, closing(sqlite3.connect(copy)) as target:
            source.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_SCHEMA_BYTES)
            objects = list(source.execute("SELECT type, name FROM sqlite_master"))
            if not {name for kind, name in objects if kind == "table"} >= STUDIO_TABLES:
                raise BadFile(f"{file} holds no listening tests", _FILE)
            if views := [name for kind, name in objects if kind == "view"]:
                what = f"{file} holds the view {views[0]!r:.80}, which no studio makes"
                raise BadFile(what, "restore a backup of it")
            counted = source.execute("SELECT count(*) FROM campaign").fetchone()
            if counted[0] > MAX_CAMPAIGNS:
                raise BadFile(f"{file} has {counted[0]:,} campaigns", f"at most {MAX_CAMPAIGNS:,} are merged")
            source.backup(target)
            for kind, name in objects:
                if kind == "trigger":  # the studio's triggers only check writes, and nothing is written here
                    target.execute(f'DROP TRIGGER "{name.replace(chr(34), chr(34) * 2)}"')
    except sqlite3.Error as error:
        raise BadFile(f"{file} cannot be read: {error}", _FILE) from error
