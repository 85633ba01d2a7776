"""Every way in which the studio acknowledges that it saved something, behind one interface for faults of the disk."""

import json
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from inspection.spoken import RATE_HZ, pcm, story
from mos.world import ACR, SystemSpec, World
from sqlalchemy import create_engine, text
from sqlmodel import select

from studio.annotation.edits import Edit, PutLayer, PutMark
from studio.annotation.layers import Layer, Mark
from studio.core.clips import read_wav, wav_bytes
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_writer import TraceWriter
from studio.library import annotations
from studio.library.entries import Entry
from studio.library.index import Query
from studio.library.library import Library
from studio.mos.campaign.config import from_json
from studio.mos.exchange.other_database import merge_from
from studio.mos.making.editing import change_settings, new_draft
from studio.mos.service import open_listening
from studio.mos.store import migrations
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.answers import Answer
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.trials import Trial
from studio.serve.mos.drafts.sounds import DraftSounds
from studio.serve.traces.shelf import TraceShelf

LAYER = PutLayer("l1", "faults", "regions", ())


class WritePath(ABC):
    """One way to save items, opened as a server opens it.

    Attributes:
        replaces: the format of an item's name where each takes the place of the one before, and only the last is read.
        reads_when_full: a new process can read while the disk takes nothing.
    """

    replaces: ClassVar[str] = ""
    reads_when_full: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self, number: int) -> None:  # noqa: B027 - most have nothing to prepare
        """What is done before item ``number`` is saved, on a disk that works."""

    @abstractmethod
    def save(self, number: int) -> str:
        """Save an item; returns its name once it is acknowledged. The same number again is the same item."""

    def close(self) -> None:  # noqa: B027 - files are closed after each write
        """Close what was opened."""

    @classmethod
    @abstractmethod
    def read(cls, root: Path) -> set[str]:
        """The names of all items that a new process reads; raises where one cannot be read."""


def recording(number: int, frames: int = 3) -> bytes:
    """A WAV of its own for each number."""
    return wav_bytes(pcm(frames) + np.int16(number), RATE_HZ)


class _InLibrary(WritePath):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.library = Library(root / "library")

    def close(self) -> None:
        self.library.close()

    def entry(self, number: int) -> Entry:
        """Utterance ``number``, kept where it is missing."""
        return self.library.keep(recording(number), f"Text {number}")


class Edits(_InLibrary):
    """An annotator's edits, each a line behind the others."""

    def prepare(self, number: int) -> None:
        self.kept = self.entry(0)

    def save(self, number: int) -> str:
        changes = (*([LAYER] if not self.library.document(self.kept, "a").layers else []), self.mark(number))
        self.library.annotate(self.kept, "a", Edit(f"e{number}", changes, at=1.0))
        return f"m{number}"

    def mark(self, number: int) -> PutMark:
        return PutMark("l1", Mark(number, number + 1, id=f"m{number}"))

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            entry = library.find(Query())[0][0]
            return {mark for layer in library.document(entry, "a").layers.values() for mark in layer.marks}


class FirstEdits(_InLibrary):
    """The first edit of an annotator, which makes the journal."""

    PEOPLE = 50

    def prepare(self, number: int) -> None:
        self.kept = self.entry(number // self.PEOPLE)

    def save(self, number: int) -> str:
        changes = (LAYER, PutMark("l1", Mark(0, 9, id="m")))
        self.library.annotate(self.kept, f"a{number}", Edit("e", changes, at=1.0))
        return f"a{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            found = [library.annotations.of(entry.sha256) for entry in library.find(Query())[0]]
            return {document.annotator for documents in found for document in documents if document.marks == 1}


class CompactedEdits(Edits):
    """Edits after each of which the journal is written anew."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        annotations.MAX_EDITS = -1_000_000


class Keeps(_InLibrary):
    """Utterances that are kept: a sound, a note, a row of the index."""

    def save(self, number: int) -> str:
        return self.entry(number).sha256

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            entries = library.find(Query(limit=1000))[0]
            assert all(library.read(entry) and library.open(entry).pcm.size for entry in entries)
            return {entry.sha256 for entry in entries if entry.text.startswith("Text ")}


class Notes(_InLibrary):
    """Titles of a kept utterance, each in the place of the one before."""

    replaces = "t{}"

    def prepare(self, number: int) -> None:
        self.kept = self.library.find(Query())[0][0] if number else self.entry(0)

    def save(self, number: int) -> str:
        return self.library.note(self.kept, title=f"t{number}").note.title

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            return {library.find(Query())[0][0].note.title}


class Rebuilds(_InLibrary):
    """Indexes that take the place of another: no kept utterance is missing from any of them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        if not self.library.find(Query())[1]:
            for number in range(5):
                self.entry(number)

    def save(self, number: int) -> str:
        assert self.library.rebuild() == (5, [])
        return "all"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            return {"all"} if library.find(Query())[1] == 5 else set()


class Assignments(_InLibrary):
    """Assignments, a file each."""

    def save(self, number: int) -> str:
        layers = [Layer("faults", "regions", ())]
        return self.library.assignments.make(f"t{number}", "Mark faults.", layers, ["0" * 64], ["Anna"]).id

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            ids = [path.stem for path in (root / "library/assignments").glob("*.json")]
            return {library.assignments.get(name).id for name in ids}


class Clips(WritePath):
    """Clips of listening tests, by content, and traces beside them."""

    def save(self, number: int) -> str:
        folder = ClipFolder(self.root / "clips")
        return folder.add_trace(recording(number)) if number % 2 else folder.add(pcm(1) + np.int16(number), RATE_HZ)

    @classmethod
    def read(cls, root: Path) -> set[str]:
        folder = ClipFolder(root / "clips")
        for path in (root / "clips").glob("*/*.wav"):
            folder.read(path.stem)
        traces = [path for path in (root / "clips").glob("*/*.trace") if read_wav(path)]
        return {path.stem for path in [*(root / "clips").glob("*/*.wav"), *traces]}


class Traces(WritePath):
    """Traces of spoken utterances, kept for their listener."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.shelf = TraceShelf(root / "traces", 10_000, 10**9)

    def save(self, number: int) -> str:
        return self.shelf.put(_trace())

    @classmethod
    def read(cls, root: Path) -> set[str]:
        shelf = TraceShelf(root / "traces", 10_000, 10**9)
        tokens = {path.stem for path in (root / "traces").glob("*.trace")}
        assert all(len(open_trace(shelf.path(token)).pcm) for token in tokens)
        return tokens


@cache
def _trace() -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        writer = TraceWriter(Path(folder) / "a", {})
        writer.write(*story())
        return open_trace(writer.close())


class _InDatabase(WritePath):
    reads_when_full = False  # a new store takes SQLite's write lock to look for migrations

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listening = open_listening("", root)

    def close(self) -> None:
        self.listening.close()

    @classmethod
    def names(cls, root: Path, statement: Any) -> set[str]:
        with closing(open_listening("", root)) as listening, listening.store.read() as session:
            assert session.execute(text("PRAGMA integrity_check")).scalar_one() == "ok"
            return {str(one) for one in session.exec(statement)}


class Answers(_InDatabase):
    """Answers of raters, each of somebody new."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.world = World(self.listening.store, root / "clips")
        self.world.listening = self.listening
        with self.listening.store.read() as session:
            is_new = session.exec(select(Campaign.id)).first() is None
        if is_new:
            self.world.campaign(replace(ACR, raters_per_stimulus=1000))

    def prepare(self, number: int) -> None:
        self.rater = self.world.join(f"P{number}")
        self.shown = self.rater.to_trials() if self.rater.joined_at == "consent" else self.rater.next()

    def save(self, number: int) -> str:
        self.rater.answer(self.shown)
        return str(self.shown["trial"]["trial"])

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return cls.names(root, select(Trial.id).join(Answer))


class Drafts(_InDatabase):
    """Drafts of listening tests."""

    def save(self, number: int) -> str:
        with self.listening.store.read() as session:  # sent again: it may be there although that was not said
            known = session.exec(select(Campaign.id).where(Campaign.name == f"d{number}")).first()
        if known is None:
            new_draft(self.listening, f"d{number}", "incremental-mos")
        return f"d{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return cls.names(root, select(Campaign.name))


class Settings(_InDatabase):
    """Settings of a draft, each in the place of those before."""

    replaces = "title {}"

    def prepare(self, number: int) -> None:
        if number == 0:
            new_draft(self.listening, "d", "incremental-mos")

    def save(self, number: int) -> str:
        with self.listening.store.read() as session:
            config = from_json(json.loads(session.exec(select(Campaign.config)).one()))
        texts = replace(config.texts, title=f"title {number}")
        change_settings(self.listening, "d", replace(config, texts=texts))
        return texts.title

    @classmethod
    def read(cls, root: Path) -> set[str]:
        (config,) = cls.names(root, select(Campaign.config))
        return {from_json(json.loads(config)).texts.title}


class Uploads(_InDatabase):
    """Sounds that an owner sent for a draft."""

    def prepare(self, number: int) -> None:
        if number == 0:
            new_draft(self.listening, "d", "incremental-mos")

    def save(self, number: int) -> str:
        DraftSounds(self.listening).keep("d", "system", f"item{number}.wav", recording(number, frames=22))
        return f"item{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        files = [*(root / "uploads/d/system").glob("*.wav")]
        assert all(len(read_wav(file)[0]) for file in files)
        return {file.stem for file in files}


class Merges(_InDatabase):
    """Campaigns of another studio, with their clips."""

    def prepare(self, number: int) -> None:
        other = self.root.parents[1] / "other" / str(number)  # on a disk that works
        if not other.exists():
            with closing(open_listening("", other)) as listening:
                World(listening.store, other / "clips").campaign(name=f"c{number}", systems=[SystemSpec(f"s{number}")])
        self.other = other / "studio.sqlite"

    def save(self, number: int) -> str:
        merge_from(self.listening, str(self.other))
        return f"c{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(open_listening("", root)) as listening:
            found = set[str]()
            with listening.store.read() as session:
                for campaign in session.exec(select(Campaign)):
                    rows = session.execute(
                        text("SELECT clip_sha FROM stimulus WHERE campaign_id = :id"), {"id": campaign.id}
                    ).scalars()
                    assert all(listening.clips.read(sha)[1] for sha in rows)
                    found.add(campaign.name)
            return found


class Migrations(WritePath):
    """Databases of an earlier schema, each brought to the newest one."""

    reads_when_full = False

    def file(self, number: int) -> Path:
        return self.root / f"old{number}.sqlite"

    def prepare(self, number: int) -> None:
        if not self.file(number).exists():
            engine = create_engine(f"sqlite:///{self.file(number)}")
            with engine.begin() as connection:
                migrations.migrate(connection, to=1)
                connection.execute(
                    text("INSERT INTO campaign (name, kind, state, seed, config, created_at) "
                         "VALUES (:name, 'ab', 'draft', 1, '{}', 1.0)"),
                    {"name": f"c{number}"},
                )  # fmt: skip
            engine.dispose()

    def save(self, number: int) -> str:
        Store(f"sqlite:///{self.file(number)}").close()
        return f"c{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        found = set[str]()
        for file in root.glob("old*.sqlite"):
            with closing(sqlite3.connect(file)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                found |= {name for (name,) in connection.execute("SELECT name FROM campaign")}
        return found


WRITE_PATHS: dict[str, type[WritePath]] = {
    one.__name__: one
    for one in (
        Edits, FirstEdits, CompactedEdits, Keeps, Notes, Rebuilds, Assignments, Clips, Traces,
        Answers, Drafts, Settings, Uploads, Merges, Migrations,
    )
}  # fmt: skip
