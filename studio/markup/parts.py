"""An utterance in parts, with pauses between them and at rates of their own, as markup asks for.

Each part is an utterance of the engine. ``PartedUtterance`` makes one of them: words, characters and samples are
counted through, and a pause is silence in whole frames, so that whoever takes an utterance takes this one.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadText, Closed, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.core.text.words import SpokenWord
from studio.core.time import MonotonicClock
from studio.markup.stretching import Stretcher
from studio.text.inline_phonemes import without_pronunciation
from studio.text.ssml import PART_READERS, PartReader, SpokenPart

_OPENERS = ThreadPoolExecutor(4, thread_name_prefix="parts")
_SILENT_FRAMES = 40  # of one event of silence


@dataclass
class _Part:
    """Text that is one utterance of the engine.

    Attributes:
        pause_ms: silence before it.
        tag: what stands for it in the text as sent.
        texts: those that were not passed on yet.
        is_whole: no more text is appended.
    """

    rate: float
    pause_ms: float = 0.0
    tag: str = ""
    texts: deque[str] = field(default_factory=deque[str])
    is_empty: bool = True
    is_whole: bool = False


@dataclass
class _Counts:
    """How much came before a part."""

    words: int = 0
    written: int = 0
    chars: int = 0
    samples: int = 0
    segments: int = 0
    t_ms: float = 0.0


class PartedUtterance:
    """See ``studio.core.ports.Utterance``. It cannot be revised, and wrong markup ends it as ``failed``.

    Text is passed on under one lock, in callers' threads, and events under another one, which nobody holds for long.
    """

    def __init__(self, engine: Engine, request: SpeakRequest, reader: PartReader) -> None:
        self._engine, self._request, self._reader = engine, request, reader
        self._clock = MonotonicClock()
        self._text_lock, self._lock = threading.RLock(), threading.RLock()
        self._listener: Callable[[], None] = lambda: None
        self._news = threading.Event()
        self._out: deque[ev.Event] = deque()
        self._parts: deque[_Part] = deque([_Part(1.0)])  # the first one is being spoken
        self._speaking: Utterance | None = engine.open(request)
        self.id, self.card = self._speaking.id, self._speaking.card
        self.provenance: Mapping[str, Any] = self._speaking.provenance
        self._before, self._so_far = _Counts(), _Counts()
        self._stretcher: Stretcher | None = None
        self._has_frames, self._channels = True, 0  # frames of a stretched sound would not fit it
        self._granted = request.credit_samples
        self._words: list[SpokenWord] = []
        self._starts, self._ends = dict[int, int](), dict[int, int]()  # samples, by word
        self._cancelled_sample = 0
        self._began_ms = self._last_ms = self._compute_ms = 0.0
        self._silent_ms = 0.0  # of the pause before the first part that was sent
        self._has_ended_text = self._is_cancelled = self._is_over = False
        self._is_first = True
        self._speaking.set_listener(self._tell)

    # --- text, in callers' threads ---------------------------------------------------------------------

    def push_text(self, text: str) -> None:
        self._read(lambda: self._reader.feed(text))

    def end(self) -> None:
        self._read(self._reader.end, is_end=True)

    def flush(self) -> None:
        with self._text_lock:
            self._check_open()
            if self._speaking is not None and not self._parts[0].is_whole:
                self._speaking.flush()

    def _read(self, read: Callable[[], Sequence[SpokenPart]], *, is_end: bool = False) -> None:
        with self._text_lock:
            self._check_open()
            try:
                for part in read():
                    self._add(part)
                if is_end:
                    self._has_ended_text = self._parts[-1].is_whole = True
                self._pass_on()
            except StudioError as error:
                self._fail(error)
        self._tell()

    def _check_open(self) -> None:
        if self._has_ended_text or self._is_cancelled or self._is_over:
            raise Closed("the text of this utterance has ended", "open a new one")

    def _add(self, part: SpokenPart) -> None:
        last = self._parts[-1]
        if part.text.strip():
            if last.is_empty:
                last.rate, last.is_empty = part.rate, False
            elif last.rate != part.rate:
                last.is_whole = True
                self._parts.append(last := _Part(part.rate, is_empty=False))
        if part.text and not last.is_whole:
            last.texts.append(part.text)
        if part.pause_ms and not last.is_empty:
            last.is_whole = True
            self._parts.append(last := _Part(part.rate))
        last.pause_ms += part.pause_ms
        last.tag += part.tag
        self._has_frames &= part.rate == 1.0 and not (part.pause_ms and self._parts[0].is_empty)

    def _pass_on(self) -> None:
        """Send the first part's pause, and give its text to its utterance, which is opened for it."""
        part = self._parts[0]
        if self._speaking is None and not part.is_empty and not self._is_over:
            with self._lock:
                self._send_tag()
                self._send_silence()  # now: the credit for what follows comes when it is played
            credit = None if self._granted is None else max(0, self._to_part(self._granted, part.rate))
            opened = self._engine.open(replace(self._request, credit_samples=credit))
            with self._lock:
                if self._is_cancelled or self._is_over:
                    opened.cancel()
                    return
                self._speaking = opened
            opened.set_listener(self._tell)
            if self._granted is not None:
                opened.grant(self._to_part(self._granted, part.rate))
        if self._speaking is None:
            with self._lock:
                self._send_tag()
                self._send_silence()
                if part.is_whole:  # nothing but a pause
                    self._emit(ev.Ended(samples=self._so_far.samples, compute_ms=self._compute_ms), self._now_ms())
            return
        with suppress(Closed):  # it failed: its last event says so
            while part.texts:
                self._speaking.push_text(part.texts[0])
                part.texts.popleft()
            if part.is_whole:
                self._speaking.end()

    def _begin_next(self) -> None:
        """The first part was spoken: go on with the one after it."""
        with self._text_lock:
            with self._lock:
                self._parts.popleft()
                self._silent_ms = 0.0
            try:
                self._pass_on()
            except StudioError as error:
                self._fail(error)
        self._tell()

    # --- control ---------------------------------------------------------------------------------------

    def cancel(self, played_sample: int = 0) -> None:
        with self._lock:
            if self._is_cancelled or self._is_over:
                return
            self._is_cancelled, self._cancelled_sample = True, played_sample
            if self._speaking is None:
                self._emit_cancelled()
                self._emit(ev.Ended(samples=self._so_far.samples, compute_ms=self._compute_ms))
            else:
                self._speaking.cancel(max(0, self._to_part(played_sample)))
        self._tell()

    def settled_chars(self) -> int:
        return self._so_far.chars

    def revise(self, char_start: int, text: str) -> None:
        raise BadText("text with markup cannot be revised", "open the utterance without 'markup'")

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        with self._lock:
            if self._speaking is not None:
                self._speaking.set_options(options, temperature)
            changed = self._request if temperature is None else replace(self._request, temperature=temperature)
            self._request = replace(changed, options={**changed.options, **options})

    def grant(self, until_sample: int) -> None:
        with self._lock:
            self._granted = max(until_sample, self._granted or 0)
            if self._speaking is not None:
                self._speaking.grant(max(0, self._to_part(until_sample)))

    def played(self, sample: int) -> None:
        with self._lock:
            self._emit(ev.Played(sample=sample), at_ms=self._now_ms())
        self._tell()

    def add_event(self, event: ev.Event) -> None:
        with self._lock:
            if self._is_over:
                raise Closed("this utterance has ended", "open a new one")
            self._emit(event, at_ms=self._now_ms())
        self._tell()

    def _to_part(self, sample: int, rate: float | None = None) -> int:
        """A sample of the whole as one of the part's utterance."""
        return round((sample - self._before.samples) * (self._parts[0].rate if rate is None else rate))

    # --- events ----------------------------------------------------------------------------------------

    def set_listener(self, callback: Callable[[], None]) -> None:
        self._listener = callback
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._listener()

    def poll_events(self, limit: int | None = None) -> list[ev.Event]:
        with self._lock:
            while self._speaking is not None and not self._is_over and (limit is None or len(self._out) < limit):
                events = self._speaking.poll_events(limit)
                for event in events:
                    self._forward(event)
                if not events:
                    break
            count = len(self._out) if limit is None else min(limit, len(self._out))
            return [self._out.popleft() for _ in range(count)]

    def events(self) -> Iterator[ev.Event]:
        while True:
            self._news.clear()
            events = self.poll_events()
            yield from events
            if not events and self._is_over:
                return
            if not events:
                self._news.wait()

    def _now_ms(self) -> float:
        return max(0.0, self._clock.now_ms() - self._began_ms)

    def _emit(self, event: ev.Event, at_ms: float | None = None) -> None:
        if self._is_over:
            return
        self._last_ms = max(self._last_ms, event.t_ms + self._before.t_ms if at_ms is None else at_ms)
        if isinstance(event, ev.WordStart):
            self._starts[event.i] = event.sample
        elif isinstance(event, ev.WordEnd):
            self._ends[event.i] = event.sample
        self._out.append(event.stamped(self._last_ms))
        self._is_over = ev.is_last(event)

    def _fail(self, error: StudioError) -> None:
        with self._lock:
            speaking, self._speaking = self._speaking, None
            self._emit(ev.Failed(code=error.code, message=str(error)), at_ms=self._now_ms())
        if speaking is not None:
            speaking.cancel()

    def _forward(self, event: ev.Event) -> None:
        before, so_far = self._before, self._so_far
        match event:
            case ev.Queued():
                if self._is_first:
                    self._emit(event)
            case ev.Ready():
                if self._is_first:
                    self._began_ms = self._clock.now_ms() - event.t_ms
                    self._emit(event)
                self._is_first, before.t_ms = False, self._now_ms() - event.t_ms
            case ev.TextReceived():
                self._send_tag()
                so_far.chars += len(event.text)
                self._emit(replace(event, char_start=event.char_start + before.chars))
            case ev.Committed():
                spelt = without_pronunciation(event.word)
                so_far.words, so_far.written = before.words + event.i + 1, before.written + event.written + 1
                chars = {"char_start": event.char_start + before.chars, "char_end": event.char_end + before.chars}
                word = SpokenWord(so_far.words - 1, spelt, so_far.written - 1, **chars)
                self._words.append(word)
                self._emit(replace(event, i=word.i, word=spelt, written=word.written, **chars))
            case ev.Unsupported():
                chars = {"char_start": event.char_start + before.chars, "char_end": event.char_end + before.chars}
                self._emit(replace(event, **chars))
            case ev.Flushed():
                self._emit(replace(event, words=event.words + before.words))
            case ev.Played():
                pass
            case ev.Cancelled():
                self._emit_cancelled()
            case ev.Failed():
                self._emit(event)
            case ev.Ended():
                self._end_part(event)
            case _:
                self._forward_sound(event)

    def _forward_sound(self, event: ev.Event) -> None:
        self._send_silence()
        before, so_far = self._before, self._so_far
        match event:
            case ev.Audio():
                if self._parts[0].rate == 1.0:
                    self._send(event, event.pcm)
                else:
                    self._stretcher = self._stretcher or Stretcher(self.card.sample_rate_hz, self._parts[0].rate)
                    self._send(event, self._stretcher.feed(event.pcm))
            case ev.WordStart() | ev.WordEnd():
                self._emit(replace(event, i=event.i + before.words, sample=self._to_whole(event.sample)))
            case ev.Segment():
                so_far.segments = before.segments + event.index + 1
                words, seen = ([one + before.words for one in some] for some in (event.words, event.seen))
                sample = self._to_whole(event.sample)
                place = {"sample": sample, "frame": sample // self.card.frame_samples}
                self._emit(replace(event, index=so_far.segments - 1, words=words, seen=seen, **place))
            case ev.Eos() if self._has_frames:
                frame = event.frame + self._first_frame()
                self._emit(replace(event, segment=event.segment + before.segments, frame=frame))
            case ev.Frames() if self._has_frames:
                self._channels = event.levels.shape[1]
                self._emit(replace(event, first_frame=event.first_frame + self._first_frame()))
            case ev.Wait():
                self._emit(replace(event, sample=self._to_whole(event.sample)))
            case ev.Eos() | ev.Frames():
                pass
            case _:
                self._emit(event)

    def _first_frame(self) -> int:
        return self._before.samples // self.card.frame_samples

    def _to_whole(self, sample: int) -> int:
        return self._before.samples + round(sample / self._parts[0].rate)

    def _send(self, event: ev.Event, pcm: np.ndarray) -> None:
        if len(pcm):
            self._emit(ev.Audio(t_ms=event.t_ms, sample=self._so_far.samples, pcm=pcm))
            self._so_far.samples += len(pcm)

    def _send_tag(self) -> None:
        """What stands for the pause in the text, before the text of the part."""
        tag, self._parts[0].tag = self._parts[0].tag, ""
        if tag:
            self._emit(ev.TextReceived(char_start=self._before.chars, text=tag), at_ms=self._last_ms)
            self._so_far.chars += len(tag)
            self._before.chars += len(tag)

    def _send_silence(self) -> None:
        """The rest of the pause before the part, before anything else that has a place in the sound."""
        due_ms, self._silent_ms = self._parts[0].pause_ms - self._silent_ms, self._parts[0].pause_ms
        if not due_ms:
            return
        frame_samples = self.card.frame_samples
        left = round(due_ms * self.card.sample_rate_hz / 1000.0 / frame_samples)
        while left > 0:
            count = min(left, _SILENT_FRAMES)
            if self._has_frames and self._channels:
                levels, first = np.zeros((count, self._channels), np.uint8), self._so_far.samples // frame_samples
                self._emit(ev.Frames(first_frame=first, p_eos=[np.nan] * count, levels=levels), at_ms=self._last_ms)
            pcm = np.zeros(count * frame_samples, np.int16)
            self._emit(ev.Audio(sample=self._so_far.samples, pcm=pcm), at_ms=self._last_ms)
            self._so_far.samples += len(pcm)
            left -= count
        self._before.samples = self._so_far.samples

    def _end_part(self, ended: ev.Ended) -> None:
        self._send_tag()
        self._send_silence()
        if self._stretcher is not None:  # to the length that the times of words were counted with
            left = max(0, self._to_whole(ended.samples) - self._so_far.samples)
            rest = self._stretcher.finish()[:left]
            self._send(ended, np.concatenate([rest, np.zeros(left - len(rest), np.int16)]))
            self._stretcher = None
        self._compute_ms += ended.compute_ms
        self._speaking = None
        if self._is_cancelled or len(self._parts) == 1:  # also where the engine ends before the text does
            self._emit(replace(ended, samples=self._so_far.samples, compute_ms=self._compute_ms))
            return
        self._before = replace(self._so_far, t_ms=self._last_ms)
        _OPENERS.submit(self._begin_next)

    def _emit_cancelled(self) -> None:
        sample, words, count = min(self._cancelled_sample, self._so_far.samples), self._words, 0
        while self._ends.get(count, sample + 1) <= sample:
            count += 1
        partial = count if self._starts.get(count, sample) < sample else None
        whole = count  # words of tokens that were played to their ends
        while 0 < whole < len(words) and words[whole].written == words[whole - 1].written:
            whole -= 1
        char_end = words[whole - 1].char_end if whole else 0
        cancelled = ev.Cancelled(heard=[*range(count)], sample=sample, word=partial, char_end=char_end)
        self._emit(cancelled, at_ms=self._now_ms())


def open_marked(engine: Engine, request: SpeakRequest, markup: str) -> Utterance:
    """Begin an utterance whose text has pauses where ``markup`` has them. Raises as ``Engine.open``."""
    reader = PART_READERS.get(markup)
    return engine.open(request) if reader is None else PartedUtterance(engine, request, reader())


class MarkedEngine:
    """An engine whose utterances are written in a markup; see ``studio.core.ports.Engine``."""

    def __init__(self, engine: Engine, markup: str) -> None:
        self._engine, self._markup = engine, markup
        self.cards, self.is_loaded, self.free_slots = engine.cards, engine.is_loaded, engine.free_slots
        self.drain, self.close = engine.drain, engine.close

    def open(self, request: SpeakRequest) -> Utterance:
        """See ``Engine.open``."""
        return open_marked(self._engine, request, self._markup)
