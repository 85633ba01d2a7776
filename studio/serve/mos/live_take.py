"""One voice of one live screen while it speaks: its keys and their times, its level, and what late keys did to it."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadMessage, BadText, Closed
from studio.core.traces.trace import Trace
from studio.mos.rating.takes import MAX_STROKES, Part, Stroke
from studio.serve.live import protocol as wire

PACKET_SAMPLES = 600
MAX_LACK_MS = 20.0  # a voice that takes a word lacks what was typed so shortly before, once as well as the other time


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
    chars: int = 0  # in the field
    samples: int = 0
    rate_hz: int = 0
    is_cancelled: bool = False
    is_whole: bool = False
    replay: asyncio.Task[None] | None = None  # types again what the first voice heard
    limit: asyncio.Task[None] | None = None  # ends it when it has lasted too long
    opened: asyncio.Event = field(default_factory=asyncio.Event)  # the voice has a place

    def stop(self) -> None:
        """Type no more, and count no time."""
        for task in (self.replay, self.limit):
            if task is not None:
                task.cancel()

    def note(self, message: wire.Edit | wire.End, now_s: float) -> None:
        """Write a key down with its time.

        Raises:
            Closed, BadMessage: the voice would not take it either, so the other one must not get it.
            BadText: there are too many.
        """
        if self.end_ms is not None:
            raise Closed("the text has ended", "type anew")
        at_ms = self._at_ms(now_s)
        if isinstance(message, wire.End):
            self.end_ms = at_ms
            return
        if message.at + message.remove > self.chars:
            raise BadMessage(f"the edit is outside the field's {self.chars} characters", "send every change in order")
        chars = self.chars - message.remove + len(message.insert)
        if chars > self.part.max_chars or len(self.strokes) >= MAX_STROKES:
            raise BadText(f"a screen takes at most {self.part.max_chars} characters", "type a shorter text")
        self.chars = chars
        self.strokes.append(Stroke(at_ms, message.at, message.remove, message.insert))

    def note_pause(self, now_s: float) -> None:
        """Nothing was typed for so long that the voice speaks what it has; the other one will not ask a clock."""
        if self.end_ms is None and len(self.strokes) < MAX_STROKES:
            self.strokes.append(Stroke(self._at_ms(now_s), self.chars, 0, ""))

    def _at_ms(self, now_s: float) -> float:
        self.began_s = now_s if self.began_s is None else self.began_s
        return 1000.0 * (now_s - self.began_s)


def level(audio: ev.Audio, gain: float) -> list[ev.Audio]:
    """The same sound at the level of all voices, in pieces of one size."""
    pcm = np.clip(np.rint(audio.pcm * gain), -32768, 32767).astype(np.int16)
    starts = range(0, len(pcm), PACKET_SAMPLES)
    return [replace(audio, sample=audio.sample + at, pcm=pcm[at : at + PACKET_SAMPLES]) for at in starts]


def late_ms(trace: Trace, other: Trace) -> float:
    """By how much late keys told on a voice that heard the typing of ``other`` again; infinite where that is too much.

    A key that comes late changes nothing as long as the voice is busy with words that it has. It tells where the voice
    had to wait for it, by as much as it waited longer, and where the voice took a word without it: more than
    ``MAX_LACK_MS`` after the key was due the voice was given another text, as it was by another order of texts and
    flushes, whatever their times.
    """
    given, wanted = _given(trace), _given(other)
    if not wanted or [what for _, what in given] != [what for _, what in wanted]:
        return np.inf
    came_ms, due_ms = (np.array([t_ms for t_ms, _ in one]) for one in (given, wanted))
    zero_ms = float((came_ms - due_ms).min())  # the most punctual one sets the clock by which the others are late
    came_ms = came_ms - zero_ms
    worst_ms, busy_ms, had, words, segments = 0.0, -np.inf, 0, 0, 0
    for event in trace.events:
        now_ms = event.t_ms - zero_ms
        match event:
            case ev.Text() | ev.Flushed():
                had += 1
            case ev.Committed():
                words += 1
            case ev.Eos() | ev.WordEnd() | ev.Wait(reason="credit"):
                busy_ms = now_ms
            case ev.Segment(seen=seen):
                segments += 1
                if had < len(due_ms) and max(seen, default=words) + 1 >= words:  # it took all that there was
                    lacked_ms = now_ms - float(due_ms[had])
                    if lacked_ms > MAX_LACK_MS:
                        return np.inf
                    worst_ms = max(worst_ms, lacked_ms)
                waited_ms = came_ms[:had] - np.maximum(due_ms[:had], busy_ms)
                worst_ms = max(worst_ms, float(waited_ms.max(initial=0.0)))
                busy_ms = now_ms
            case _:
                pass
    return worst_ms if segments else float((came_ms - due_ms).max())


def _given(trace: Trace) -> list[tuple[float, object]]:
    """What the voice was given, and when: texts, and that it was to speak without waiting for more."""
    return [
        (event.t_ms, (event.char_start, event.text) if isinstance(event, ev.Text) else "flush")
        for event in trace.events
        if isinstance(event, ev.Text | ev.Flushed)
    ]
