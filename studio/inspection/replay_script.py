"""Reconstruct from a trace the inputs of an utterance: text, flushes, revisions and the end, in order."""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.text.typography import WHITE
from studio.core.text.words import common_prefix
from studio.core.traces.trace import SentText

MAX_REVISIONS = 1000
_SPACE = re.compile(f"[{WHITE}]")


@dataclass(frozen=True)
class ReplayStep:
    """One action: send text, flush, end, wait ``until`` a segment has begun, or revise.

    Attributes:
        until: the index of the segment to wait for.
        char, sample: a ``revise`` replaces the text from ``char`` on, once the sound before ``sample`` was made.
        runs_on: more sound had been sent then.
    """

    kind: Literal["text", "flush", "end", "until", "revise"]
    text: str = ""
    until: int = 0
    char: int = 0
    sample: int = 0
    runs_on: bool = False


def replay_script(events: Sequence[ev.Event], *, ends: bool = True) -> list[ReplayStep]:
    """The steps that reproduce an utterance.

    A flush follows the words that were committed when it was read. Segments that it started early were planned with
    the words committed then: these words are sent, the segment is awaited, and the later text follows. A revision is
    sent when the sound that it kept has been made; revisions undone by a later one are merged with that one.
    """
    parts = _parts(events)
    writer = _ScriptWriter()
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        writer.write(part, is_followed=after is not None)
    if ends:
        writer.end()
    return writer.steps


def revisions(events: Sequence[ev.Event]) -> list[tuple[int, int]]:
    """(from_sample, words) of each revision that no later one undid."""
    return [(part.revised.from_sample, part.revised.words) for part in _parts(events) if part.revised]


@dataclass(frozen=True)
class _Part:
    """The events from one revision to the next."""

    revised: ev.Revised | None  # the revision it begins with; None for the first part
    text: str  # the text as sent at its beginning
    sent: list[str]  # the texts appended since
    events: list[ev.Event]

    @property
    def whole(self) -> str:
        """The text at its end."""
        return self.text + "".join(self.sent)


def _parts(events: Sequence[ev.Event]) -> list[_Part]:
    """The parts between the revisions that no later one undid. Raises BadFile if there are too many."""
    parts = [_Part(None, "", [], [])]
    text = SentText()
    is_read = is_replaced = False  # whether a word was committed; whether text was replaced since
    for event in events:
        if isinstance(event, ev.TextReceived):
            is_appended = event.char_start >= text.chars
            text.put(event.char_start, event.text)
            if not is_appended and not is_read:
                parts[0].sent[:] = [str(text)]
            elif is_appended and not is_replaced:
                parts[-1].sent.append(event.text)
            is_replaced = is_replaced or (is_read and not is_appended)
        elif isinstance(event, ev.Revised):
            if not is_replaced and parts[-1].sent:  # the revision itself appended it, to an ended text
                parts[-1].sent.pop()
            while parts[-1].revised is not None and event.from_sample <= parts[-1].revised.from_sample:
                parts.pop()
            parts.append(_Part(event, str(text), [], []))
            is_replaced = False
            if len(parts) > MAX_REVISIONS:
                raise BadFile(f"it was revised more than {MAX_REVISIONS:,} times", "it cannot be replayed")
        else:
            is_read = is_read or isinstance(event, ev.Committed)
            parts[-1].events.append(event)
    return parts


class _ScriptWriter:
    """Builds the steps, part by part."""

    def __init__(self) -> None:
        self.steps: list[ReplayStep] = []
        self._text, self._spaces = "", list[int]()  # the text, and the positions of its white space
        self._unsent: deque[str] = deque()  # texts without a step so far
        self._sent_chars = self._flushed = self._awaited = self._planned_words = 0
        self._is_ended, self._sound_end = False, 0
        self._word_ends: list[int] = []
        self._segment_starts: list[int] = []  # samples with which segments began

    def write(self, part: _Part, *, is_followed: bool) -> None:
        """Add the steps of a part; ``is_followed``: whether another part revises it."""
        if part.revised is not None:
            self._revise(part.revised, part.text)
        self._text, self._unsent = part.whole, deque(part.sent)
        self._sent_chars = len(part.text)
        self._spaces = [space.start() for space in _SPACE.finditer(self._text)]
        for event in part.events:
            self._follow(event)
        self._send_chars(len(self._text))
        if is_followed:
            self._send_words(len(self._word_ends))

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.steps.append(ReplayStep("end"))

    def _revise(self, revised: ev.Revised, text: str) -> None:
        char = common_prefix(self._text, text)
        kept, runs_on = revised.from_sample, self._sound_end > revised.from_sample
        self.steps.append(ReplayStep("revise", text[char:], char=char, sample=kept, runs_on=runs_on))
        self._sound_end = kept
        words = max(0, revised.words)
        del self._word_ends[words:]
        self._segment_starts = [sample for sample in self._segment_starts if sample < revised.from_sample]
        self._flushed, self._awaited = min(self._flushed, words), min(self._awaited, len(self._segment_starts))

    def _follow(self, event: ev.Event) -> None:
        if isinstance(event, ev.Audio):
            self._sound_end = event.sample + len(event.pcm)
        elif isinstance(event, ev.Committed):
            self._word_ends.append(event.char_end)
        elif isinstance(event, ev.Flushed):
            self._await_segment()  # else it would be planned after the flush
            self._flushed = min(max(event.words, 0), len(self._word_ends))
            self._send_words(self._flushed)
            self.steps.append(ReplayStep("flush"))
        elif isinstance(event, ev.Segment):
            self._segment_starts.append(event.sample)
            self._planned_words = len(self._word_ends)
            if not event.words or event.words[0] < self._flushed:
                self._await_segment()

    def _send_words(self, count: int) -> None:
        """Send the texts that commit the first ``count`` words, and the end where only that commits the last one."""
        if not count:
            return
        at = bisect_left(self._spaces, self._word_ends[count - 1])
        is_closed = at < len(self._spaces)
        self._send_chars(self._spaces[at] + 1 if is_closed else len(self._text))
        if not is_closed:
            self.end()

    def _send_chars(self, until: int) -> None:
        while self._unsent and self._sent_chars < until:
            self.steps.append(ReplayStep("text", self._unsent[0]))
            self._sent_chars += len(self._unsent.popleft())

    def _await_segment(self) -> None:
        if len(self._segment_starts) > self._awaited:
            self._send_words(min(self._planned_words, len(self._word_ends)))
            if self.steps and self.steps[-1].kind == "until":
                self.steps.pop()
            self.steps.append(ReplayStep("until", until=len(self._segment_starts) - 1))
            self._awaited = len(self._segment_starts)
