"""Rates of events and of a socket's frames."""

import time
from dataclasses import dataclass, field

CONTROLS_PER_S = 20  # control frames of one socket; a browser sends only pongs, for our pings


@dataclass
class TokenBucket:
    """A rate limit of ``per_s`` events, with a burst of the same size."""

    per_s: float
    level: float = field(init=False)
    filled_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.level, self.filled_s = self.per_s, time.monotonic()

    def take(self) -> bool:
        """Count one event; returns whether it is within the rate."""
        now_s = time.monotonic()
        self.level = min(self.per_s, self.level + (now_s - self.filled_s) * self.per_s)
        self.filled_s = now_s
        self.level -= 1.0
        return self.level >= 0.0


class FrameCounter:
    """Counts the frames that a client sends by their headers: data frames with continuations, and control frames."""

    def __init__(self, frames_per_s: float) -> None:
        self._frames, self._controls = TokenBucket(frames_per_s), TokenBucket(CONTROLS_PER_S)
        self._part, self._skip_bytes = b"", 0  # the beginning of a header; payload still to come

    def is_within(self, data: bytes) -> bool:
        """Count the frames that begin in ``data``; returns whether all of them are within the rates."""
        data, at = self._part + data, self._skip_bytes
        self._part = b""
        while at < len(data):
            length = data[at + 1] & 0x7F if at + 1 < len(data) else 0
            extended = {126: 2, 127: 8}.get(length, 0)
            payload_at = at + 2 + extended + 4  # after the mask: a client's frame without one ends the connection
            if payload_at > len(data):
                self._part = data[at:]
                break
            if not (self._controls if data[at] & 0x08 else self._frames).take():
                return False
            at = payload_at + (int.from_bytes(data[at + 2 : at + 2 + extended]) if extended else length)
        self._skip_bytes = max(0, at - len(data))
        return True
