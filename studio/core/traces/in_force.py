"""What of an utterance's events is in force at its end, in one pass however often it was revised."""

from collections.abc import Iterable, Sequence

from studio.core import events as ev

_NEVER = 2**63  # beyond every sample and every word


class Revisions:
    """For each event, how far back anything after it went: what lies before that is in force.

    Attributes:
        samples: the first sample that was made anew after event k; beyond every sample where none was.
        words: so many words stayed as they had been committed.
    """

    def __init__(self, events: Sequence[ev.Event]) -> None:
        self.samples, self.words = [_NEVER] * len(events), [_NEVER] * len(events)
        sample = word = _NEVER
        for k in range(len(events) - 1, -1, -1):
            self.samples[k], self.words[k] = sample, word
            event = events[k]
            if isinstance(event, ev.Revised):
                sample, word = min(sample, event.from_sample), min(word, event.words)

    def is_last(self, k: int) -> bool:
        """Whether no revision follows event k."""
        return self.samples[k] == _NEVER


class SentText:
    """The text as sent while it grows and is replaced from a character on; no step copies what was there before.

    Attributes:
        chars: how long it is.
    """

    def __init__(self) -> None:
        self.chars = 0
        self._pieces: list[tuple[int, str]] = []  # where each begins; the next one's beginning ends it

    def put(self, char_start: int, text: str) -> None:
        """What an event ``text`` says: from a character on, the text is this one, and ends with it."""
        at = min(max(char_start, 0), self.chars)
        while self._pieces and self._pieces[-1][0] >= at:
            self._pieces.pop()
        self._pieces.append((at, text))
        self.chars = at + len(text)

    def __str__(self) -> str:
        ends = (at for at, _ in (*self._pieces[1:], (self.chars, "")))
        return "".join(text[: end - at] for (at, text), end in zip(self._pieces, ends, strict=False))


def sent_text(events: Iterable[ev.Event]) -> str:
    """The text of an utterance as it stood at its end."""
    text = SentText()
    for event in events:
        if isinstance(event, ev.Text):
            text.put(event.char_start, event.text)
    return str(text)
