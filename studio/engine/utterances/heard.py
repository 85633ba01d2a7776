"""What a listener has heard of an utterance, in samples, words and characters of the text as sent."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from studio.core import events as ev
from studio.core.text.words import SpokenWord

_KEPT_WORDS = 4096  # of whom nobody says that they were heard: half an hour
# Until a segment has ended nobody knows how fast a voice speaks: about so fast, as if it had said so many characters.
_CHARACTER_S, _CHARACTERS = 0.05, 20


@dataclass(frozen=True)
class Extent:
    """How far something was heard: so many words whole, the last word begun (None for none), so many characters."""

    words: int
    begun: int | None
    chars: int


class Heard:
    """Follows words from their commitment to their end in the listener's ear."""

    def __init__(self, rate_hz: int) -> None:
        self.sample = 0  # everything before it was heard
        self._sizes: dict[int, int] = {}  # characters of committed words
        self._segment: ev.Segment | None = None  # whose words are told when it ends
        self._spoken_chars, self._spoken_samples = _CHARACTERS, round(_CHARACTERS * _CHARACTER_S * rate_hz)
        self._whole = Extent(0, None, 0)
        self._places: deque[SpokenWord] = deque()
        self._starts: deque[tuple[int, int]] = deque()  # (sample, word)
        self._ends: deque[tuple[int, int]] = deque()

    def committed(self, words: Iterable[SpokenWord]) -> None:
        """Words that will be spoken."""
        for one in words:
            self._places.append(one)
            self._sizes[one.i] = len(one.word) + 1
            if len(self._sizes) > _KEPT_WORDS:
                del self._sizes[next(iter(self._sizes))]

    def event(self, event: ev.Event) -> None:
        """An event of the utterance; starts and ends of words are noted."""
        if isinstance(event, ev.Segment):
            self._segment = event
        elif isinstance(event, ev.WordStart):
            self._starts.append((event.sample, event.i))
            if event.source != "eos":  # they are told as they come
                self._segment = None
        elif isinstance(event, ev.WordEnd):
            self._ends.append((event.sample, event.i))
            if self._segment is not None and event.source == "eos":
                self._spoken_chars += sum(self._sizes_of(self._segment))
                self._spoken_samples += event.sample - self._segment.sample
                self._segment = None
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
        self._sizes = {i: size for i, size in self._sizes.items() if i < words}
        if self._segment is not None and self._segment.sample >= from_sample:
            self._segment = None
        self._starts = deque(one for one in self._starts if one[0] < from_sample)
        self._ends = deque(one for one in self._ends if one[0] <= from_sample)

    def until(self, sample: int) -> Extent:
        """What was heard when everything before a sample, and what was reported, was."""
        self._take(max(sample, self.sample))
        return self._whole

    def untold(self, samples: int) -> list[ev.Event]:
        """Words inside the segment that is being said, whose places nobody would be told: it is broken off.

        Estimates, in the proportion of the words' characters as ever; the segment's length is what they would have
        taken at the pace of those before it, or what was made of it, if that is more.

        Args:
            samples: made.
        """
        segment, events = self._segment, list[ev.Event]()
        if segment is None or not segment.words:
            return events
        sizes = self._sizes_of(segment)
        pace = max(self._spoken_samples / self._spoken_chars, (samples - segment.sample) / sum(sizes))
        for i, before in zip(segment.words[1:], accumulate(sizes), strict=False):
            at = segment.sample + round(before * pace)
            if at >= samples:
                break
            events.append(ev.WordEnd(i=i - 1, sample=at, source="estimate"))
            events.append(ev.WordStart(i=i, sample=at, source="estimate"))
        return events

    def _sizes_of(self, segment: ev.Segment) -> list[int]:
        return [self._sizes.get(i, 1) for i in segment.words]

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
