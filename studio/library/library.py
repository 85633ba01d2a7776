"""The library of stored utterances: plain files, and a search index built from them.

``sounds/ab/<sha256>.trace`` (or ``.wav``) is an utterance, named by the SHA-256 of its bytes;
``notes/ab/<sha256>.json`` is its note, and ``annotations/ab/<sha256>/`` its annotations (``annotations.py``).
"""

import hashlib
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.exc import DatabaseError

from studio.annotation.edits import AnnotationDocument, AnnotationEdit
from studio.core import durable
from studio.core.errors import BadFile, BadOption, BadText, NotStored, StudioError, Unavailable, not_stored
from studio.core.files import list_folder, open_unbuffered, read_bounded
from studio.core.folders import data_folder
from studio.core.locks import lock_file, within_lock
from studio.core.traces.trace import Trace
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.opening import UnpackLimits, open_bytes, read_sound
from studio.library.annotations import AnnotatedSound, Annotations
from studio.library.assignments import Assignments
from studio.library.entries import (
    MAX_FILE_BYTES,
    EntryNote,
    LibraryEntry,
    load_stored,
    make_entry,
    now_s,
    parse_note,
    read_stored,
)
from studio.library.index import Index, Query

MAX_NOTE_BYTES = 1 << 20
_NAME = re.compile(r"[0-9a-f]{6,64}")
_FILE = re.compile(r"([0-9a-f]{64})\.(trace|wav)")
_BATCH = 100
_MEASURED = 4096  # sounds whose rate and length are cached
log = logging.getLogger("studio.library")
T = TypeVar("T")

Progress = Callable[[int, int], None]
_Stamp = tuple[int, int, int]  # inode, size, modification time


@dataclass(frozen=True)
class _Indexed:
    """A file read by a rebuild: stamps of the sound and its note, whether it is indexed, and an error message."""

    stamps: tuple[_Stamp | None, _Stamp | None]
    is_indexed: bool
    problem: str


class Library:
    """Stored utterances; safe for several threads and processes.

    ``root``: created readable by its owner only, since traces contain what people typed. An index that is missing,
    damaged or of another version is rebuilt, which takes a while. Raises BadFile: the folder cannot be used.
    """

    def __init__(self, root: Path) -> None:
        self.root = data_folder(root)
        self._lock = threading.Lock()
        self._measured = lru_cache(_MEASURED)(self._measure)  # by content, so that it does not change
        self.annotations = Annotations(self.root, self._has_utterance)
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
        self._index.close()

    def add(
        self,
        data: bytes,
        text: str = "",
        title: str = "",
        tags: Iterable[str] = (),
        opened: LibraryEntry | None = None,
    ) -> LibraryEntry:
        """Store a trace, or a WAV with its text; for an existing entry, only set the title and add the tags.

        ``opened``: the result of ``open_entry``, if another process has opened the file.

        Raises:
            BadFile: it is neither, or damaged.
            NotStored: writing to disk failed.
            BadText, BadOption: the text is too long; a title or a tag is invalid.
        """
        opened = opened or open_entry(data, text)  # before the lock, since a long trace takes seconds
        sha256, is_wav = opened.sha256, data.startswith(b"RIFF")
        with self._locked():
            known = self._index.find_by_prefix(sha256)
            if known:
                before = known[0].note
                note = before.with_changes(title or None, add=tags)
                note = replace(note, text=text or note.text)
            else:
                note = EntryNote(title, text if is_wav else "", added_at=now_s()).with_changes(add=tags)
            entry = replace(known[0] if known and not text else opened, note=note)
            if not known or not self._has_utterance(sha256):  # a removal may have failed half-way
                _write(self._sound(sha256, "wav" if is_wav else "trace"), data, "the utterance")
            return self._write_note(entry)

    def find(self, query: Query) -> tuple[list[LibraryEntry], int]:
        """A page of matching entries, the newest first, and the number of all matches."""
        return self._index.find(query)

    def tags(self) -> list[tuple[str, int]]:
        """Every tag with its number of entries."""
        return self._index.tags()

    def voices(self) -> list[str]:
        """Every voice, as in ``Query.voice``."""
        return self._index.voices()

    def entry(self, name: str) -> LibraryEntry:
        """The entry whose SHA-256 begins with ``name``. Raises BadOption."""
        if not _NAME.fullmatch(name):
            raise BadOption(f"{name[:80]!r} is not the name of an utterance", "give 6 to 64 of its hexadecimal digits")
        entries = self._index.find_by_prefix(name)
        if len(entries) != 1:
            what = "no utterance" if not entries else "more than one utterance"
            raise BadOption(f"{what} begins with {name}", "studio library find lists them")
        return entries[0]

    def entries(self, names: Sequence[str]) -> dict[str, LibraryEntry]:
        """The existing entries among at most 1,000 SHA-256, by SHA-256; one query for all."""
        return {one.sha256: one for one in self._index.find_all(names)}

    def path(self, entry: LibraryEntry) -> Path:
        """Path of an entry's file."""
        return self._sound(entry.sha256, "wav" if entry.kind == "recording" else "trace")

    def read(self, entry: LibraryEntry) -> bytes:
        """The bytes of an entry's file. Raises BadFile where it is missing or damaged, Unavailable on I/O errors."""
        return read_stored(self.path(entry), entry.sha256)

    def loader(self, entry: LibraryEntry, load: Callable[..., T], *arguments: Any) -> Callable[[], T]:
        """``load(bytes of the entry's file, *arguments)`` for another process: only the path is pickled.

        ``load``: a function of a module. The call raises as ``read`` does.
        """
        return partial(load_stored, self.path(entry), entry.sha256, load, *arguments)

    def open(self, entry: LibraryEntry) -> Trace:
        """An entry as a trace. Raises BadFile."""
        return open_bytes(self.read(entry), entry.note.text)

    def update_note(
        self,
        entry: LibraryEntry,
        title: str | None = None,
        add: Iterable[str] = (),
        drop: Iterable[str] = (),
        tags: Iterable[str] | None = None,
    ) -> LibraryEntry:
        """Set the title, add and drop tags; ``tags`` replaces all tags. Raises BadOption."""
        with self._locked():
            entry = self.entry(entry.sha256)  # it may have been changed or removed
            note = entry.note if tags is None else replace(entry.note, tags=tuple(tags))
            return self._write_note(replace(entry, note=note.with_changes(title, add, drop)))

    def annotate(self, entry: LibraryEntry, annotator: str, edit: AnnotationEdit) -> AnnotationDocument:
        """Apply an annotator's edit durably and return the document.

        Raises BadOption, AnnotationConflict: the edit is invalid or outdated; NotStored: writing to disk failed;
        BadFile: the utterance or the journal is missing or damaged.
        """
        return self.annotations.edit(self._annotated_sound(entry, annotator), annotator, edit)

    def document(self, entry: LibraryEntry, annotator: str) -> AnnotationDocument:
        """An annotator's document on an utterance; a new, empty one if there is none. Raises BadFile."""
        document = self.annotations.by(entry.sha256, annotator)
        if document is None:
            sound = self._annotated_sound(entry, annotator)
            document = AnnotationDocument(annotator, sound.rate_hz, sound.samples)
        return document

    def remove(self, entry: LibraryEntry) -> None:
        """Delete an entry's file, note and annotations."""
        with self._locked():
            with not_stored("the utterance cannot be removed", "try again"):
                for path in (self.path(entry), self._note(entry.sha256)):
                    durable.remove(path)
            self.annotations.remove(entry.sha256)
            self._index.remove(entry.sha256)  # last, so that a failed removal can be repeated

    def rebuild(self, progress: Progress = lambda done, of: None) -> tuple[int, list[str]]:
        """Rebuild the index; returns the number of entries, and messages about unreadable files.

        The old index is used until the new one is complete; entries may be added and changed meanwhile. ``progress``:
        called with the numbers of files read and of all files. Raises NotStored: writing to disk failed; the old index
        stays.
        """
        part = durable.part_of(self._index.file)
        try:
            durable.remove_stale_parts(self.root, "index.sqlite.*")
            index = Index.create(part)
            try:
                read = self._index_files(index, {}, progress)
                with self._locked():
                    read = self._index_files(index, read)  # changes since the first pass
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
        return sum(one.is_indexed for one in read.values()), [*problems, *self.annotations.problems()]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the library for a change, across threads and processes."""
        do = "try again; if it stays so, check the permissions of its folder"
        with ExitStack() as held:
            with not_stored("the library cannot be changed", do):
                held.enter_context(within_lock(self._lock))
                lock_file(held.enter_context(open_unbuffered(self.root / "lock", "ab")))
            yield

    def _index_files(
        self, index: Index, before: dict[Path, _Indexed], progress: Progress = lambda done, of: None
    ) -> dict[Path, _Indexed]:
        """Index every sound that is new or changed since ``before``, and remove deleted ones."""
        folders = list_folder(self.root / "sounds")
        files = [path for folder in folders for path in list_folder(folder) if _FILE.fullmatch(path.name)]
        indexed: dict[Path, _Indexed] = {}
        batch: list[LibraryEntry] = []
        for done, path in enumerate(files, 1):
            stamps = (_stamp(path), _stamp(self._note(path.stem)))
            if path in before and before[path].stamps == stamps:
                indexed[path] = before[path]
            else:
                entry, problem = self._read_file(path)
                indexed[path] = _Indexed(stamps, entry is not None, problem)
                if entry is None:
                    index.remove(path.stem)
                else:
                    batch.append(entry)
            if len(batch) == _BATCH or done == len(files):
                index.put(batch)
                batch = []
            progress(done, len(files))
        for path in before.keys() - indexed.keys():
            index.remove(path.stem)
        return indexed

    def _remove_journal(self) -> None:
        """Remove the old index's rollback journal, which SQLite would apply to the new one."""
        with suppress(Unavailable):
            self._index.is_usable()  # reading applies it to the old index
        durable.remove(self._index.file.with_name(f"{self._index.file.name}-journal"))

    def _read_file(self, path: Path) -> tuple[LibraryEntry | None, str]:
        """The entry of a sound, None where it is damaged, and a message about damage to it or to its note.

        A sound with a damaged note gets an empty one. On I/O errors the entry of the old index is used, since the file
        may be readable later.
        """
        try:
            data = read_bounded(path, MAX_FILE_BYTES)
            if hashlib.sha256(data).hexdigest() != path.stem:
                raise BadFile("its content does not match its name", "restore it from a copy")
            problem = ""
            try:
                note = self._read_note(path.stem, path)
                trace = open_bytes(data, note.text)
            except (BadFile, BadText) as error:
                note = self._new_note(path)
                trace, problem = open_bytes(data, note.text), f"{self._note(path.stem)}: {error}"
            return make_entry(path.stem, trace, len(data), note), problem
        except OSError as error:
            known: list[LibraryEntry] = []
            with suppress(Unavailable):
                known = self._index.find_by_prefix(path.stem) if self._index.is_usable() else []
            return (known[0] if known else None), f"{path}: {error}"
        except (StudioError, ValueError, ArithmeticError, RecursionError) as error:
            return None, f"{path}: {error}"

    def _read_note(self, sha256: str, sound: Path) -> EntryNote:
        file = self._note(sha256)
        if not file.exists():  # only the sound was copied, or a crash prevented the note
            return self._new_note(sound)
        return parse_note(read_bounded(file, MAX_NOTE_BYTES))

    def _new_note(self, sound: Path) -> EntryNote:
        return EntryNote(added_at=round(sound.stat().st_mtime, 3))

    def _write_note(self, entry: LibraryEntry) -> LibraryEntry:
        """Write the note, then the index, which a rebuild can restore."""
        note = json.dumps(entry.note.to_dict(), ensure_ascii=False, indent=1).encode()
        _write(self._note(entry.sha256), note, "the note")
        self._index.put([entry])
        return entry

    def _annotated_sound(self, entry: LibraryEntry, annotator: str) -> AnnotatedSound:
        """The sound of an edit; only the first edit of a sound opens the file."""
        known = self.annotations.by(entry.sha256, annotator)
        if known is not None:
            return AnnotatedSound(entry.sha256, known.rate_hz, known.samples)
        return self._measured(entry.sha256)

    def _measure(self, sha256: str) -> AnnotatedSound:
        pcm, rate_hz = read_sound(self.read(self.entry(sha256)), MAX_BYTES["audio.wav"])
        return AnnotatedSound(sha256, rate_hz, len(pcm))

    def _has_utterance(self, sha256: str) -> bool:
        return any(self._sound(sha256, ending).exists() for ending in ("trace", "wav"))

    def _sound(self, sha256: str, ending: str) -> Path:
        return self.root / "sounds" / sha256[:2] / f"{sha256}.{ending}"

    def _note(self, sha256: str) -> Path:
        return self.root / "notes" / sha256[:2] / f"{sha256}.json"


def open_entry(data: bytes, text: str = "", limits: UnpackLimits | None = None) -> LibraryEntry:
    """The entry of a file that is not in a library yet.

    ``limits``: None for those of trace files. Raises BadFile: it is neither a trace nor a WAV, damaged, or above the
    limits; BadText, BadOption: the text is too long, or given for a trace.
    """
    if text and not data.startswith(b"RIFF"):
        raise BadOption("a trace takes no text", "it holds its own")
    return make_entry(hashlib.sha256(data).hexdigest(), open_bytes(data, text, limits), len(data), EntryNote())


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
