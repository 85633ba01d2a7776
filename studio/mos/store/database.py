"""The store: one database by URL, many readers, one writer thread with group commit.

A change is a function of a session. The writer runs all waiting changes in one transaction, each in its own savepoint,
so that one failure does not affect the others. A future is resolved only after the commit has reached the disk: an
acknowledged answer is durable, and hundreds of raters share a few syncs.
"""

import os
import queue
import sqlite3
import struct
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption, Closed, NeedsPackage, NotStored, StudioError
from studio.mos.store.migrations import migrate

try:
    import fcntl
except ImportError:
    fcntl = None

T = TypeVar("T")
_MAX_BATCH = 64  # writes that share one commit
_URGENT, _NORMAL, _CLOSE = range(3)
_WAIT_S = 30.0
_CLOSE_WAIT_S = 0.5
_WRITERS_LOCK = 0x5354_4D4F  # advisory lock of PostgreSQL writers; SQLite locks its file
_SHARED_FIRST, _SHARED_BYTES = 0x4000_0002, 510  # SQLite's reader bytes; removing the log locks all of them
STUDIO_TABLES = frozenset({"schema_version", "campaign"})  # tables that identify a studio's database


@dataclass
class Job:
    """A change and its result."""

    rank: int
    work: Callable[[Session], Any]
    done: "Future[Any]"
    result: Any = None
    error: Exception | None = None


class Store:
    """A database of listening tests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._abandoned_files: list[SqliteFiles] = []  # of databases whose files were replaced while open
        self._open()
        self._jobs: queue.PriorityQueue[tuple[int, int, Job | None]] = queue.PriorityQueue()
        self._numbers = count()  # FIFO among jobs of equal rank
        self._closed = False
        self._closing = threading.Lock()  # no job may be queued after the writer has stopped
        self._writer = threading.Thread(target=self._run_writer, name="mos-writer", daemon=True)
        self._writer.start()

    def _open(self) -> None:
        reading = _engine(self.url, writes=False)
        writing = _engine(self.url, writes=True)
        try:
            with writing.begin() as connection:
                migrate(connection)
        except SQLAlchemyError as error:
            raise BadFile(
                f"the database {_shown(self.url)} cannot be opened: {error_message(error)}",
                "check the address, or give another --database",
            ) from error
        self._files = SqliteFiles(Path(writing.url.database or "")) if writing.dialect.name == "sqlite" else None
        self._reading, self._writing = reading, writing

    @property
    def settings(self) -> dict[str, str]:
        """Durability settings of the database, printed by benchmarks."""
        with self._reading.connect() as connection:
            if connection.dialect.name != "sqlite":
                names = ("server_version", "synchronous_commit", "fsync")
                return {n: str(connection.exec_driver_sql(f"SHOW {n}").scalar_one()) for n in names}
            names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "secure_delete")
            return {n: str(connection.exec_driver_sql(f"PRAGMA {n}").scalar_one()) for n in names}

    @contextmanager
    def read(self) -> Generator[Session]:
        """A read session on a consistent snapshot; changes are discarded, loaded rows stay usable."""
        with Session(self._reading, expire_on_commit=False) as session:
            yield session

    def write(self, work: Callable[[Session], T], *, soon: bool = False) -> "Future[T]":
        """Run ``work`` in the next transaction. The future resolves once the commit is on disk, or holds the exception.

        ``soon``: run and commit before normal jobs, so that answers do not queue behind a crowd of new raters. Raises
        Closed: the store is closed.
        """
        job = Job(_URGENT if soon else _NORMAL, work, Future())
        job.done.set_running_or_notify_cancel()  # the caller cannot cancel it
        with self._closing:
            if self._closed:
                raise Closed("the database is closed", "start the server again")
            self._jobs.put((job.rank, next(self._numbers), job))
        return job.done

    def write_now(self, work: Callable[[Session], T]) -> T:
        """``write`` and wait for the result."""
        return self.write(work).result(timeout=_WAIT_S)

    def truncate_log(self, wait_s: float = _WAIT_S) -> bool:
        """Checkpoint and truncate SQLite's write-ahead log, so that deleted data is in neither file.

        Returns False if a reader holds the database for ``wait_s`` or the disk fails; no data is lost then. Does
        nothing on PostgreSQL.
        """
        if self._writing.dialect.name != "sqlite":
            return True
        connection = self._writing.raw_connection()  # a checkpoint cannot run inside a transaction
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {1000 * wait_s:.0f}")
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.execute(f"PRAGMA busy_timeout = {1000 * _WAIT_S:.0f}")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return not busy

    def close(self) -> None:
        """Finish queued jobs, then release the files. Idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._jobs.put((_CLOSE, next(self._numbers), None))
        self._writer.join(timeout=_WAIT_S)
        with suppress(SQLAlchemyError):  # a failing disk; acknowledged data stays in the log
            if self._has_its_files():
                self.truncate_log(_CLOSE_WAIT_S)  # disposing does this too, but not while a hung request reads
        if self._files is not None:
            self._files.release_log()
        self._reading.dispose()
        self._writing.dispose()
        for files in (*self._abandoned_files, *([self._files] if self._files else [])):
            files.close()

    def _run_writer(self) -> None:
        while (job := self._jobs.get()[2]) is not None:
            self._commit(job)

    def _next_job(self, rank: int) -> Job | None:
        """The next job of this rank or more urgent, if any."""
        try:
            entry = self._jobs.get_nowait()
        except queue.Empty:
            return None
        if entry[0] <= rank:
            return entry[2]
        self._jobs.put(entry)
        return None

    def _commit(self, first: Job) -> None:
        jobs, job = [first], first
        try:
            self._check_files()
            with Session(self._writing, expire_on_commit=False) as session:
                run_job(first, session)
                while len(jobs) < _MAX_BATCH and (job := self._next_job(job.rank)) is not None:
                    jobs.append(job)
                    run_job(job, session)
                session.commit()
            if not self._has_its_files():
                raise NotStored("the database's log was taken away meanwhile", "send it again")
        except (SQLAlchemyError, StudioError, OSError) as failed:  # the commit failed: no change is stored
            error = failed
            if isinstance(failed, OSError):
                error = NotStored(f"the database's files cannot be reached: {failed.strerror}", "send it again")
            for one in jobs:
                one.error = one.error or error
        resolve(jobs)

    def _has_its_files(self) -> bool:
        return self._files is None or self._files.is_intact()

    def _check_files(self) -> None:
        """Reopen the database if its files were replaced. Raises NotStored while there is no file, BadFile.

        The old connections are closed while their files are still locked: none of them may write an old log into a
        database that has changed since.
        """
        if self._has_its_files():
            return
        assert self._files is not None
        if self._files.is_missing:
            raise NotStored("the database's file is gone", "put it back, or start the studio with another --database")
        before, engines = self._files, (self._reading, self._writing)
        self._open()
        self._abandoned_files.append(before)
        for engine in engines:
            engine.dispose()


def schema_version(url: str) -> int | None:
    """Schema version of a database, None without a studio's tables; never creates tables. Raises BadOption, BadFile."""
    engine = _engine(url, writes=False)
    try:
        with engine.connect() as connection:
            if not set(inspect(connection).get_table_names()) >= STUDIO_TABLES:
                return None
            return connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one()
    except SQLAlchemyError as error:
        raise BadFile(
            f"the database {_shown(url)} cannot be opened: {error_message(error)}", "check the address"
        ) from error
    finally:
        engine.dispose()


def run_job(job: Job, session: Session) -> None:
    """Run a job in a savepoint of its own."""
    savepoint = session.begin_nested()
    try:
        job.result = job.work(session)
        session.flush()
        savepoint.commit()
    except Exception as error:  # noqa: BLE001 - passed to the caller by its future
        savepoint.rollback()
        job.error = error
    session.expunge_all()  # the next job must not see cached rows


def resolve(jobs: list[Job]) -> None:
    """Give the results to the callers."""
    for job in jobs:
        if job.done.done():
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)


def _engine(url: str, writes: bool) -> Engine:
    """An engine with snapshot reads, and with writers serialised across processes."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise BadOption(
            f"{url!r} is not a database address", "give sqlite:///FILE or postgresql+psycopg://..."
        ) from error
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise BadOption("a database in memory forgets every answer", "give sqlite:///FILE")
        engine = create_engine(parsed, connect_args={"timeout": _WAIT_S, "check_same_thread": False})
        event.listen(engine, "connect", sqlite_settings)
        event.listen(engine, "begin", _begin_with("BEGIN IMMEDIATE" if writes else "BEGIN"))
        return engine
    if parsed.get_backend_name() != "postgresql":
        raise BadOption(f"databases of {parsed.get_backend_name()} are not known", "use sqlite or postgresql")
    isolation = "READ COMMITTED" if writes else "REPEATABLE READ"
    try:
        engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True, isolation_level=isolation
        )
    except ImportError as error:
        raise NeedsPackage("PostgreSQL needs psycopg", "pip install 'streaming-tts-studio[postgres]'") from error
    event.listen(engine, "connect", _postgresql_settings)
    if writes:
        event.listen(engine, "begin", _begin_with(f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"))
    return engine


def _begin_with(statement: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


def sqlite_settings(connection: Any, _record: Any) -> None:
    """Settings of a new connection to SQLite."""
    connection.isolation_level = None  # we issue BEGIN ourselves
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={1000 * _WAIT_S:.0f}",
        "secure_delete=ON",  # deleted data is overwritten with zeros: an erased rater is not in the file
    ):
        connection.execute(f"PRAGMA {pragma}")


def _postgresql_settings(connection: Any, _record: Any) -> None:
    connection.execute("SET synchronous_commit = on")
    connection.execute(f"SET lock_timeout = '{_WAIT_S:.0f}s'")
    connection.commit()  # SET is undone by a rollback


def _shown(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def error_message(error: SQLAlchemyError) -> str:
    """The database's error message in one line."""
    return str(getattr(error, "orig", None) or error).splitlines()[0]


class SqliteFiles:
    """Locks and watches the files of one SQLite database; created once its write-ahead log exists.

    SQLite's last connection removes the log on closing. It detects other connections by POSIX locks, which a process
    loses as soon as it closes *any* descriptor of the file: after one read of the database file in the server and one
    command-line call, the server would write into an unlinked log.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(database.name + "-wal")
        self._descriptor = os.open(database, os.O_RDONLY)
        self._lock(True)
        self._known = self._file_ids()

    def is_intact(self) -> bool:
        """Whether the paths still name the files that were opened."""
        seen = self._file_ids()
        if self._known[1] is None:
            self._known = (self._known[0], seen[1])  # there is no log before the first write
        return seen == self._known

    @property
    def is_missing(self) -> bool:
        """Whether the database file does not exist."""
        return not self._database.exists()

    def release_log(self) -> None:
        """Allow removal of the log, also by our own connections, which must be closed before ``close``."""
        self._lock(False)

    def close(self) -> None:
        """Close the descriptor; call only after all connections of this process are closed."""
        os.close(self._descriptor)

    def _file_ids(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        return _identity(self._database), _identity(self._log)

    def _lock(self, held: bool) -> None:
        """Take or release a read lock of the open file description, which closing another descriptor does not drop."""
        if fcntl is None or not hasattr(fcntl, "F_OFD_SETLK"):  # Linux only; elsewhere files are only watched
            return
        kind = fcntl.F_RDLCK if held else fcntl.F_UNLCK
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0)
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, lock)


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
