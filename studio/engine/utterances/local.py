"""One utterance inside the engine: text in from any thread, turns from the engine's thread, events out."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadOption, BadText, Closed, Full, TooLate
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, Normaliser
from studio.core.time import Clock
from studio.engine.families.base import NotFinite, Revisable, Row, Turn, Want
from studio.engine.utterances.boundaries import Boundaries, Revision
from studio.engine.utterances.heard import Heard
from studio.engine.utterances.outbox import Outbox
from studio.engine.utterances.reading import Read, Reading
from studio.engine.utterances.waits import Waits

if TYPE_CHECKING:
    from studio.engine.voices import Voice

MAX_PENDING_CHARS = 1_000_000
_AHEAD_WORDS = 64  # committed before they are needed: a long paste is read as it is spoken
_READ_STEPS = 64  # in one turn: text that commits nothing must not keep others waiting

_REPORT_MS = 50.0  # a player says so often what it has played (docs/protocol.md)

_ids = itertools.count(1)


def check_temperature(temperature: float) -> None:
    """Raises BadOption when a temperature is out of range."""
    if not 0.0 <= temperature <= MAX_TEMPERATURE:
        raise BadOption("the temperature is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE:g}")


def _sendable(text: str) -> str:
    """The text without lone surrogates, which no file and no socket takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class LocalUtterance:
    """An utterance spoken in this process; see ``studio.core.ports.Utterance``.

    It takes text from the first moment on, and speaks when ``begin`` was called: its row has slots then.
    """

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
        self.voice = voice
        self.done = self.failed = False
        self.stalls, self.stalled_ms = 0, 0.0
        self._row, self._ready, self._clock, self._wake = row, ready, clock, wake
        self._boundaries: Boundaries | None = None
        self._ahead: int | None = None  # in the queue, as last told
        self._begun_ms: float | None = None
        self._lock = threading.RLock()
        self._reading = Reading(normalise, self._lock)
        self._heard = Heard()
        self._revision: Revision | None = None
        self._take_number = 0
        self._options = {name: ready.options[name] for name in (spec.name for spec in voice.card.options)}
        self._options_due = False
        self._temperature_due: float | None = None
        self._said_words = 0
        self._closing: int | None = None  # the played sample of a cancel
        self._input_over = False
        self._granted = credit_samples
        self._asked_ms = self._granted_ms = self._used_ms = clock.now_ms()
        self._turn: Turn | None = None
        self._samples = 0
        self._margin_samples = round(2 * _REPORT_MS * voice.card.sample_rate_hz / 1000)
        self._compute_ms = 0.0
        self._waits = Waits(voice.card.sample_rate_hz, voice.card.time_base.frame_ms)
        self._outbox = Outbox(clock)

    # ------------------------------------------------------------ what callers do

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed, Full."""
        if not text:
            return
        text = _sendable(text)
        with self._lock:
            self._check_open()
            self._check_room(len(text))
            self._emit(ev.Text(char_start=self._reading.chars, text=text))
            self._reading.push(text, self._use())
        self._wake()

    def flush(self) -> None:
        """Speak every committed word without waiting for more."""
        with self._lock:
            self._check_open()
            self._reading.flush(self._use())
        self._wake()

    def end(self) -> None:
        """No more text will come."""
        with self._lock:
            self._check_open()
            self._input_over = True
            self._reading.end(self._use())
        self._wake()

    def wind_up(self) -> None:
        """No more text is taken; what is committed is spoken, and the word that is being typed is not."""
        with self._lock:
            if self._input_over:
                return
            self._input_over = True
            self._reading.end(self._use(), is_whole=False)
        self._wake()

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """Options from the next segment on, whatever text waits. Raises BadOption, Closed."""
        if temperature is not None:
            check_temperature(temperature)
        with self._lock:
            self._check_open()
            merged = merge_options(self.card.options, options, self._options)
            self._row.check(merged)
            self._use()
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

    def settled(self) -> int:
        """How many characters of the text as sent can no longer be revised."""
        with self._lock:
            return 0 if self._begun_ms is None else self._settled(self._floor())

    def revise(self, char_start: int, text: str) -> None:
        """Replace the text as sent from a character on. Raises TooLate, BadText, Closed, Full."""
        text = _sendable(text)
        with self._lock:
            if self._closing is not None or self.done:
                raise Closed("this utterance is over", "open another one")
            sent, floor = self._reading.chars, self._floor()
            if not 0 <= char_start <= sent:
                raise BadText(f"there is no character {char_start} of the {sent} sent", "revise what was sent")
            if self._begun_ms is None:
                self._revise_unread(char_start, text)
                return
            settled = self._settled(floor)
            if self._boundaries is None:
                raise TooLate(f"the family {self.card.family} keeps what it was sent", "send what follows as text")
            if char_start < settled:
                raise TooLate(f"the first {settled} characters are said or being said", "revise what follows them")
            self._check_room(len(text))
            char = self._reading.revise(char_start, text)
            if char is None:
                return
            self._emit(ev.Text(char_start=char_start, text=text))
            if self._revision is not None:
                char, floor = min(char, self._revision.char), min(floor, self._revision.floor)
            self._revision = Revision(char, floor, self._use())
        self._wake()

    def _revise_unread(self, char_start: int, text: str) -> None:
        """Nothing was read yet: any family can take another text."""
        self._check_room(len(text))
        char = self._reading.revise(char_start, text)
        if char is not None:
            self._reading.read_again(char, 0, self._use())
            self._emit(ev.Text(char_start=char_start, text=text))

    def grant(self, until_sample: int) -> None:
        """Let the voice run on until this sample."""
        with self._lock:
            if self._granted is not None and until_sample > self._granted:
                self._granted, self._granted_ms = until_sample, self._use()
        self._wake()

    def played(self, sample: int) -> None:
        """Record what the listener has heard."""
        with self._lock:
            if sample > self._heard.sample:
                self._use()
            self._heard.played(min(sample, self._samples))
        self._emit(ev.Played(sample=sample))

    def note(self, event: ev.Event) -> None:
        """Add an event of the caller's."""
        self._emit(event)

    def listen(self, news: Callable[[], None]) -> None:
        """Have ``news`` called whenever there is something to take."""
        self._outbox.listen(news)

    def taken(self) -> list[ev.Event]:
        """Every event since the last call, without waiting."""
        return self._outbox.taken()

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        return self._outbox.events()

    # ------------------------------------------------------------ what the engine's thread does

    @property
    def slots(self) -> tuple[int, ...]:
        """Its row's."""
        return self._row.slots

    @property
    def is_leaving(self) -> bool:
        """Whether it was cancelled, and has still to be told what was heard."""
        return self._closing is not None

    @property
    def queued_ms(self) -> float:
        """How long it has waited for its place, or did; 0 where one was free."""
        if self._begun_ms is not None and self._ahead is None:
            return 0.0
        return (self._clock.now_ms() if self._begun_ms is None else self._begun_ms) - self._asked_ms

    def wait_behind(self, ahead: int) -> None:
        """Say how many are before it in the queue, where that is news."""
        if ahead != self._ahead:
            self._ahead = ahead
            self._emit(ev.Queued(ahead=ahead))

    def begin(self) -> None:
        """It has a place, and its row has slots: what was sent meanwhile came in now."""
        with self._lock:
            self._begun_ms = self._granted_ms = self._use()
            self._reading.begin(self._begun_ms)
            self._outbox.begin(replace(self._ready, utterance=self.id, queued_ms=round(self.queued_ms, 3)))
            if isinstance(self._row, Revisable):
                self._boundaries = Boundaries(self._row, self.voice.vocode, self.slots[0])
            self._bound()
        self._outbox.tell()

    def seat(self) -> None:
        """Take free slots of the voice."""
        speaker = self.card.speakers.index(self._ready.speaker)
        self.voice.seat(self._row, speaker, self._ready.seed)

    def unused_ms(self) -> float:
        """For how long nothing was sent, spoken or reported as heard, or nobody took what was said."""
        return max(self._clock.now_ms() - self._used_ms, self._outbox.untaken_ms())

    def read(self) -> bool:
        """Take what callers sent, a bounded piece of it; answers whether there was anything.

        Words are committed while few are waiting: a long text is read only as fast as it is spoken.
        """
        if self._closing is not None:
            self._cancel(self._closing)
            return True
        did = self._read_options() | self._read_revision()
        for _ in range(_READ_STEPS):
            if self._row.unspoken >= _AHEAD_WORDS:
                return did
            step = self._reading.step()
            if step is None:
                return did
            self._take(step)
            did = True
            if self._waits.awaits_text and self._row.want() is not None:
                self._waits.go(self._reading.at_ms)
        return did

    def want(self) -> Want | None:
        """What the row wants run now; None while it waits for text or credit, or when it has just ended."""
        if self._granted is not None and self._samples + self.card.frame_samples > self._granted:
            self._waits.hold("credit")
            return None
        want = self._row.want()
        if want is not None:
            self._waits.go(self._granted_ms if self._waits.held_by == "credit" else self._clock.now_ms())
        elif not self._end_if_over():
            self._waits.hold("text")
        return want

    def left_ms(self, now_ms: float) -> float:
        """How long the sound lasts that its listener has; minus infinity before the first."""
        return self._waits.left_ms(now_ms)

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
        if turn is not None:
            self._bound()

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
        self._use()

    def _read_options(self) -> bool:
        with self._lock:
            if not self._options_due:
                return False
            options, temperature = dict(self._options), self._temperature_due
            self._options_due, self._temperature_due = False, None
        self._row.set_options(options, temperature)
        self._emit(ev.Options(options=options))
        return True

    def _read_revision(self) -> bool:
        """Go back to where the text changed, but never before what may have been heard.

        A change of what no segment has seen takes nothing back.
        """
        with self._lock:
            revision, self._revision = self._revision, None
            places = self._boundaries
            if revision is None or places is None:
                return False
            words = self._reading.read_again(revision.char, places.settled_words(revision.floor), revision.at_ms)
            place = places.before(words, revision.floor)
            if place is not None:
                places.return_to(place)
                self._waits.took_back(self._samples - place.sample)
                self._samples = place.sample
            self._row.rewrite(words, [])
            self._said_words = words
            self._heard.revised(words, self._samples)
            self._take_number += 1
            self._emit(ev.Revised(from_sample=self._samples, take=self._take_number, words=words))
        return True

    def _bound(self) -> None:
        """Note a place between two segments, and forget the text before those that nothing will return to."""
        if self._boundaries is None:
            self._reading.forget(self._said_words)
            return
        with self._lock:
            spoken = self._boundaries.note(self._samples, self._heard.sample)
        if spoken is not None:
            self._reading.forget(spoken)

    def _floor(self) -> int:
        """What was made before this sample may have been heard when the client hears of a revision."""
        return min(self._heard.sample + self._margin_samples, self._samples)

    def _settled(self, floor: int) -> int:
        if self._boundaries is None:
            return self._reading.chars
        return self._reading.settled(self._boundaries.settled_words(floor))

    def _check_room(self, chars: int) -> None:
        if self._reading.unread_chars + chars > MAX_PENDING_CHARS:
            raise Full(
                f"{MAX_PENDING_CHARS:,} characters wait to be spoken already",
                "send more when some of it has been spoken",
            )

    def _take(self, step: Read) -> None:
        changes = step.changes
        for word in changes.words:
            place = {"written": word.written, "char_start": word.char_start, "char_end": word.char_end}
            self._emit(ev.Committed(i=word.i, word=word.word, **place))
        for span in changes.unsupported:
            self._emit(ev.Unsupported(char_start=span.char_start, char_end=span.char_end, why=span.why))
        with self._lock:
            self._heard.committed(changes.words)
        self._row.commit([word.word for word in changes.words])
        self._said_words += len(changes.words)
        if step.is_flush:
            self._row.flush()
            self._emit(ev.Flushed(words=self._said_words))
        if step.is_end:
            self._row.end()

    def _cancel(self, played_sample: int) -> None:
        for event in self._row.broken_off():
            self._emit(event)
        with self._lock:
            played = max(min(played_sample, self._samples), self._heard.sample)
            extent = self._heard.until(played)
        self._emit(ev.Cancelled(heard=[*range(extent.words)], sample=played, word=extent.begun, char_end=extent.chars))
        self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))

    def _end_if_over(self) -> bool:
        with self._lock:  # or a revision might come in between
            if not self._row.over or self._reading.waits or self._revision is not None:
                return False
            self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))
        return True

    def _finish(self, last: ev.Event) -> None:
        with self._lock:
            self.done = True
            self._input_over = True
        self.voice.release(self._row)
        self._emit(last)

    def _use(self) -> float:
        """Somebody makes use of it now."""
        self._used_ms = self._clock.now_ms()
        return self._used_ms

    def _check_open(self) -> None:
        if self._input_over or self.done:
            raise Closed("this utterance takes no more text", "open another one")

    def _emit(self, event: ev.Event) -> None:
        with self._lock:  # one order for all threads; nothing comes after the last event
            if self._outbox.is_over:
                return
            self._heard.event(event)
            self._outbox.put(event)
        self._outbox.tell()
