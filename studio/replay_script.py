"""What was sent to an utterance, read from its trace: its text in pieces, flushes, revisions and the end, in order."""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.text.typography import WHITE
from studio.core.traces.in_force import SentText

MAX_REVISIONS = 1000
_SPACE = re.compile(f"[{WHITE}]")


@dataclass(frozen=True)
class Step:
    """What is sent next: text (``text``), a ``flush``, the ``end``, a revision, or nothing until a segment has begun.

    Attributes:
        until: the segment to wait for.
        char, sample: a ``revise`` gives the text from that character on, when all before that sample has been made.
    """

    kind: Literal["text", "flush", "end", "until", "revise"]
    text: str = ""
    until: int = 0
    char: int = 0
    sample: int = 0


def script(events: Sequence[ev.Event], *, ends: bool = True) -> list[Step]:
    """What to send so that the same is said.

    A flush stands behind the words that were committed when it was read. What it let begin before its time was planned
    of the words that were committed then: they are sent, it is waited for, and the text after it comes later. A
    revision is sent when what it left of the sound has been made; what a later one took back as well is one with that.
    """
    parts = _parts(events)
    writer = _Writer()
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        writer.write(part, is_followed=after is not None)
    if ends:
        writer.end()
    return writer.steps


def revisions(events: Sequence[ev.Event]) -> list[tuple[int, int]]:
    """(from_sample, words) of each revision that no later one took back."""
    return [(part.revised.from_sample, part.revised.words) for part in _parts(events) if part.revised]


@dataclass(frozen=True)
class _Part:
    """What came from one revision to the next.

    Attributes:
        revised: what it begins with; None of the first.
        text: as sent when it began.
        sent: the pieces that were appended to it.
    """

    revised: ev.Revised | None
    text: str
    sent: list[str]
    events: list[ev.Event]

    @property
    def whole(self) -> str:
        """The text when it was over."""
        return self.text + "".join(self.sent)


def _parts(events: Sequence[ev.Event]) -> list[_Part]:
    """The stretches between those revisions that no later one took back. Raises BadFile where they are too many."""
    parts = [_Part(None, "", [], [])]
    text = SentText()
    is_read = is_replaced = False  # whether a word was committed, and text that may have been read was replaced since
    for event in events:
        if isinstance(event, ev.Text):
            is_appended = event.char_start >= text.chars
            text.put(event.char_start, event.text)
            if not is_appended and not is_read:
                parts[0].sent[:] = [str(text)]
            elif is_appended and not is_replaced:
                parts[-1].sent.append(event.text)
            is_replaced = is_replaced or (is_read and not is_appended)
        elif isinstance(event, ev.Revised):
            if not is_replaced and parts[-1].sent:  # the revision appended it, to a text that was over
                parts[-1].sent.pop()
            while parts[-1].revised is not None and event.from_sample <= parts[-1].revised.from_sample:
                parts.pop()
            parts.append(_Part(event, str(text), [], []))
            is_replaced = False
            if len(parts) > MAX_REVISIONS:
                raise BadFile(f"it was revised more than {MAX_REVISIONS:,} times", "nobody can follow that")
        else:
            is_read = is_read or isinstance(event, ev.Committed)
            parts[-1].events.append(event)
    return parts


class _Writer:
    """Writes the steps of one part after the other."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._text, self._spaces = "", list[int]()  # the text, and where white space lies in it
        self._waiting: deque[str] = deque()  # pieces of it that no step sends yet
        self._sent_chars = self._flushed = self._awaited = self._planned_of = 0
        self._is_ended = False
        self._word_ends: list[int] = []
        self._begun: list[int] = []  # samples with which segments began

    def write(self, part: _Part, *, is_followed: bool) -> None:
        """Add the steps of a part; another one may follow it, which takes some of this one back."""
        if part.revised is not None:
            self._revise(part.revised, part.text)
        self._text, self._waiting = part.whole, deque(part.sent)
        self._sent_chars = len(part.text)
        self._spaces = [found.start() for found in _SPACE.finditer(self._text)]
        for event in part.events:
            self._follow(event)
        self._send_chars(len(self._text))
        if is_followed:
            self._send_words(len(self._word_ends))

    def end(self) -> None:
        """Add the end, once."""
        if not self._is_ended:
            self._is_ended = True
            self.steps.append(Step("end"))

    def _revise(self, revised: ev.Revised, text: str) -> None:
        pairs = enumerate(zip(self._text, text, strict=False))
        char = next((k for k, (here, there) in pairs if here != there), min(len(self._text), len(text)))
        self.steps.append(Step("revise", text[char:], char=char, sample=revised.from_sample))
        words = max(0, revised.words)
        del self._word_ends[words:]
        self._begun = [sample for sample in self._begun if sample < revised.from_sample]
        self._flushed, self._awaited = min(self._flushed, words), min(self._awaited, len(self._begun))

    def _follow(self, event: ev.Event) -> None:
        if isinstance(event, ev.Committed):
            self._word_ends.append(event.char_end)
        elif isinstance(event, ev.Flushed):
            self._await_segment()  # or that would be planned after the flush
            self._flushed = min(max(event.words, 0), len(self._word_ends))
            self._send_words(self._flushed)
            self.steps.append(Step("flush"))
        elif isinstance(event, ev.Segment):
            self._begun.append(event.sample)
            self._planned_of = len(self._word_ends)
            if not event.words or event.words[0] < self._flushed:
                self._await_segment()

    def _send_words(self, count: int) -> None:
        """The pieces that close so many words; the text's end, too, where it alone closes the last of them."""
        if not count:
            return
        at = bisect_left(self._spaces, self._word_ends[count - 1])
        is_closed = at < len(self._spaces)
        self._send_chars(self._spaces[at] + 1 if is_closed else len(self._text))
        if not is_closed:
            self.end()

    def _send_chars(self, until: int) -> None:
        while self._waiting and self._sent_chars < until:
            self.steps.append(Step("text", self._waiting[0]))
            self._sent_chars += len(self._waiting.popleft())

    def _await_segment(self) -> None:
        if len(self._begun) > self._awaited:
            self._send_words(min(self._planned_of, len(self._word_ends)))
            if self.steps and self.steps[-1].kind == "until":
                self.steps.pop()
            self.steps.append(Step("until", until=len(self._begun) - 1))
            self._awaited = len(self._begun)
