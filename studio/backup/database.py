"""Copies of a database of listening tests: SQLite by its backup API, PostgreSQL row by row."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, Table, create_engine, func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlmodel import SQLModel

from studio.core.errors import BadFile, BadOption
from studio.mos.store.database import Store, error_message
from studio.mos.store.sqlite_files import copy_database, is_writable

_ROWS = 1000


def snapshot(url: str, target: Path) -> str:
    """Copy a live database into a new SQLite file; returns the kind of database.

    The copy holds everything committed before this call, without a WAL file.

    Raises:
        BadFile: the database cannot be read, or is damaged.
        BadOption: the address is not one of SQLite or PostgreSQL.
    """
    file = sqlite_file(url)
    if file is not None:
        _snapshot_file(file, target)
    else:
        _snapshot_rows(url, target)
    check(target)
    return "postgresql" if file is None else "sqlite"


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite address; None for another kind of database. Raises BadOption."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadOption(f"{url!r} is not a database address", "give sqlite:///FILE or postgresql://...") from error
    if parsed.get_backend_name() == "postgresql":
        return None
    if parsed.get_backend_name() != "sqlite":
        raise BadOption(f"{parsed.get_backend_name()} is not supported", "give sqlite:///FILE or postgresql://...")
    if parsed.database in (None, "", ":memory:"):
        raise BadOption("a database in memory cannot be saved or restored", "give sqlite:///FILE")
    return Path(parsed.database)


def tables_size(url: str) -> int:
    """Bytes of all tables of a PostgreSQL database, without indexes. Raises BadFile."""
    sizes = "SELECT coalesce(sum(pg_table_size(oid)), 0) FROM pg_class WHERE relkind = 'r' AND relname = ANY(:names)"
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            size_bytes = connection.scalar(text(sizes), {"names": [table.name for table in _tables()]})
            return int(size_bytes or 0)
    except SQLAlchemyError as error:
        raise BadFile(f"the database cannot be read: {error_message(error)}", "see its log") from error
    finally:
        engine.dispose()


def check(file: Path) -> None:
    """Check that a SQLite file is an undamaged database of listening tests. Raises BadFile."""
    try:
        with closing(_unchanging(file)) as connection:
            row = connection.execute("PRAGMA integrity_check").fetchone()
            connection.execute("SELECT version FROM schema_version LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise BadFile(f"the database {file.name} is damaged: {error}", "take an earlier backup") from error
    if row != ("ok",):
        raise BadFile(f"the database {file.name} is damaged: {row[0]!s:.200}", "take an earlier backup")


def counts(file: Path) -> dict[str, int]:
    """Numbers of campaigns and answers in a SQLite file that is not being changed."""
    with closing(_unchanging(file)) as connection:
        tables = {"campaigns": "campaign", "answers": "answer"}
        return {
            name: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for name, table in tables.items()
        }


def named_files(file: Path) -> set[str]:
    """Paths in ``clips`` of all clips and traces named in a SQLite file."""
    paths: set[str] = set()
    with closing(_unchanging(file)) as connection:
        for table, column, suffix in (
            ("clip", "sha", "wav"),
            ("stimulus", "trace", "trace"),
            ("take", "trace", "trace"),
        ):
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            if column in columns:  # earlier schemas lack some
                rows = connection.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
                paths |= {f"clips/{sha[:2]}/{sha}.{suffix}" for (sha,) in rows if sha}
    return paths


def load_rows(file: Path, url: str) -> None:
    """Copy all rows of a SQLite file into an empty database. Raises BadOption, BadFile."""
    try:
        with closing(Store(url)):
            source, target = _engine(f"sqlite:///{file}"), _engine(url)
            with source.connect() as rows, target.begin() as connection:
                used = [table.name for table in _tables() if connection.scalar(select(func.count()).select_from(table))]
                if used:
                    raise BadOption(
                        f"the database is not empty: it has rows in {', '.join(used)}", "restore into a new database"
                    )
                _copy_rows(rows, connection)
                _reset_sequences(connection)
            source.dispose()
            target.dispose()
    except SQLAlchemyError as error:
        raise BadFile(f"the database cannot be filled: {error_message(error)}", "see its log") from error


def _engine(url: str, **options: str) -> Engine:
    parsed = make_url(url)
    driver = "postgresql+psycopg" if parsed.get_backend_name() == "postgresql" else parsed.drivername
    return create_engine(parsed.set(drivername=driver), **options)


def _snapshot_file(file: Path, target: Path) -> None:
    if not file.is_file():
        raise BadFile(f"there is no database {file}", "give --data or --database")
    address = file
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if not is_writable(file):
                address = Path(scratch) / file.name
                copy_database(file, address)
            with closing(_opened(address)) as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        if target.exists() and "disk" in str(error):
            raise OSError(str(error)) from error
        raise BadFile(f"the database {file} cannot be read: {error}", "see who may read it") from error
    except sqlite3.DatabaseError as error:
        raise BadFile(f"the database {file} is damaged: {error}", "restore an earlier backup") from error


def _unchanging(file: Path) -> sqlite3.Connection:
    """A connection to a file that is not being changed; a normal connection would leave a WAL file."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro&immutable=1", uri=True)


def _opened(file: Path) -> sqlite3.Connection:
    """A read-only connection to a file in a writable folder."""
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, timeout=60.0)


def _snapshot_rows(url: str, target: Path) -> None:
    Store(url).close()  # migrates the schema, as every command does
    Store(f"sqlite:///{target}").close()
    try:
        source, copy = _engine(url, isolation_level="REPEATABLE READ"), _engine(f"sqlite:///{target}")
        with source.connect() as rows, copy.begin() as connection:
            _copy_rows(rows, connection)
        source.dispose()
        copy.dispose()
    except SQLAlchemyError as error:
        raise BadFile(f"the database cannot be read: {error_message(error)}", "see its log") from error
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


def _tables() -> list[Table]:
    return SQLModel.metadata.sorted_tables


def _copy_rows(source: Connection, target: Connection) -> None:
    for table in _tables():
        rows = source.execution_options(yield_per=_ROWS).execute(select(table)).mappings()
        for batch in rows.partitions(_ROWS):
            target.execute(insert(table), [dict(row) for row in batch])


def _reset_sequences(connection: Connection) -> None:
    """Set PostgreSQL's sequences after the copied rows."""
    if connection.dialect.name != "postgresql":
        return
    for table in _tables():
        for column in table.primary_key.columns:
            sequence = connection.scalar(
                text("SELECT pg_get_serial_sequence(:table, :column)"), {"table": table.name, "column": column.name}
            )
            if sequence is not None:
                most = connection.scalar(select(func.max(column)))
                if most is not None:
                    connection.execute(text("SELECT setval(:sequence, :most)"), {"sequence": sequence, "most": most})
