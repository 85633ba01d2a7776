"""The search index of the library, which can be rebuilt from its folder at any time.

A new index is built under another name and replaces the old one when it is complete. Other processes detect the
replacement by the inode and reconnect.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Engine, create_engine, event, text
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import registry
from sqlmodel import Field, Session, SQLModel, col, delete, exists, func, select

from studio.core.errors import BadOption, Unavailable
from studio.library.entries import EntryNote, LibraryEntry

SCHEMA = 2  # a file of another version is rebuilt (1 may be incomplete)
_AFTER_DIGITS = "g"  # follows every hexadecimal digit
BUSY_MS = 5_000  # longest wait for another process; a request is answered within 10 s


class _Base(SQLModel, registry=registry()):
    """Metadata separate from the tables of listening tests."""


class IndexedEntry(_Base, table=True):
    """An entry; ``folded`` is its case-folded text and title, for search."""

    __tablename__ = "kept"  # pyright: ignore[reportAssignmentType]

    sha256: str = Field(primary_key=True)
    kind: str
    title: str
    text: str
    folded: str
    voice: str = Field(index=True)
    speaker: str
    family: str
    vocoder: str
    options: str
    source: str
    words: int
    duration_ms: float
    size_bytes: int
    added_at: float = Field(index=True)


_SHARED_FIELDS = IndexedEntry.model_fields.keys() & {one.name for one in fields(LibraryEntry)} - {"options"}


class EntryTag(_Base, table=True):
    __tablename__ = "tagged"  # pyright: ignore[reportAssignmentType]

    sha256: str = Field(primary_key=True)
    tag: str = Field(primary_key=True, index=True)


@dataclass(frozen=True, kw_only=True)
class Query:
    """Search conditions, all of which must hold.

    Attributes:
        text: words, each anywhere in text or title, case-insensitive.
        voice: ``name`` or ``name:speaker``.
        since_s, until_s: Unix seconds between which it was added, the first inclusive.
    """

    text: str = ""
    voice: str = ""
    tag: str = ""
    since_s: float | None = None
    until_s: float | None = None
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 1000 or not 0 <= self.offset < 1 << 31:
            raise BadOption(f"limit {self.limit} or offset {self.offset} is out of range", "limit is 1 to 1000")


class Index:
    """Entries in one SQLite file, which another process may replace at any time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._engine = _connect(file)
        self._identity: tuple[int, int] | None = None
        self._identity_lock = threading.Lock()

    @classmethod
    def create(cls, file: Path) -> "Index":
        """A new, empty index; ``file`` must not exist."""
        index = cls(file)
        with index._engine.begin() as connection:
            _Base.metadata.create_all(connection)
            connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))
        return index

    def is_usable(self) -> bool:
        """Whether the file is an undamaged database of this version. Raises Unavailable."""
        if not self.file.is_file():
            return False
        try:
            with self._engine.connect() as connection:
                version = connection.execute(text("PRAGMA user_version")).scalar_one()
                return version == SCHEMA and connection.execute(text("PRAGMA quick_check(1)")).scalar_one() == "ok"
        except OperationalError as error:  # locked or a disk error, not damage
            raise _unavailable(error) from error
        except DatabaseError:
            return False

    def close(self) -> None:
        self._engine.dispose()

    def put(self, entries: Iterable[LibraryEntry]) -> None:
        """Add or replace entries."""
        with self._session() as session:
            for one in entries:
                _delete(session, one.sha256)
                session.add(_row(one))
                session.add_all(EntryTag(sha256=one.sha256, tag=tag) for tag in one.note.tags)

    def remove(self, sha256: str) -> None:
        with self._session() as session:
            _delete(session, sha256)

    def find(self, query: Query) -> tuple[list[LibraryEntry], int]:
        """A page of matching entries, the newest first, and the number of all matches."""
        conditions = list(_conditions(query))
        with self._session() as session:
            count = session.exec(select(func.count()).select_from(IndexedEntry).where(*conditions)).one()
            newest = (
                select(IndexedEntry)
                .where(*conditions)
                .order_by(col(IndexedEntry.added_at).desc(), col(IndexedEntry.sha256))
            )
            rows = session.exec(newest.offset(query.offset).limit(query.limit)).all()
            return _entries(session, rows), count

    def find_by_prefix(self, start: str, limit: int = 2) -> list[LibraryEntry]:
        """Entries whose SHA-256 begins with ``start``, at most ``limit``."""
        with self._session() as session:
            name = col(IndexedEntry.sha256)  # a range, since LIKE reads the whole table
            rows = session.exec(select(IndexedEntry).where(name >= start, name < start + _AFTER_DIGITS).limit(limit))
            return _entries(session, rows.all())

    def find_all(self, names: Sequence[str]) -> list[LibraryEntry]:
        """The existing entries with these SHA-256, in any order."""
        with self._session() as session:
            rows = session.exec(select(IndexedEntry).where(col(IndexedEntry.sha256).in_(names))).all()
            return _entries(session, rows)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag with its number of entries, sorted by name."""
        with self._session() as session:
            counted = select(EntryTag.tag, func.count()).group_by(EntryTag.tag).order_by(EntryTag.tag)
            return [(tag, count) for tag, count in session.exec(counted)]

    def voices(self) -> list[str]:
        """Every voice as ``name:speaker``, and also as ``name`` where it has several speakers."""
        with self._session() as session:
            named = select(IndexedEntry.voice, IndexedEntry.speaker).where(IndexedEntry.voice != "").distinct()
            voices = sorted(tuple(row) for row in session.exec(named))
        of = Counter(voice for voice, _ in voices)
        several = [voice for voice, count in of.items() if count > 1]
        return sorted({*several, *(f"{voice}:{speaker}" if speaker else voice for voice, speaker in voices)})

    @contextmanager
    def _session(self) -> Iterator[Session]:
        self._reconnect()
        try:
            with Session(self._engine) as session, session.begin():
                yield session
        except DatabaseError as error:
            raise _unavailable(error) from error

    def _reconnect(self) -> None:
        """Drop connections to a replaced file. Raises Unavailable where the file is missing."""
        try:
            status = self.file.stat()
        except OSError as error:
            raise Unavailable(
                f"the index of the library cannot be opened: {error.strerror}", "run `studio library rebuild`"
            ) from error
        identity = (status.st_dev, status.st_ino)
        with self._identity_lock:
            if self._identity != identity:
                self._engine.dispose()
                self._identity = identity


def _unavailable(error: DatabaseError) -> Unavailable:
    do = "make room on the disk, or run `studio library rebuild`"
    return Unavailable(f"the index of the library cannot be used: {error.orig or error}", do)


def _connect(file: Path) -> Engine:
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def set_timeout(connection: Any, _: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    return engine


def _delete(session: Session, sha256: str) -> None:
    session.exec(delete(EntryTag).where(col(EntryTag.sha256) == sha256))
    session.exec(delete(IndexedEntry).where(col(IndexedEntry.sha256) == sha256))


def _conditions(query: Query) -> Iterator[ColumnElement[bool]]:
    for word in query.text.casefold().split():
        yield col(IndexedEntry.folded).contains(word, autoescape=True)
    voice, _, speaker = query.voice.partition(":")
    if voice:
        yield col(IndexedEntry.voice) == voice
    if speaker:
        yield col(IndexedEntry.speaker) == speaker
    if query.tag:
        yield exists().where(col(EntryTag.sha256) == col(IndexedEntry.sha256), col(EntryTag.tag) == query.tag)
    if query.since_s is not None:
        yield col(IndexedEntry.added_at) >= query.since_s
    if query.until_s is not None:
        yield col(IndexedEntry.added_at) < query.until_s


def _row(one: LibraryEntry) -> IndexedEntry:
    return IndexedEntry(
        **{name: getattr(one, name) for name in _SHARED_FIELDS},
        title=one.note.title,
        folded=f"{one.note.title}\n{one.text}".casefold(),
        options=json.dumps(dict(one.options)),
        added_at=one.note.added_at,
    )


def _entries(session: Session, rows: Sequence[IndexedEntry]) -> list[LibraryEntry]:
    names = [row.sha256 for row in rows]
    tags: dict[str, list[str]] = {name: [] for name in names}
    for one in session.exec(select(EntryTag).where(col(EntryTag.sha256).in_(names)).order_by(EntryTag.tag)):
        tags[one.sha256].append(one.tag)
    return [
        LibraryEntry(
            **{name: getattr(row, name) for name in _SHARED_FIELDS},
            options=json.loads(row.options),
            note=EntryNote(
                row.title, row.text if row.kind == "recording" else "", tuple(tags[row.sha256]), row.added_at
            ),
        )
        for row in rows
    ]
