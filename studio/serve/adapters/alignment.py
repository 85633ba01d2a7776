"""Characters of the text as sent with the times of the words that speak them, as words end."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from studio.core import events as ev


@dataclass(frozen=True)
class SpokenWord:
    """A spoken word in samples [start, end)."""

    word: str
    start: int
    end: int


@dataclass(frozen=True)
class AlignedToken:
    """A written token that was spoken, as one word or as several ("1999").

    Attributes:
        text: the token with the white space after it, and what was not spoken before it.
        before: length of what was not spoken.
        chars: length of the token itself.
        char_start: of the token in the text of the utterance.
    """

    text: str
    before: int
    chars: int
    words: tuple[SpokenWord, ...]
    char_start: int

    @property
    def token(self) -> str:
        """The token alone."""
        return self.text[self.before : self.before + self.chars]

    @property
    def start(self) -> int:
        """First sample."""
        return self.words[0].start

    @property
    def end(self) -> int:
        """Sample after the last one."""
        return self.words[-1].end

    def characters(self) -> Iterator[tuple[str, int, int]]:
        """Each character with its samples [start, end): the token's span is shared out, the rest has no length."""
        for at, char in enumerate(self.text):
            inside = min(max(at - self.before, 0), self.chars), min(max(at + 1 - self.before, 0), self.chars)
            first, last = (self.start + (self.end - self.start) * count // self.chars for count in inside)
            yield char, first, last

    def spoken_characters(self) -> Iterator[tuple[str, int, int]]:
        """As ``characters``, of the words as they are spoken, each with a space after it."""
        for word in self.words:
            for at, char in enumerate(word.word):
                first, last = (word.start + (word.end - word.start) * k // len(word.word) for k in (at, at + 1))
                yield char, first, last
            if word.word:
                yield " ", word.end, word.end


class Alignment:
    """Collects the events of an utterance that is not revised; holds the text that is not aligned yet."""

    def __init__(self) -> None:
        self._text, self._from = "", 0  # the text from this character on
        self._committed: dict[int, ev.Committed] = {}
        self._starts: dict[int, int] = {}
        self._spoken: list[SpokenWord] = []  # words of the current token
        self._is_cut = False

    def add(self, event: ev.Event) -> Sequence[AlignedToken]:
        """The tokens whose last word this event ends: one or none."""
        match event:
            case ev.TextReceived():
                self._text = self._text[: event.char_start - self._from] + event.text
            case ev.Committed():
                self._committed[event.i] = event
            case ev.WordStart():
                self._starts[event.i] = event.sample
            case ev.WordEnd() if event.i in self._committed:
                return self._end_word(event.i, event.sample)
        return ()

    def rest(self, event: ev.Event) -> AlignedToken | None:
        """What follows the last word, such as a pause or a sign, where this event ends a speech that was not cut."""
        self._is_cut = self._is_cut or isinstance(event, ev.Cancelled)
        if not isinstance(event, ev.Ended) or self._is_cut or self._committed or not self._text:
            return None
        return AlignedToken(self._text, 0, 1, (SpokenWord("", event.samples, event.samples),), self._from)

    def _end_word(self, i: int, sample: int) -> Sequence[AlignedToken]:
        committed = self._committed.pop(i)
        start = self._starts.pop(i, sample)
        self._spoken.append(SpokenWord(committed.word, start, max(start, sample)))
        following = self._committed.get(i + 1)
        if following is not None and following.written == committed.written:
            return ()
        first, last = committed.char_start - self._from, committed.char_end - self._from
        end = last
        while end < len(self._text) and self._text[end].isspace():
            end += 1
        token = AlignedToken(self._text[:end], first, last - first, tuple(self._spoken), committed.char_start)
        self._text, self._from, self._spoken = self._text[end:], self._from + end, []
        return (token,) if last > first >= 0 else ()
