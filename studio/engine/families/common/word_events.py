"""Word events: from the phonemes that a net attends to, or estimated by characters."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from studio.core.events import Event, WordEnd, WordSource, WordStart
from studio.core.time import TimeBase


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
        word, word_frame: the word attended to now, and the frame where it began.
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
