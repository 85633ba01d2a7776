"""Which of several words is being spoken, told by where a net attends to their phonemes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studio.core.events import Event, WordEnd, WordSource, WordStart
from studio.core.time import TimeBase


@dataclass
class AttendedWords:
    """Words that are spoken one after another while the attention goes through them.

    Attributes:
        words: indices of spoken words.
        through: encoder steps up to the end of each of them.
        word, word_frame: the word that the attention is in, and where that word began.
    """

    time_base: TimeBase
    words: range
    through: Sequence[int]
    word_frame: int
    word: int = field(init=False)

    def __post_init__(self) -> None:
        self.word = self.words.start

    def begun(self) -> Event:
        """The start of the first of them."""
        return WordStart(i=self.word, sample=self.time_base.samples(self.word_frame), source="attention")

    def passed(self, attended: int, frame: int) -> list[Event]:
        """Ends and starts of words where the attention is at an encoder step beyond them, at a frame."""
        events: list[Event] = []
        sample = self.time_base.samples(frame)
        while self.word < self.words[-1] and attended >= self.through[self.word - self.words.start]:
            events.append(WordEnd(i=self.word, sample=sample, source="attention"))
            self.word, self.word_frame = self.word + 1, frame
            events.append(WordStart(i=self.word, sample=sample, source="attention"))
        return events

    def over(self, frame: int, texts: Sequence[str]) -> list[Event]:
        """The end of the word that was being spoken; words that were never reached share what is left by letters.

        Args:
            texts: of all ``words``.
        """
        left = range(self.word, self.words.stop)
        sizes = np.cumsum([0] + [len(texts[i - self.words.start]) + 1 for i in left])
        ends = np.rint(sizes / sizes[-1] * (frame - self.word_frame)).astype(int) + self.word_frame
        events: list[Event] = []
        for n, i in enumerate(left):
            last: WordSource = "attention" if n + 1 == len(left) else "estimate"
            if n:
                events.append(WordStart(i=i, sample=self.time_base.samples(int(ends[n])), source="estimate"))
            events.append(WordEnd(i=i, sample=self.time_base.samples(int(ends[n + 1])), source=last))
        return events
