"""The library of kept utterances: a folder that explains itself, and an index of it for search.

``sounds/ab/<sha256>.trace`` (or ``.wav``) is what was kept, under the SHA-256 of its bytes; ``notes/ab/<sha256>.json``
is what people said of it, and ``annotations/ab/<sha256>/`` what annotators marked in it (``annotations.py``). All are
files that can be copied; everything else is made from them.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from studio.annotation.edits import Document, Edit
from studio.core.errors import BadFile, BadOption, StudioError
from studio.core.files import read_bounded, write_whole
from studio.core.traces.trace import Trace
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.opening import Limits, open_bytes
from studio.library.annotations import Annotations, Sound
from studio.library.assignments import Assignments
from studio.library.entries import Entry, Note, entry_of, note_of, now
from studio.library.index import Index, Query

try:
    import fcntl
except ImportError:  # Windows: only the threads of one program wait for each other
    fcntl = None

MAX_FILE_BYTES = sum(MAX_BYTES.values())
MAX_NOTE_BYTES = 1 << 20
_NAME = re.compile(r"[0-9a-f]{6,64}")
_FILE = re.compile(r"([0-9a-f]{64})\.(trace|wav)")
_BATCH = 100

Told = Callable[[int, int], None]


class Library:
    """Utterances that somebody chose to keep; several threads and programs may use one at once.

    Args:
        root: made for its owner alone, since traces hold what people typed. Where the index is not there, damaged, or
            of another version, it is made from the folder, which takes a while.

    Raises:
        BadFile: the folder cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self._lock = threading.Lock()
        self.annotations = Annotations(self.root, self._is_kept)
        self.assignments = Assignments(self.root)
        try:
            for folder in (self.root, self.root / "sounds", self.root / "notes"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._alone():
                self._index = Index(self.root / "index.sqlite")
                if self._index.is_new:
                    self._rebuilt(lambda done, of: None)
        except OSError as error:
            raise BadFile(f"the library {root} cannot be used: {error}", "give another --data") from error

    def close(self) -> None:
        """Let go of the index."""
        self._index.close()

    def keep(
        self,
        data: bytes,
        text: str = "",
        title: str = "",
        tags: Iterable[str] = (),
        limits: Limits | None = None,
    ) -> Entry:
        """Keep a trace, or a WAV with its text. What is there already only gets the title and the tags.

        Args:
            limits: what it may unpack to; a trace file's own where None.

        Raises:
            BadFile: it is neither, or damaged, or unpacks to more.
            BadText, BadOption: the text is too long; a title or a tag cannot be one.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        is_wav = data.startswith(b"RIFF")
        if text and not is_wav:
            raise BadOption("a trace takes no text", "it holds its own")
        with self._alone():
            known = self._index.named(sha256)
            if known:
                before = known[0].note
                note = before.changed(title or None, add=tags)
                note = replace(note, text=text or note.text)
            else:
                note = Note(title, text if is_wav else "", added_at=now()).changed(add=tags)
            entry = entry_of(sha256, open_bytes(data, note.text, limits), len(data), note)
            if not known:
                _write(self._sound(sha256, "wav" if is_wav else "trace"), data)
            return self._noted(entry)

    def find(self, query: Query) -> tuple[list[Entry], int]:
        """A page of what fits, the newest first, and how many fit in all."""
        return self._index.find(query)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag and how many have it."""
        return self._index.tags()

    def voices(self) -> list[str]:
        """Every voice that is heard, ``name`` or ``name:speaker``, as ``Query`` takes them."""
        return self._index.voices()

    def entry(self, name: str) -> Entry:
        """The one entry whose SHA-256 begins so. Raises BadOption."""
        if not _NAME.fullmatch(name):
            raise BadOption(f"{name[:80]!r} is no name of an utterance", "give 6 to 64 of its hexadecimal digits")
        found = self._index.named(name)
        if len(found) != 1:
            what = "no utterance" if not found else "more than one utterance"
            raise BadOption(f"{what} begins with {name}", "studio library find lists them")
        return found[0]

    def path(self, entry: Entry) -> Path:
        """Where an entry's file lies."""
        return self._sound(entry.sha256, "wav" if entry.kind == "recording" else "trace")

    def read(self, entry: Entry) -> bytes:
        """An entry's file. Raises BadFile where it is gone or not what was kept."""
        path = self.path(entry)
        try:
            data = read_bounded(path, MAX_FILE_BYTES)
        except OSError as error:
            raise BadFile(f"{path} cannot be read: {error.strerror}", "studio library rebuild") from error
        if hashlib.sha256(data).hexdigest() != entry.sha256:
            raise BadFile(f"{path} is not what was kept", "take it from a copy; its name is its SHA-256")
        return data

    def open(self, entry: Entry) -> Trace:
        """An entry as a trace. Raises BadFile."""
        return open_bytes(self.read(entry), entry.note.text)

    def note(
        self,
        entry: Entry,
        title: str | None = None,
        add: Iterable[str] = (),
        drop: Iterable[str] = (),
        tags: Iterable[str] | None = None,
    ) -> Entry:
        """Another title, more tags, fewer; ``tags`` instead of all that are there. Raises BadOption."""
        with self._alone():
            entry = self.entry(entry.sha256)  # somebody else may have changed it, or removed it
            note = entry.note if tags is None else replace(entry.note, tags=tuple(tags))
            return self._noted(replace(entry, note=note.changed(title, add, drop)))

    def annotate(self, entry: Entry, annotator: str, edit: Edit) -> Document:
        """Do an edit of an annotator's, and answer what they have said now, once it is on disk.

        Raises:
            BadOption, ChangedMeanwhile: it cannot be done, and nothing was; NotKept: the disk refused it.
            BadFile: the utterance or the journal is gone or damaged.
        """
        return self.annotations.edit(self._annotated(entry, annotator), annotator, edit)

    def document(self, entry: Entry, annotator: str) -> Document:
        """What an annotator has said of an utterance; an empty document where that is nothing. Raises BadFile."""
        found = self.annotations.by(entry.sha256, annotator)
        if found is None:
            sound = self._annotated(entry, annotator)
            found = Document(annotator, sound.rate_hz, sound.samples)
        return found

    def remove(self, entry: Entry) -> None:
        """Delete an entry's file, its note, and what annotators said of it."""
        with self._alone():
            self._index.remove(entry.sha256)
            self.path(entry).unlink(missing_ok=True)
            self._note(entry.sha256).unlink(missing_ok=True)
            self.annotations.remove(entry.sha256)

    def rebuild(self, told: Told = lambda done, of: None) -> tuple[int, list[str]]:
        """Make the index from the folder: how many entries there are, and what could not be read, in words.

        Args:
            told: hears how many files were read, and of how many.
        """
        with self._alone():
            return self._rebuilt(told)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time: a note is read, changed and written, and a rebuild begins with nothing."""
        with self._lock:
            try:
                file = (self.root / "lock").open("ab")
            except OSError as error:
                raise BadFile(f"{self.root} cannot be changed: {error.strerror}", "give another --data") from error
            with file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                yield

    def _rebuilt(self, told: Told) -> tuple[int, list[str]]:
        files = sorted(path for path in self.root.glob("sounds/*/*") if _FILE.fullmatch(path.name))
        problems: list[str] = []
        self._index.empty()
        batch: list[Entry] = []
        count = 0
        for n, entry in enumerate(self._read_all(files, problems), 1):
            if entry is not None:
                batch.append(entry)
                count += 1
            if len(batch) == _BATCH or n == len(files):
                self._index.put(batch)
                batch = []
            told(n, len(files))
        return count, [*problems, *self.annotations.problems()]

    def _read_all(self, files: list[Path], problems: list[str]) -> Iterator[Entry | None]:
        for path in files:
            sha256 = path.stem
            try:
                data = read_bounded(path, MAX_FILE_BYTES)
                if hashlib.sha256(data).hexdigest() != sha256:
                    raise BadFile("it is not what was kept", "take it from a copy")
                note = self._read_note(sha256, path)
                yield entry_of(sha256, open_bytes(data, note.text), len(data), note)
            except (
                StudioError,
                OSError,
                ValueError,
                ArithmeticError,
                RecursionError,
            ) as error:  # one file stops no other
                problems.append(f"{path}: {error}")
                yield None

    def _read_note(self, sha256: str, sound: Path) -> Note:
        file = self._note(sha256)
        if not file.exists():  # only the sound was copied here, or a crash came between the two
            return Note(added_at=round(sound.stat().st_mtime, 3))
        try:
            return note_of(json.loads(read_bounded(file, MAX_NOTE_BYTES)))
        except (ValueError, RecursionError) as error:
            raise BadFile(f"the note {file} is damaged: {error}", "remove it") from error

    def _noted(self, entry: Entry) -> Entry:
        """Write the note, then the index: a crash between the two leaves what a rebuild finds."""
        _write(self._note(entry.sha256), json.dumps(entry.note.to_dict(), ensure_ascii=False, indent=1).encode())
        self._index.put([entry])
        return entry

    def _annotated(self, entry: Entry, annotator: str) -> Sound:
        """What an edit is of; only an annotator's first one opens the sound."""
        known = self.annotations.by(entry.sha256, annotator)
        if known is not None:
            return Sound(entry.sha256, known.rate_hz, known.samples)
        trace = self.open(entry)
        return Sound(entry.sha256, trace.rate_hz, len(trace.pcm))

    def _is_kept(self, sha256: str) -> bool:
        return any(self._sound(sha256, ending).exists() for ending in ("trace", "wav"))

    def _sound(self, sha256: str, ending: str) -> Path:
        return self.root / "sounds" / sha256[:2] / f"{sha256}.{ending}"

    def _note(self, sha256: str) -> Path:
        return self.root / "notes" / sha256[:2] / f"{sha256}.json"


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all. Raises BadFile where the disk refuses."""
    try:
        path.parent.mkdir(exist_ok=True, mode=0o700)
        write_whole(path, data)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", "make room on its disk") from error
