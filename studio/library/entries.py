"""What the library knows of a kept utterance: read from its sound, and what people said of it."""

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from studio.core.errors import BadFile, BadOption
from studio.core.printable import printable
from studio.core.traces.in_force import sent_text
from studio.core.traces.trace import Trace

MAX_TITLE_CHARS = 200
MAX_TAGS, MAX_TAG_CHARS = 32, 60
_TAG = re.compile(r"[^\s,]+(?: [^\s,]+)*")


@dataclass(frozen=True)
class Note:
    """What people said of an utterance; the only part that is not in its sound or trace.

    Attributes:
        text: what a recording says; a trace knows that itself.
        added_at: seconds since 1970.
    """

    title: str = ""
    text: str = ""
    tags: tuple[str, ...] = ()
    added_at: float = 0.0

    def changed(self, title: str | None = None, add: Iterable[str] = (), drop: Iterable[str] = ()) -> "Note":
        """Another title, more tags, fewer tags. Raises BadOption."""
        dropped = set(drop)
        tags = [tag for tag in dict.fromkeys((*self.tags, *add)) if tag not in dropped]
        return replace(self, title=self.title if title is None else title, tags=tuple(sorted(tags))).checked()

    def checked(self) -> "Note":
        """The note itself. Raises BadOption where a title or a tag cannot be one."""
        if len(self.title) > MAX_TITLE_CHARS or not self.title.isprintable():
            raise BadOption(
                f"the title {self.title[:40]!r} cannot be one", f"give one line of at most {MAX_TITLE_CHARS} characters"
            )
        if len(self.tags) > MAX_TAGS:
            raise BadOption(f"there are {len(self.tags)} tags", f"give at most {MAX_TAGS}")
        for tag in self.tags:
            if len(tag) > MAX_TAG_CHARS or not tag.isprintable() or not _TAG.fullmatch(tag):
                raise BadOption(
                    f"the tag {tag[:40]!r} cannot be one", f"at most {MAX_TAG_CHARS} characters without a comma"
                )
        return self

    def to_dict(self) -> dict[str, Any]:
        """As the note's file holds it."""
        return {"title": self.title, "text": self.text, "tags": list(self.tags), "added_at": self.added_at}


def note_of(data: Any) -> Note:
    """A note as its file holds it. Raises BadFile."""
    try:
        title, text, tags, added_at = data["title"], data["text"], data["tags"], data["added_at"]
        if not (isinstance(title, str) and isinstance(text, str) and all(isinstance(tag, str) for tag in tags)):
            raise TypeError("title, text and tags are text")
        f"{title}{text}".encode()  # half a character cannot be told again
        if not math.isfinite(added_at):
            raise ValueError("added_at is no time")
        return Note(title, text, tuple(sorted(set(tags))), float(added_at)).checked()
    except (KeyError, TypeError, ValueError, OverflowError, BadOption) as error:
        raise BadFile(f"a note of the library is damaged: {error}", "remove its file in notes/") from error


@dataclass(frozen=True)
class Entry:
    """A kept utterance.

    Attributes:
        sha256: of its file, which is its name.
        kind: ``trace``, or ``recording`` for a WAV.
        voice, speaker, family, vocoder: who spoke; empty for a recording.
        options: of the family.
        source: how the text came, where the trace says so.
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
    note: Note

    @property
    def name(self) -> str:
        """Short, and enough to find it again."""
        return self.sha256[:12]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        facts = {name: getattr(self, name) for name in Entry.__dataclass_fields__ if name != "note"}
        return {"name": self.name, **facts, "options": dict(self.options), **self.note.to_dict(), "text": self.text}


def entry_of(sha256: str, trace: Trace, size_bytes: int, note: Note) -> Entry:
    """What a trace (or a recording, opened as one) and its note say."""
    meta = trace.meta

    def said(key: str) -> str:
        value = meta.get(key, "")
        return printable(value) if isinstance(value, str) else ""

    options = meta.get("options")
    is_recording = said("source") == "recording"
    return Entry(
        sha256=sha256,
        kind="recording" if is_recording else "trace",
        text=sent_text(trace.events).strip(),
        voice=said("voice"),
        speaker=said("speaker"),
        family=said("family"),
        vocoder=said("vocoder"),
        options=options if isinstance(options, dict) else {},
        source=said("source"),
        words=len(trace.words()),
        duration_ms=1000.0 * len(trace.pcm) / trace.rate_hz,
        size_bytes=size_bytes,
        note=note,
    )


def now() -> float:
    """Seconds since 1970, to the millisecond."""
    return round(time.time(), 3)
