"""An utterance as those see it who send its text: any thread, at any moment."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadOption, BadText, Closed, Full, TooLate
from studio.core.options import merge_options
from studio.core.ports import MAX_TEMPERATURE, Normaliser
from studio.core.time import Clock
from studio.engine.families.base import Row, Turn
from studio.engine.utterances.boundaries import Boundaries, Revision
from studio.engine.utterances.heard import Heard
from studio.engine.utterances.outbox import Outbox
from studio.engine.utterances.reading import Read, Reading
from studio.engine.utterances.waits import Waits

if TYPE_CHECKING:
    from studio.engine.voices import Voice

MAX_PENDING_CHARS = 1_000_000
REPORT_MS = 50.0  # a player says so often what it has played (docs/protocol.md)

_ids = itertools.count(1)


def check_temperature(temperature: float) -> None:
    """Raises BadOption when a temperature is out of range."""
    if not 0.0 <= temperature <= MAX_TEMPERATURE:
        raise BadOption("the temperature is out of range", f"it is from 0 (greedy) to {MAX_TEMPERATURE:g}")


def _sendable(text: str) -> str:
    """The text without lone surrogates, which no file and no socket takes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class CallersSide:
    """What any thread may ask of an utterance; what it sends is read by the engine's thread (``local``)."""

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
        self.done = self.failed = self.is_guest = False
        self.client = ""
        self.stalls, self.stalled_ms = 0, 0.0
        self._row, self._ready, self._clock, self._wake = row, ready, clock, wake
        self._boundaries: Boundaries | None = None
        self._ahead: int | None = None  # in the queue, as last told
        self._begun_ms: float | None = None
        self._lock = threading.RLock()
        self._reading = Reading(normalise, self._lock)
        self._looking_up: tuple[Read, Future[None]] | None = None  # what was read, and is not committed yet
        self._heard = Heard(voice.card.sample_rate_hz)
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
        self._margin_samples = round(2 * REPORT_MS * voice.card.sample_rate_hz / 1000)
        self._compute_ms = 0.0
        self._waits = Waits(voice.card.sample_rate_hz, voice.card.time_base.frame_ms)
        self._outbox = Outbox(clock)

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
            self._check_open("the options of an utterance whose text has ended do not change")
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
            if self._boundaries is None:
                raise TooLate(f"the family {self.card.family} keeps what it was sent", "send what follows as text")
            bound_words = self._boundaries.settled_words(floor)
            settled = self._reading.settled(bound_words)
            if char_start < settled:
                raise TooLate(f"the first {settled} characters are said or being said", "revise what follows them")
            if self._reading.parts_word(char_start, text, bound_words):
                raise TooLate("the last word is said or being said", "begin what follows it with a space")
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

    def taken(self, most: int | None = None) -> list[ev.Event]:
        """Every event since the last call, or the first ``most`` of them, without waiting."""
        was_full = self._outbox.is_full
        found = self._outbox.taken(most)
        if was_full and not self._outbox.is_full:
            with self._lock:
                self._granted_ms = self._clock.now_ms()
            self._wake()
        return found

    def events(self) -> Iterator[ev.Event]:
        """Every event in order, waiting for the next."""
        return self._outbox.events()

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

    def _use(self) -> float:
        """Somebody makes use of it now."""
        self._used_ms = self._clock.now_ms()
        return self._used_ms

    def _check_open(self, why_not: str = "this utterance takes no more text") -> None:
        if self._input_over or self.done:
            raise Closed(why_not, "open another one")

    def _emit(self, event: ev.Event) -> None:
        with self._lock:  # one order for all threads; nothing comes after the last event
            if self._outbox.is_over:
                return
            self._heard.event(event)
            self._outbox.put(event)
        self._outbox.tell()
