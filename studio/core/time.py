"""Clocks and time bases: samples for sound, frames for acoustic features, milliseconds for clocks."""

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock; tests pass one that they advance by hand."""

    def now_ms(self) -> float:
        """Milliseconds since a fixed moment."""
        ...

    def sleep_ms(self, duration_ms: float) -> None: ...


class MonotonicClock:
    """The machine's monotonic clock."""

    def now_ms(self) -> float:
        return time.perf_counter() * 1000.0

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(max(0.0, duration_ms) / 1000.0)


@dataclass(frozen=True)
class TimeBase:
    """Positions of a voice's frames on its samples.

    Frame k of a recording owns samples [k * frame_samples - phase, (k + 1) * frame_samples - phase);
    frame k of an utterance makes samples [k * frame_samples, (k + 1) * frame_samples).
    """

    rate_hz: int
    frame_samples: int
    phase: int

    def frame_of_time(self, time_s: float) -> int:
        """The frame boundary nearest to a time in a recording: (t * rate) / frame_samples, rounded."""
        return round(time_s * self.rate_hz / self.frame_samples)

    def samples(self, frames: int) -> int:
        """Samples of a number of frames."""
        return frames * self.frame_samples

    @property
    def frame_ms(self) -> float:
        return 1000.0 * self.frame_samples / self.rate_hz
