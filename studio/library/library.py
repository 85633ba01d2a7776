"""The library of kept utterances: a folder that explains itself, and an index of it for search.

``sounds/ab/<sha256>.trace`` (or ``.wav``) is what was kept, under the SHA-256 of its bytes; ``notes/ab/<sha256>.json``
is what people said of it, and ``annotations/ab/<sha256>/`` what annotators marked in it (``annotations.py``). All are
files that can be copied; everything else is made from them.
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.exc import DatabaseError

from studio.annotation.edits import Document, Edit
from studio.core import durable
from studio.core.errors import BadFile, BadOption, NotStored, StudioError, Unavailable
from studio.core.files import read_bounded
from studio.core.folders import data_folder
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
log = logging.getLogger("studio.library")

Progress = Callable[[int, int], None]
_Stamp = tuple[int, int, int]  # inode, size, time of the last change


@dataclass(frozen=True)
class _Indexed:
    """What a rebuild read: the stamps of a sound and its note, and why the utterance is not in the index."""

    stamps: tuple[_Stamp | None, _Stamp | None]
    problem: str


class Library:
    """Utterances that somebody chose to keep; several threads and programs may use one at once.

    Args:
        root: made for its owner alone, since traces hold what people typed. Where the index is missing, damaged, or
            of another version, it is made from the folder, which takes a while.

    Raises:
        BadFile: the folder cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self.root = data_folder(root)
        self._lock = threading.Lock()
        self.annotations = Annotations(self.root, self._is_kept)
        self.assignments = Assignments(self.root)
        self._index = Index(self.root / "index.sqlite")
        try:
            for folder in (self.root / "sounds", self.root / "notes"):
                durable.make_folder(folder)
            if not self._index.is_usable():
                self.rebuild()
        except (FileExistsError, NotADirectoryError) as error:
            raise BadFile(f"the library {root} cannot be used: {error}", "give another --data") from error
        except OSError as error:
            raise Unavailable(
                f"the library cannot be used: {error.strerror}", "make room on its disk, or give another --data"
            ) from error

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
            NotStored: the disk refused it.
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
            if not known or not self._is_kept(sha256):  # a removal that failed halfway leaves it in the index
                _write(self._sound(sha256, "wav" if is_wav else "trace"), data, "the utterance")
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
        """An entry's file. Raises BadFile where it is missing or damaged, Unavailable where the disk fails."""
        path = self.path(entry)
        try:
            data = read_bounded(path, MAX_FILE_BYTES)
        except FileNotFoundError as error:
            raise BadFile("the file of this utterance is missing", "restore it from a backup") from error
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            raise Unavailable(f"the utterance cannot be read: {error.strerror}", "try again") from error
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
            BadOption, ChangedMeanwhile: it cannot be done, and nothing was; NotStored: the disk refused it.
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
            try:
                for path in (self.path(entry), self._note(entry.sha256)):
                    durable.remove(path)
            except OSError as error:
                raise NotStored(f"the utterance cannot be removed: {error.strerror}", "try again") from error
            self.annotations.remove(entry.sha256)
            self._index.remove(entry.sha256)  # last: until then it is listed, and may be removed again

    def rebuild(self, progress: Progress = lambda done, of: None) -> tuple[int, list[str]]:
        """Make the index from the folder: how many entries there are, and messages on what could not be read.

        The old index serves until the new one is complete; others may keep and change entries meanwhile.

        Args:
            progress: called with how many files were read, and of how many.

        Raises:
            NotStored: the disk refused it; the old index stays.
        """
        part = durable.part_of(self._index.file)
        try:
            durable.remove_stale_parts(self.root, "index.sqlite.*")
            index = Index.create(part)
            try:
                read = self._index_files(index, {}, progress)
                with self._alone():
                    read = self._index_files(index, read)  # what changed while the others were read
                    index.close()
                    self._remove_journal()
                    durable.publish(part, self._index.file)
            finally:
                index.close()
        except (OSError, DatabaseError) as error:
            why = error.strerror if isinstance(error, OSError) else str(getattr(error, "orig", error))
            raise NotStored(f"the index of the library cannot be made: {why}", "make room on the disk") from error
        finally:
            for file in (part, part.with_name(f"{part.name}-journal")):
                file.unlink(missing_ok=True)
        problems = [one.problem for one in read.values() if one.problem]
        return len(read) - len(problems), [*problems, *self.annotations.problems()]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time: a note is read, changed and written, and an index takes the place of another."""
        with self._lock:
            try:
                file = (self.root / "lock").open("ab")
            except OSError as error:
                raise NotStored(
                    f"the library cannot be changed: {error.strerror}", "see who may write into its folder"
                ) from error
            with file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                yield

    def _index_files(
        self, index: Index, before: dict[Path, _Indexed], progress: Progress = lambda done, of: None
    ) -> dict[Path, _Indexed]:
        """Put every sound that is new or changed since ``before`` into an index, and take out those that are gone."""
        files = sorted(path for path in self.root.glob("sounds/*/*") if _FILE.fullmatch(path.name))
        found: dict[Path, _Indexed] = {}
        batch: list[Entry] = []
        for done, path in enumerate(files, 1):
            stamps = (_stamp(path), _stamp(self._note(path.stem)))
            if path in before and before[path].stamps == stamps:
                found[path] = before[path]
            else:
                entry, problem = self._read_file(path)
                found[path] = _Indexed(stamps, problem)
                if entry is None:
                    index.remove(path.stem)
                else:
                    batch.append(entry)
            if len(batch) == _BATCH or done == len(files):
                index.put(batch)
                batch = []
            progress(done, len(files))
        for path in before.keys() - found.keys():
            index.remove(path.stem)
        return found

    def _remove_journal(self) -> None:
        """Remove what a crash left beside the old index: SQLite would play it back into the new one."""
        with suppress(Unavailable):
            self._index.is_usable()  # reading plays it back into the old one
        durable.remove(self._index.file.with_name(f"{self._index.file.name}-journal"))

    def _read_file(self, path: Path) -> tuple[Entry | None, str]:
        """The entry of a sound; None and a message where it is damaged. One file stops no other.

        Where the disk fails, the entry is what the old index has: the file may be readable again later.
        """
        try:
            data = read_bounded(path, MAX_FILE_BYTES)
            if hashlib.sha256(data).hexdigest() != path.stem:
                raise BadFile("it is not what was kept", "take it from a copy")
            note = self._read_note(path.stem, path)
            return entry_of(path.stem, open_bytes(data, note.text), len(data), note), ""
        except OSError as error:
            known: list[Entry] = []
            with suppress(Unavailable):
                known = self._index.named(path.stem) if self._index.is_usable() else []
            return (known[0] if known else None), f"{path}: {error}"
        except (StudioError, ValueError, ArithmeticError, RecursionError) as error:
            return None, f"{path}: {error}"

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
        note = json.dumps(entry.note.to_dict(), ensure_ascii=False, indent=1).encode()
        _write(self._note(entry.sha256), note, "the note")
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


def _write(path: Path, data: bytes, what: str) -> None:
    """Write a file completely or not at all. Raises NotStored."""
    try:
        durable.make_folder(path.parent)
        durable.replace(path, data)
    except OSError as error:
        log.error("%s cannot be written: %s", path, error.strerror)
        raise NotStored(f"{what} cannot be saved: {error.strerror}", "make room on the disk") from error


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
