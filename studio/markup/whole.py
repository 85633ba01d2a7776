"""Events of an utterance in parts: those of its parts, with words, characters and samples numbered continuously."""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.text.words import SpokenWord
from studio.core.time import MonotonicClock
from studio.markup.stretching import Stretcher
from studio.text.inline_phonemes import without_pronunciation

_SILENT_FRAMES = 40  # of one event of silence


@dataclass
class Part:
    """Text that is one utterance of the engine.

    Attributes:
        pause_ms: silence before it.
        tag: the markup for it in the text as sent.
        texts: text that was not passed on yet.
        is_whole: no more text is appended.
    """

    rate: float
    pause_ms: float = 0.0
    tag: str = ""
    texts: deque[str] = field(default_factory=deque[str])
    is_empty: bool = True
    is_whole: bool = False


@dataclass
class Counts:
    """Totals of the parts before a part."""

    words: int = 0
    written: int = 0
    chars: int = 0
    samples: int = 0
    segments: int = 0
    t_ms: float = 0.0


class WholeEvents:
    """Turns the events of one part after another into those of the whole; not thread-safe.

    Attributes:
        part: the part that is being spoken.
        before: totals of the parts before it; ``so_far``: totals of all that was sent.
        is_over: the last event was sent. ``compute_ms``: of the parts that have ended.
        cancelled_sample: up to which the whole was heard, if it is cancelled.
    """

    def __init__(self, card: Card, part: Part) -> None:
        self.card, self.part = card, part
        self.out: deque[ev.Event] = deque()
        self.before, self.so_far = Counts(), Counts()
        self.has_frames, self._channels = True, 0  # frames would not match a stretched sound
        self.is_over = False
        self.compute_ms, self.cancelled_sample = 0.0, 0
        self._clock = MonotonicClock()
        self._stretcher: Stretcher | None = None
        self._words: list[SpokenWord] = []
        self._starts, self._ends = dict[int, int](), dict[int, int]()  # samples, by word
        self._began_ms = self._last_ms = 0.0
        self._silent_ms = 0.0  # of the pause before the part that was sent
        self._made = 0  # samples of the part
        self._is_first, self._has_told_cancel = True, False

    def to_part(self, sample: int) -> int:
        """The sample of the part's utterance at a sample of the whole."""
        return round((sample - self.before.samples) * self.part.rate)

    def end(self) -> None:
        """Send the end of the whole if it is not the end of a part."""
        self.emit(ev.Ended(samples=self.so_far.samples, compute_ms=self.compute_ms), at_ms=self.now_ms())

    def finish_part(self, ended: ev.Ended) -> None:
        """Send what is left of the part."""
        self.send_tag()
        self.send_silence()
        self.finish_sound(ended.t_ms + self.before.t_ms)

    def finish_sound(self, at_ms: float) -> None:
        """Send the stretcher's remaining samples, in the length from which word times are calculated."""
        stretcher, self._stretcher = self._stretcher, None
        left = self._to_whole(self._made) - self.so_far.samples
        if stretcher is not None and left > 0:
            self.emit(ev.Audio(sample=self.so_far.samples, pcm=stretcher.finish(left)), at_ms=at_ms)
            self.so_far.samples += left

    def begin(self, part: Part) -> None:
        """Continue with another part."""
        self.before = replace(self.so_far, t_ms=self._last_ms)
        self.part, self._silent_ms, self._made = part, 0.0, 0

    def now_ms(self) -> float:
        """Time since the first part was ready."""
        return max(0.0, self._clock.now_ms() - self._began_ms)

    def emit(self, event: ev.Event, at_ms: float | None = None, **changes: Any) -> None:
        """Send an event of the whole, with changed fields, at ``at_ms`` or else its time in the part."""
        if self.is_over:
            return
        self._last_ms = max(self._last_ms, event.t_ms + self.before.t_ms if at_ms is None else at_ms)
        event = event.stamped(self._last_ms, **changes)
        if isinstance(event, ev.WordStart):
            self._starts[event.i] = event.sample
        elif isinstance(event, ev.WordEnd):
            self._ends[event.i] = event.sample
        self.out.append(event)
        self.is_over = ev.is_last(event)

    def forward(self, event: ev.Event) -> None:
        """Send an event of the part, unless it is its end, as one of the whole."""
        before, so_far = self.before, self.so_far
        match event:
            case ev.Queued():
                if self._is_first and not self.is_over:
                    self.out.append(event)  # its time counts from another origin
            case ev.Ready():
                if self._is_first:
                    self._began_ms = self._clock.now_ms() - event.t_ms
                    self.emit(event)
                self._is_first, before.t_ms = False, self.now_ms() - event.t_ms
            case ev.TextReceived():
                self.send_tag()
                so_far.chars += len(event.text)
                self.emit(event, char_start=event.char_start + before.chars)
            case ev.Committed():
                spelling = without_pronunciation(event.word)
                so_far.words, so_far.written = before.words + event.i + 1, before.written + event.written + 1
                chars = {"char_start": event.char_start + before.chars, "char_end": event.char_end + before.chars}
                word = SpokenWord(so_far.words - 1, spelling, so_far.written - 1, **chars)
                self._words.append(word)
                self.emit(event, i=word.i, word=spelling, written=word.written, **chars)
            case ev.Unsupported():
                chars = {"char_start": event.char_start + before.chars, "char_end": event.char_end + before.chars}
                self.emit(event, **chars)
            case ev.Flushed():
                self.emit(event, words=event.words + before.words)
            case ev.Played():
                pass
            case ev.Cancelled():
                self.emit_cancelled()
            case ev.Failed():
                self.finish_sound(event.t_ms + before.t_ms)
                self.emit(event)
            case _:
                self._forward_sound(event)

    def _forward_sound(self, event: ev.Event) -> None:
        self.send_silence()
        before, so_far = self.before, self.so_far
        match event:
            case ev.Audio():
                self._made = event.sample + len(event.pcm)
                if self.part.rate == 1.0:
                    self._send(event, event.pcm)
                else:
                    self._stretcher = self._stretcher or Stretcher(self.card.sample_rate_hz, self.part.rate)
                    self._send(event, self._stretcher.feed(event.pcm))
            case ev.WordStart() | ev.WordEnd():
                self.emit(event, i=event.i + before.words, sample=self._to_whole(event.sample))
            case ev.Segment():
                so_far.segments = before.segments + event.index + 1
                words, seen = ([one + before.words for one in some] for some in (event.words, event.seen))
                sample = self._to_whole(event.sample)
                place = {"sample": sample, "frame": sample // self.card.frame_samples}
                self.emit(event, index=so_far.segments - 1, words=words, seen=seen, **place)
            case ev.Eos() if self.has_frames:
                frame = event.frame + self._first_frame()
                self.emit(event, segment=event.segment + before.segments, frame=frame)
            case ev.Frames() if self.has_frames:
                self._channels = event.levels.shape[1]
                self.emit(event, first_frame=event.first_frame + self._first_frame())
            case ev.Wait():
                self.emit(event, sample=self._to_whole(event.sample))
            case ev.Eos() | ev.Frames():
                pass
            case _:
                self.emit(event)

    def _first_frame(self) -> int:
        return self.before.samples // self.card.frame_samples

    def _to_whole(self, sample: int) -> int:
        return self.before.samples + round(sample / self.part.rate)

    def _send(self, event: ev.Event, pcm: np.ndarray) -> None:
        if len(pcm):
            self.emit(ev.Audio(t_ms=event.t_ms, sample=self.so_far.samples, pcm=pcm))
            self.so_far.samples += len(pcm)

    def send_tag(self) -> None:
        """Send the pause's markup as received text, before the text of the part."""
        tag, self.part.tag = self.part.tag, ""
        if tag:
            self.emit(ev.TextReceived(char_start=self.before.chars, text=tag), at_ms=self._last_ms)
            self.so_far.chars += len(tag)
            self.before.chars += len(tag)

    def send_silence(self) -> None:
        """Send the rest of the pause before the part, before any other event with a sample position."""
        due_ms, self._silent_ms = self.part.pause_ms - self._silent_ms, self.part.pause_ms
        if not due_ms:
            return
        frame_samples = self.card.frame_samples
        left = round(due_ms * self.card.sample_rate_hz / 1000.0 / frame_samples)
        while left > 0:
            count = min(left, _SILENT_FRAMES)
            if self.has_frames and self._channels:
                levels, first = np.zeros((count, self._channels), np.uint8), self.so_far.samples // frame_samples
                self.emit(ev.Frames(first_frame=first, p_eos=[np.nan] * count, levels=levels), at_ms=self._last_ms)
            pcm = np.zeros(count * frame_samples, np.int16)
            self.emit(ev.Audio(sample=self.so_far.samples, pcm=pcm), at_ms=self._last_ms)
            self.so_far.samples += len(pcm)
            left -= count
        self.before.samples = self.so_far.samples

    def emit_cancelled(self) -> None:
        """Report, once, which words were heard until ``cancelled_sample``."""
        if self._has_told_cancel:
            return
        self._has_told_cancel = True
        self.finish_sound(self.now_ms())  # its words were reported already
        sample, words, count = min(self.cancelled_sample, self.so_far.samples), self._words, 0
        while self._ends.get(count, sample + 1) <= sample:
            count += 1
        begun = max((i for i, start in self._starts.items() if start < sample), default=None)
        whole = count  # words of tokens that were played to their ends
        while 0 < whole < len(words) and words[whole].written == words[whole - 1].written:
            whole -= 1
        char_end = words[whole - 1].char_end if whole else 0
        cancelled = ev.Cancelled(heard=[*range(count)], sample=sample, word=begun, char_end=char_end)
        self.emit(cancelled, at_ms=self.now_ms())
