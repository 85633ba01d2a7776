"""Thread-safe client API of an utterance, and the queue of its outgoing events."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadOption, BadText, Closed, Full, TooLate
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, PLAYED_REPORT_MS, Normaliser
from studio.core.text.language import DEFAULT, in_language
from studio.core.time import Clock
from studio.engine.families.base import Row, RowOutput
from studio.engine.request.playback import PendingRevision, PlaybackTracker, RevisionPoints, WaitTracker
from studio.engine.request.text_intake import IntakeStep, TextIntake

if TYPE_CHECKING:
    from studio.engine.voices import Voice


_BEFORE_READY = ev.Queued | ev.Cancelled | ev.Ended | ev.Failed
FULL = 1024  # unread events at which a request stops: 12 s of sound with its frames


class Outbox:
    """A queue of events stamped with the time since ``begin``; callers of ``put`` share a lock.

    Events put before ``begin`` follow ``ready``, except ``queued`` and the end of an utterance that never begins.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_over = False  # the last event was put
        self._clock, self._start_ms = clock, clock.now_ms()
        self._unread_since_ms = self._start_ms
        self._held: list[ev.Event] | None = []
        self._queue: SimpleQueue[ev.Event] = SimpleQueue()
        self._callback: Callable[[], None] = lambda: None
        self._has_listener = False

    def begin(self, ready: ev.Ready) -> None:
        """Put ``ready``, and the events held for it."""
        held, self._held = self._held or [], None
        self._start_ms = self._clock.now_ms()
        for event in (ready, *held):
            self.put(event)

    def put(self, event: ev.Event) -> None:
        """Add an event with its time."""
        if self._held is not None and not isinstance(event, _BEFORE_READY):
            self._held.append(event)
            return
        self.is_over = ev.is_last(event)
        now_ms = self._clock.now_ms()
        if self._queue.empty():
            self._unread_since_ms = now_ms
        self._queue.put(event.stamped(now_ms - self._start_ms))

    @property
    def is_full(self) -> bool:
        """Whether a listener has so many unread events that no more frames should be made."""
        return self._has_listener and self._queue.qsize() >= FULL

    def unread_ms(self) -> float:
        """Time since the listener last polled; 0 without unread events."""
        return 0.0 if self._queue.empty() else self._clock.now_ms() - self._unread_since_ms

    def notify(self) -> None:
        """Call the listener's callback."""
        self._callback()

    def set_listener(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever there are new events, and once now."""
        self._callback, self._has_listener = callback, True
        callback()

    def poll(self, limit: int | None = None) -> list[ev.Event]:
        """The unread events, at most ``limit``, without blocking."""
        self._unread_since_ms = self._clock.now_ms()
        count = self._queue.qsize()
        return [self._queue.get() for _ in range(count if limit is None else min(count, limit))]

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, blocking until the next one."""
        while True:
            event = self._queue.get()
            self._unread_since_ms = self._clock.now_ms()
            yield event
            if ev.is_last(event):
                return


MAX_PENDING_CHARS = 1_000_000

_ids = itertools.count(1)


def check_temperature(temperature: float) -> None:
    """Raises BadOption when a temperature is out of range."""
    if not 0.0 <= temperature <= MAX_TEMPERATURE:
        raise BadOption("the temperature is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE:g}")


def _without_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be encoded as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class RequestClient:
    """The calls that any thread may make; they store input that the engine's thread reads (``EngineRequest``)."""

    def __init__(
        self,
        voice: "Voice",
        row: Row,
        speaker: int,
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
        self.done = self.failed = self.is_guest = False
        self.client = ""
        self.stalls, self.stalled_ms = 0, 0.0
        self._row, self._ready, self._clock, self._wake = row, ready, clock, wake
        self._lock = threading.RLock()
        self._normalise = normalise
        self._intake = TextIntake(self._normaliser_for(ready.options), self._lock)
        self._lookup: tuple[IntakeStep, Future[None]] | None = None  # an intake step whose words are being looked up
        self._playback = PlaybackTracker(voice.card.sample_rate_hz)
        self._waits = WaitTracker(voice.card.sample_rate_hz, voice.card.time_base.frame_ms)
        self._outbox = Outbox(clock)
        self._speaker = speaker
        self._word_times = voice.word_times(speaker)
        self._revision_points: RevisionPoints | None = None
        self._revision: PendingRevision | None = None
        self._take_number = 0
        self._queue_position: int | None = None  # as last reported
        self._begun_ms: float | None = None
        self._options = {name: ready.options[name] for name in (spec.name for spec in voice.card.options)}
        self._options_changed = False
        self._new_temperature: float | None = None
        self._committed_words = 0
        self._cancel_sample: int | None = None  # playback position of a cancel
        self._input_closed = False
        self._credit_until = credit_samples
        self._opened_ms = self._credited_ms = self._used_ms = clock.now_ms()
        self._output: RowOutput | None = None  # of the current step
        self._samples = 0
        self.set_pace(1.0)
        self._compute_ms = 0.0

    def push_text(self, text: str) -> None:
        """Append text. Raises Closed, Full."""
        if not text:
            return
        text = _without_surrogates(text)
        with self._lock:
            self._check_open()
            self._check_room(len(text))
            self._emit(ev.TextReceived(char_start=self._intake.chars, text=text))
            self._intake.push(text, self._touch())
        self._wake()

    def flush(self) -> None:
        """Speak every committed word without waiting for more."""
        with self._lock:
            self._check_open()
            self._intake.flush(self._touch())
        self._wake()

    def end(self) -> None:
        """No more text will come."""
        with self._lock:
            self._check_open()
            self._input_closed = True
            self._intake.end(self._touch())
        self._wake()

    def drain(self) -> None:
        """Close the input: speak the committed words, drop the unfinished last word."""
        with self._lock:
            if self._input_closed:
                return
            self._input_closed = True
            self._intake.end(self._touch(), is_whole=False)
        self._wake()

    def set_options(self, options: Mapping[str, Any], temperature: float | None = None) -> None:
        """Set options from the next segment on; a new language is that of later text. Raises BadOption, Closed."""
        if temperature is not None:
            check_temperature(temperature)
        with self._lock:
            self._check_open("options cannot change after the text has ended")
            merged = merge_options(self.card.options, options, self._options)
            self._row.check(merged)
            normalise = self._normaliser_for(merged)
            if merged.get("language") != self._options.get("language"):
                self._intake.set_normaliser(normalise)
            self._touch()
            self._options, self._options_changed = merged, True
            self._new_temperature = self._new_temperature if temperature is None else temperature
        self._wake()

    def _normaliser_for(self, options: Mapping[str, Any]) -> Normaliser:
        """Raises BadOption, NeedsPackage."""
        return in_language(self._normalise, options.get("language", DEFAULT))

    def cancel(self, played_sample: int = 0) -> None:
        """Stop; does nothing when the utterance is over."""
        with self._lock:
            if self._cancel_sample is None and not self.done:
                self._input_closed = True
                self._cancel_sample = max(0, played_sample)
        self._wake()

    def settled_chars(self) -> int:
        """Characters of the text as sent that can no longer be revised."""
        with self._lock:
            if self._begun_ms is None:
                return 0
            if self._revision_points is None:
                return self._intake.chars
            return self._intake.settled_chars(self._revision_points.settled_words(self._played_bound()))

    def revise(self, char_start: int, text: str) -> None:
        """Replace the text as sent from a character on. Raises TooLate, BadText, Closed, Full."""
        text = _without_surrogates(text)
        with self._lock:
            if self._cancel_sample is not None or self.done:
                raise Closed("this utterance is over", "open another one")
            sent, floor = self._intake.chars, self._played_bound()
            if not 0 <= char_start <= sent:
                raise BadText(f"there is no character {char_start} of the {sent} sent", "revise what was sent")
            if self._begun_ms is None:
                self._revise_unread(char_start, text)
                return
            if self._revision_points is None:
                raise TooLate(f"the family {self.card.family} cannot revise text", "send what follows as text")
            settled_words = self._revision_points.settled_words(floor)
            settled = self._intake.settled_chars(settled_words)
            if char_start < settled:
                raise TooLate(f"the first {settled} characters are spoken or being spoken", "revise what follows them")
            if self._intake.continues_word(char_start, text, settled_words):
                raise TooLate("the last word is spoken or being spoken", "begin what follows it with a space")
            self._check_room(len(text))
            char = self._intake.revise(char_start, text)
            if char is None:
                return
            self._emit(ev.TextReceived(char_start=char_start, text=text))
            if self._revision is not None:
                char, floor = min(char, self._revision.char), min(floor, self._revision.floor_sample)
            self._revision = PendingRevision(char, floor, self._touch())
        self._wake()

    def _revise_unread(self, char_start: int, text: str) -> None:
        """Revise before anything was read, which works for every family."""
        self._check_room(len(text))
        char = self._intake.revise(char_start, text)
        if char is not None:
            self._intake.rewind(char, 0, self._touch())
            self._emit(ev.TextReceived(char_start=char_start, text=text))

    def grant(self, until_sample: int) -> None:
        """Allow samples up to this one."""
        with self._lock:
            if self._credit_until is not None and until_sample > self._credit_until:
                self._credit_until, self._credited_ms = until_sample, self._touch()
        self._wake()

    def played(self, sample: int) -> None:
        """Record the playback position."""
        with self._lock:
            if sample > self._playback.sample:
                self._touch()
            self._playback.played(min(sample, self._samples))
        self._emit(ev.Played(sample=sample))

    def set_pace(self, pace: float) -> None:
        """Say how fast the listener plays the samples, before any text is sent."""
        self._waits.pace = pace
        self._margin_samples = round(2 * PLAYED_REPORT_MS * pace * self.card.sample_rate_hz / 1000)

    def add_event(self, event: ev.Event) -> None:
        """Add an event of the caller."""
        self._emit(event)

    def set_listener(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever there are new events."""
        self._outbox.set_listener(callback)

    def poll_events(self, limit: int | None = None) -> list[ev.Event]:
        """Events since the last call, at most ``limit``, without blocking."""
        was_full = self._outbox.is_full
        events = self._outbox.poll(limit)
        if was_full and not self._outbox.is_full:
            with self._lock:
                self._credited_ms = self._clock.now_ms()
            self._wake()
        return events

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, blocking until the next one."""
        return self._outbox.events()

    def _played_bound(self) -> int:
        """Samples that may have been played by the time the client learns of a revision."""
        return min(self._playback.sample + self._margin_samples, self._samples)

    def _check_room(self, chars: int) -> None:
        if self._intake.unread_chars + chars > MAX_PENDING_CHARS:
            raise Full(
                f"{MAX_PENDING_CHARS:,} characters are waiting to be spoken",
                "send more when some of them have been spoken",
            )

    def _touch(self) -> float:
        """Restart the idle timeout; returns the time, ms."""
        self._used_ms = self._clock.now_ms()
        return self._used_ms

    def _check_open(self, why_not: str = "this utterance takes no more text") -> None:
        if self._input_closed or self.done:
            raise Closed(why_not, "open another one")

    def _emit(self, *events: ev.Event) -> None:
        with self._lock:  # the same order for all threads; nothing follows the last event
            for event in events:
                if self._outbox.is_over:
                    return
                self._playback.on_event(event)
                self._outbox.put(event)
        self._outbox.notify()
