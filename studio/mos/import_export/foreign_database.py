"""Opens another studio's database read-only, with bounds on the amount of data read."""

import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
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
        store = Store(other)
        try:
            yield store, None
        finally:
            store.close()
        return
    file = Path(other if url is None else url.database or "")
    if not file.is_file():
        raise BadFile(f"there is no database {file}", "give the file studio.sqlite of the other data folder")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "other.sqlite"
        if not is_writable(file):  # SQLite could not read its log there
            copy_database(file, Path(scratch) / "log.sqlite")
            _copy(Path(scratch) / "log.sqlite", copy)
        else:
            _copy(file, copy)
        store = Store(f"sqlite:///{copy}", max_cell_bytes=MAX_CELL_BYTES)
        try:
            yield store, file.parent / "clips"
        finally:
            store.close()


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
    try:
        source, target = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True), sqlite3.connect(copy)
        source.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_SCHEMA_BYTES)
        try:
            objects = list(source.execute("SELECT type, name FROM sqlite_master"))
            if not {name for kind, name in objects if kind == "table"} >= STUDIO_TABLES:
                raise BadFile(
                    f"{file} holds no listening tests", "give the file studio.sqlite of the other data folder"
                )
            if views := [name for kind, name in objects if kind == "view"]:
                raise BadFile(
                    f"{file} holds the view {views[0]!r:.80}, which no studio makes", "restore a backup of it"
                )
            counted = source.execute("SELECT count(*) FROM campaign").fetchone()
            if counted[0] > MAX_CAMPAIGNS:
                raise BadFile(f"{file} has {counted[0]:,} campaigns", f"at most {MAX_CAMPAIGNS:,} are merged")
            source.backup(target)
            for name in (
                name for kind, name in objects if kind == "trigger"
            ):  # the studio's triggers only check writes, and nothing is written here
                target.execute(f'DROP TRIGGER "{name.replace(chr(34), chr(34) * 2)}"')
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise BadFile(
            f"{file} cannot be read: {error}", "give the file studio.sqlite of the other data folder"
        ) from error
