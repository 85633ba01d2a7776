"""The store: one database by URL, many readers, one writer thread with group commit.

A change is a function of a session. The writer runs all waiting changes in one transaction, each in its own savepoint,
so that one failure does not affect the others. A future is resolved only after the commit has reached the disk: an
acknowledged answer is durable, and hundreds of raters share a few syncs.
"""

import queue
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption, Closed, NeedsPackage, NotStored, StudioError, Unavailable
from studio.mos.store.migrations import MIGRATIONS, migrate
from studio.mos.store.problems import DamagedDatabase, DatabaseLocked, database_problem, is_locked
from studio.mos.store.sqlite_files import SqliteFiles, copy_database, is_writable

T = TypeVar("T")
_MAX_BATCH = 64  # writes that share one commit
_URGENT, _NORMAL, _CLOSE = range(3)
_LOCK_WAIT_S = 6.0  # for another process; a request is answered within 10 s
_WAIT_S = 30.0  # for our own writer
_CLOSE_WAIT_S = 0.5
_WRITERS_LOCK = 0x5354_4D4F  # advisory lock of PostgreSQL writers; SQLite locks its file
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
    """A database of listening tests.

    A SQLite database in a read-only folder or on a full disk is opened read-only: its files are copied to a temporary
    folder, since SQLite must create files next to a database; ``write`` then raises Unavailable. Opening a database of
    the current schema needs no lock. Raises BadFile, Unavailable: it cannot be opened.
    """

    def __init__(self, url: str, max_cell_bytes: int | None = None) -> None:
        """``max_cell_bytes``: reading a longer value or row of a SQLite file fails."""
        self.url, self._max_cell_bytes = url, max_cell_bytes
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.is_read_only = (file := _sqlite_file(url)) is not None and file.exists() and not is_writable(file)
        if file is not None and self.is_read_only:
            self._scratch = tempfile.TemporaryDirectory(prefix="studio-read-only-")
            copy = Path(self._scratch.name) / "studio.sqlite"
            try:
                copy_database(file, copy)
            except BaseException:
                self._scratch.cleanup()
                raise
            self.url = f"sqlite:///{copy}"
        self._abandoned_files: list[SqliteFiles] = []  # of databases whose files were replaced while open
        self._open()
        self._jobs: queue.PriorityQueue[tuple[int, int, Job | None]] = queue.PriorityQueue()
        self._numbers = count()  # FIFO among jobs of equal rank
        self._closed = False
        self._closing = threading.Lock()  # no job may be queued after the writer has stopped
        self._writer = threading.Thread(target=self._run_writer, name="mos-writer", daemon=True)
        self._writer.start()

    def _open(self) -> None:
        reading, writing = (_engine(self.url, writes, self._max_cell_bytes) for writes in (False, True))
        try:
            with reading.connect() as connection:
                is_current = _version(connection) == len(MIGRATIONS)
            if not is_current:
                with writing.begin() as connection:
                    migrate(connection)
        except SQLAlchemyError as error:
            raise _not_opened(self.url, error) from error
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
        Closed: the store is closed; Unavailable: its folder is read-only.
        """
        if self.is_read_only:
            raise Unavailable(
                "the data folder is read-only, or its disk is full", "make room, or copy it and give the copy as --data"
            )
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

    def truncate_log(self, wait_s: float = _LOCK_WAIT_S) -> bool:
        """Checkpoint and truncate SQLite's write-ahead log, so that deleted data is in neither file.

        Returns False if a reader holds the database for ``wait_s`` or the disk fails; no data is lost then. Does
        nothing on PostgreSQL.
        """
        if self._writing.dialect.name != "sqlite":
            return True
        try:
            connection = self._writing.raw_connection()  # a checkpoint cannot run inside a transaction
        except (sqlite3.Error, SQLAlchemyError):  # SQLAlchemy raises the driver's own error here
            return False
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {1000 * wait_s:.0f}")
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.execute(f"PRAGMA busy_timeout = {1000 * _LOCK_WAIT_S:.0f}")
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
        if self._scratch is not None:
            self._scratch.cleanup()

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
                session.connection()  # take the lock once here; otherwise each job waits for it in turn
                run_job(first, session)
                while len(jobs) < _MAX_BATCH and (job := self._next_job(job.rank)) is not None:
                    jobs.append(job)
                    run_job(job, session)
                session.commit()
            if not self._has_its_files():
                raise NotStored("the database's files were removed or replaced during the commit", "send it again")
        except (SQLAlchemyError, StudioError, OSError) as failed:  # the commit failed: no change is stored
            error = failed
            if isinstance(failed, OSError):
                error = NotStored(f"the database's files cannot be reached: {failed.strerror}", "send it again")
            if is_locked(error):  # fail the queued jobs as well: otherwise each would wait for the lock in turn
                while (waiting := self._next_job(_NORMAL)) is not None:
                    jobs.append(waiting)
            for one in jobs:
                one.error = one.error or error
        resolve(jobs)

    def _has_its_files(self) -> bool:
        return self._files is None or self._files.is_intact()

    def _check_files(self) -> None:
        """Reopen the database if its files were replaced. Raises NotStored while there is no file, BadFile.

        The old connections are closed while their files are still locked, so that none of them writes an old log into a
        database that has changed since.
        """
        if self._has_its_files():
            return
        assert self._files is not None
        if self._files.is_missing:
            raise NotStored("the database's file is gone", "put it back, or start the studio with another --database")
        if self._files.is_log_away:  # our connections still have it open: checkpoint it into the database
            self.truncate_log(_CLOSE_WAIT_S)
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
            return _version(connection)
    except SQLAlchemyError as error:
        raise _not_opened(url, error) from error
    finally:
        engine.dispose()


def _version(connection: Connection) -> int | None:
    if not set(inspect(connection).get_table_names()) >= STUDIO_TABLES:
        return None
    return connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one()


def _not_opened(url: str, error: SQLAlchemyError) -> StudioError:
    """The error for a database that cannot be opened; it names a lock or damage as the cause."""
    problem, what = database_problem(error), f"the database {_without_password(url)} cannot be opened"
    if isinstance(problem, DatabaseLocked):
        return DatabaseLocked(f"{what}: {problem.what}", problem.do)
    if isinstance(problem, DamagedDatabase):
        return BadFile(f"{what}: {problem.what}", problem.do)
    return BadFile(f"{what}: {error_message(error)}", "check the address, or give another --database")


def _sqlite_file(url: str) -> Path | None:
    parsed = _parsed(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def run_job(job: Job, session: Session) -> None:
    """Run a job in its own savepoint."""
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
    """Resolve the futures of the jobs."""
    for job in jobs:
        if job.done.done():
            continue
        error = job.error
        if isinstance(error, OperationalError) or type(error) is DatabaseError:  # caused by the disk or a lock
            error = database_problem(error)
        if error is not None:
            job.done.set_exception(error)
        else:
            job.done.set_result(job.result)


def _engine(url: str, writes: bool, max_cell_bytes: int | None = None) -> Engine:
    """An engine with snapshot reads, and with writers serialised across processes."""
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise BadOption("an in-memory database does not keep answers", "give sqlite:///FILE")
        engine = create_engine(parsed, connect_args={"timeout": _LOCK_WAIT_S, "check_same_thread": False})
        event.listen(engine, "connect", sqlite_settings)
        if max_cell_bytes is not None:
            event.listen(engine, "connect", _with_limit(max_cell_bytes))
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


def _with_limit(max_cell_bytes: int) -> Callable[[sqlite3.Connection, Any], None]:
    def limit(connection: sqlite3.Connection, _: Any) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_cell_bytes)

    return limit


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
        f"busy_timeout={1000 * _LOCK_WAIT_S:.0f}",
        "secure_delete=ON",  # deleted data is overwritten with zeros: an erased rater is not in the file
    ):
        connection.execute(f"PRAGMA {pragma}")


def _postgresql_settings(connection: Any, _record: Any) -> None:
    connection.execute("SET synchronous_commit = on")
    connection.execute(f"SET lock_timeout = '{_LOCK_WAIT_S:.0f}s'")
    connection.commit()  # SET is undone by a rollback


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as error:
        raise BadOption(
            f"{url!r} is not a database address", "give sqlite:///FILE or postgresql+psycopg://..."
        ) from error


def _without_password(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)


def error_message(error: SQLAlchemyError) -> str:
    """The database's error message in one line."""
    return str(getattr(error, "orig", None) or error).splitlines()[0]
