"""Which parts of an utterance's events survive its revisions; linear in the number of events."""

from collections.abc import Iterable, Sequence

from studio.core import events as ev

_NEVER = 2**63  # beyond every sample and every word


class LaterRevisions:
    """For each event k, how far back later revisions reach; samples and words before that are final.

    Attributes:
        samples: the first sample that was revised after event k; beyond every sample where none was.
        words: the number of words that were not revised after event k.
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
    """The text as sent, built from ``text`` events without copying earlier text.

    Attributes:
        chars: its length.
    """

    def __init__(self) -> None:
        self.chars = 0
        self._pieces: list[tuple[int, str]] = []  # (start, text); each ends where the next begins

    def put(self, char_start: int, text: str) -> None:
        """Replace the text from a character on."""
        at = min(max(char_start, 0), self.chars)
        while self._pieces and self._pieces[-1][0] >= at:
            self._pieces.pop()
        self._pieces.append((at, text))
        self.chars = at + len(text)

    def __str__(self) -> str:
        ends = (at for at, _ in (*self._pieces[1:], (self.chars, "")))
        return "".join(text[: end - at] for (at, text), end in zip(self._pieces, ends, strict=False))


def sent_text(events: Iterable[ev.Event]) -> str:
    """The final text of an utterance."""
    text = SentText()
    for event in events:
        if isinstance(event, ev.TextReceived):
            text.put(event.char_start, event.text)
    return str(text)
