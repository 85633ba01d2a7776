"""The places between two segments that an utterance can be taken back to, and which of them a revision may choose.

What a vocoder remembers is moved, never looked at.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from studio.engine.families.base import Mark, Revisable

_MOST = 64  # that can be returned to


class Vocode(Protocol):
    """What a voice's vocoder can do for them."""

    def mark(self, slot: int) -> Any:
        """What a slot remembers now."""
        ...

    def back(self, slot: int, mark: Any) -> None:
        """Remember what was marked."""
        ...


@dataclass(frozen=True)
class Boundary:
    """A place between two segments: the row, and what the vocoder remembers there."""

    sample: int
    row: Mark
    vocoder: Any


@dataclass(frozen=True)
class Revision:
    """The text from a character on is another one; what was made before ``floor`` may have been heard."""

    char: int
    floor: int
    at_ms: float


class Boundaries:
    """Those of one utterance whose row can go back.

    Args:
        slot: the utterance's place in the vocoder.
    """

    def __init__(self, row: Revisable, vocode: Vocode, slot: int) -> None:
        self.row = row
        self._vocode, self._slot = vocode, slot
        self._kept: deque[Boundary] = deque()

    def note(self, sample: int, heard_sample: int) -> int | None:
        """Note where the row stands, and forget what nothing will return to.

        Returns:
            How many words were spoken before the oldest place kept; None within a segment.
        """
        mark = self.row.mark()
        if mark is None:
            return None
        self._kept.append(Boundary(sample, mark, self._vocode.mark(self._slot)))
        while len(self._kept) > _MOST or (len(self._kept) > 1 and self._kept[0].sample < heard_sample):
            self._kept.popleft()
        oldest = self._kept[0].row
        self.row.forget(oldest)
        return oldest.spoken

    def settled_words(self, floor_sample: int) -> int:
        """Words that can no longer be revised where nothing before a sample may be taken back."""
        left = self._left(floor_sample)
        return left[0].row.spoken if left else self.row.spoken

    def before(self, word: int, floor_sample: int) -> Boundary | None:
        """Where to go back to so that a word can become another one; None where nothing need be taken back.

        The latest place at which the net had not seen it; where all that is left has seen it, the first of what is
        left: the row feeds anew what changed.
        """
        left = self._left(floor_sample)
        if self.row.fed <= word or not left:
            return None
        unseen = [one for one in left if one.row.fed <= word]
        return unseen[-1] if unseen else left[0]

    def return_to(self, place: Boundary) -> None:
        """Take the row and the vocoder back; what came later is forgotten."""
        self.row.back(place.row)
        self._vocode.back(self._slot, place.vocoder)
        self._kept = deque(one for one in self._kept if one.sample <= place.sample)

    def _left(self, floor_sample: int) -> list[Boundary]:
        return [one for one in self._kept if one.sample >= floor_sample and self.row.holds(one.row)]
