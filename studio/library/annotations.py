"""Annotation journals: one file for each annotator and utterance, in the library's folder.

``annotations/ab/<sha256>/<digest>.jsonl`` begins with a header line (annotator and sound); each further line is an
edit, or a snapshot that replaces many edits. An edit is acknowledged once its line is completely on disk. An
incomplete last line was never acknowledged: readers skip it, ``problems`` reports it, and the next edit removes it.
Journals may be copied between libraries and need no index.
"""

import hashlib
import json
import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from studio.annotation.edits import (
    AnnotationDocument,
    AnnotationEdit,
    document_from_snapshot,
    edit_to_dict,
    journal_line,
    parse_edit,
)
from studio.annotation.layers import MAX_NAME
from studio.core import durable
from studio.core.errors import BadFile, BadOption, NotStored, StudioError, Unavailable, not_stored
from studio.core.files import list_folder, open_unbuffered
from studio.core.locks import lock_file, within_lock

FORMAT, SCHEMA = "studio-annotation", 1
MAX_ANNOTATORS = 64  # of one utterance
MAX_JOURNAL_BYTES = 32_000_000
MAX_EDITS = 2000  # compaction happens above this plus the number of marks
_CACHED, _CACHED_MARKS = 512, 200_000  # documents and marks in the cache
_LOCKS = 64
_SHA256 = re.compile(r"[0-9a-f]{64}")
log = logging.getLogger("studio.library")


@dataclass(frozen=True)
class AnnotatedSound:
    """The annotated sound: digest of its file, rate and length."""

    sha256: str
    rate_hz: int
    samples: int


@dataclass(frozen=True)
class _JournalState:
    """A document and the state of its file."""

    stamp: tuple[int, int, int]  # inode, size and modification time
    size: int  # bytes of complete lines
    edits: int
    document: AnnotationDocument
    is_torn: bool = False  # whether an incomplete line follows them


class Annotations:
    """The journals of a library; safe for several threads and processes.

    Args:
        root: the library's folder.
        has_utterance: whether the library has an utterance with this SHA-256; edits of others are refused.
    """

    def __init__(self, root: Path, has_utterance: Callable[[str], bool]) -> None:
        self._root = root / "annotations"
        self._has_utterance = has_utterance
        self._cache: OrderedDict[Path, _JournalState] = OrderedDict()
        self._cached_marks = 0
        self._cache_lock = threading.Lock()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def of(self, sha256: str) -> list[AnnotationDocument]:
        """All documents on one utterance, sorted by annotator. Raises BadFile where one is damaged, Unavailable."""
        try:
            paths = list_folder(self._folder(sha256), "*.jsonl")
        except OSError as error:
            raise Unavailable(f"the annotations cannot be read: {error.strerror}", "try again") from error
        documents = [self._document(path) for path in paths]
        return sorted((one for one in documents if one is not None), key=lambda one: one.annotator.casefold())

    def by(self, sha256: str, annotator: str) -> AnnotationDocument | None:
        """One annotator's document, or None. Raises BadFile, BadOption."""
        return self._document(self._path(sha256, annotator))

    def edit(self, sound: AnnotatedSound, annotator: str, edit: AnnotationEdit) -> AnnotationDocument:
        """Apply an edit durably and return the document; an edit with a known name is not applied again.

        Raises:
            BadOption, AnnotationConflict: it is invalid or outdated; nothing was changed.
            NotStored: writing to disk failed; it may be sent again under the same name.
            BadFile: the journal is damaged or of another sound.
        """
        path = self._path(sound.sha256, annotator)
        try:
            with self._locked(path, sound.sha256) as file:
                return self._apply(path, file, sound, annotator, edit)
        except OSError as error:
            self._uncache(path)
            raise NotStored(
                f"the edit cannot be saved: {error.strerror}", "make room on the disk; it is sent again"
            ) from error

    def remove(self, sha256: str, annotator: str | None = None) -> None:
        """Delete one annotator's journal of an utterance, or those of all annotators."""
        folder = self._folder(sha256)
        with not_stored("the annotation cannot be removed", "try again"):
            for path in [self._path(sha256, annotator)] if annotator is not None else list_folder(folder):
                durable.remove(path)
                self._uncache(path)
        with suppress(OSError):  # other journals are in it, or it does not exist
            folder.rmdir()

    def problems(self) -> list[str]:
        """Messages about journals that are damaged, end in an incomplete line, or belong to no stored utterance.

        Raises OSError: a folder cannot be read.
        """
        problems: list[str] = []
        for folder in [one for above in list_folder(self._root) for one in list_folder(above)]:
            if not self._has_utterance(folder.name):
                problems.append(f"{folder} annotates an utterance that is not in the library")
                continue
            for path in list_folder(folder, "*.jsonl"):
                try:
                    read = self._read_unlocked(path)
                except (BadFile, Unavailable) as error:
                    problems.append(f"{path}: {error}")
                else:
                    if read is not None and read.is_torn:
                        problems.append(
                            f"{path} ends in an incomplete line, which was never acknowledged and is skipped"
                        )
        return problems

    def _apply(
        self, path: Path, file: BinaryIO, sound: AnnotatedSound, annotator: str, edit: AnnotationEdit
    ) -> AnnotationDocument:
        read = self._read(path, file)
        if read is None:
            document = AnnotationDocument(annotator, sound.rate_hz, sound.samples)
            start, lines, edits = 0, [journal_line(_header(sound, annotator))], 0
        else:
            document = read.document
            start, lines, edits = read.size, [], read.edits
            if read.is_torn:
                log.warning("cut off the incomplete last line of %s, which was never acknowledged", path)
            if (document.rate_hz, document.samples) != (sound.rate_hz, sound.samples):
                raise _damaged(path, "it is of another sound")
        if document.revision_of(edit.name) is not None:
            return document
        after = document.with_edit(edit)
        lines.append(journal_line(edit_to_dict(edit)))
        written = b"".join(lines)
        if start + len(written) > MAX_JOURNAL_BYTES:
            if not start or len(journal_line(after.snapshot())) > MAX_JOURNAL_BYTES // 2:
                raise BadOption("this annotation is too large", "make its notes shorter, or use fewer marks")
            edits = MAX_EDITS + 1 + after.marks
        else:
            durable.append(file, start, written)
        edits += 1
        now = _JournalState(_stamp(os.fstat(file.fileno())), start + len(written), edits, after)
        if edits > MAX_EDITS + after.marks:
            now = self._compact(path, sound, after)
        self._cache_state(path, now)
        return after

    def _compact(self, path: Path, sound: AnnotatedSound, document: AnnotationDocument) -> _JournalState:
        """Replace the edits by a snapshot, atomically."""
        data = journal_line(_header(sound, document.annotator)) + journal_line({"snapshot": document.snapshot()})
        return _JournalState(_stamp(durable.replace(path, data)), len(data), 0, document)

    def _read(self, path: Path, file: BinaryIO) -> _JournalState | None:
        """The state of a journal, None where it is empty; cached while the file is unchanged."""
        stamp = _stamp(os.fstat(file.fileno()))
        with self._cache_lock:
            known = self._cache.get(path)
        if known is not None and known.stamp == stamp:
            return known
        if stamp[1] > 2 * MAX_JOURNAL_BYTES:
            raise _damaged(path, "it is larger than a journal may be")
        file.seek(0)
        data = file.read()
        complete = _complete_lines(data)
        if not complete:
            return None
        document, edits = _replay_journal(path, complete)
        state = _JournalState(stamp, len(complete), edits, document, is_torn=len(complete) < len(data))
        self._cache_state(path, state)
        return state

    def _document(self, path: Path) -> AnnotationDocument | None:
        read = self._read_unlocked(path)
        return read.document if read else None

    def _read_unlocked(self, path: Path) -> _JournalState | None:
        """The current state of a journal, without taking its lock. Raises BadFile, Unavailable."""
        try:
            with open_unbuffered(path) as file:
                return self._read(path, file)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            raise Unavailable(f"an annotation cannot be read: {error.strerror}", "try again") from error

    def _cache_state(self, path: Path, read: _JournalState) -> None:
        with self._cache_lock:
            before = self._cache.pop(path, None)
            self._cache[path] = read
            self._cached_marks += read.document.marks - (before.document.marks if before else 0)
            while len(self._cache) > 1 and (len(self._cache) > _CACHED or self._cached_marks > _CACHED_MARKS):
                self._cached_marks -= self._cache.popitem(last=False)[1].document.marks

    def _uncache(self, path: Path) -> None:
        with self._cache_lock:
            if (read := self._cache.pop(path, None)) is not None:
                self._cached_marks -= read.document.marks

    @contextmanager
    def _locked(self, path: Path, sha256: str) -> Generator[BinaryIO]:
        """Open or create the journal, unbuffered and locked. Raises OSError, BadOption."""
        with within_lock(self._locks[hash(path) % _LOCKS]):
            while True:
                is_new = not path.exists()
                if is_new:
                    self._check_new(path)
                with open_unbuffered(path, "a+b") as file:
                    lock_file(file)
                    if not _is_same_file(path, file):
                        continue  # replaced or removed in the meantime
                    if is_new:
                        durable.sync_folder(path.parent)
                    try:
                        if not self._has_utterance(sha256):
                            raise BadFile("this utterance is no longer in the library", "add it again")
                        yield file
                    finally:
                        if not os.fstat(file.fileno()).st_size:
                            path.unlink(missing_ok=True)  # created for a refused edit
                    return

    def _check_new(self, path: Path) -> None:
        durable.make_folder(path.parent)
        if len(list_folder(path.parent, "*.jsonl")) >= MAX_ANNOTATORS:
            raise BadOption(f"{MAX_ANNOTATORS} people have annotated this utterance", "remove an annotation first")

    def _folder(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise BadOption(f"{sha256[:80]!r} is not a SHA-256", "give all 64 digits")
        return self._root / sha256[:2] / sha256

    def _path(self, sha256: str, annotator: str) -> Path:
        digest = hashlib.sha256(check_annotator(annotator).encode()).hexdigest()
        return self._folder(sha256) / f"{digest[:24]}.jsonl"


def read_journal(path: Path) -> bytes:
    """The complete lines of a journal, read under its lock. Raises OSError."""
    with open_unbuffered(path) as file:
        lock_file(file, is_shared=True)
        return _complete_lines(file.read())


def check_annotator(annotator: str) -> str:
    """Return the annotator's name. Raises BadOption where it is invalid."""
    if (
        not annotator.strip()
        or annotator != annotator.strip()
        or len(annotator) > MAX_NAME
        or not annotator.isprintable()
    ):
        raise BadOption(
            f"{annotator[:MAX_NAME]!r} is not a valid annotator's name", f"give 1 to {MAX_NAME} characters on one line"
        )
    return annotator


def _header(sound: AnnotatedSound, annotator: str) -> dict[str, Any]:
    about = {"utterance": sound.sha256, "rate_hz": sound.rate_hz, "samples": sound.samples, "annotator": annotator}
    return {"format": FORMAT, "schema": SCHEMA, **about}


def _replay_journal(path: Path, data: bytes) -> tuple[AnnotationDocument, int]:
    """The document of a journal's complete lines, and the number of edits since its snapshot. Raises BadFile."""
    number = 0
    try:
        lines = enumerate(_lines(data), 1)
        number, head = next(lines)
        if head["format"] != FORMAT or head["schema"] != SCHEMA:
            raise BadOption(f"it is of schema {head['schema']}", f"this studio reads schema {SCHEMA}")
        if head["utterance"] != path.parent.name:
            raise BadOption("it is of another utterance", "its folder is called as its utterance")
        document = AnnotationDocument(check_annotator(head["annotator"]), head["rate_hz"], head["samples"])
        edits = 0
        for number, one in lines:  # noqa: B007 - the message names it
            if "snapshot" in one:
                document, edits = document_from_snapshot(one["snapshot"]), 0
            else:
                document.apply(parse_edit(one, one["at"], max_changes=None))
                edits += 1
        return document, edits
    except (StudioError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, f"line {number}: {error}") from error


def _damaged(path: Path, why: str) -> BadFile:
    """The error of a journal, without its path: annotators read it. The log has the path."""
    log.error("%s is damaged: %s", path, why)
    return BadFile(f"this annotation is damaged: {why}", "restore it from a backup, or remove it")


def _complete_lines(data: bytes) -> bytes:
    """The lines of a journal without an incomplete last one.

    A crash or a full disk leaves the beginning of a line, or (by buffered writes of earlier versions) its end with the
    line feed; neither is valid JSON, and neither was acknowledged.
    """
    complete = data[: data.rfind(b"\n") + 1]
    start = complete.rfind(b"\n", 0, -1) + 1
    try:
        json.loads(complete[start:] or b"{}")
    except (ValueError, RecursionError):
        return complete[:start]
    return complete


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    for one in data.split(b"\n")[:-1]:
        entry = json.loads(one)
        if not isinstance(entry, dict):
            raise ValueError("a line holds no object")
        yield entry


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_same_file(path: Path, file: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        there, ours = path.stat(), os.fstat(file.fileno())
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    return False
