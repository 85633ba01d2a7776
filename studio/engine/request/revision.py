"""Revision points: segment ends that an utterance can go back to, and which of them a revision uses."""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from studio.engine.families.base import RevisableRow, RowCheckpoint

if TYPE_CHECKING:
    from studio.engine.vocoders.module import VocodeModule

_MAX_POINTS = 64


@dataclass(frozen=True)
class RevisionPoint:
    """State of the row and the vocoder at a segment's end."""

    sample: int
    row: RowCheckpoint
    vocoder: Any


@dataclass(frozen=True)
class PendingRevision:
    """The text changed from ``char`` on; samples before ``floor_sample`` may have been played."""

    char: int
    floor_sample: int
    at_ms: float


class RevisionPoints:
    """The revision points of one utterance.

    Args:
        slot: the utterance's slot in the vocoder.
    """

    def __init__(self, row: RevisableRow, vocode: "VocodeModule", slot: int) -> None:
        self.row = row
        self._vocode, self._slot = vocode, slot
        self._points: deque[RevisionPoint] = deque()

    def record(self, sample: int, played_sample: int) -> int | None:
        """Record a point, and drop those that cannot be used any more.

        Returns:
            Words spoken before the oldest point; None within a segment.
        """
        checkpoint = self.row.checkpoint()
        if checkpoint is None:
            return None
        self._points.append(RevisionPoint(sample, checkpoint, self._vocode.checkpoint(self._slot)))
        while len(self._points) > _MAX_POINTS or (len(self._points) > 1 and self._points[0].sample < played_sample):
            self._points.popleft()
        oldest = self._points[0].row
        self.row.discard_before(oldest)
        return oldest.spoken

    def settled_words(self, floor_sample: int) -> int:
        """Words that can no longer be revised where nothing before a sample may be taken back."""
        usable = self._usable(floor_sample)
        return usable[0].row.spoken if usable else self.row.spoken

    def point_for(self, word: int, floor_sample: int) -> RevisionPoint | None:
        """The point to go back to so that a word can change; None where nothing need be taken back.

        It is the latest one before the net saw the word, else the first usable one: the row then feeds the changed
        words again.
        """
        usable = self._usable(floor_sample)
        if self.row.fed <= word or not usable:
            return None
        unseen = [point for point in usable if point.row.fed <= word]
        return unseen[-1] if unseen else usable[0]

    def restore(self, point: RevisionPoint) -> None:
        """Restore the row and the vocoder, and drop later points."""
        self.row.restore(point.row)
        self._vocode.restore(self._slot, point.vocoder)
        self._points = deque(one for one in self._points if one.sample <= point.sample)

    def _usable(self, floor_sample: int) -> list[RevisionPoint]:
        return [one for one in self._points if one.sample >= floor_sample and self.row.can_restore(one.row)]
