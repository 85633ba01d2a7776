"""One utterance inside the engine: text in from any thread, turns from the engine's thread, events out."""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadOption, Closed, Full
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, Normaliser
from studio.core.time import Clock
from studio.core.words import WordChanges, WordStream
from studio.engine.families.base import NotFinite, Row, Turn, Want
from studio.engine.waits import Waits

if TYPE_CHECKING:
    from studio.engine.voices import Voice

MAX_PENDING_CHARS = 1_000_000
_AHEAD_WORDS = 64  # committed before they are needed: a long paste is read as it is spoken
_READ_STEPS = 64  # in one turn: text that commits nothing must not keep others waiting

_ids = itertools.count(1)


@dataclass(frozen=True)
class _Push:
    at_ms: float
    text: str


@dataclass(frozen=True)
class _Flush:
    at_ms: float


@dataclass(frozen=True)
class _End:
    at_ms: float


def check_temperature(temperature: float) -> None:
    """Raises BadOption when a temperature is out of range."""
    if not 0.0 <= temperature <= MAX_TEMPERATURE:
        raise BadOption("the temperature is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE:g}")


class LocalUtterance:
    """An utterance spoken in this process; see ``studio.core.ports.Utterance``."""

    def __init__(
        self,
        voice: "Voice",
        row: Row,
        ready: ev.Ready,
        normalise: Normaliser,
        clock: Clock,
        wake: Callable[[], None],
        credit_samples: int | None,
        provenance: Mapping[str, Any],
    ) -> None:
        self.id = next(_ids)
        self.provenance = provenance
        self.card: Card = voice.card
        self.voice, self.slots = voice, row.slots
        self.done = self.failed = False
        self.stalls, self.stalled_ms = 0, 0.0
        self._row, self._clock, self._wake = row, clock, wake
        self._lock = threading.RLock()
        self._words = WordStream(normalise)
        self._feeding: Iterator[WordChanges] = iter(())
        self._inbox: deque[_Push | _Flush | _End] = deque()
        self._reading_ms = 0.0  # when what is being read came in
        self._options = {name: ready.options[name] for name in (spec.name for spec in voice.card.options)}
        self._options_due = False
        self._temperature_due: float | None = None
        self._pending_chars = self._sent_chars = self._said_words = 0
        self._closing: int | None = None  # the played sample of a cancel
        self._input_over = self._over = False
        self._granted = credit_samples
        self._granted_ms = clock.now_ms()
        self._turn: Turn | None = None
        self._samples = 0
        self._word_ends: list[tuple[int, int]] = []  # (sample, word) not yet known to be heard
        self._compute_ms = 0.0
        self._waits = Waits(voice.card.sample_rate_hz, voice.card.time_base.frame_ms)
        self._start_ms = clock.now_ms()
        self._out: SimpleQueue[ev.Event] = SimpleQueue()
        self._emit(replace(ready, utterance=self.id))

    # ------------------------------------------------------------ what callers do

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed, Full."""
        if not text:
            return
        text = text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text  # lone surrogates
        with self._lock:
            self._check_open()
            if self._pending_chars + len(text) > MAX_PENDING_CHARS:
                raise Full(
                    f"{MAX_PENDING_CHARS:,} characters wait to be spoken already",
                    "send more when some of it has been spoken",
                )
            self._emit(ev.Text(char_start=self._sent_chars, text=text))
            self._sent_chars += len(text)
            self._pending_chars += len(text)
            self._inbox.append(_Push(self._clock.now_ms(), text))
        self._wake()

    def flush(self) -> None:
        """Speak every committed word without waiting for more."""
        with self._lock:
            self._check_open()
            self._inbox.append(_Flush(self._clock.now_ms()))
        self._wake()

    def end(self) -> None:
        """No more text will come."""
        with self._lock:
            self._check_open()
            self._input_over = True
            self._inbox.append(_End(self._clock.now_ms()))
        self._wake()

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """Options from the next segment on, whatever text waits. Raises BadOption, Closed."""
        if temperature is not None:
            check_temperature(temperature)
        with self._lock:
            self._check_open()
            merged = merge_options(self.card.options, options, self._options)
            self._row.check(merged)
            self._options, self._options_due = merged, True
            self._temperature_due = self._temperature_due if temperature is None else temperature
        self._wake()

    def cancel(self, played_sample: int = 0) -> None:
        """Stop; nothing happens when it is over already."""
        with self._lock:
            if self._closing is None and not self.done:
                self._input_over = True
                self._closing = max(0, played_sample)
        self._wake()

    def grant(self, until_sample: int) -> None:
        """Let the voice run on until this sample."""
        with self._lock:
            if self._granted is not None and until_sample > self._granted:
                self._granted, self._granted_ms = until_sample, self._clock.now_ms()
        self._wake()

    def played(self, sample: int) -> None:
        """Record what the listener has heard."""
        self._emit(ev.Played(sample=sample))

    def note(self, event: ev.Event) -> None:
        """Add an event of the caller's."""
        self._emit(event)

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        while True:
            event = self._out.get()
            yield event
            if ev.is_last(event):
                return

    # ------------------------------------------------------------ what the engine's thread does

    def read(self) -> bool:
        """Take what callers sent, a bounded piece of it; answers whether there was anything.

        Words are committed while few are waiting: a long text is read only as fast as it is spoken.
        """
        if self._closing is not None:
            self._cancel(self._closing)
            return True
        did = self._read_options()
        for _ in range(_READ_STEPS):
            if self._row.unspoken >= _AHEAD_WORDS:
                return did
            changes = next(self._feeding, None)
            if changes is not None:
                self._take(changes)
            else:
                with self._lock:
                    if not self._inbox:
                        return did
                    message = self._inbox.popleft()
                self._reading_ms = message.at_ms
                self._handle(message)
            did = True
            if self._waits.awaits_text and self._row.want() is not None:
                self._waits.go(self._reading_ms)
        return did

    def want(self) -> Want | None:
        """What the row wants run now; None while it waits for text or credit, or when it has just ended."""
        if self._granted is not None and self._samples + self.card.frame_samples > self._granted:
            self._waits.hold("credit")
            return None
        want = self._row.want()
        if want is not None:
            self._waits.go(self._granted_ms if self._waits.held_by == "credit" else self._clock.now_ms())
        elif self._row.over and not self._inbox:
            self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))
        else:
            self._waits.hold("text")
        return want

    def took(self, outputs: Any, share_ms: float) -> None:
        """Take a module's result; what precedes the sound is told when the frame is there (the ladder's t1)."""
        self._compute_ms += share_ms
        self._turn = self._row.took(outputs)
        for event in self._turn.before:
            self._emit(event)

    @property
    def samples(self) -> int:
        """Samples made."""
        return self._samples

    @property
    def unvoiced(self) -> np.ndarray:
        """Frames of this turn that have no samples yet [k, ...]."""
        return np.zeros(0) if self._turn is None else self._turn.frames

    def sounded(self, samples: np.ndarray, share_ms: float) -> None:
        """Send the samples of this turn's frames, float32 [T] in [-1, 1]. Raises NotFinite."""
        self._compute_ms += share_ms
        if not np.isfinite(samples).all():
            raise NotFinite("the vocoder answered something that is no number", "its weights may be damaged")
        self._send_audio(np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16))

    def turned(self) -> None:
        """The turn is over: tell what follows its sound."""
        turn, self._turn = self._turn, None
        for event in [] if turn is None else turn.after:
            self._emit(event)

    def fail(self, code: str, message: str) -> None:
        """End it badly."""
        if not self.done:
            self.failed = True
            self._finish(ev.Failed(code=code, message=message))

    def _send_audio(self, pcm: np.ndarray) -> None:
        for wait in self._waits.made(len(pcm), self._samples, self._clock.now_ms()):
            if wait.reason == "compute":
                self.stalls, self.stalled_ms = self.stalls + 1, self.stalled_ms + wait.duration_ms
            self._emit(wait)
        self._emit(ev.Audio(sample=self._samples, pcm=pcm))
        self._samples += len(pcm)

    def _read_options(self) -> bool:
        with self._lock:
            if not self._options_due:
                return False
            options, temperature = dict(self._options), self._temperature_due
            self._options_due, self._temperature_due = False, None
        self._row.set_options(options, temperature)
        self._emit(ev.Options(options=options))
        return True

    def _handle(self, message: _Push | _Flush | _End) -> None:
        match message:
            case _Push(text=text):
                with self._lock:
                    self._pending_chars -= len(text)
                self._feeding = iter(self._words.feed(text))
            case _Flush():
                self._take(self._words.flush())
                self._row.flush()
                self._emit(ev.Flushed(words=self._said_words))
            case _End():
                self._take(self._words.end())
                self._row.end()

    def _take(self, changes: WordChanges) -> None:
        for word in changes.words:
            place = {"written": word.written, "char_start": word.char_start, "char_end": word.char_end}
            self._emit(ev.Committed(i=word.i, word=word.word, **place))
        for span in changes.unsupported:
            self._emit(ev.Unsupported(char_start=span.char_start, char_end=span.char_end, why=span.why))
        self._row.commit([word.word for word in changes.words])
        self._said_words += len(changes.words)

    def _cancel(self, played_sample: int) -> None:
        for event in self._row.broken_off():
            self._emit(event)
        played = min(played_sample, self._samples)
        heard = [word for sample, word in self._word_ends if sample <= played]
        self._emit(ev.Cancelled(heard=heard, sample=played))
        self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))

    def _finish(self, last: ev.Event) -> None:
        with self._lock:
            self.done = True
            self._input_over = True
        self.voice.release(self._row)
        self._emit(last)

    def _check_open(self) -> None:
        if self._input_over or self.done:
            raise Closed("this utterance takes no more text", "open another one")

    def _emit(self, event: ev.Event) -> None:
        if isinstance(event, ev.WordEnd):
            self._word_ends.append((event.sample, event.i))
        with self._lock:  # one order for all threads; nothing comes after the last event
            if self._over:
                return
            self._over = ev.is_last(event)
            self._out.put(replace(event, t_ms=self._clock.now_ms() - self._start_ms))
