"""Entries of the library: data read from a stored trace or recording, and people's notes."""

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from studio.core.checks import to_printable
from studio.core.errors import BadFile, BadOption
from studio.core.traces.revisions import sent_text
from studio.core.traces.trace import Trace

MAX_TITLE_CHARS = 200
MAX_TAGS, MAX_TAG_CHARS = 32, 60
_TAG = re.compile(r"[^\s,]+(?: [^\s,]+)*")


@dataclass(frozen=True)
class EntryNote:
    """Data of an entry that is not in its trace.

    Attributes:
        text: the text of a recording; empty for a trace.
        added_at: seconds since 1970.
    """

    title: str = ""
    text: str = ""
    tags: tuple[str, ...] = ()
    added_at: float = 0.0

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


def parse_note(data: Any) -> EntryNote:
    """A note from its JSON. Raises BadFile."""
    try:
        title, text, tags, added_at = data["title"], data["text"], data["tags"], data["added_at"]
        if not (isinstance(title, str) and isinstance(text, str) and all(isinstance(tag, str) for tag in tags)):
            raise TypeError("title, text and tags are text")
        f"{title}{text}".encode()  # no lone surrogates
        if not math.isfinite(added_at):
            raise ValueError("added_at is no time")
        return EntryNote(title, text, tuple(sorted(set(tags))), float(added_at)).validated()
    except (KeyError, TypeError, ValueError, OverflowError, BadOption) as error:
        raise BadFile(f"a note of the library is damaged: {error}", "remove its file in notes/") from error


@dataclass(frozen=True)
class LibraryEntry:
    """A stored utterance.

    Attributes:
        sha256: digest and name of its file.
        kind: ``trace``, or ``recording`` for a WAV.
        voice, speaker, family, vocoder: empty for a recording.
        options: of the family.
        source: origin of the text, where the trace names it.
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


def now_s() -> float:
    """Seconds since 1970, to the millisecond."""
    return round(time.time(), 3)
