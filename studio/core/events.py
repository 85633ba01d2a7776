"""Events of an utterance, as used by traces, the wire, pages and benchmarks.

``t_ms`` is the server's monotonic time since ``ready``; ``sample`` is the index of a PCM sample made by the voice (from
0, at the card's rate), so waits are not samples. ``to_dict`` and ``from_dict`` convert to and from the JSON form.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np

WordSource = Literal["eos", "action", "attention", "aligner", "estimate"]
WaitReason = Literal["text", "credit", "compute", "network"]
EOS_AT = 0.5  # p_eos that ends a segment, in families that predict it
STALL_REASONS: tuple[WaitReason, ...] = ("compute", "network")

_KINDS: dict[str, type["Event"]] = {}


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events; a subclass is a frozen dataclass with keyword arguments only, without a decorator."""

    type: ClassVar[str]
    t_ms: float = 0.0

    def __init_subclass__(cls, type: str) -> None:
        super().__init_subclass__()
        cls.type = type
        _KINDS[type] = dataclass(frozen=True, kw_only=True)(cls)

    def stamped(self, t_ms: float, **changes: Any) -> Self:
        """The same event at a time, with other fields; ``dataclasses.replace`` takes seven times as long."""
        event = object.__new__(type(self))
        event.__dict__.update(self.__dict__, t_ms=t_ms, **changes)
        return event

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ``{"type": ..., "t_ms": ..., ...}``; binary fields are left out."""
        out = {"type": self.type, **vars(self)}
        out["t_ms"] = round(self.t_ms, 3)
        return out


class Queued(Event, type="queued"):
    """The utterance is queued behind ``ahead`` others; sent again when that changes, until ``ready``.

    Its ``t_ms`` counts from the call of ``Engine.open``.
    """

    ahead: int


class Ready(Event, type="ready"):
    """The utterance has a slot; its clock starts here, after ``queued_ms`` in the queue.

    ``options`` are the family's, complete.
    """

    utterance: int
    voice: str
    speaker: str
    family: str
    rate_hz: int
    frame_samples: int
    seed: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    queued_ms: float = 0.0


class TextReceived(Event, type="text"):
    """Text reached the utterance: from ``char_start`` on, the text as sent is now ``text``."""

    char_start: int
    text: str


class TypingTimes(Event, type="typed"):
    """Time in ms before this event at which each of the first characters of the next ``text`` was typed."""

    char_start: int
    before_ms: list[float]


class Committed(Event, type="committed"):
    """Spoken word ``i`` is final: it comes from [char_start, char_end) of the text as sent."""

    i: int
    word: str
    written: int
    char_start: int
    char_end: int


class OptionsChanged(Event, type="options"):
    """New family options, used from the next segment on."""

    options: dict[str, Any]


class Played(Event, type="played"):
    """Playback position: the player has played everything before ``sample``."""

    sample: int


class WordStart(Event, type="word_start"):
    """Spoken word ``i`` begins at ``sample``."""

    i: int
    sample: int
    source: WordSource


class WordEnd(Event, type="word_end"):
    """Spoken word ``i`` ends before ``sample``."""

    i: int
    sample: int
    source: WordSource


class Segment(Event, type="segment"):
    """A segment begins at ``sample``: it speaks ``words`` and was fed ``seen``."""

    index: int
    words: list[int]
    seen: list[int]
    sample: int
    frame: int


class Eos(Event, type="eos"):
    """A segment ended before ``frame``; ``forced`` if by a limit and not by the model."""

    segment: int
    frame: int
    p: float
    forced: bool


class Frames(Event, type="frames"):
    """Acoustic frames and the p_eos of each; stored in the trace's layers, not sent on the wire.

    A frame's p_eos is known once the frame was fed back: NaN (None in JSON) for the last frame of a stopped utterance.
    """

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


class Wait(Event, type="wait"):
    """The output paused at ``sample`` for ``reason``; emitted when the pause is over."""

    reason: WaitReason
    sample: int
    duration_ms: float


class Audio(Event, type="audio"):
    """PCM of the voice, int16 [T], beginning at ``sample``. On the wire it is a binary packet."""

    sample: int
    pcm: np.ndarray = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "t_ms": round(self.t_ms, 3),
            "sample": self.sample,
            "samples": int(self.pcm.shape[0]),
        }


class Flushed(Event, type="flushed"):
    """The first ``words`` words will be spoken without waiting for more text."""

    words: int


class Edited(Event, type="edited"):
    """The writer changed words ``[first, last]`` after they were committed."""

    first: int
    last: int
    text: str


class Revised(Event, type="revised"):
    """Sound from ``from_sample`` on was taken back; packets of an older ``take`` are dropped.

    The first ``words`` committed words stay; the following ones are committed again.
    """

    from_sample: int
    take: int
    words: int


class Cancelled(Event, type="cancelled"):
    """The utterance was cancelled when everything before ``sample`` had been played.

    ``heard`` are the words played completely, ``word`` is the last one that had begun (None for none). ``char_end`` is
    the end of the played part of the text as sent; a token spoken as several words counts when all of them were played.
    """

    heard: list[int]
    sample: int
    word: int | None = None
    char_end: int = 0


class Unsupported(Event, type="unsupported"):
    """The voice cannot speak [char_start, char_end) of the text as sent; it is skipped.

    ``why`` is the sentence of ``code`` with its ``values`` (``studio.core.text.reasons``); without a code it is free
    text of another system.
    """

    char_start: int
    char_end: int
    why: str
    code: str = ""
    values: Mapping[str, str] = field(default_factory=dict[str, str])


class Ended(Event, type="ended"):
    """Last event of a successful utterance of ``samples`` samples."""

    samples: int
    compute_ms: float = 0.0


class Failed(Event, type="failed"):
    """Last event of a failed utterance: what failed, and what to do."""

    code: str
    message: str


_LAST = (Ended, Failed)


def is_last(event: Event) -> bool:
    """Whether this event ends the stream."""
    return isinstance(event, _LAST)


def from_dict(data: dict[str, Any]) -> Event:
    """The event of a JSON form. Unknown keys are ignored, so that newer traces can be read.

    Raises:
        ValueError: the type is unknown.
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
    return tuple(one.name for one in fields(kind))
