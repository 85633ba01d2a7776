"""What a listener has heard of an utterance, in samples, words and characters of the text as sent."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from studio.core import events as ev
from studio.core.text.words import SpokenWord

_KEPT_WORDS = 4096  # of whom nobody says that they were heard: half an hour


@dataclass(frozen=True)
class Extent:
    """How far something was heard: so many words whole, the last word begun (None for none), so many characters."""

    words: int
    begun: int | None
    chars: int


class Heard:
    """Follows words from their commitment to their end in the listener's ear."""

    def __init__(self) -> None:
        self.sample = 0  # everything before it was heard
        self._whole = Extent(0, None, 0)
        self._places: deque[SpokenWord] = deque()
        self._starts: deque[tuple[int, int]] = deque()  # (sample, word)
        self._ends: deque[tuple[int, int]] = deque()

    def committed(self, words: Iterable[SpokenWord]) -> None:
        """Words that will be spoken."""
        self._places.extend(words)

    def event(self, event: ev.Event) -> None:
        """An event of the utterance; starts and ends of words are noted."""
        if isinstance(event, ev.WordStart):
            self._starts.append((event.sample, event.i))
        elif isinstance(event, ev.WordEnd):
            self._ends.append((event.sample, event.i))
            if len(self._ends) > _KEPT_WORDS:
                self._take(self._ends[0][0])

    def played(self, sample: int) -> None:
        """Everything before a sample was heard."""
        if sample > self.sample:
            self.sample = sample
            self._take(sample)

    def revised(self, words: int, from_sample: int) -> None:
        """Words from one on, and sound from a sample on, were taken back."""
        self._places = deque(one for one in self._places if one.i < words)
        self._starts = deque(one for one in self._starts if one[0] < from_sample)
        self._ends = deque(one for one in self._ends if one[0] <= from_sample)

    def until(self, sample: int) -> Extent:
        """What was heard when everything before a sample, and what was reported, was."""
        self._take(max(sample, self.sample))
        return self._whole

    def _take(self, sample: int) -> None:
        words, begun, chars = self._whole.words, self._whole.begun, self._whole.chars
        while self._starts and self._starts[0][0] < sample:
            begun = self._starts.popleft()[1]
        while self._ends and self._ends[0][0] <= sample:
            words = self._ends.popleft()[1] + 1
        # A place of several words ("$3.50") was heard when all of them were, and so was everything before it.
        first_left = min((one.char_start for one in self._places if one.i >= words), default=None)
        for one in [*self._places]:
            if one.i < words and (first_left is None or one.char_end <= first_left):
                chars = max(chars, one.char_end)
                self._places.remove(one)
        self._whole = Extent(words, begun, chars)
