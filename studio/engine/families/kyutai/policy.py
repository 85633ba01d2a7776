"""Which text a step is fed (paper 002, section 4): words begin where the net asks for one, and are fed a token a step.

The second text stream has a sign where a word begins and then the tokens of the word ``look_ahead`` words later. Both
tokens of a step are one number, ``first + size * (1 + second)``. The rules are those of Kyutai's published code.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from studio.core.text.typography import MARKS
from studio.engine.families.common.rows import check_finite
from studio.engine.families.dsm.policy import next_word

NEW_WORD, MAIN, OTHER, PAD = 0, 1, 2, 3  # tokens with a meaning of their own
_NONE = -1


def sentence_case(word: str, before: str) -> str:
    """A spoken word with the capital that it has in writing for its place, as in the training data's transcripts.

    Args:
        before: the word before it; empty for the first one.
    """
    begins = not before or before[-1] in ".?!"
    return word[:1].upper() + word[1:] if begins or word.rstrip(MARKS).partition("'")[0] == "i" else word


@dataclass(frozen=True)
class KyutaiOptions:
    """Options of a voice: strength of guidance, and steps of padding after each word."""

    guidance: float
    padding: int


@dataclass(frozen=True)
class KyutaiInput:
    """One step of a row.

    Attributes:
        step: in the passage; 0 begins one, with this ``speaker`` and ``guidance``.
        at: in the utterance.
        has_sound: whether codes are wanted.
        pad, word: the text token to feed where the net asks for no word, and for one.
        prefix: codes int64 [T, dep_q] of the recording that precedes a passage, of a prefixed model.
    """

    step: int
    at: int
    has_sound: bool
    pad: int
    word: int
    speaker: int
    guidance: float
    temperature: float
    seed: int
    prefix: np.ndarray | None = field(default=None, compare=False)


@dataclass(frozen=True)
class KyutaiOutput:
    """What a step sampled.

    Attributes:
        codes: int64 [dep_q], -1 for codebooks without sound yet.
        begins: whether the net asks for a word; ``p_word`` is the probability.
        is_finite: whether all logits were finite.
    """

    codes: np.ndarray
    begins: bool
    p_word: float
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite)


@dataclass
class KyutaiPolicy:
    """The text of one passage.

    Attributes:
        size: text tokens, the initial one included (``text_card`` + 1).
        look_ahead: words between the one that begins and the one in the second stream; 0 without that stream.
        longest_pad: steps in a row without a word's beginning; ``initial_pad`` of them come first.
        ended: no more words will come.
        flushed: words that do not wait for those after them.
        begun: the step in which each word began.
        end_step: where the net asked for a word after the last one; None before.
    """

    size: int
    look_ahead: int = 2
    longest_pad: int = 8
    initial_pad: int = 2
    ended: bool = False
    flushed: int = 0
    begun: list[int] = field(default_factory=list)
    end_step: int | None = None

    def __post_init__(self) -> None:
        self._words: deque[tuple[Sequence[int], int]] = deque()
        self._queued, self._later = deque[int](), deque[int]()
        self._may_pad = self._must_pad = self.initial_pad
        self._step = 0

    @property
    def committed(self) -> int:
        """Words, those that began included."""
        return len(self.begun) + len(self._words)

    def commit(self, tokens: Sequence[int], padding: int = 0) -> None:
        """Add a word of at least one token, and so many steps in which no other begins."""
        assert tokens and self.end_step is None
        self._words.append((tokens, padding))

    @property
    def may_begin(self) -> bool:
        """Whether a word, or the end, may begin in the next step."""
        return self.end_step is None and not self._queued and self._must_pad <= 0

    @property
    def must_begin(self) -> bool:
        """Whether it does in any case."""
        return self.may_begin and self._may_pad <= 0

    @property
    def can_step(self) -> bool:
        """Whether the next step needs no word that is not committed yet."""
        return not self.may_begin or self._due() is not None

    def token(self, wanted: int) -> int:
        """What ``feed`` will feed."""
        match self._next(wanted):
            case "word" if not self.look_ahead:
                return NEW_WORD
            case "word":  # the sign moves to the second stream, and the first one has a token more
                first, second = self._words[0][0][0], NEW_WORD
            case "close":
                first, second = PAD, NEW_WORD
            case "pad":
                first = self._queued[0] if self._queued else PAD
                second = self._later[0] if self._later else _NONE
        return first + self.size * (1 + second) if self.look_ahead else first

    def feed(self, wanted: int) -> int:
        """What the step is fed after the net wanted this text token."""
        token = self.token(wanted)
        match self._next(wanted):
            case "word":
                tokens, self._must_pad = self._words.popleft()
                self._queued.extend(tokens[1:] if self.look_ahead else tokens)
                if len(self._words) >= self.look_ahead > 0:
                    self._later.extend(self._words[self.look_ahead - 1][0])
                self._may_pad = self.longest_pad
                self.begun.append(self._step)
            case "close":
                self.end_step = self._step
            case "pad":
                self._may_pad, self._must_pad = max(0, self._may_pad - 1), max(0, self._must_pad - 1)
                for queue in (self._queued, self._later):
                    if queue:
                        queue.popleft()
        self._step += 1
        return token

    def _next(self, wanted: int) -> Literal["pad", "word", "close"]:
        if not self.may_begin or (wanted != NEW_WORD and not self.must_begin):
            return "pad"
        due = self._due()
        assert due is not None, "a word is missing"
        return due

    def _due(self) -> Literal["word", "close"] | None:
        return next_word(len(self.begun), self.committed, self.look_ahead, ended=self.ended, flushed=self.flushed)
