"""Entries of the library: data read from a stored trace or recording, and users' notes."""

import hashlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from studio.annotation.edits import first_problem
from studio.core.checks import to_printable
from studio.core.errors import BadFile, BadOption, Unavailable
from studio.core.files import read_bounded
from studio.core.traces.trace import Trace, sent_text
from studio.core.traces.trace_reader import MAX_BYTES

MAX_FILE_BYTES = sum(MAX_BYTES.values())
MAX_TITLE_CHARS = 200
MAX_TAGS, MAX_TAG_CHARS = 32, 60
log = logging.getLogger("studio.library")
T = TypeVar("T")
_TAG = re.compile(r"[^\s,]+(?: [^\s,]+)*")


@dataclass(frozen=True)
class EntryNote:
    """Data of an entry that is not in its trace."""

    title: str = ""
    text: str = ""  # the text of a recording; empty for a trace
    tags: tuple[str, ...] = ()
    added_at: float = 0.0  # seconds since 1970

    def with_changes(self, title: str | None = None, add: Iterable[str] = (), drop: Iterable[str] = ()) -> "EntryNote":
        """A copy with another title, tags added and tags removed. Raises BadOption."""
        dropped = set(drop)
        tags = [tag for tag in dict.fromkeys((*self.tags, *add)) if tag not in dropped]
        return replace(self, title=self.title if title is None else title, tags=tuple(sorted(tags))).validated()

    def validated(self) -> "EntryNote":
        """Return the note. Raises BadOption where the title or a tag is invalid."""
        if len(self.title) > MAX_TITLE_CHARS or not self.title.isprintable():
            raise BadOption(
                f"the title {self.title[:40]!r} is invalid", f"give one line of at most {MAX_TITLE_CHARS} characters"
            )
        if len(self.tags) > MAX_TAGS:
            raise BadOption(f"there are {len(self.tags)} tags", f"give at most {MAX_TAGS}")
        for tag in self.tags:
            if len(tag) > MAX_TAG_CHARS or not tag.isprintable() or not _TAG.fullmatch(tag):
                raise BadOption(
                    f"the tag {tag[:40]!r} is invalid", f"at most {MAX_TAG_CHARS} characters without a comma"
                )
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, "text": self.text, "tags": list(self.tags), "added_at": self.added_at}


class _StoredNote(BaseModel, strict=True, allow_inf_nan=False):
    title: str
    text: str
    tags: list[str]
    added_at: float


def parse_note(data: bytes) -> EntryNote:
    """A note from its JSON. Raises BadFile."""
    try:
        note = _StoredNote.model_validate_json(data)
        return EntryNote(note.title, note.text, tuple(sorted(set(note.tags))), note.added_at).validated()
    except (ValidationError, BadOption) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else error
        raise BadFile(f"a note of the library is damaged: {why}", "remove its file in notes/") from error


@dataclass(frozen=True)
class LibraryEntry:
    """A stored utterance.

    Attributes:
        sha256: digest and name of its file.
        kind: ``trace``, or ``recording`` for a WAV.
        voice, speaker, family, vocoder: empty for a recording.
        options: of the family.
        source: origin of the text, if the trace names it.
        size_bytes: of its file.
    """

    sha256: str
    kind: str
    text: str
    voice: str
    speaker: str
    family: str
    vocoder: str
    options: Mapping[str, Any]
    source: str
    words: int
    duration_ms: float
    size_bytes: int
    note: EntryNote

    @property
    def name(self) -> str:
        """The short name."""
        return self.sha256[:12]

    def to_dict(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in LibraryEntry.__dataclass_fields__ if name != "note"}
        return {"name": self.name, **facts, "options": dict(self.options), **self.note.to_dict(), "text": self.text}


def make_entry(sha256: str, trace: Trace, size_bytes: int, note: EntryNote) -> LibraryEntry:
    """The entry of a trace (or a recording opened as one) and its note."""
    meta = trace.meta

    def text_of(key: str) -> str:
        value = meta.get(key, "")
        return to_printable(value) if isinstance(value, str) else ""

    options = meta.get("options")
    is_recording = text_of("source") == "recording"
    return LibraryEntry(
        sha256=sha256,
        kind="recording" if is_recording else "trace",
        text=sent_text(trace.events).strip(),
        voice=text_of("voice"),
        speaker=text_of("speaker"),
        family=text_of("family"),
        vocoder=text_of("vocoder"),
        options=options if isinstance(options, dict) else {},
        source=text_of("source"),
        words=len(trace.words()),
        duration_ms=1000.0 * len(trace.pcm) / trace.rate_hz,
        size_bytes=size_bytes,
        note=note,
    )


def read_stored(path: Path, sha256: str) -> bytes:
    """The bytes of an entry's file. Raises BadFile where it is missing or damaged, Unavailable on I/O errors."""
    try:
        data = read_bounded(path, MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise BadFile("the file of this utterance is missing", "restore it from a backup") from error
    except OSError as error:
        log.error("%s cannot be read: %s", path, error.strerror)
        raise Unavailable(f"the utterance cannot be read: {error.strerror}", "try again") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        log.error("%s is damaged", path)
        raise BadFile("the file of this utterance is damaged", "restore it from a backup; its name is its SHA-256")
    return data


def load_stored(path: Path, sha256: str, load: Callable[..., T], *arguments: Any) -> T:
    """``load`` of the bytes of an entry's file; raises as ``read_stored`` does."""
    return load(read_stored(path, sha256), *arguments)


def now_s() -> float:
    """Seconds since 1970, to the millisecond."""
    return round(time.time(), 3)
