"""An utterance spoken at another speed but the same pitch: its sample positions are those of the stretched sound."""

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadOption
from studio.core.ports import Utterance
from studio.core.time import MonotonicClock
from studio.markup.feed import EventFeed
from studio.markup.stretching import Stretcher
from studio.text.ssml import MAX_RATE, MIN_RATE

IDLE_MS = 150.0  # without sound of the voice: what the stretcher holds back is sent
_MAX_UNREAD = 1024  # events; more stay in the utterance, which then makes no more sound


def check_speed(speed: float) -> None:
    """Raises BadOption."""
    if not MIN_RATE <= speed <= MAX_RATE:
        raise BadOption(f"the speed is {speed:g}", f"give {MIN_RATE:g} to {MAX_RATE:g}; 1 is the voice's own")


def samples_of_voice(sample: int, speed: float) -> int:
    """Samples of the voice within ``sample`` samples of the stretched sound, so that rounding loses no word."""
    over, under = float(speed).as_integer_ratio()  # exact: a rounded product would lose some words
    return max(0, ((sample + 1) * over - 1) // under) if sample else 0


class StretchedUtterance(EventFeed):
    """See ``studio.core.ports.Utterance``; without events of frames, which would not match the sound.

    Args:
        utterance: opened with a credit of ``samples_of_voice(credit_samples, speed)``.
        speed: 2 is twice as fast; 0.5 to 2.
        credit_samples: stretched samples that may be made before ``grant`` is called; None for no limit.
    """

    def __init__(self, utterance: Utterance, speed: float, credit_samples: int | None = None) -> None:
        super().__init__(deque())
        self._utterance, self._speed = utterance, speed
        self.id, self.card = utterance.id, utterance.card
        self.provenance: Mapping[str, Any] = {**utterance.provenance, "speed": speed}
        self.push_text, self.flush, self.revise = utterance.push_text, utterance.flush, utterance.revise
        self.settled_chars, self.set_options = utterance.settled_chars, utterance.set_options
        self._clock = MonotonicClock()
        self._stretcher: Stretcher | None = Stretcher(self.card.sample_rate_hz, speed)
        self._made = self._sent = 0  # samples of the voice that were made, and stretched ones that were sent
        self._granted = None if credit_samples is None else samples_of_voice(credit_samples, speed)
        self._played = 0
        self._starts = dict[int, int]()  # samples, by word
        self._began_ms = self._last_ms = self._heard_ms = 0.0
        self._has_ended_text = self._is_watched = self.is_over = False
        self.set_pace(1.0)
        utterance.set_listener(self._tell)

    def end(self) -> None:
        self._has_ended_text = True
        self._utterance.end()

    def cancel(self, played_sample: int = 0) -> None:
        self._played = max(self._played, played_sample)
        self._utterance.cancel(samples_of_voice(played_sample, self._speed))

    def grant(self, until_sample: int) -> None:
        granted = samples_of_voice(until_sample, self._speed)
        with self._lock:
            self._granted = max(granted, self._granted or 0)
            if self._made and self._stretcher is not None:
                self._watch()
        self._utterance.grant(granted)

    def played(self, sample: int) -> None:
        self._played = max(self._played, sample)
        self._utterance.played(samples_of_voice(sample, self._speed))

    def set_pace(self, pace: float) -> None:
        self._utterance.set_pace(self._speed * pace)

    def add_event(self, event: ev.Event) -> None:
        if isinstance(event, ev.Wait):
            event = event.stamped(event.t_ms, sample=samples_of_voice(event.sample, self._speed))
        self._utterance.add_event(event)

    @property
    def made_samples(self) -> int:
        """Samples of the stretched sound that the voice has made: those that were sent, and those held back."""
        with self._lock:
            return self._stretched(self._made)

    @property
    def sent_samples(self) -> int:
        """Samples of the stretched sound that were sent."""
        with self._lock:
            return self._sent

    # --- events ----------------------------------------------------------------------------------------

    def _source(self) -> Utterance | None:
        return None if self.is_over else self._utterance

    def _has_ended(self) -> bool:
        return self.is_over

    def _forward(self, event: ev.Event) -> None:
        match event:
            case ev.Queued():
                self._out.append(event)  # its time counts from another origin
            case ev.Ready():
                self._began_ms = self._clock.now_ms() - event.t_ms
                self._emit(event)
            case ev.Audio():
                self._stretcher = self._stretcher or Stretcher(self.card.sample_rate_hz, self._speed)
                self._made, self._heard_ms = event.sample + len(event.pcm), self._clock.now_ms()
                self._began_ms = min(self._began_ms, self._heard_ms - event.t_ms)  # ready may have been read late
                self._send(self._stretcher.feed(event.pcm), event.t_ms)
                self._watch()
            case ev.WordStart() | ev.WordEnd() | ev.Wait() | ev.Played():
                sample = self._stretched(event.sample)
                if isinstance(event, ev.WordStart):
                    self._starts[event.i] = sample
                self._emit(event, sample=sample)
            case ev.Segment():
                sample = self._stretched(event.sample)
                self._emit(event, sample=sample, frame=sample // self.card.frame_samples)
            case ev.Eos():
                frame_samples = self.card.frame_samples
                self._emit(event, frame=self._stretched(event.frame * frame_samples) // frame_samples)
            case ev.Frames():
                pass
            case ev.Revised():
                self._made = event.from_sample
                self._finish(event.t_ms)
                self._sent = self._stretched(event.from_sample)
                self._starts = {i: sample for i, sample in self._starts.items() if i < event.words}
                self._emit(event, from_sample=self._sent)
            case ev.Cancelled():
                self._finish(event.t_ms)  # its words were reported already
                sample = min(self._played, self._sent)
                word = max((i for i, start in self._starts.items() if start < sample), default=None)
                self._emit(event, sample=sample, word=word)
            case ev.Ended():
                self._finish(event.t_ms)
                self._emit(event, samples=self._sent)
            case ev.Failed():
                self._finish(event.t_ms)
                self._emit(event)
            case _:
                self._emit(event)

    def _stretched(self, sample: int) -> int:
        over, under = float(self._speed).as_integer_ratio()
        return sample * under // over

    def _emit(self, event: ev.Event, **changes: Any) -> None:
        self._last_ms = max(self._last_ms, event.t_ms)
        self._out.append(event.stamped(self._last_ms, **changes))
        self.is_over = self.is_over or ev.is_last(event)

    def _send(self, pcm: np.ndarray, t_ms: float) -> None:
        if len(pcm):
            self._emit(ev.Audio(t_ms=t_ms, sample=self._sent, pcm=pcm))
            self._sent += len(pcm)

    def _finish(self, t_ms: float) -> None:
        """Send the stretcher's remaining samples, in the length from which word times are calculated."""
        stretcher, self._stretcher = self._stretcher, None
        left = self._stretched(self._made) - self._sent
        if stretcher is not None and left > 0:
            self._send(stretcher.finish(left), t_ms)

    # --- pauses of the typing ----------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check later whether the voice waits for text: until then, the stretcher buffers the end of the last word."""
        if not self._is_watched and not self._has_ended_text:
            self._is_watched = True
            timer = threading.Timer(IDLE_MS / 1000.0, self._check_idle)
            timer.daemon = True
            timer.start()

    def _check_idle(self) -> None:
        with self._lock:
            self._is_watched = False
            self._pull(_MAX_UNREAD)
            has_credit = self._granted is None or self._granted - self._made > 2 * self.card.frame_samples
            if self.is_over or self._has_ended_text or self._stretcher is None or not has_credit:
                return  # ``grant`` watches again
            now_ms = self._clock.now_ms()
            if len(self._out) < _MAX_UNREAD and now_ms - self._heard_ms >= IDLE_MS:
                self._finish(now_ms - self._began_ms)
            else:
                self._watch()
        self._tell()
