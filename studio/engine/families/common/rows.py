"""Code shared by the rows of all families, without torch: text intake, options, planning by clauses, checks."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from studio.core.events import Event, Frames, WordEnd, WordSource, WordStart
from studio.core.text.words import ClauseRule
from studio.core.time import TimeBase
from studio.engine.families.base import ModuleInput, NotFinite, RowCheckpoint

OptionsT = TypeVar("OptionsT")
ClauseT = TypeVar("ClauseT")  # a family's state of the clause that is being spoken
CONTEXT_WORDS = 8  # words before a homograph that decide its phonemes
ALL_WORDS = sys.maxsize  # value of ``Row.fed`` once the net has seen the text's end


def sigmoid(logit: np.float32) -> float:
    """Probability of a logit, computed on the CPU so that rounding does not depend on the batch."""
    return 0.5 * (1.0 + math.tanh(0.5 * float(logit)))


def sigmoids(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits float32 [N], float64."""
    return 0.5 * (1.0 + np.tanh(0.5 * logits.astype(np.float64)))


def check_finite(is_finite: bool) -> None:
    """Raises NotFinite unless the net's outputs were finite."""
    if not is_finite:
        raise NotFinite("the net's output is not finite", "the voice's weights may be damaged")


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
        context_frames, kept_frames: if older frames exceed the first number, all but the second number are dropped.
        longest_word_frames: a segment without an end is cut at this many frames per word.
        capacity_tokens: capacity of the slot.
    """

    context_frames: int
    kept_frames: int
    longest_word_frames: int
    capacity_tokens: int


@dataclass(frozen=True)
class RowSetup:
    """Arguments of every new row; ``options`` holds all options of the card."""

    slots: tuple[int, ...]
    time_base: TimeBase
    speaker: int
    options: Mapping[str, Any]
    temperature: float
    seed: int


class TextRow(Generic[OptionsT]):
    """Base of all rows: committed words, flush, end, options, and the frames so far.

    Args:
        read_options: the card's options as the family's own class. Raises BadOption unless they are compatible.
    """

    def __init__(self, setup: RowSetup, read_options: Callable[..., OptionsT]) -> None:
        self.slots, self._time_base, self._speaker = setup.slots, setup.time_base, setup.speaker
        self._read_options, self._options = read_options, read_options(**setup.options)
        self._temperature, self._seed = setup.temperature, setup.seed
        self._frames = 0
        self._last: np.ndarray | None = None  # the last frame, whose p_eos comes with the next output
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

    def on_cancel(self) -> list[Event]:
        """Nothing: every frame was reported with its sound."""
        return []

    def _invalidate_plan(self) -> None:
        """Called when the text has changed: a family may drop a planned input that has not run yet."""

    def discard_before(self, checkpoint: Any) -> None:
        """Called when no earlier checkpoint will be restored: a family may drop their words."""

    def _replace_words(self, i: int, words: Sequence[str]) -> None:
        """Replace the committed words from ``i`` on; the text is open again."""
        self._words[i - self._words_from :] = words
        self._flushed, self._ended = min(self._flushed, i), False

    def _words_before(self, i: int) -> list[str]:
        """The words before word ``i`` that may decide its phonemes."""
        return self._words[max(0, i - CONTEXT_WORDS) : i]

    def _report_last(self, p_eos: float) -> Frames:
        """The event of the last frame."""
        assert self._last is not None, "no frame was sampled"
        return Frames(first_frame=self._frames - 1, p_eos=[p_eos], levels=self._last)

    def _pop_pending(self) -> ModuleInput:
        """The input whose output has arrived."""
        pending, self._pending = self._pending, None
        assert pending is not None, "output without an input"
        return pending

    def check(self, options: Mapping[str, Any]) -> None:
        """Raises BadOption unless these options (all options of the card) are compatible."""
        self._read_options(**options)

    def set_options(self, options: Mapping[str, Any], temperature: float | None) -> None:
        """Set options from the next segment on."""
        self._options = self._read_options(**options)
        if temperature is not None:
            self._temperature = temperature


@dataclass(frozen=True)
class ClauseCheckpoint:
    """State of a row between two clauses; it does not depend on the slot's contents."""

    spoken: int
    clauses: int
    frames: int

    @property
    def fed(self) -> int:
        """Words that the net had seen: those that were spoken."""
        return self.spoken


class ClauseRow(TextRow[OptionsT], ABC, Generic[OptionsT, ClauseT]):
    """Base of a ``RevisableRow`` whose net reads one self-contained clause (or sentence, or n-gram) at a time.

    Every clause starts from an empty slot.

    Attributes:
        PREFILL: name of the module that reads a clause.
    """

    PREFILL: ClassVar[str]

    def __init__(self, setup: RowSetup, read_options: Callable[..., OptionsT]) -> None:
        super().__init__(setup, read_options)
        self._spoken = self._clauses = 0
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

    def next_input(self) -> ModuleInput | None:
        """The prefill of a complete clause, or the next frames of the current one."""
        if self._pending is None:
            if self._clause is not None:
                self._pending = ModuleInput("decode", self._decode_input(self._clause))
            elif (words := self._next_clause(self._rule())) is not None:
                self._pending = ModuleInput(self.PREFILL, self._plan(words))
        return self._pending

    @abstractmethod
    def _rule(self) -> ClauseRule:
        """The rule that splits the text into clauses."""

    @abstractmethod
    def _plan(self, words: range) -> Any:
        """The input for a clause of these words; sets ``_next``."""

    def _decode_input(self, clause: ClauseT) -> Any:
        """The input for the next frames; None if it is in the slot."""
        return None

    def _begin(self) -> ClauseT:
        """Begin the planned clause."""
        self._clause, self._next = self._next, None
        assert self._clause is not None, "no clause is planned"
        return self._clause

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


def estimate_word_events(
    time_base: TimeBase,
    words: Sequence[int],
    texts: Sequence[str],
    first: int,
    frames: int,
    end_source: WordSource = "eos",
) -> list[Event]:
    """Word events of a finished segment, without its first word's start: boundaries in proportion to characters.

    Args:
        words: indices of the spoken words; ``texts`` are their characters.
        first, frames: the segment's first frame, and its number of frames.
        end_source: the source of the last word's end.
    """
    sizes = np.cumsum([0] + [len(text) + 1 for text in texts])
    ends = np.rint(sizes / sizes[-1] * frames).astype(int) + first
    events: list[Event] = []
    for k, i in enumerate(words):
        if k > 0:
            events.append(WordStart(i=i, sample=time_base.samples(int(ends[k])), source="estimate"))
        source = end_source if k + 1 == len(words) else "estimate"
        events.append(WordEnd(i=i, sample=time_base.samples(int(ends[k + 1])), source=source))
    return events


@dataclass
class WordTracker:
    """Follows the attention through the phonemes of several words.

    Attributes:
        words: indices of spoken words.
        through: encoder steps up to the end of each of them.
        word, word_frame: the word currently attended to, and the frame where it began.
    """

    time_base: TimeBase
    words: range
    through: Sequence[int]
    word_frame: int
    word: int = field(init=False)

    def __post_init__(self) -> None:
        self.word = self.words.start

    def start(self) -> Event:
        """The start of the first word."""
        return WordStart(i=self.word, sample=self.time_base.samples(self.word_frame), source="attention")

    def advance(self, attended: int, frame: int) -> list[Event]:
        """Ends and starts of the words passed when encoder step ``attended`` is attended to at a frame."""
        events: list[Event] = []
        sample = self.time_base.samples(frame)
        while self.word < self.words[-1] and attended >= self.through[self.word - self.words.start]:
            events.append(WordEnd(i=self.word, sample=sample, source="attention"))
            self.word, self.word_frame = self.word + 1, frame
            events.append(WordStart(i=self.word, sample=sample, source="attention"))
        return events

    def finish(self, frame: int, texts: Sequence[str]) -> list[Event]:
        """The end of the current word; words never attended to share the remaining frames by characters.

        Args:
            texts: of all ``words``.
        """
        left = range(self.word, self.words.stop)
        frames = frame - self.word_frame
        texts = texts[self.word - self.words.start :]
        return estimate_word_events(self.time_base, left, texts, self.word_frame, frames, "attention")
