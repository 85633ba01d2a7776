"""Word times of third-party systems: as sent, or spread over the sound and marked as estimates."""

from collections.abc import Sequence
from itertools import accumulate

from studio.core.events import Event, WordEnd, WordSource, WordStart
from studio.core.text.words import SpokenWord
from studio.systems.base import CharTimes

_CHARACTER_S, _CHARACTERS = 0.065, 20  # prior of the speaking rate: seconds per character, and its weight


class WordTimer:
    """The word events of one utterance: in order, and without overlap.

    Attributes:
        segment_words: the words of the last segment.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._words: list[SpokenWord] = []  # without times
        self._open: tuple[SpokenWord, int, WordSource] | None = None  # word that began; its end so far; its source
        self._is_whole = False  # the end of the open word is known
        self._has_times = False  # the system sends times
        self._end = 0  # end of the last word, samples
        self._chars, self._samples = _CHARACTERS, round(_CHARACTERS * _CHARACTER_S * rate_hz)
        self.segment_words: list[SpokenWord] = []

    def begin(self, words: Sequence[SpokenWord], sample: int) -> None:
        """A cut of these words begins."""
        self._words, self._end = [*words], sample

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Words were passed on to a live system."""
        self._words.extend(words)

    def spread(self, start: int, end: int) -> list[Event]:
        """Times of all words without times: samples [start, end) in proportion to their characters."""
        words, self._words = self._words, []
        if not words:
            return []
        self._chars, self._samples = self._chars + sum(map(_chars, words)), self._samples + end - start
        return self._spread(words, max(start, self._end), end)

    def break_off(self, start: int | None, samples: int) -> list[Event]:
        """Word times at a cancel: of the words spoken before ``samples``; the first begins at ``start``.

        If the system sends times, a word without a known end was not spoken to its end.
        """
        if self._has_times:
            is_spoken = self._open is not None and self._is_whole and self._open[1] <= samples
            events, self._open, self._words = self._close() if is_spoken else [], None, []
            return events
        if start is None or not self._words:
            return []
        start = max(start, self._end)
        needed = sum(map(_chars, self._words)) * self._samples / self._chars
        spread = self._spread(self._words, start, start + max(round(needed), samples - start))
        self._words = []
        return [event for event in spread if _sample(event) < samples]

    def on_times(self, times: CharTimes, samples: int) -> list[Event]:
        """Times of characters, in the text's order; returns the events that they complete.

        A time range over several words, such as a clause, is divided among them and marked as an estimate.
        """
        return [event for one in self._by_word(times) for event in self._on_word_times(one, samples)]

    def _by_word(self, times: CharTimes) -> list[CharTimes]:
        words = self._words if self._open is None else [self._open[0], *self._words]
        words = [one for one in words if times.char_start < one.char_end and one.char_start < times.char_end]
        if len(words) < 2:
            return [times]
        edges = [0, *accumulate(map(_chars, words))]
        starts = [times.start_s + (times.end_s - times.start_s) * edge / edges[-1] for edge in edges]
        return [
            CharTimes(word.char_start, word.char_end, start_s, end_s, "estimate")
            for word, start_s, end_s in zip(words, starts, starts[1:], strict=False)
        ]

    def _on_word_times(self, times: CharTimes, samples: int) -> list[Event]:
        start, end = (max(0, round(at * self._rate_hz)) for at in (times.start_s, times.end_s))
        events: list[Event] = []
        self._has_times = True
        if self._open is not None and self._open[0].char_end > times.char_start:
            word, until, _ = self._open
            self._open = word, max(until, end), times.source
            return self._close_whole(times, samples)
        here = next((k for k, one in enumerate(self._words) if one.char_end > times.char_start), None)
        if here is None or self._words[here].char_start >= max(times.char_end, times.char_start + 1):
            return events
        events += self._close()
        start = max(start, self._end)
        before, word, self._words = self._words[:here], self._words[here], self._words[here + 1 :]
        if before:
            events += self._spread(before, self._end, start)
        events.append(WordStart(i=word.i, sample=start, source=times.source))
        opened: tuple[SpokenWord, int, WordSource] = (word, max(start, end), times.source)
        self._open, self._end = opened, start
        return [*events, *self._close_whole(times, samples)]

    def _close_whole(self, times: CharTimes, samples: int) -> list[Event]:
        """End the open word if its last character ends within the sound so far, without waiting for the next word."""
        assert self._open is not None, "a word has begun"
        word, end, _ = self._open
        self._is_whole = times.char_end >= word.char_end
        return self._close() if self._is_whole and end <= samples else []

    def finish(self, samples: int) -> list[Event]:
        """The last events of a live system; words without times are spread over the rest."""
        events = self._close(samples)
        if self._words:
            words, self._words = self._words, []
            events += self._spread(words, self._end, samples)
        return events

    def _close(self, samples: int | None = None) -> list[Event]:
        if self._open is None:
            return []
        (word, end, source), self._open = self._open, None
        self._end = end if samples is None else max(self._end, min(end, samples))
        return [WordEnd(i=word.i, sample=self._end, source=source)]

    def _spread(self, words: Sequence[SpokenWord], start: int, end: int) -> list[Event]:
        end = max(start, end)
        total = sum(map(_chars, words))
        edges = [start, *(start + (end - start) * part // total for part in accumulate(map(_chars, words)))]
        self._end = end
        return [
            event
            for word, begin, stop in zip(words, edges, edges[1:], strict=False)
            for event in (
                WordStart(i=word.i, sample=begin, source="estimate"),
                WordEnd(i=word.i, sample=stop, source="estimate"),
            )
        ]


def _chars(word: SpokenWord) -> int:
    return len(word.word) + 1


def _sample(event: Event) -> int:
    assert isinstance(event, WordStart | WordEnd)
    return event.sample
