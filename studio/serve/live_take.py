"""One voice of one live screen while it speaks: its keys and their times, its level, and how late its texts came."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadMessage, BadText, Closed
from studio.core.trace import Trace
from studio.mos.rating.takes import MAX_CHARS, MAX_STROKES, Part, Stroke
from studio.serve import protocol as wire

PACKET_SAMPLES = 600


@dataclass
class LiveTake:
    """One slot of one screen while it is spoken. Times are of the event loop's clock, in s."""

    trial: str
    slot: int
    part: Part
    gain: float
    strokes: list[Stroke] = field(default_factory=list[Stroke])
    began_s: float | None = None
    end_ms: float | None = None
    late_ms: float = 0.0
    chars: int = 0  # in the field
    samples: int = 0
    rate_hz: int = 0
    is_cancelled: bool = False
    is_whole: bool = False
    replay: asyncio.Task[None] | None = None
    opened: asyncio.Event = field(default_factory=asyncio.Event)  # the voice has a place

    def note(self, message: wire.Edit | wire.End, now_s: float) -> None:
        """Write a key down with its time.

        Raises:
            Closed, BadMessage: the voice would not take it either, so the other one must not get it.
            BadText: there are too many.
        """
        if self.end_ms is not None:
            raise Closed("the text has ended", "type anew")
        self.began_s = now_s if self.began_s is None else self.began_s
        at_ms = 1000.0 * (now_s - self.began_s)
        if isinstance(message, wire.End):
            self.end_ms = at_ms
            return
        if message.at + message.remove > self.chars:
            raise BadMessage(f"the edit is outside the field's {self.chars} characters", "send every change in order")
        chars = self.chars - message.remove + len(message.insert)
        if chars > MAX_CHARS or len(self.strokes) >= MAX_STROKES:
            raise BadText(f"a screen takes at most {MAX_CHARS} characters", "type a shorter text")
        self.chars = chars
        self.strokes.append(Stroke(at_ms, message.at, message.remove, message.insert))


def level(audio: ev.Audio, gain: float) -> list[ev.Audio]:
    """The same sound at the level of all voices, in pieces of one size."""
    pcm = np.clip(np.rint(audio.pcm * gain), -32768, 32767).astype(np.int16)
    starts = range(0, len(pcm), PACKET_SAMPLES)
    return [replace(audio, sample=audio.sample + at, pcm=pcm[at : at + PACKET_SAMPLES]) for at in starts]


def apart_ms(trace: Trace, other: Trace) -> float:
    """By how much a text came to one voice at another time than to the other, counted from the first text."""
    here, there = _arrivals_ms(trace), _arrivals_ms(other)
    return float(np.abs(here - there).max()) if here.shape == there.shape and len(here) else np.inf


def _arrivals_ms(trace: Trace) -> np.ndarray:
    """When each text came to the voice, in ms since the first."""
    times_ms = np.array([event.t_ms for event in trace.events if isinstance(event, ev.Text)])
    return times_ms - times_ms[:1]
