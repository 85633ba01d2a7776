"""Whose a pause in the output is: the text's, the listener's credit's, or the computer's."""

import math

from studio.core import events as ev


class Waits:
    """Follows one utterance: what held it up, since when it could go on, and when a player ran out of its sound.

    Making a frame may take as long as the frame lasts: after text or credit came, only what goes beyond that is held
    against the computer.
    """

    def __init__(self, rate_hz: int, frame_ms: float) -> None:
        self._rate_hz, self._frame_ms = rate_hz, frame_ms
        self.held_by: ev.WaitReason | None = None
        self._could_ms: float | None = None
        self._dry_at_ms: float | None = None  # when an ideal player runs out of what was made

    @property
    def awaits_text(self) -> bool:
        """Whether text holds it up, and none that lets it go on has been seen yet."""
        return self.held_by == "text" and self._could_ms is None

    def hold(self, reason: ev.WaitReason) -> None:
        """It cannot go on; credit is named before text, since a listener who gives none hears no text either."""
        self.held_by = "credit" if reason == "credit" else self.held_by or reason
        self._could_ms = None

    def go(self, could_ms: float) -> None:
        """It can go on, and could since then; only the first such moment counts."""
        if self._could_ms is None:
            self._could_ms = could_ms

    def made(self, samples: int, at_sample: int, now_ms: float) -> list[ev.Wait]:
        """Some sound is there: the waits that it ended."""
        found: list[ev.Wait] = []
        if self._dry_at_ms is None:
            self._dry_at_ms = now_ms
        elif now_ms > self._dry_at_ms:
            found = self._parts(self._dry_at_ms, at_sample, now_ms)
            self._dry_at_ms = now_ms
        self.held_by = self._could_ms = None
        self._dry_at_ms += 1000.0 * samples / self._rate_hz
        return found

    def left_ms(self, now_ms: float) -> float:
        """How long an ideal player can still go on; minus infinity where it has had nothing."""
        return -math.inf if self._dry_at_ms is None else self._dry_at_ms - now_ms

    def took_back(self, samples: int) -> None:
        """Some sound that was made will not be played."""
        if self._dry_at_ms is not None:
            self._dry_at_ms -= 1000.0 * samples / self._rate_hz

    def _parts(self, since_ms: float, at_sample: int, now_ms: float) -> list[ev.Wait]:
        due_ms = since_ms
        parts: list[tuple[ev.WaitReason, float]] = []
        if self.held_by is not None:
            could_ms = now_ms if self._could_ms is None else self._could_ms
            due_ms = max(since_ms, min(now_ms, could_ms + self._frame_ms))
            parts.append((self.held_by, due_ms - since_ms))
        parts.append(("compute", now_ms - due_ms))
        return [
            ev.Wait(reason=reason, sample=at_sample, duration_ms=round(duration_ms, 3))
            for reason, duration_ms in parts
            if duration_ms > 0
        ]
