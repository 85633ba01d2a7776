"""What annotators said of kept utterances: a journal for each annotator and utterance, in the library's folder.

``annotations/ab/<sha256>/<digest>.jsonl`` begins with a line that says whose it is and of what sound; each line after
it is an edit (or, where there were many, the state that they led to). An edit is answered once its line is on the disk
completely. A last line that is incomplete was never answered: readers skip it, ``problems`` reports it, and the next
edit cuts it off. The file explains itself, may be copied into another library, and needs no index.
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

from studio.annotation.edits import Document, Edit, edit_of, edit_to_dict, line, restored
from studio.annotation.layers import MAX_NAME
from studio.core import durable
from studio.core.errors import BadFile, BadOption, NotStored, StudioError, Unavailable

try:
    import fcntl
except ImportError:  # Windows: only the threads of one program wait for each other
    fcntl = None

FORMAT, SCHEMA = "studio-annotation", 1
MAX_ANNOTATORS = 64  # of one utterance
MAX_JOURNAL_BYTES = 32_000_000
MAX_EDITS = 2000  # in a journal before it is written anew, or as many as there are marks
_CACHED, _CACHED_MARKS = 512, 200_000  # documents that are kept in memory, and marks in all of them
_LOCKS = 64
_SHA256 = re.compile(r"[0-9a-f]{64}")
log = logging.getLogger("studio.library")


@dataclass(frozen=True)
class Sound:
    """What is annotated: the SHA-256 of its file, its rate and its samples."""

    sha256: str
    rate_hz: int
    samples: int


@dataclass(frozen=True)
class _Read:
    """A document and the file that it was read from.

    Attributes:
        stamp: inode, size in bytes and time of the last change of the file.
        size: bytes of complete lines.
        is_torn: an incomplete line stands behind them.
    """

    stamp: tuple[int, int, int]
    size: int
    edits: int
    document: Document
    is_torn: bool = False


class Annotations:
    """The journals of a library; several threads and programs may use them at once.

    Args:
        root: the library's folder.
        is_kept: whether an utterance of this SHA-256 is there: one that was removed takes no edit.
    """

    def __init__(self, root: Path, is_kept: Callable[[str], bool]) -> None:
        self._root = root / "annotations"
        self._is_kept = is_kept
        self._cache: OrderedDict[Path, _Read] = OrderedDict()
        self._cached_marks = 0
        self._caching = threading.Lock()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def of(self, sha256: str) -> list[Document]:
        """Everybody's documents on one utterance, by annotator. Raises BadFile where a journal is damaged."""
        found = [self._look(path) for path in sorted(self._folder(sha256).glob("*.jsonl"))]
        return sorted((one for one in found if one is not None), key=lambda one: one.annotator.casefold())

    def by(self, sha256: str, annotator: str) -> Document | None:
        """One annotator's document, None where there is none. Raises BadFile, BadOption."""
        return self._look(self._path(sha256, annotator))

    def edit(self, sound: Sound, annotator: str, edit: Edit) -> Document:
        """Do an edit, and answer the document once it is on disk; one whose name is known is not done again.

        Raises:
            BadOption, ChangedMeanwhile: it cannot be done, and nothing was.
            NotStored: the disk refused it; it may be sent again, under the same name.
            BadFile: the journal is damaged, or is of another sound.
        """
        path = self._path(sound.sha256, annotator)
        try:
            with self._alone(path, sound.sha256) as file:
                return self._edited(path, file, sound, annotator, edit)
        except OSError as error:
            self._forget(path)
            raise NotStored(
                f"the edit cannot be saved: {error.strerror}", "make room on the disk; it is sent again"
            ) from error

    def remove(self, sha256: str, annotator: str | None = None) -> None:
        """Delete one annotator's journal of an utterance, or everybody's."""
        folder = self._folder(sha256)
        paths = [self._path(sha256, annotator)] if annotator is not None else [*folder.glob("*")]
        try:
            for path in paths:
                durable.remove(path)
                self._forget(path)
        except OSError as error:
            raise NotStored(f"the annotation cannot be removed: {error.strerror}", "try again") from error
        with suppress(OSError):  # another journal is there, or the folder was never made
            folder.rmdir()

    def problems(self) -> list[str]:
        """Messages on journals that are damaged, end in an incomplete line, or belong to no utterance that is here."""
        found: list[str] = []
        for folder in sorted(self._root.glob("*/*")):
            if not self._is_kept(folder.name):
                found.append(f"{folder} annotates an utterance that is not here")
                continue
            for path in sorted(folder.glob("*.jsonl")):
                try:
                    read = self._look_at(path)
                except (BadFile, Unavailable) as error:
                    found.append(str(error))
                else:
                    if read is not None and read.is_torn:
                        found.append(f"{path} ends in an incomplete line, which was never acknowledged and is skipped")
        return found

    # ------------------------------------------------------------ one journal

    def _edited(self, path: Path, file: BinaryIO, sound: Sound, annotator: str, edit: Edit) -> Document:
        read = self._read(path, file)
        if read is None:
            document = Document(annotator, sound.rate_hz, sound.samples)
            start, lines, edits = 0, [line(_header(sound, annotator))], 0
        else:
            document = read.document
            start, lines, edits = read.size, [], read.edits
            if read.is_torn:
                log.warning("cut off the incomplete last line of %s, which was never acknowledged", path)
            if (document.rate_hz, document.samples) != (sound.rate_hz, sound.samples):
                raise BadFile(f"{path} is of another sound", "take it from a copy, or remove it")
        if document.known(edit.name) is not None:
            return document
        after = document.changed(edit)
        lines.append(line(edit_to_dict(edit)))
        written = b"".join(lines)
        if start + len(written) > MAX_JOURNAL_BYTES:
            if not start or len(line(after.snapshot())) > MAX_JOURNAL_BYTES // 2:
                raise BadOption("this annotation is too large", "make its notes shorter, or use fewer marks")
            edits = MAX_EDITS + 1 + after.marks
        else:
            durable.append(file, start, written)
        edits += 1
        now = _Read(_stamp(os.fstat(file.fileno())), start + len(written), edits, after)
        if edits > MAX_EDITS + after.marks:
            now = self._compacted(path, sound, after)
        self._keep(path, now)
        return after

    def _compacted(self, path: Path, sound: Sound, document: Document) -> _Read:
        """Write the state instead of the edits that led to it: a crash leaves the one or the other."""
        data = line(_header(sound, document.annotator)) + line({"snapshot": document.snapshot()})
        return _Read(_stamp(durable.replace(path, data)), len(data), 0, document)

    def _read(self, path: Path, file: BinaryIO) -> _Read | None:
        """What a journal says, None where it says nothing yet; a file that is as it was is not read again."""
        stamp = _stamp(os.fstat(file.fileno()))
        with self._caching:
            known = self._cache.get(path)
        if known is not None and known.stamp == stamp:
            return known
        if stamp[1] > 2 * MAX_JOURNAL_BYTES:
            raise BadFile(f"{path} is larger than a journal may be", "take it from a copy, or remove it")
        file.seek(0)
        data = file.read()
        complete = _complete_lines(data)
        if not complete:
            return None
        document, edits = _replayed(path, complete)
        found = _Read(stamp, len(complete), edits, document, is_torn=len(complete) < len(data))
        self._keep(path, found)
        return found

    def _look(self, path: Path) -> Document | None:
        read = self._look_at(path)
        return read.document if read else None

    def _look_at(self, path: Path) -> _Read | None:
        """A journal as it is now, without waiting for edits that are being written. Raises BadFile, Unavailable."""
        try:
            with path.open("rb", buffering=0) as file:
                return self._read(path, file)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            raise Unavailable(f"an annotation cannot be read: {error.strerror}", "try again") from error

    def _keep(self, path: Path, read: _Read) -> None:
        with self._caching:
            before = self._cache.pop(path, None)
            self._cache[path] = read
            self._cached_marks += read.document.marks - (before.document.marks if before else 0)
            while len(self._cache) > 1 and (len(self._cache) > _CACHED or self._cached_marks > _CACHED_MARKS):
                self._cached_marks -= self._cache.popitem(last=False)[1].document.marks

    def _forget(self, path: Path) -> None:
        with self._caching:
            if (read := self._cache.pop(path, None)) is not None:
                self._cached_marks -= read.document.marks

    # ------------------------------------------------------------ files

    @contextmanager
    def _alone(self, path: Path, sha256: str) -> Generator[BinaryIO]:
        """The journal's file, locked and unbuffered; made where it is not there. Raises OSError, BadOption."""
        with self._locks[hash(path) % _LOCKS]:
            while True:
                is_new = not path.exists()
                if is_new:
                    self._make_room(path)
                with path.open("a+b", buffering=0) as file:
                    if fcntl is not None:
                        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
                    if not _is_at(path, file):
                        continue  # it was written anew, or removed, while we waited
                    if is_new:
                        durable.sync_folder(path.parent)
                    try:
                        if not self._is_kept(sha256):
                            raise BadFile("this utterance is not in the library any more", "keep it again")
                        yield file
                    finally:
                        if not os.fstat(file.fileno()).st_size:
                            path.unlink(missing_ok=True)  # made for an edit that could not be done
                    return

    def _make_room(self, path: Path) -> None:
        durable.make_folder(path.parent)
        if len(list(path.parent.glob("*.jsonl"))) >= MAX_ANNOTATORS:
            raise BadOption(
                f"{MAX_ANNOTATORS} people have annotated this utterance", "remove somebody's annotation first"
            )

    def _folder(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):
            raise BadOption(f"{sha256[:80]!r} is no SHA-256", "give all 64 digits")
        return self._root / sha256[:2] / sha256

    def _path(self, sha256: str, annotator: str) -> Path:
        digest = hashlib.sha256(checked_name(annotator).encode()).hexdigest()
        return self._folder(sha256) / f"{digest[:24]}.jsonl"


def read_journal(path: Path) -> bytes:
    """The complete lines of a journal, while no edit is being written into it. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_SH)  # until it is closed
        return _complete_lines(file.read())


def checked_name(annotator: str) -> str:
    """An annotator's name. Raises BadOption."""
    if (
        not annotator.strip()
        or annotator != annotator.strip()
        or len(annotator) > MAX_NAME
        or not annotator.isprintable()
    ):
        raise BadOption(
            f"{annotator[:MAX_NAME]!r} is no annotator's name", f"give 1 to {MAX_NAME} characters on one line"
        )
    return annotator


def _header(sound: Sound, annotator: str) -> dict[str, Any]:
    about = {"utterance": sound.sha256, "rate_hz": sound.rate_hz, "samples": sound.samples, "annotator": annotator}
    return {"format": FORMAT, "schema": SCHEMA, **about}


def _replayed(path: Path, data: bytes) -> tuple[Document, int]:
    """The document that a journal's whole lines make, and how many edits they are. Raises BadFile."""
    number = 0
    try:
        lines = enumerate(_lines(data), 1)
        number, head = next(lines)
        if head["format"] != FORMAT or head["schema"] != SCHEMA:
            raise BadOption(f"it is of schema {head['schema']}", f"this studio reads schema {SCHEMA}")
        if head["utterance"] != path.parent.name:
            raise BadOption("it is of another utterance", "its folder is called as its utterance")
        document = Document(checked_name(head["annotator"]), head["rate_hz"], head["samples"])
        edits = 0
        for number, one in lines:  # noqa: B007 - the message names it
            if "snapshot" in one:
                document, edits = restored(one["snapshot"]), 0
            else:
                document.do(edit_of(one, one["at"], most=None))
                edits += 1
        return document, edits
    except (StudioError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile(f"{path} is damaged in line {number}: {error}", "take it from a copy, or remove it") from error


def _complete_lines(data: bytes) -> bytes:
    """The lines of a journal without a last one that is incomplete.

    A crash or a full disk leaves the beginning of a line, or (by buffered writes of earlier versions) its end with the
    line feed; neither is JSON, and neither was acknowledged.
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
        found = json.loads(one)
        if not isinstance(found, dict):
            raise ValueError("a line holds no object")
        yield found


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_at(path: Path, file: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        there, ours = path.stat(), os.fstat(file.fileno())
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
    return False
