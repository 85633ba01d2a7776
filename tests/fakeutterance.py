"""A scripted utterance without torch: text in, tones out."""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from tones import FRAME_MS, FRAME_SAMPLES, LETTER_MS, MAX_CHARS, RATE_HZ, TONES_HZ, checked_options, checked_temperature

from studio.core import events as ev
from studio.core.cards import parse_voice
from studio.core.errors import BadOption, BadText, Closed, Full, TooLate
from studio.core.options import default_options
from studio.core.ports import MAX_SEED, SpeakRequest
from studio.core.text.reasons import UnsupportedSpan
from studio.core.traces.provenance import provenance

if TYPE_CHECKING:
    from fakes import FakeEngine


class _RevisedError(Exception):
    """What is being said was revised."""


@dataclass(frozen=True)
class _Word:
    text: str
    start: int
    end: int


class FakeUtterance:
    """One stream of text in and tones out, spoken by its own thread."""

    def __init__(self, engine: "FakeEngine", number: int, request: SpeakRequest) -> None:
        self.id = number
        self.request = request
        self.card, self.speaker = parse_voice(request.voice, {c.name: c for c in engine.cards()})
        self._options = checked_options(self.card, request.options, default_options(self.card.options))
        temperature = checked_temperature(self.card, request.temperature)
        if not 0 <= request.seed <= MAX_SEED:
            raise BadOption("the seed is out of range", f"it is a whole number from 0 to {MAX_SEED}")
        self.provenance = provenance(self.card, device="none", threads=1, temperature=temperature)
        self._engine, self._script, self._request = engine, engine.script, request
        self._turn = threading.Condition(threading.RLock())
        self._events: queue.SimpleQueue[ev.Event] = queue.SimpleQueue()
        self._words: list[_Word] = []
        self._tail, self._chars = "", 0
        self._spoken = self._flush_to = self._sample = self._heard_sample = 0
        self._segments = 0
        self._credit = request.credit_samples
        self._no_more = self._is_cancelled = self._over = False
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._text = ""
        self.pace = 1.0
        self._cuts = self._saying = 0  # revisions; words that are said or being said
        self._marks = [(0, 0, 0)]  # between segments: sample, words spoken, segments
        self._zero = time.perf_counter()
        self._news: Callable[[], None] = lambda: None
        self._held: list[ev.Event] | None = []  # emitted after ``ready``
        self._ahead = -1
        self._asked_s = time.perf_counter()
        self._ready = ev.Ready(
            utterance=number,
            voice=self.card.name,
            speaker=self.speaker,
            family=self.card.family,
            rate_hz=RATE_HZ,
            frame_samples=FRAME_SAMPLES,
            seed=request.seed,
            options=dict(self._options),
        )
        self._thread = threading.Thread(target=self._run, name=f"tone-{number}", daemon=True)

    @property
    def samples(self) -> int:
        """Samples made."""
        return self._sample

    # --- client API ------------------------------------------------------------------------------

    def push_text(self, text: str) -> None:
        text = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates
        with self._turn:
            if not text:
                return
            self._open_for_text()
            if self._chars + len(text) > MAX_CHARS:
                raise Full(f"the text is longer than {MAX_CHARS} characters", "begin a new utterance")
            self._emit(ev.TextReceived(char_start=self._chars, text=text))
            self._text += text
            self._take(text)
            self._turn.notify_all()

    def flush(self) -> None:
        with self._turn:
            self._open_for_text()
            self._flush_to = len(self._words)
            self._emit(ev.Flushed(words=self._flush_to))
            self._turn.notify_all()

    def end(self) -> None:
        with self._turn:
            self._open_for_text()
            self._take(" ")
            self._no_more, self._flush_to = True, len(self._words)
            self._turn.notify_all()

    def cancel(self, played_sample: int = 0) -> None:
        with self._turn:
            if not self._is_cancelled and not self._over:
                self._is_cancelled = True
                self._heard_sample = max(self._heard_sample, played_sample)
                self._turn.notify_all()
        if self._leave():
            self._emit(self._cancelled())
            self._emit(ev.Ended(samples=0))

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        checked_temperature(self.card, temperature)
        with self._turn:
            self._open_for_text()
            self._options = checked_options(self.card, options, self._options)
            self._emit(ev.OptionsChanged(options=dict(self._options)))
            self._turn.notify_all()

    def settled_chars(self) -> int:
        with self._turn:
            left = self._left()
            bound = left[0][1] if left else self._saying
            return self._words[bound].start if bound < len(self._words) else len(self._text) - len(self._tail.strip())

    def revise(self, char_start: int, text: str) -> None:
        with self._turn:
            if self._is_cancelled or self._over:
                raise Closed("the utterance has ended", "open a new one")
            if not 0 <= char_start <= len(self._text):
                raise BadText(f"there is no character {char_start}", "revise what was sent")
            if char_start < self.settled_chars():
                raise TooLate("that is spoken or being spoken", "revise what follows")
            if self._text[char_start:] == text:
                return
            words, seen = sum(word.end < char_start for word in self._words), self._window()[0] - self._window()[1]
            left = self._left()
            if left and (self._marks[-1][1] + seen > words or self._saying > words):
                unseen = [mark for mark in left if mark[1] + seen <= words]
                self._sample, self._spoken, self._segments = unseen[-1] if unseen else left[0]
                self._marks = [mark for mark in self._marks if mark[0] <= self._sample]
                self._saying = self._spoken
                del self._starts[self._spoken :], self._ends[self._spoken :]
            self._cuts += 1
            self._emit(ev.TextReceived(char_start=char_start, text=text))
            self._emit(ev.Revised(from_sample=self._sample, take=self._cuts, words=words))
            self._text = self._text[:char_start] + text
            self._chars = self._words[words - 1].end if words else 0
            self._tail = ""
            del self._words[words:]
            self._flush_to = min(self._flush_to, words)
            self._take(self._text[self._chars :] + " " * self._no_more)
            self._flush_to = len(self._words) if self._no_more else self._flush_to
            self._turn.notify_all()

    def _left(self) -> list[tuple[int, int, int]]:
        """Positions between segments that cannot have been heard yet."""
        floor = min(self._heard_sample + round(2400 * self.pace), self._sample)
        return [mark for mark in self._marks if mark[0] >= floor]

    def grant(self, until_sample: int) -> None:
        with self._turn:
            if self._credit is not None and until_sample > self._credit:
                self._credit = until_sample
                self._turn.notify_all()

    def played(self, sample: int) -> None:
        with self._turn:
            if sample > self._heard_sample:
                self._heard_sample = sample
                self._emit(ev.Played(sample=sample))

    def set_pace(self, pace: float) -> None:
        self.pace = pace

    def add_event(self, event: ev.Event) -> None:
        self._emit(event)

    def set_listener(self, callback: Callable[[], None]) -> None:
        self._news = callback
        callback()

    def poll_events(self, limit: int | None = None) -> list[ev.Event]:
        there = self._events.qsize()
        return [self._events.get() for _ in range(there if limit is None else min(there, limit))]

    def events(self) -> Iterator[ev.Event]:
        while True:
            event = self._events.get()
            yield event
            if ev.is_last(event):
                return

    # --- engine side -----------------------------------------------------------------------------

    def _open_for_text(self) -> None:
        if self._no_more or self._is_cancelled or self._over:
            raise Closed("the utterance has ended", "open a new one")

    def _emit(self, event: ev.Event) -> None:
        with self._turn:
            if self._held is not None and not isinstance(event, ev.Queued | ev.Cancelled | ev.Ended | ev.Failed):
                self._held.append(event)
            elif not self._over:
                self._over = ev.is_last(event)
                self._events.put(replace(event, t_ms=(time.perf_counter() - self._zero) * 1000.0))
                self._news()

    def _take(self, text: str) -> None:
        """Commit every word of the text that white space completes."""
        base = self._chars - len(self._tail)
        self._chars += len(text)
        whole = self._tail + text
        cut = max((i + 1 for i, c in enumerate(whole) if c.isspace()), default=0)
        closed, self._tail = whole[:cut], whole[cut:]
        at = 0
        for token in closed.split():
            at = closed.index(token, at)
            start, at = base + at, at + len(token)
            if any(c.isalnum() and c.isascii() for c in token):
                i = len(self._words)
                self._words.append(_Word(token, start, base + at))
                word = ev.Committed(i=i, word=token.lower(), written=i, char_start=start, char_end=base + at)
                self._emit(word)
            else:
                self._emit(UnsupportedSpan(start, base + at, "no_reading").event())

    def _run(self) -> None:
        try:
            while self._speak_unless_revised():
                pass
            with self._turn:
                if self._is_cancelled:
                    self._emit(self._cancelled())
        finally:
            self._engine.free(self)
            self._engine.settle()
            self._emit(ev.Ended(samples=self._sample, compute_ms=self._sample / RATE_HZ * 1000.0 / self._script.speed))

    def _speak_unless_revised(self) -> bool:
        try:
            return self._speak_segment()
        except _RevisedError:
            return True

    def _cancelled(self) -> ev.Cancelled:
        heard = [i for i, end in enumerate(self._ends) if end <= self._heard_sample]
        begun = [i for i, start in enumerate(self._starts) if start < self._heard_sample]
        chars = self._words[heard[-1]].end if heard else 0
        return ev.Cancelled(heard=heard, sample=self._heard_sample, word=begun[-1] if begun else None, char_end=chars)

    def _pause(self, reason: ev.WaitReason, ready: Any) -> None:
        """Wait until ``ready()`` or a cancel; a pause within speech is an event."""
        began = time.perf_counter()
        with self._turn:
            self._turn.wait_for(lambda: self._is_cancelled or ready())
            paused_ms = (time.perf_counter() - began) * 1000.0
            if paused_ms >= 1.0 and self._sample:
                self._emit(ev.Wait(reason=reason, sample=self._sample, duration_ms=paused_ms))

    def _window(self) -> tuple[int, int]:
        """m and n; a voice with other options speaks each word after two more."""
        return self._options.get("m", 3), self._options.get("n", 1)

    def _may_speak(self) -> bool:
        waiting = len(self._words) - self._spoken
        return self._no_more or self._flush_to > self._spoken or waiting >= self._window()[0]

    def _speak_segment(self) -> bool:
        """Speak one segment; False if nothing more will be said."""
        self._pause("text", self._may_speak)
        with self._turn:
            if self._is_cancelled or self._spoken >= len(self._words):
                return False
            m, n = self._window()
            known = min(len(self._words), self._spoken + m)
            said = list(range(self._spoken, min(self._spoken + n, known)))
            first_frame = self._sample // FRAME_SAMPLES
            seen = list(range(self._spoken, known))
            self._saying, cuts = said[-1] + 1, self._cuts
            self._emit(ev.Segment(index=self._segments, words=said, seen=seen, sample=self._sample, frame=first_frame))
        time.sleep(self._script.cold_ms / 1000.0)
        for i in said:
            if not self._speak_word(i, cuts, last=i == said[-1], source="eos" if len(said) == 1 else "estimate"):
                return False
        with self._turn:
            self._spoken, self._segments = said[-1] + 1, self._segments + 1
            self._marks.append((self._sample, self._spoken, self._segments))
        return True

    def _speak_word(self, i: int, cuts: int, last: bool, source: ev.WordSource) -> bool:
        if i == self._script.fail_at_word:
            self._emit(ev.Failed(code="internal", message=f"the script fails at word {i}. Speak the text again"))
            return False
        if i == self._script.stall_at_word:
            time.sleep(self._script.stall_ms / 1000.0)
            self._emit(ev.Wait(reason="compute", sample=self._sample, duration_ms=self._script.stall_ms))
        frames = self.frames_of(self._words[i].text)
        start = self._sample
        for k in range(frames):
            if not self._speak_frame(k, start, cuts, p_eos=0.97 if last and k == frames - 1 else 0.01):
                return False
            if k == 0:
                self._starts.append(start)
                self._emit(ev.WordStart(i=i, sample=start, source=source))
        with self._turn:
            if self._is_taken_back(cuts):
                raise _RevisedError
            if last:
                self._emit(ev.Eos(segment=self._segments, frame=self._sample // FRAME_SAMPLES, p=0.97, forced=False))
            self._ends.append(self._sample)
            self._emit(ev.WordEnd(i=i, sample=self._sample, source=source))
        return True

    def _is_taken_back(self, cuts: int) -> bool:
        """Whether a revision removed the current segment."""
        return cuts != self._cuts and self._saying == self._spoken

    def _speak_frame(self, k: int, word_start: int, cuts: int, p_eos: float) -> bool:
        self._pause("credit", lambda: self._credit is None or self._sample + FRAME_SAMPLES <= self._credit)
        time.sleep(FRAME_MS / 1000.0 / self._script.speed)
        with self._turn:
            if self._is_cancelled:
                return False
            if self._is_taken_back(cuts):
                raise _RevisedError
            at = np.arange(self._sample - word_start, self._sample - word_start + FRAME_SAMPLES)
            edge = np.minimum(1.0, at / 240.0) if k == 0 else 1.0
            tone = 0.25 * edge * np.sin(2 * np.pi * TONES_HZ[self.speaker] * at / RATE_HZ)
            levels = np.full((1, 80), 3 + k % 12, np.uint8)
            self._emit(ev.Frames(first_frame=self._sample // FRAME_SAMPLES, p_eos=[p_eos], levels=levels))
            self._emit(ev.Audio(sample=self._sample, pcm=(tone * 32767).astype(np.int16)))
            self._sample += FRAME_SAMPLES
        return True

    @staticmethod
    def frames_of(word: str) -> int:
        """Frames of a word's tone: 60 ms per letter."""
        return max(1, round(LETTER_MS * sum(c.isalnum() for c in word) / FRAME_MS))

    def start(self) -> None:
        """Start speaking."""
        with self._turn:
            held, self._held = self._held or [], None
            self._zero = time.perf_counter()
            queued_ms = (self._zero - self._asked_s) * 1000.0 if self._ahead >= 0 else 0.0
            self._emit(replace(self._ready, queued_ms=queued_ms))
            for event in held:
                self._emit(event)
        self._thread.start()

    def wait_behind(self, ahead: int) -> None:
        """Report a changed queue position."""
        with self._turn:
            if ahead != self._ahead and not self._over:
                self._ahead = ahead
                self._emit(ev.Queued(ahead=ahead))

    def wind_up(self) -> None:
        """Accept no more text and speak what is committed."""
        with self._turn:
            self._no_more, self._flush_to = True, len(self._words)
            self._turn.notify_all()

    def fail(self, code: str, message: str) -> None:
        """End before the start."""
        self._emit(ev.Failed(code=code, message=message))

    def _leave(self) -> bool:
        """Remove it from the queue; whether it was queued."""
        with self._turn:
            waited = self._held is not None and not self._over
        if waited:
            self._engine.free(self)
            self._engine.settle()
        return waited

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join(5.0)
