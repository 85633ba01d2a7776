"""Errors of a database as errors that name the problem; messages hold no values, since raters may have typed them."""

import sqlite3
from collections.abc import Mapping

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from studio.core.errors import NotStored, StudioError, Unavailable

AGAIN = "nothing is lost; it may be sent again"


class DamagedDatabase(Unavailable, code="damaged_database"):
    """The file is not a database, or its content is inconsistent."""


class DatabaseLocked(NotStored, code="not_stored"):
    """Another process held the database's lock for too long."""


# by primary result code (https://sqlite.org/rescode.html)
_SQLITE: Mapping[int, tuple[type[StudioError], str, str]] = {
    sqlite3.SQLITE_BUSY: (DatabaseLocked, "the database is locked by another process", AGAIN),
    sqlite3.SQLITE_LOCKED: (DatabaseLocked, "the database is locked by another process", AGAIN),
    sqlite3.SQLITE_FULL: (NotStored, "the disk of the database is full", f"free some space on it; {AGAIN}"),
    sqlite3.SQLITE_IOERR: (NotStored, "I/O error on the disk of the database", f"check the disk; {AGAIN}"),
    sqlite3.SQLITE_READONLY: (Unavailable, "the database cannot be written", "see who may write its file and folder"),
    sqlite3.SQLITE_CANTOPEN: (Unavailable, "the database cannot be opened", "see who may read its file and folder"),
    sqlite3.SQLITE_PERM: (Unavailable, "the database cannot be opened", "see who may read its file and folder"),
    sqlite3.SQLITE_CORRUPT: (DamagedDatabase, "the database is damaged", "restore a backup: `studio restore`"),
    sqlite3.SQLITE_NOTADB: (DamagedDatabase, "this file is not a database", "restore a backup: `studio restore`"),
}
# by class or code (https://www.postgresql.org/docs/current/errcodes-appendix.html)
_POSTGRESQL: Mapping[str, tuple[type[StudioError], str, str]] = {
    "55P03": _SQLITE[sqlite3.SQLITE_BUSY],
    "53100": _SQLITE[sqlite3.SQLITE_FULL],
    "25006": _SQLITE[sqlite3.SQLITE_READONLY],
    "XX": _SQLITE[sqlite3.SQLITE_CORRUPT],
}


def database_problem(error: SQLAlchemyError) -> StudioError:
    """The StudioError for a database error."""
    original = getattr(error, "orig", None) if isinstance(error, DBAPIError) else None
    problem = None
    if isinstance(original, sqlite3.Error):
        problem = _SQLITE.get(getattr(original, "sqlite_errorcode", 0) & 0xFF)  # primary code of an extended one
    elif state := getattr(original, "sqlstate", None):
        problem = _POSTGRESQL.get(state) or _POSTGRESQL.get(state[:2])
    kind, what, do = problem or (NotStored, "the database rejected the change", "it may be sent again")
    return kind(what, do)


def is_locked(error: Exception) -> bool:
    """Whether another process held the database's lock for too long."""
    return isinstance(error, SQLAlchemyError) and isinstance(database_problem(error), DatabaseLocked)
