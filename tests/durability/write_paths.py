"""Every write path of the studio behind one interface for disk faults."""

import tempfile
from abc import ABC, abstractmethod
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from inspection.spoken import RATE_HZ, pcm, story

from studio.annotation.edits import AnnotationEdit, PutLayer, PutMark
from studio.annotation.layers import AnnotationLayer, AnnotationMark
from studio.core.clips import wav_bytes
from studio.core.sound_files import read_mono
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_writer import TraceWriter, save_trace
from studio.library import annotations
from studio.library.entries import LibraryEntry
from studio.library.index import Query
from studio.library.library import Library
from studio.mos.store.clips import ClipFolder
from studio.serve.trace_store import TraceStore
from studio.systems.settings import change_systems, check_system, read_systems
from studio.text.lexicon_book import LexiconBook

LAYER = PutLayer("l1", "faults", "regions", ())


class WritePath(ABC):
    """A way to save items, opened as a server opens it.

    Attributes:
        replaces: the format of an item's name if each replaces the previous one and only the last is read.
        reads_when_full: a new process can read from a full disk.
        is_locked: saving waits for a lock that another process can hold; else files are put in place atomically.
    """

    replaces: ClassVar[str] = ""
    reads_when_full: ClassVar[bool] = True
    is_locked: ClassVar[bool] = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self, number: int) -> None:  # noqa: B027 - most have nothing to prepare
        """Prepare for item ``number`` on a working disk."""

    @abstractmethod
    def save(self, number: int) -> str:
        """Save an item; returns its name once acknowledged. The same number again is the same item."""

    def close(self) -> None:  # noqa: B027 - files are closed after each write
        """Close what was opened."""

    @classmethod
    @abstractmethod
    def read(cls, root: Path) -> set[str]:
        """Names of all items that a new process reads; raises if one is unreadable."""


def recording(number: int, frames: int = 3) -> bytes:
    """A distinct WAV for each number."""
    return wav_bytes(pcm(frames) + np.int16(number), RATE_HZ)


class _InLibrary(WritePath):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.library = Library(root / "library")

    def close(self) -> None:
        self.library.close()

    def entry(self, number: int) -> LibraryEntry:
        """Utterance ``number``, added if it is missing."""
        return self.library.add(recording(number), f"Text {number}")


class Edits(_InLibrary):
    """An annotator's edits, appended as lines."""

    def prepare(self, number: int) -> None:
        self.kept = self.entry(0)

    def save(self, number: int) -> str:
        changes = (*([LAYER] if not self.library.document(self.kept, "a").layers else []), self.mark(number))
        self.library.annotate(self.kept, "a", AnnotationEdit(f"e{number}", changes, at=1.0))
        return f"m{number}"

    def mark(self, number: int) -> PutMark:
        return PutMark("l1", AnnotationMark(number, number + 1, id=f"m{number}"))

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            entry = library.find(Query())[0][0]
            return {mark for layer in library.document(entry, "a").layers.values() for mark in layer.marks}


class FirstEdits(_InLibrary):
    """The first edit of an annotator, which creates the journal."""

    is_locked = False

    PEOPLE = 50

    def prepare(self, number: int) -> None:
        self.kept = self.entry(number // self.PEOPLE)

    def save(self, number: int) -> str:
        changes = (LAYER, PutMark("l1", AnnotationMark(0, 9, id="m")))
        self.library.annotate(self.kept, f"a{number}", AnnotationEdit("e", changes, at=1.0))
        return f"a{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            found = [library.annotations.of(entry.sha256) for entry in library.find(Query())[0]]
            return {document.annotator for documents in found for document in documents if document.marks == 1}


class CompactedEdits(Edits):
    """Edits after each of which the journal is compacted."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        annotations.MAX_EDITS = -1_000_000


class Keeps(_InLibrary):
    """Utterances added to the library: a sound, a note, a row of the index."""

    def save(self, number: int) -> str:
        return self.entry(number).sha256

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            entries = library.find(Query(limit=1000))[0]
            assert all(library.read(entry) and library.open(entry).pcm.size for entry in entries)
            return {entry.sha256 for entry in entries if entry.text.startswith("Text ")}


class Notes(_InLibrary):
    """Titles of a library utterance, each replacing the previous one."""

    replaces = "t{}"

    def prepare(self, number: int) -> None:
        self.kept = self.library.find(Query())[0][0] if number else self.entry(0)

    def save(self, number: int) -> str:
        return self.library.update_note(self.kept, title=f"t{number}").note.title

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            return {library.find(Query())[0][0].note.title}


class Rebuilds(_InLibrary):
    """Indexes that replace another: no utterance may be missing from any."""

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

    is_locked = False

    def save(self, number: int) -> str:
        layers = [AnnotationLayer("faults", "regions", ())]
        return self.library.assignments.make(f"t{number}", "Mark faults.", layers, ["0" * 64], ["Anna"]).id

    @classmethod
    def read(cls, root: Path) -> set[str]:
        with closing(Library(root / "library")) as library:
            ids = [path.stem for path in (root / "library/assignments").glob("*.json")]
            return {library.assignments.get(name).id for name in ids}


class Clips(WritePath):
    """Clips of listening tests, by content, and traces beside them."""

    is_locked = False

    def save(self, number: int) -> str:
        folder = ClipFolder(self.root / "clips")
        return folder.add_trace(recording(number)) if number % 2 else folder.add(pcm(1) + np.int16(number), RATE_HZ)

    @classmethod
    def read(cls, root: Path) -> set[str]:
        folder = ClipFolder(root / "clips")
        for path in (root / "clips").glob("*/*.wav"):
            folder.read(path.stem)
        traces = [path for path in (root / "clips").glob("*/*.trace") if read_mono(path)]
        return {path.stem for path in [*(root / "clips").glob("*/*.wav"), *traces]}


class Traces(WritePath):
    """Traces of utterances, stored for their listener."""

    is_locked = False

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.shelf = TraceStore(root / "traces", 10_000, 10**9)

    def save(self, number: int) -> str:
        with self.shelf.adding() as path:
            save_trace(_trace(), path)
        return path.stem

    @classmethod
    def read(cls, root: Path) -> set[str]:
        paths = [*(root / "traces").glob("*.trace")]
        assert all(len(open_trace(path).pcm) for path in paths)
        return {path.stem for path in paths}


class Lexicon(WritePath):
    """Words of the owner's lexicon, a file that is replaced."""

    def save(self, number: int) -> str:
        LexiconBook(self.root / "lexicon.txt").add(f"word{number}", "one")
        return f"word{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return set(LexiconBook(root / "lexicon.txt").entries())


class Systems(WritePath):
    """Systems that the owner adds, in a file that is replaced."""

    def save(self, number: int) -> str:
        system = check_system("x", {"kind": "command", "command": "cat"})
        change_systems(self.root / "systems.toml", lambda there: there.update({f"s{number}": system}))
        return f"s{number}"

    @classmethod
    def read(cls, root: Path) -> set[str]:
        return set(read_systems(root / "systems.toml"))


@cache
def _trace() -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        writer = TraceWriter(Path(folder) / "a", {})
        writer.write(*story())
        return open_trace(writer.close())


FILE_PATHS: tuple[type[WritePath], ...] = (
    Edits, FirstEdits, CompactedEdits, Keeps, Notes, Rebuilds, Assignments, Clips, Traces, Lexicon, Systems,
)  # fmt: skip
