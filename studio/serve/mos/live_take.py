"""One voice of one live screen: its keys and their times, its level, and the effect of late keys."""

import asyncio
from dataclasses import dataclass, field, replace

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadMessage, BadText, Closed
from studio.core.traces.trace import Trace
from studio.mos.sessions.takes import MAX_STROKES, Keystroke, SlotVoice
from studio.serve.live import protocol as wire

PACKET_SAMPLES = 600
MAX_LACK_MS = 20.0  # keys so shortly before a segment may be missing in it, in the original as in the replay


@dataclass
class LiveTake:
    """One slot of one screen during its take. Times are of the event loop's clock, in s."""

    trial: str
    slot: int
    part: SlotVoice
    gain: float
    strokes: list[Keystroke] = field(default_factory=list[Keystroke])
    began_s: float | None = None
    end_ms: float | None = None
    chars: int = 0  # in the field
    samples: int = 0
    rate_hz: int = 0
    is_cancelled: bool = False
    is_whole: bool = False
    replay: asyncio.Task[None] | None = None  # replays the typing of the first voice
    limit: asyncio.Task[None] | None = None  # enforces the time limit
    opened: asyncio.Event = field(default_factory=asyncio.Event)  # the voice has a slot

    def stop(self) -> None:
        """Stop the replay and the time limit."""
        for task in (self.replay, self.limit):
            if task is not None:
                task.cancel()

    def note(self, message: wire.EditText | wire.End, now_s: float) -> None:
        """Record a key with its time.

        Raises Closed, BadMessage: the voice would not accept it either, so it must not be replayed; BadText: there are
        too many keys or characters.
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
        self.strokes.append(Keystroke(at_ms, message.at, message.remove, message.insert))

    def note_pause(self, now_s: float) -> None:
        """Record a pause after which the voice flushes; the replay flushes at the same place."""
        if self.end_ms is None and len(self.strokes) < MAX_STROKES:
            self.strokes.append(Keystroke(self._at_ms(now_s), self.chars, 0, ""))

    def _at_ms(self, now_s: float) -> float:
        self.began_s = now_s if self.began_s is None else self.began_s
        return 1000.0 * (now_s - self.began_s)


def leveled_packets(audio: ev.Audio, gain: float) -> list[ev.Audio]:
    """The audio with a gain, in packets of one size."""
    pcm = np.clip(np.rint(audio.pcm * gain), -32768, 32767).astype(np.int16)
    starts = range(0, len(pcm), PACKET_SAMPLES)
    return [replace(audio, sample=audio.sample + at, pcm=pcm[at : at + PACKET_SAMPLES]) for at in starts]


def late_ms(trace: Trace, other: Trace) -> float:
    """The delay in ms that late keys caused in a replay of ``other``; infinite where the voice read another text.

    A late key has no effect while the voice is busy with the words that it has. It delays the voice where the voice had
    to wait for it. It changes the text where a segment began without it more than ``MAX_LACK_MS`` after it was due, or
    where the order of texts and flushes differs.
    """
    inputs, expected = _inputs(trace), _inputs(other)
    if not expected or [text for _, text in inputs] != [text for _, text in expected]:
        return np.inf
    came_ms, due_ms = (np.array([t_ms for t_ms, _ in one]) for one in (inputs, expected))
    zero_ms = float((came_ms - due_ms).min())  # the most punctual input sets the clock
    came_ms = came_ms - zero_ms
    worst_ms, busy_ms, had, words, segments = 0.0, -np.inf, 0, 0, 0
    for event in trace.events:
        now_ms = event.t_ms - zero_ms
        match event:
            case ev.TextReceived() | ev.Flushed():
                had += 1
            case ev.Committed():
                words += 1
            case ev.Eos() | ev.WordEnd() | ev.Wait(reason="credit"):
                busy_ms = now_ms
            case ev.Segment(seen=seen):
                segments += 1
                if had < len(due_ms) and max(seen, default=words) + 1 >= words:  # the segment saw all words
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


def _inputs(trace: Trace) -> list[tuple[float, object]]:
    """The inputs of the voice: time in ms, and the text or a flush."""
    return [
        (event.t_ms, (event.char_start, event.text) if isinstance(event, ev.TextReceived) else "flush")
        for event in trace.events
        if isinstance(event, ev.TextReceived | ev.Flushed)
    ]
