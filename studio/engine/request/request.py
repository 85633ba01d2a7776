"""A request: one utterance inside the engine, stepped by the engine's thread."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.engine.families.base import ModuleInput, NotFinite, RevisableRow, RowOutput
from studio.engine.request.client import RequestClient
from studio.engine.request.playback import RevisionPoints
from studio.engine.request.text_intake import IntakeStep
from studio.text.inline_phonemes import without_pronunciation

_READ_AHEAD_WORDS = 64  # unspoken committed words: a long paste is read as it is spoken
_MAX_READS = 64  # per engine step: text that commits nothing must not delay other requests


class EngineRequest(RequestClient):
    """An utterance of a local engine; see ``studio.core.ports.Utterance``.

    It accepts text immediately, and speaks after ``begin``, when its row has KV slots. Only the engine's thread calls
    the methods here.
    """

    @property
    def slots(self) -> tuple[int, ...]:
        """KV slots of its row."""
        return self._row.slots

    @property
    def is_cancelling(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._cancel_sample is not None

    @property
    def samples(self) -> int:
        """Number of samples made so far."""
        return self._samples

    @property
    def queued_ms(self) -> float:
        """Time in the queue until now or ``begin``; 0 where a slot was free."""
        if self._begun_ms is not None and self._queue_position is None:
            return 0.0
        return (self._clock.now_ms() if self._begun_ms is None else self._begun_ms) - self._opened_ms

    def idle_ms(self) -> float:
        """Time since anything was sent, spoken or reported as played, or since the pending events were polled."""
        return max(self._clock.now_ms() - self._used_ms, self._outbox.unread_ms())

    @property
    def pace(self) -> float:
        """How fast the listener plays the samples; 2 is twice as fast."""
        return self._waits.pace

    def buffered_ms(self, now_ms: float) -> float:
        """Estimated audio left in the player's buffer; minus infinity before the first sample."""
        return self._waits.buffered_ms(now_ms)

    def overdue_ms(self) -> float:
        """Duration of the current underrun caused by compute; 0 before the first sample."""
        return 0.0 if self.done else self._waits.overdue_ms(self._clock.now_ms())

    def set_queue_position(self, ahead: int) -> None:
        """Report the number of requests ahead in the queue, if it changed."""
        if ahead != self._queue_position:
            self._queue_position = ahead
            self._emit(ev.Queued(ahead=ahead))

    def assign_slots(self) -> None:
        """Take free KV slots of the voice."""
        self.voice.assign_slots(self._row, self._speaker, self._ready.seed)

    def begin(self) -> None:
        """Start speaking; what was sent while queued counts as received now."""
        with self._lock:
            self._begun_ms = self._credited_ms = self._touch()
            self._intake.begin(self._begun_ms)
            self._outbox.begin(replace(self._ready, utterance=self.id, queued_ms=round(self.queued_ms, 3)))
            if isinstance(self._row, RevisableRow):
                self._revision_points = RevisionPoints(self._row, self._word_times, self.voice.vocode, self.slots[0])
            self._record_revision_point()
        self._outbox.notify()

    def read_input(self) -> bool:
        """Read a bounded amount of what the client sent; returns whether there was any.

        Words are committed while few are unspoken and the listener polls its events, so a long text is read as fast as
        it is spoken.
        """
        if self._cancel_sample is not None:
            self._cancel(self._cancel_sample)
            return True
        progressed = self._read_options() | self._read_revision()
        for _ in range(_MAX_READS):
            is_ahead = self._row.unspoken >= _READ_AHEAD_WORDS or self._outbox.is_full
            step = None if is_ahead else self._next_intake_step()
            if step is None:
                break
            self._commit(step)
            progressed = True
        # After all reads: next_input plans a segment, and the plan must not depend on when it is called.
        if progressed and self._waits.awaits_text and self._row.next_input() is not None:
            self._waits.resume(self._intake.at_ms)
        return progressed

    def _next_intake_step(self) -> IntakeStep | None:
        """The next step; None if nothing is unread, and while words are being looked up."""
        if self._lookup is None:
            step = self._intake.step()
            lookup = None if step is None else self.voice.start_lookup([word.word for word in step.changes.words])
            if step is None or lookup is None:
                return step
            self._lookup = step, lookup
            lookup.add_done_callback(lambda _: self._wake())
        step, lookup = self._lookup
        if not lookup.done():
            return None
        self._lookup = None
        return step

    def _cancel_lookup(self) -> IntakeStep | None:
        """Stop waiting for a lookup; returns its step, if any."""
        if self._lookup is None:
            return None
        (step, lookup), self._lookup = self._lookup, None
        lookup.cancel()
        return step

    def next_input(self) -> ModuleInput | None:
        """The row's next module input; None while it waits for text or credit, and when it has just ended."""
        has_credit = self._credit_until is None or self._samples + self.card.frame_samples <= self._credit_until
        if not has_credit or self._outbox.is_full:
            self._waits.hold("credit")
            return None
        next_input = self._row.next_input()
        if next_input is not None:
            self._waits.resume(self._credited_ms if self._waits.held_by == "credit" else self._clock.now_ms())
        elif not self._end_if_finished() and self._lookup is None:  # a lookup counts as compute
            self._waits.hold("text")
        return next_input

    def on_output(self, outputs: Any, share_ms: float) -> None:
        """Take a module's result; events that precede the sound are sent at once (t1 in ``studio.measure.latency``)."""
        self._compute_ms += share_ms
        self._output = self._word_times.move(self._row.on_output(outputs))
        self._emit(*self._output.before)

    def on_outputs(self, outputs: Sequence[Any], share_ms: float) -> None:
        """Take the outputs of several runs; those after the row needs another input are dropped."""
        row, word_times = self._row, self._word_times
        parts = [word_times.move(row.on_output(outputs[0]))]
        for output in outputs[1:]:
            next_input = None if parts[-1].after or parts[-1].is_clause_end else row.next_input()
            if next_input is None or next_input.inputs is not None:
                break
            parts.append(word_times.move(row.on_output(output)))
        self._compute_ms += share_ms
        self._output = joined = RowOutput.join(parts)
        self._emit(*joined.before)

    def frames_ahead(self, now_ms: float, low_ms: float, most: int, least: int = 1) -> int:
        """Number of frames to make in one run: as many as the buffered audio above ``low_ms``, at least ``least``.

        1 before the first sound; at most ``most``, and what the credit allows.
        """
        samples, spare_ms = self.card.frame_samples, self._waits.buffered_ms(now_ms) - low_ms
        if spare_ms == -math.inf:  # before the first sound
            return 1
        spare = max(least, int(spare_ms * self.pace * self.card.sample_rate_hz / (1000.0 * samples)))
        if self._credit_until is not None:
            spare = min(spare, (self._credit_until - self._samples) // samples)
        return max(1, min(most, spare))

    @property
    def pending_frames(self) -> np.ndarray:
        """Frames of this step that have no samples yet, [k, ...]."""
        return np.zeros(0) if self._output is None else self._output.frames

    def on_samples(self, samples: np.ndarray, share_ms: float) -> None:
        """Send samples, float32 [T] in [-1, 1]. Raises NotFinite."""
        self._compute_ms += share_ms
        if not math.isfinite(samples.sum()):  # the sum of samples in [-1, 1] is finite unless a sample is not
            raise NotFinite("the vocoder's output is not finite", "its weights may be damaged")
        if len(samples):
            levels = samples * np.float32(32768.0)
            np.rint(levels, out=levels)
            np.maximum(levels, -32768.0, out=levels)
            np.minimum(levels, 32767.0, out=levels)
            self._send_audio(levels.astype(np.int16))

    def on_step_end(self) -> None:
        """Send the events that follow the sound of this step."""
        output, self._output = self._output, None
        if output is None:
            return
        if output.is_clause_end:
            self._flush_vocoder()
        if output.after:
            self._emit(*output.after)
        self._record_revision_point()

    def fail(self, code: str, message: str) -> None:
        """End with an error."""
        if not self.done:
            self.failed = True
            self._finish(ev.Failed(code=code, message=message))

    def _flush_vocoder(self) -> None:
        """Send the samples that the vocoder held back."""
        self.on_samples(self.voice.vocode.finish(self.slots[0]), 0.0)

    def _send_audio(self, pcm: np.ndarray) -> None:
        for wait in self._waits.on_samples(len(pcm), self._samples, self._clock.now_ms()):
            if wait.reason == "compute":
                self.stalls, self.stalled_ms = self.stalls + 1, self.stalled_ms + wait.duration_ms
            self._emit(wait)
        sample, self._samples = self._samples, self._samples + len(pcm)  # before the event: it may be played at once
        self._emit(ev.Audio(sample=sample, pcm=pcm))
        self._touch()

    def _read_options(self) -> bool:
        if not self._options_changed:
            return False
        with self._lock:
            options, temperature = dict(self._options), self._new_temperature
            self._options_changed, self._new_temperature = False, None
        self._row.set_options(options, temperature)
        self._emit(ev.OptionsChanged(options=options))
        return True

    def _read_revision(self) -> bool:
        """Go back to where the text changed, but not before what may have been played.

        A change of text that no segment has seen revokes no audio. Words that are being looked up are read again.
        """
        if self._revision is None:
            return False
        with self._lock:
            revision, self._revision = self._revision, None
            points = self._revision_points
            if revision is None or points is None:
                return False
            settled = points.settled_words(revision.floor_sample)
            words = self._intake.rewind(revision.char, settled, revision.at_ms, self._cancel_lookup())
            point = points.point_for(words, revision.floor_sample)
            if point is not None:
                points.restore(point)
                self._waits.retract(self._samples - point.sample)
                self._samples = point.sample
            self._row.rewrite(words, [])
            self._committed_words = words
            self._playback.retract(words, self._samples)
            self._take_number += 1
            self._emit(ev.Revised(from_sample=self._samples, take=self._take_number, words=words))
        return True

    def _record_revision_point(self) -> None:
        """Record a revision point between two segments, and discard the text before the oldest one."""
        if self._revision_points is None:
            self._intake.discard_before(self._committed_words)
            return
        with self._lock:
            spoken = self._revision_points.record(self._samples, self._playback.sample)
        if spoken is not None:
            self._intake.discard_before(spoken)

    def _commit(self, step: IntakeStep) -> None:
        changes = step.changes
        for word in changes.words:
            source = {"written": word.written, "char_start": word.char_start, "char_end": word.char_end}
            self._emit(ev.Committed(i=word.i, word=without_pronunciation(word.word), **source))
        for span in changes.unsupported:
            self._emit(span.event())
        with self._lock:
            self._playback.committed(changes.words)
        self._row.commit([word.word for word in changes.words])
        self._committed_words += len(changes.words)
        if step.is_flush:
            self._row.flush()
            self._emit(ev.Flushed(words=self._committed_words))
        if step.is_end:
            self._row.end()

    def _cancel(self, played_sample: int) -> None:
        for event in self._row.on_cancel():
            self._emit(event)
        with self._lock:
            for event in self._playback.estimate_open_segment(self._samples):
                self._emit(event)
            sample = max(min(played_sample, self._samples), self._playback.sample)
            played = self._playback.played_until(sample)
        self._emit(
            ev.Cancelled(heard=[*range(played.words)], sample=sample, word=played.partial_word, char_end=played.chars)
        )
        self._finish_normally()

    def _end_if_finished(self) -> bool:
        with self._lock:  # a revision must not arrive in between
            if not self._row.is_finished or self._intake.has_unread or self._revision is not None:
                return False
            self._flush_vocoder()
            self._finish_normally()
        return True

    def _finish_normally(self) -> None:
        self._finish(ev.Ended(samples=self._samples, compute_ms=round(self._compute_ms, 3)))

    def _finish(self, last: ev.Event) -> None:
        with self._lock:
            self.done = True
            self._input_closed = True
            self._cancel_lookup()
        self.voice.release(self._row)
        self._emit(last)
