"""One utterance inside the engine: turns from the engine's thread, events out."""

from dataclasses import replace
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.engine.families.base import NotFinite, Revisable, Want
from studio.engine.utterances.boundaries import Boundaries
from studio.engine.utterances.callers import CallersSide
from studio.engine.utterances.reading import Read

_AHEAD_WORDS = 64  # committed before they are needed: a long paste is read as it is spoken
_READ_STEPS = 64  # in one turn: text that commits nothing must not keep others waiting


class LocalUtterance(CallersSide):
    """An utterance spoken in this process; see ``studio.core.ports.Utterance``.

    It takes text from the first moment on, and speaks when ``begin`` was called: its row has slots then. What follows
    is called by the engine's thread alone.
    """

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

        Words are committed while few are waiting, and while what came of it is taken: a long text is read only as fast
        as it is spoken, and one of which nothing can be spoken as fast as its listener hears so.
        """
        if self._closing is not None:
            self._cancel(self._closing)
            return True
        did = self._read_options() | self._read_revision()
        for _ in range(_READ_STEPS):
            step = None if self._row.unspoken >= _AHEAD_WORDS or self._outbox.is_full else self._next_step()
            if step is None:
                break
            self._take(step)
            did = True
        # Not before all is taken: a row plans when it is asked, and what it plans must not depend on when that was.
        if did and self._waits.awaits_text and self._row.want() is not None:
            self._waits.go(self._reading.at_ms)
        return did

    def _next_step(self) -> Read | None:
        """None where nothing is unread, and while words are looked up."""
        if self._looking_up is None:
            step = self._reading.step()
            known = None if step is None else self.voice.looked_up([word.word for word in step.changes.words])
            if step is None or known is None:
                return step
            self._looking_up = step, known
            known.add_done_callback(lambda _: self._wake())
        step, known = self._looking_up
        if not known.done():
            return None
        self._looking_up = None
        return step

    def _not_looked_up(self) -> Read | None:
        """What is being looked up is not waited for any more; what it was, if anything."""
        if self._looking_up is None:
            return None
        (step, known), self._looking_up = self._looking_up, None
        known.cancel()
        return step

    def want(self) -> Want | None:
        """What the row wants run now; None while it waits for text or credit, or when it has just ended."""
        has_credit = self._granted is None or self._samples + self.card.frame_samples <= self._granted
        if not has_credit or self._outbox.is_full:
            self._waits.hold("credit")
            return None
        want = self._row.want()
        if want is not None:
            self._waits.go(self._granted_ms if self._waits.held_by == "credit" else self._clock.now_ms())
        elif not self._end_if_over() and self._looking_up is None:  # else the computer is at it
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
        if len(samples):
            self._send_audio(np.clip(np.rint(samples * 32768.0), -32768, 32767).astype(np.int16))

    def turned(self) -> None:
        """The turn is over: tell what follows its sound."""
        turn, self._turn = self._turn, None
        if turn is not None and turn.is_request_end:
            self._say_rest()
        for event in [] if turn is None else turn.after:
            self._emit(event)
        if turn is not None:
            self._bound()

    def fail(self, code: str, message: str) -> None:
        """End it badly."""
        if not self.done:
            self.failed = True
            self._finish(ev.Failed(code=code, message=message))

    def _say_rest(self) -> None:
        """What the vocoder held back of the frames that it was given."""
        self.sounded(self.voice.vocode.finish(self.slots[0]), 0.0)

    def _send_audio(self, pcm: np.ndarray) -> None:
        for wait in self._waits.made(len(pcm), self._samples, self._clock.now_ms()):
            if wait.reason == "compute":
                self.stalls, self.stalled_ms = self.stalls + 1, self.stalled_ms + wait.duration_ms
            self._emit(wait)
        sample, self._samples = self._samples, self._samples + len(pcm)  # first: who hears it may report it at once
        self._emit(ev.Audio(sample=sample, pcm=pcm))
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

        A change of what no segment has seen takes nothing back. Words that are being looked up are read again.
        """
        with self._lock:
            revision, self._revision = self._revision, None
            places = self._boundaries
            if revision is None or places is None:
                return False
            settled = places.settled_words(revision.floor)
            words = self._reading.read_again(revision.char, settled, revision.at_ms, self._not_looked_up())
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
            for event in self._heard.untold(self._samples):
                self._emit(event)
            played = max(min(played_sample, self._samples), self._heard.sample)
            extent = self._heard.until(played)
        self._emit(ev.Cancelled(heard=[*range(extent.words)], sample=played, word=extent.begun, char_end=extent.chars))
        self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))

    def _end_if_over(self) -> bool:
        with self._lock:  # or a revision might come in between
            if not self._row.over or self._reading.waits or self._revision is not None:
                return False
            self._say_rest()
            self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))
        return True

    def _finish(self, last: ev.Event) -> None:
        with self._lock:
            self.done = True
            self._input_over = True
            self._not_looked_up()
        self.voice.release(self._row)
        self._emit(last)
