"""Who takes part in a turn: newcomers reach their first audio soon, and nobody who speaks runs dry for it.

Paper 002 (appendix I) runs two short steps for those that have no sound yet before each step for all. Here a short turn
also takes whoever would run dry meanwhile: those who speak spend what they are ahead, and no more. So it is, too, for
those that have run dry, when text came after a pause or when many want more than the machine has. And no turn takes
more of those that are well ahead than a newcomer should wait for.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

SHORT_TURNS = 2  # at most so many in a row
NEAR_MS = 150.0  # who has so much sound left, or less, takes part in every turn
TURN_MS = 10.0  # of those who have more, about so many take part at once as fit in here
FEWEST_AHEAD = 4  # but no fewer where nobody needs any, since a batch is cheaper than its rows
_NEW = 0.1  # weight of the newest turn in what a row costs

T = TypeVar("T")


class Schedule:
    """Chooses those that take part in the next turn, of all that could."""

    def __init__(self) -> None:
        self._short = 0
        self._row_ms = 0.0

    def took(self, rows: int, duration_ms: float) -> None:
        """A turn of so many rows took so long."""
        if rows:
            self._row_ms += _NEW * (duration_ms / rows - self._row_ms)

    def choose(self, ready: Sequence[T], left_ms: Callable[[T], float]) -> list[T]:
        """Those that go on now, whoever has least left first.

        Args:
            left_ms: how long the listener's sound lasts; minus infinity for one that has had none yet.
        """
        left = sorted((left_ms(one), at) for at, one in enumerate(ready))
        is_short = bool(left) and left[0][0] <= 0.0 < left[-1][0] - NEAR_MS and self._short < SHORT_TURNS
        self._short = self._short + 1 if is_short else 0
        near = sum(ms <= NEAR_MS for ms, _ in left)
        fitting = int(TURN_MS / self._row_ms) if self._row_ms > 0.0 else len(left)
        if not near:
            fitting = max(FEWEST_AHEAD, fitting)
        count = near if is_short else max(near, fitting)
        return [ready[at] for _, at in left[:count]]
