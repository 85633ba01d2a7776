"""Plays samples through an audio device's callback, from a ring buffer without locks."""

import time
from typing import Any

import numpy as np

_RING_S = 8.0  # more than the credit of an utterance and the longest chunk of a voice
PREBUFFER_S = 0.03  # just over a frame, so that the next one arrives in time
_FADE_S = 0.005
_MARKS = 512  # blocks whose times are remembered
_FULL_S = 0.02


class Player:
    """A ring buffer of samples int16: one thread writes it, the device's callback ``fill`` reads it.

    Positions count samples of the voice from 0 and never go back; pauses are not samples. The callback takes no lock
    and allocates no memory for samples: ``_written`` is changed by the writing thread alone, ``_read`` and the marks by
    the callback alone. The clock is ``time.perf_counter``.

    Attributes:
        underflows: number of late callbacks reported by the device while sound was played.
        ran_dry: whether the callback has run out of samples since the writing thread set this to False.
    """

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.underflows = 0
        self.ran_dry = False
        self._ring = np.zeros(round(_RING_S * rate_hz), np.int16)
        self._written = self._read = 0
        self._prebuffer = self._hold = round(PREBUFFER_S * rate_hz)
        self._plays = self._is_closed = False
        self._ramp = np.linspace(1.0, 0.0, round(_FADE_S * rate_hz), dtype=np.float32)
        self._faded, self._last = len(self._ramp), 0
        self._mark_s, self._mark_at = np.zeros(_MARKS), np.zeros(_MARKS, np.int64)
        self._mark_samples = np.zeros(_MARKS, np.int64)
        self._marks = 0

    @property
    def end(self) -> int:
        """The position at which the next sample will be played."""
        return max(self._written, self._read)

    @property
    def buffered_ms(self) -> float:
        """Length of the sound that the device has not taken yet."""
        return max(0, self._written - self._read) * 1000.0 / self.rate_hz

    @property
    def is_playing(self) -> bool:
        """Whether the device takes samples; False while it waits for some."""
        return self._plays

    def play(self, pcm: np.ndarray) -> None:
        """Add samples int16 [T]; waits while the ring buffer is full, which credit prevents."""
        size = len(self._ring)
        for first in range(0, len(pcm), size // 4):
            part = pcm[first : first + size // 4]
            while self._written + len(part) - self._read > size and not self._is_closed:
                time.sleep(_FULL_S)
            at = self._written % size
            head = min(len(part), size - at)
            self._ring[at : at + head] = part[:head]
            self._ring[: len(part) - head] = part[head:]
            self._written += len(part)

    def cut(self, position: int) -> None:
        """Drop unplayed samples from a position on."""
        self._written = min(self._written, position)

    def stop(self) -> int:
        """Fade out at once; returns the position."""
        position = self.position()
        self._written = min(self._written, self._read)
        return position

    def close(self) -> None:
        """Let a waiting ``play`` return."""
        self._is_closed = True

    def position(self) -> int:
        """Number of samples that have left the loudspeaker."""
        now_s, at = time.perf_counter(), 0
        for k in range(self._marks - 1, max(0, self._marks - _MARKS) - 1, -1):
            slot = k % _MARKS
            at = int(self._mark_at[slot])
            since_s = now_s - self._mark_s[slot]
            if since_s >= 0.0:
                return at + min(int(self._mark_samples[slot]), int(since_s * self.rate_hz))
        return at

    def time_of(self, position: int) -> float | None:
        """When a sample left or leaves the loudspeaker; None if the device has not taken it, or long ago."""
        for k in range(self._marks - 1, max(0, self._marks - _MARKS) - 1, -1):
            after = position - int(self._mark_at[k % _MARKS])
            if 0 <= after < self._mark_samples[k % _MARKS]:
                return float(self._mark_s[k % _MARKS]) + after / self.rate_hz
        return None

    def before(self, position: int, samples: int) -> np.ndarray:
        """The samples int16 [samples] before a recent position."""
        return self._ring.take(np.arange(position - samples, position), mode="wrap")

    def fill(self, out: np.ndarray, frames: int, timing: Any, status: Any) -> None:
        """The callback of the device: fills int16 [frames, 1]."""
        now_s, written, size = time.perf_counter(), self._written, len(self._ring)
        if self._plays and status and status.output_underflow:  # a late block of silence is not heard
            self.underflows += 1
        available = max(0, written - self._read)
        if available and not self._plays:  # buffer some samples, but never longer than these last
            self._plays = available >= self._prebuffer or self._hold <= 0
            self._hold -= frames
        take = min(frames, available) if self._plays else 0
        if take:
            at = self._read % size
            head = min(take, size - at)
            out[:head, 0] = self._ring[at : at + head]
            out[head:take, 0] = self._ring[: take - head]
            slot = self._marks % _MARKS
            self._mark_s[slot] = now_s + max(0.0, timing.outputBufferDacTime - timing.currentTime)
            self._mark_at[slot], self._mark_samples[slot] = self._read, take
            self._marks += 1
            self._last, self._faded = int(out[take - 1, 0]), 0
            self._read += take
        if take < frames:
            if self._plays:
                self._plays, self._hold, self.ran_dry = False, self._prebuffer, True
            fade = min(frames - take, len(self._ramp) - self._faded)  # no click at the break
            ramp = self._ramp[self._faded : self._faded + fade]
            np.multiply(ramp, self._last, out=out[take : take + fade, 0], casting="unsafe")
            self._faded += fade
            out[take + fade :] = 0
