"""What rows share whose net is given whole requests, clauses or pieces, each of which begins with nothing before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from studio.core.time import TimeBase
from studio.engine.families.base import Mark
from studio.engine.families.reading import Chosen, ReadingRow

Speaking = TypeVar("Speaking")  # a request that is being spoken, as a family keeps it


@dataclass(frozen=True)
class RequestMark:
    """Where a row stood between two requests: nothing of a slot need be kept."""

    spoken: int
    requests: int
    frames: int

    @property
    def fed(self) -> int:
        """Words that the net had seen: those that were spoken."""
        return self.spoken


class _Cuts(Protocol):
    """Says where text is cut into requests."""

    def length(self, words: Sequence[str], *, is_all: bool) -> int | None:
        """How many of the words are the next request; None while it may still grow."""
        ...


class RequestRow(ReadingRow[Chosen], Generic[Chosen, Speaking]):
    """The half of a ``Revisable`` row that knows which words were asked for; what is said of them is the family's."""

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        read_options: Any,
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, read_options, options, temperature, seed)
        self._spoken = self._requests = self._frames = 0
        self._next: Speaking | None = None  # the request that is wanted
        self._speaking: Speaking | None = None

    @property
    def over(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._speaking is None and self.unspoken == 0 and self._wanted is None

    @property
    def spoken(self) -> int:
        """Words spoken, those of the present request among them."""
        return self._spoken

    @property
    def fed(self) -> int:
        """Words that the net has seen."""
        return self._spoken

    @property
    def unspoken(self) -> int:
        """Committed words that no request has taken yet."""
        return self._committed - self._spoken

    def mark(self) -> RequestMark | None:
        """Where the row stands between two requests; None within one."""
        if self._speaking is not None or self._wanted is not None:
            return None
        return RequestMark(self._spoken, self._requests, self._frames)

    def back(self, mark: RequestMark) -> None:
        """Return to a mark: the request after it begins with nothing before it."""
        self._spoken, self._requests, self._frames = mark.spoken, mark.requests, mark.frames
        self._speaking = self._next = self._wanted = None

    def holds(self, mark: Mark) -> bool:
        """Whether a mark can still be returned to."""
        return mark.spoken >= self._words_from

    def forget(self, mark: Mark) -> None:
        """Nothing before a mark will be returned to."""
        del self._words[: max(0, mark.spoken - self._words_from)]
        self._words_from = max(self._words_from, mark.spoken)

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, which must not have been spoken; the text goes on."""
        assert i >= self._spoken, "the word was spoken already: go back first"
        self._reword(i, words)
        if self._speaking is None:  # a request that was wanted may have held them
            self._next = self._wanted = None

    def _due(self, cuts: _Cuts) -> range | None:
        """The words of the next request; None while it may still grow. Words after a flush are of another one."""
        first, is_flushed = self._spoken - self._words_from, self._spoken < self._flushed
        last = self._flushed - self._words_from if is_flushed else len(self._words)
        count = cuts.length(self._words[first:last], is_all=is_flushed or self._ended)
        return None if count is None else range(self._spoken, self._spoken + count)

    def _texts(self, words: range) -> list[str]:
        return self._words[words.start - self._words_from : words.stop - self._words_from]
