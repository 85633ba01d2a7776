"""The one list of events: what happened to an utterance, in order.

The trace, the wire, the page and the benches all use these. ``t_ms`` is the server's monotonic
time since ``ready``; ``sample`` is the index of a PCM sample made by the voice (from 0, at the
card's rate), so waits are never samples. ``to_dict`` and ``from_dict`` are the JSON form.
"""

import math
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

WordSource = Literal["eos", "action", "attention", "aligner", "estimate"]
WaitReason = Literal["text", "credit", "compute", "network"]
EOS_AT = 0.5  # p_eos that ends a segment, of families whose net says so
STALL_REASONS: tuple[WaitReason, ...] = ("compute", "network")

_KINDS: dict[str, type["Event"]] = {}


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened at ``t_ms``."""

    type: ClassVar[str] = "event"
    t_ms: float = 0.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _KINDS[cls.type] = cls

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ``{"type": ..., "t_ms": ..., ...}``; binary fields are left out."""
        out = {"type": self.type, **vars(self)}
        out["t_ms"] = round(self.t_ms, 3)
        return out


@dataclass(frozen=True, kw_only=True)
class Queued(Event):
    """No place is free: so many utterances are before this one. Told whenever that changes, before ``ready`` comes.

    Its ``t_ms`` counts from the moment when the utterance was asked for.
    """

    type: ClassVar[str] = "queued"
    ahead: int


@dataclass(frozen=True, kw_only=True)
class Ready(Event):
    """The utterance has a place; its clock starts here, after ``queued_ms`` in the queue.

    ``options`` are the family's, as in force.
    """

    type: ClassVar[str] = "ready"
    utterance: int
    voice: str
    speaker: str
    family: str
    rate_hz: int
    frame_samples: int
    seed: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    queued_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Text(Event):
    """Text reached the utterance: ``text`` begins at ``char_start`` of the text as sent, and ends it."""

    type: ClassVar[str] = "text"
    char_start: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Typed(Event):
    """When the first characters of the ``text`` that follows were typed: that many milliseconds before this event."""

    type: ClassVar[str] = "typed"
    char_start: int
    before_ms: list[float]


@dataclass(frozen=True, kw_only=True)
class Committed(Event):
    """Spoken word ``i`` is final: it comes from [char_start, char_end) of the text as sent."""

    type: ClassVar[str] = "committed"
    i: int
    word: str
    written: int
    char_start: int
    char_end: int


@dataclass(frozen=True, kw_only=True)
class Options(Event):
    """New family options, in force from the next segment on."""

    type: ClassVar[str] = "options"
    options: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Played(Event):
    """The listener's player reports that it has played everything before ``sample``."""

    type: ClassVar[str] = "played"
    sample: int


@dataclass(frozen=True, kw_only=True)
class WordStart(Event):
    """Spoken word ``i`` begins at ``sample``."""

    type: ClassVar[str] = "word_start"
    i: int
    sample: int
    source: WordSource


@dataclass(frozen=True, kw_only=True)
class WordEnd(Event):
    """Spoken word ``i`` ends before ``sample``."""

    type: ClassVar[str] = "word_end"
    i: int
    sample: int
    source: WordSource


@dataclass(frozen=True, kw_only=True)
class Segment(Event):
    """A segment begins at ``sample``: it speaks ``words`` and was fed ``seen``."""

    type: ClassVar[str] = "segment"
    index: int
    words: list[int]
    seen: list[int]
    sample: int
    frame: int


@dataclass(frozen=True, kw_only=True)
class Eos(Event):
    """A segment ended before ``frame``; ``forced`` says that a limit ended it, not the model."""

    type: ClassVar[str] = "eos"
    segment: int
    frame: int
    p: float
    forced: bool


@dataclass(frozen=True, kw_only=True)
class Frames(Event):
    """Frames of the acoustic alphabet and p_eos of each, kept in the trace's layers, not on the wire.

    A frame's p_eos is known when it was fed back: it is NaN (None in JSON) for the last one of what was broken off.
    """

    type: ClassVar[str] = "frames"
    first_frame: int
    p_eos: list[float]
    levels: np.ndarray = field(repr=False, compare=False, default_factory=lambda: np.zeros((0, 0), np.uint8))

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "t_ms": round(self.t_ms, 3),
            "first_frame": self.first_frame,
            "p_eos": [None if math.isnan(p) else round(float(p), 5) for p in self.p_eos],
        }


@dataclass(frozen=True, kw_only=True)
class Wait(Event):
    """The output paused at ``sample`` for ``reason``; ``duration_ms`` is known when it is over."""

    type: ClassVar[str] = "wait"
    reason: WaitReason
    sample: int
    duration_ms: float


@dataclass(frozen=True, kw_only=True)
class Audio(Event):
    """PCM of the voice, int16 [T], beginning at ``sample``. On the wire it is a binary packet."""

    type: ClassVar[str] = "audio"
    sample: int
    pcm: np.ndarray = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "t_ms": round(self.t_ms, 3),
            "sample": self.sample,
            "samples": int(self.pcm.shape[0]),
        }


@dataclass(frozen=True, kw_only=True)
class Flushed(Event):
    """Everything committed before word ``words`` will be spoken without waiting for more text."""

    type: ClassVar[str] = "flushed"
    words: int


@dataclass(frozen=True, kw_only=True)
class Edited(Event):
    """Committed words ``[first, last]`` were changed by the writer after they were committed."""

    type: ClassVar[str] = "edited"
    first: int
    last: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Revised(Event):
    """Everything from ``from_sample`` on was taken back; packets of an older ``take`` are dropped.

    Of the committed words the first ``words`` stay; those that follow are committed anew.
    """

    type: ClassVar[str] = "revised"
    from_sample: int
    take: int
    words: int


@dataclass(frozen=True, kw_only=True)
class Cancelled(Event):
    """The utterance was cancelled when everything before ``sample`` had been played.

    ``heard`` are the words heard whole, ``word`` is the last one of which anything was heard, None where none was.
    ``char_end`` is how much of the text as sent was heard: what is spoken as several words counts when all of them
    were.
    """

    type: ClassVar[str] = "cancelled"
    heard: list[int]
    sample: int
    word: int | None = None
    char_end: int = 0


@dataclass(frozen=True, kw_only=True)
class Unsupported(Event):
    """The voice cannot say [char_start, char_end) of the text as sent; it is left out."""

    type: ClassVar[str] = "unsupported"
    char_start: int
    char_end: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Ended(Event):
    """The last event of an utterance that went well: it made ``samples`` samples."""

    type: ClassVar[str] = "ended"
    samples: int
    compute_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Failed(Event):
    """The last event of an utterance that did not: what failed, and what to do."""

    type: ClassVar[str] = "failed"
    code: str
    message: str


_LAST = (Ended, Failed)


def is_last(event: Event) -> bool:
    """Whether nothing can come after this event."""
    return isinstance(event, _LAST)


def from_dict(data: dict[str, Any]) -> Event:
    """The event of a JSON form; unknown keys are ignored, so that newer traces can be read.

    Raises:
        ValueError: the type is not an event's.
    """
    kind = _KINDS.get(data.get("type", ""))
    if kind is None:
        raise ValueError(f"no event is of type {data.get('type')!r}; known: {', '.join(sorted(_KINDS))}")
    values = {name: data[name] for name in _names(kind) if name in data}
    if kind is Audio:
        values["pcm"] = np.zeros(int(data.get("samples", 0)), np.int16)
    if kind is Frames and isinstance(values.get("p_eos"), list):
        values["p_eos"] = [math.nan if p is None else p for p in values["p_eos"]]
    return kind(**values)


@cache
def _names(kind: type[Event]) -> tuple[str, ...]:
    """The fields of an event."""
    return tuple(one.name for one in fields(kind))
