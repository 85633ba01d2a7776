"""What every row that reads committed words keeps of them, and of what its listener asked for."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from studio.core.time import TimeBase
from studio.engine.families.base import Want

Chosen = TypeVar("Chosen")  # a family's options
EVERY_WORD = sys.maxsize  # so many words a net has seen that was told the text's end: also that nothing follows


class ReadingRow(Generic[Chosen]):
    """The reading half of ``studio.engine.families.base.Row``: words, flushes, the end, options.

    Args:
        read_options: a card's options as the family's own. Raises BadOption unless they go together.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        read_options: Callable[..., Chosen],
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        self.slots = slots
        self._time_base, self._read_options = time_base, read_options
        self._options, self._temperature, self._seed = read_options(**options), temperature, seed
        self._words: list[str] = []
        self._words_from = 0  # the words before it can no longer be asked for
        self._flushed = 0
        self._ended = False
        self._wanted: Want | None = None

    @property
    def _committed(self) -> int:
        return self._words_from + len(self._words)

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        self._words += words
        self._plan_anew()

    def flush(self) -> None:
        """Speak what is committed without waiting for more."""
        self._flushed = self._committed
        self._plan_anew()

    def end(self) -> None:
        """No more words will come."""
        self._ended = True
        self._plan_anew()

    def _plan_anew(self) -> None:
        """More is known than when the next run was planned, and it has not been run: a family may forget the plan."""

    def forget(self, mark: Any) -> None:
        """Nothing before a mark will be returned to: a family may forget its words."""

    def _reword(self, i: int, words: Sequence[str]) -> None:
        """Other committed words from ``i`` on; the text goes on, and its end will be read again."""
        self._words[i - self._words_from :] = words
        self._flushed, self._ended = min(self._flushed, i), False

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless these options, all of the card's, go together."""
        self._read_options(**options)

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Options from the next segment on."""
        self._options = self._read_options(**options)
        if temperature is not None:
            self._temperature = temperature
