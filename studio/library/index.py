"""The index of the library: made from its folder, and made again from it at any time.

A new index is made under another name and takes the place of the old one when it is complete. Whoever has the old one
open notices that by its inode and opens the new one.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Engine, create_engine, event, text
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import registry
from sqlmodel import Field, Session, SQLModel, col, delete, exists, func, select

from studio.core.errors import BadOption, Unavailable
from studio.library.entries import Entry, Note

SCHEMA = 2  # another number in the file: it is made anew (1 may be incomplete: a rebuild began by emptying it)
BUSY_MS = 10_000


class _Base(SQLModel, registry=registry()):
    """Tables of the library alone: those of the listening tests live in another database."""


class Kept(_Base, table=True):
    """An entry; ``folded`` is its text and title without case, for search."""

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


_ALIKE = Kept.model_fields.keys() & {one.name for one in fields(Entry)} - {"options"}


class Tagged(_Base, table=True):
    """A tag of an entry."""

    sha256: str = Field(primary_key=True)
    tag: str = Field(primary_key=True, index=True)


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is looked for; all of it must hold.

    Attributes:
        text: words, each of them somewhere in text or title, in any case.
        voice: ``name`` or ``name:speaker``.
        tag: that it has.
        since, until: days (UTC) on which it was kept, both inclusive.
    """

    text: str = ""
    voice: str = ""
    tag: str = ""
    since: date | None = None
    until: date | None = None
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= 1000 or not 0 <= self.offset < 1 << 31:
            raise BadOption(f"limit {self.limit} or offset {self.offset} is out of range", "limit is 1 to 1000")


class Index:
    """Entries in one SQLite file, which another program may replace at any time."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._engine = _connected(file)
        self._identity: tuple[int, int] | None = None
        self._checking = threading.Lock()

    @classmethod
    def create(cls, file: Path) -> "Index":
        """A new one, empty; ``file`` must not be there."""
        index = cls(file)
        with index._engine.begin() as connection:
            _Base.metadata.create_all(connection)
            connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))
        return index

    def is_usable(self) -> bool:
        """Whether there is an undamaged database with the tables of this version. Raises Unavailable."""
        if not self.file.is_file():
            return False
        try:
            with self._engine.connect() as connection:
                version = connection.execute(text("PRAGMA user_version")).scalar_one()
                return version == SCHEMA and connection.execute(text("PRAGMA quick_check(1)")).scalar_one() == "ok"
        except OperationalError as error:  # locked, or the disk failed: not damaged
            raise _unavailable(error) from error
        except DatabaseError:
            return False

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()

    def put(self, entries: Iterable[Entry]) -> None:
        """Add entries, or replace those of the same name."""
        with self._session() as session:
            for one in entries:
                _forget(session, one.sha256)
                session.add(_row(one))
                session.add_all(Tagged(sha256=one.sha256, tag=tag) for tag in one.note.tags)

    def remove(self, sha256: str) -> None:
        """Forget an entry."""
        with self._session() as session:
            _forget(session, sha256)

    def find(self, query: Query) -> tuple[list[Entry], int]:
        """A page of what fits, the newest first, and how many fit in all."""
        wanted = list(_conditions(query))
        with self._session() as session:
            count = session.exec(select(func.count()).select_from(Kept).where(*wanted)).one()
            newest = select(Kept).where(*wanted).order_by(col(Kept.added_at).desc(), col(Kept.sha256))
            rows = session.exec(newest.offset(query.offset).limit(query.limit)).all()
            return _entries(session, rows), count

    def named(self, start: str, most: int = 2) -> list[Entry]:
        """Entries whose name begins so; ``start`` is hexadecimal."""
        with self._session() as session:
            rows = session.exec(select(Kept).where(col(Kept.sha256).startswith(start)).limit(most)).all()
            return _entries(session, rows)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag and how many have it, by name."""
        with self._session() as session:
            counted = select(Tagged.tag, func.count()).group_by(Tagged.tag).order_by(Tagged.tag)
            return [(tag, count) for tag, count in session.exec(counted)]

    def voices(self) -> list[str]:
        """Every voice as ``name:speaker``, and where it has several speakers as ``name`` too."""
        with self._session() as session:
            named = select(Kept.voice, Kept.speaker).where(Kept.voice != "").distinct()
            found = sorted(tuple(row) for row in session.exec(named))
        of = Counter(voice for voice, _ in found)
        several = [voice for voice, count in of.items() if count > 1]
        return sorted({*several, *(f"{voice}:{speaker}" if speaker else voice for voice, speaker in found)})

    @contextmanager
    def _session(self) -> Iterator[Session]:
        self._follow()
        try:
            with Session(self._engine) as session, session.begin():
                yield session
        except DatabaseError as error:
            raise _unavailable(error) from error

    def _follow(self) -> None:
        """Leave the connections to a file that was replaced. Raises Unavailable where there is none."""
        try:
            status = self.file.stat()
        except OSError as error:
            raise Unavailable(
                f"the index of the library cannot be opened: {error.strerror}", "run `studio library rebuild`"
            ) from error
        identity = (status.st_dev, status.st_ino)
        with self._checking:
            if self._identity != identity:
                self._engine.dispose()
                self._identity = identity


def _unavailable(error: DatabaseError) -> Unavailable:
    do = "make room on the disk, or run `studio library rebuild`"
    return Unavailable(f"the index of the library cannot be used: {error.orig or error}", do)


def _connected(file: Path) -> Engine:
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def waits(connection: Any, _: Any) -> None:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    return engine


def _forget(session: Session, sha256: str) -> None:
    session.exec(delete(Tagged).where(col(Tagged.sha256) == sha256))
    session.exec(delete(Kept).where(col(Kept.sha256) == sha256))


def _conditions(query: Query) -> Iterator[ColumnElement[bool]]:
    for word in query.text.casefold().split():
        yield col(Kept.folded).contains(word, autoescape=True)
    voice, _, speaker = query.voice.partition(":")
    if voice:
        yield col(Kept.voice) == voice
    if speaker:
        yield col(Kept.speaker) == speaker
    if query.tag:
        yield exists().where(col(Tagged.sha256) == col(Kept.sha256), col(Tagged.tag) == query.tag)
    if query.since:
        yield col(Kept.added_at) >= _midnight(query.since)
    if query.until:
        yield col(Kept.added_at) < _midnight(query.until) + 86_400.0


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


def _row(one: Entry) -> Kept:
    return Kept(
        **{name: getattr(one, name) for name in _ALIKE},
        title=one.note.title,
        folded=f"{one.note.title}\n{one.text}".casefold(),
        options=json.dumps(dict(one.options)),
        added_at=one.note.added_at,
    )


def _entries(session: Session, rows: Sequence[Kept]) -> list[Entry]:
    names = [row.sha256 for row in rows]
    tags: dict[str, list[str]] = {name: [] for name in names}
    for one in session.exec(select(Tagged).where(col(Tagged.sha256).in_(names)).order_by(Tagged.tag)):
        tags[one.sha256].append(one.tag)
    return [
        Entry(
            **{name: getattr(row, name) for name in _ALIKE},
            options=json.loads(row.options),
            note=Note(row.title, row.text if row.kind == "recording" else "", tuple(tags[row.sha256]), row.added_at),
        )
        for row in rows
    ]
