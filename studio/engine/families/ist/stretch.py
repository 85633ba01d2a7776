"""A stretch of IST-LM, and the marks in it: plain Python, no torch."""

from bisect import bisect_right
from copy import copy
from dataclasses import dataclass

import numpy as np

from studio.engine.families.ist.rule import RATIOS, InterleavingRule, Options, Ratio


class Stretch:
    """A stretch that is being read and spoken."""

    def __init__(self, first_word: int, first_frame: int, options: Options) -> None:
        self.first_word, self.first_frame = first_word, first_frame
        self.ratio = RATIOS.index(options.ratio)
        self.rule = InterleavingRule(Ratio.parse(options.ratio))
        self.text: list[int] = []  # tokens known so far
        self.ends: list[int] = []  # of each word: how many tokens it needs
        self.is_closed = False  # the symbol that closes the text is its last token
        self.is_end = False  # since no more words will come
        self.word, self.word_frame = 0, 0  # the word that is being spoken, by estimate, and where it began

    def copied(self) -> "Stretch":
        """As it stands; what is read and spoken from now on is not of it."""
        other = copy(self)
        other.rule, other.text, other.ends = copy(self.rule), [*self.text], [*self.ends]
        return other

    def reopen(self, words: int) -> None:
        """Forget its words from one on, counted from its first, and where it ends; none of that was fed."""
        del self.ends[words:]
        del self.text[self.ends[-1] if self.ends else 0 :]
        self.is_closed = self.is_end = False

    def word_of(self, token: int) -> int:
        """The word of a text token; -1 of the symbol that closes the stretch."""
        k = bisect_right(self.ends, token)
        return self.first_word + k if k < len(self.ends) else -1

    @property
    def words_fed(self) -> int:
        """Words all of whose tokens were fed."""
        return sum(end <= self.rule.fed for end in self.ends)

    @property
    def words_begun(self) -> int:
        """Words of which a token was fed."""
        return sum(begin < self.rule.fed for begin in [0, *self.ends[:-1]]) if self.ends else 0

    @property
    def is_before_word(self) -> bool:
        """Whether text comes next, and nobody knows yet that it goes on within a word to its last token."""
        if self.rule.speaks_next:
            return False
        begun = self.words_begun
        return begun == 0 or self.ends[begun - 1] < self.rule.fed + self.rule.ratio.n


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two chunks or two stretches; see ``studio.engine.families.base.Mark``."""

    spoken: int
    fed: int
    stretch: Stretch | None
    last: np.ndarray | None
    next_word: int
    saw_end: bool
    segments: int
    frames: int
    start: int
    length: int
    since_prompt: int | None
    owes_end: int | None
