"""What the rows of all families share, without torch: text intake, options, clause by clause planning, checks."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from studio.core.text.clauses import ClauseRule
from studio.core.time import TimeBase
from studio.engine.families.base import ModuleInput, NotFinite, RowCheckpoint

OptionsT = TypeVar("OptionsT")
ClauseT = TypeVar("ClauseT")  # a family's state of the clause that is being spoken
ALL_WORDS = sys.maxsize  # value of ``Row.fed`` once the net has seen the text's end


def sigmoid(logit: np.float32) -> float:
    """Probability of a logit, computed on the CPU so that rounding does not depend on the batch."""
    return 0.5 * (1.0 + math.tanh(0.5 * float(logit)))


def check_finite(is_finite: bool) -> None:
    """Raises NotFinite unless the net's outputs were finite."""
    if not is_finite:
        raise NotFinite("the net answered something that is no number", "the voice's weights may be damaged")


@dataclass(frozen=True)
class FrameOutput:
    """A sampled frame, levels uint8 [1, 80], and the probability that the segment had ended before it.

    ``is_finite``: whether all logits were finite.
    """

    levels: np.ndarray
    p_eos: float
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite and math.isfinite(self.p_eos))


@dataclass(frozen=True)
class RowLimits:
    """Capacity of a row, in frames and tokens.

    Attributes:
        context_frames, kept_frames: when older frames exceed the first, they are dropped down to the second.
        longest_word_frames: a segment without an end is cut at this many frames per word.
        capacity_tokens: of the slot.
    """

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


class TextRow(Generic[OptionsT]):
    """The text side of ``studio.engine.families.base.Row``: committed words, flush, end, options.

    Args:
        read_options: the card's options as the family's own class. Raises BadOption unless they go together.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        read_options: Callable[..., OptionsT],
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        self.slots = slots
        self._time_base, self._read_options = time_base, read_options
        self._options, self._temperature, self._seed = read_options(**options), temperature, seed
        self._words: list[str] = []
        self._words_from = 0  # index of the first word still stored
        self._flushed = 0
        self._ended = False
        self._pending: ModuleInput | None = None

    @property
    def _committed(self) -> int:
        return self._words_from + len(self._words)

    def commit(self, words: Sequence[str]) -> None:
        """Append spoken words."""
        self._words += words
        self._invalidate_plan()

    def flush(self) -> None:
        """Speak the committed words without waiting for more."""
        self._flushed = self._committed
        self._invalidate_plan()

    def end(self) -> None:
        """No more words will come."""
        self._ended = True
        self._invalidate_plan()

    def _invalidate_plan(self) -> None:
        """Called when the text changed: a family may drop a planned input that has not run yet."""

    def discard_before(self, checkpoint: Any) -> None:
        """Checkpoints before this one will not be restored: a family may drop their words."""

    def _replace_words(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on; the text is open again."""
        self._words[i - self._words_from :] = words
        self._flushed, self._ended = min(self._flushed, i), False

    def _pop_pending(self) -> ModuleInput:
        """The input whose output has arrived."""
        pending, self._pending = self._pending, None
        assert pending is not None, "output without an input"
        return pending

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless these options, all of the card's, go together."""
        self._read_options(**options)

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Set options from the next segment on."""
        self._options = self._read_options(**options)
        if temperature is not None:
            self._temperature = temperature


@dataclass(frozen=True)
class ClauseCheckpoint:
    """State of a row between two clauses; the slot's contents do not matter."""

    spoken: int
    clauses: int
    frames: int

    @property
    def fed(self) -> int:
        """Words that the net had seen: those that were spoken."""
        return self.spoken


class ClauseRow(TextRow[OptionsT], Generic[OptionsT, ClauseT]):
    """The half of a ``RevisableRow`` whose net reads one self-contained clause (or sentence, or n-gram) at a time.

    Every clause starts from an empty slot.
    """

    def __init__(
        self,
        slots: tuple[int, ...],
        time_base: TimeBase,
        read_options: Callable[..., OptionsT],
        options: Mapping[str, Any],
        temperature: float,
        seed: int,
    ) -> None:
        super().__init__(slots, time_base, read_options, options, temperature, seed)
        self._spoken = self._clauses = self._frames = 0
        self._next: ClauseT | None = None  # planned, not run yet
        self._clause: ClauseT | None = None

    @property
    def is_finished(self) -> bool:
        """Whether everything was spoken and nothing can follow."""
        return self._ended and self._clause is None and self.unspoken == 0 and self._pending is None

    @property
    def spoken(self) -> int:
        """Words spoken, including those of the current clause."""
        return self._spoken

    @property
    def fed(self) -> int:
        """Words that the net has seen."""
        return self._spoken

    @property
    def unspoken(self) -> int:
        """Committed words that are in no clause yet."""
        return self._committed - self._spoken

    def checkpoint(self) -> ClauseCheckpoint | None:
        """The state between two clauses; None within one."""
        if self._clause is not None or self._pending is not None:
            return None
        return ClauseCheckpoint(self._spoken, self._clauses, self._frames)

    def restore(self, checkpoint: ClauseCheckpoint) -> None:
        """Return to a checkpoint."""
        self._spoken, self._clauses, self._frames = checkpoint.spoken, checkpoint.clauses, checkpoint.frames
        self._clause = self._next = self._pending = None

    def can_restore(self, checkpoint: RowCheckpoint) -> bool:
        """Whether the words of a checkpoint are still stored."""
        return checkpoint.spoken >= self._words_from

    def discard_before(self, checkpoint: RowCheckpoint) -> None:
        """Drop the words before a checkpoint."""
        del self._words[: max(0, checkpoint.spoken - self._words_from)]
        self._words_from = max(self._words_from, checkpoint.spoken)

    def rewrite(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on, none of which was spoken; the text is open again."""
        assert i >= self._spoken, "the word was already spoken: restore a checkpoint first"
        self._replace_words(i, words)
        if self._clause is None:  # a planned clause may contain them
            self._next = self._pending = None

    def _next_clause(self, rule: ClauseRule) -> range | None:
        """Words of the next clause; None while it may still grow. A flush ends a clause."""
        first, is_flushed = self._spoken - self._words_from, self._spoken < self._flushed
        last = self._flushed - self._words_from if is_flushed else len(self._words)
        count = rule.length(self._words[first:last], is_all=is_flushed or self._ended)
        return None if count is None else range(self._spoken, self._spoken + count)

    def _texts_of(self, words: range) -> list[str]:
        return self._words[words.start - self._words_from : words.stop - self._words_from]
