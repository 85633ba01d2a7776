"""A live text field with fake clock and utterance."""

import re

from studio.core.errors import TooLate
from studio.core.events import Committed, Edited, Event, Revised, TypingTimes
from studio.core.text.livetext import LiveText
from studio.core.text.words import WordChanges, WordStream
from studio.text.normalise import plain


class FakeClock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> float:
        return self.ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.ms += duration_ms


class Recorder:
    """An utterance that commits words as a real one does, and records all calls."""

    def __init__(self) -> None:
        self.sent = ""
        self.calls: list[str] = []
        self.edited: list[tuple[int, int, str]] = []
        self.typed: list[TypingTimes] = []
        self.words: list[str] = []
        self.stream = WordStream(plain())
        self.unseen: list[Event] = []

    def push_text(self, text: str) -> None:
        self.sent += text
        self._commit(self.stream.push(text))

    def settled_chars(self) -> int:
        return len(self.sent)

    def revise(self, char_start: int, text: str) -> None:
        raise AssertionError("everything was heard")

    def flush(self) -> None:
        self.calls.append("flush")
        self._commit(self.stream.flush())

    def end(self) -> None:
        self.calls.append("end")
        self._commit(self.stream.end())

    def add_event(self, event: Event) -> None:
        if isinstance(event, TypingTimes):
            self.typed.append(event)
            return
        assert isinstance(event, Edited)
        self.edited.append((event.first, event.last, event.text))

    def _commit(self, changes: WordChanges) -> None:
        for w in changes.words:
            self.words.append(w.word)
            self.unseen.append(
                Committed(i=w.i, word=w.word, written=w.written, char_start=w.char_start, char_end=w.char_end)
            )


class Unheard(Recorder):
    """An utterance of which exactly the first ``heard`` words were heard."""

    heard = 0

    def settled_chars(self) -> int:
        starts = [w.end() for w in re.finditer(r"\S+\s+", self.sent)]
        return [0, *starts][min(self.heard, len(starts))]

    def revise(self, char_start: int, text: str) -> None:
        if char_start < self.settled_chars():
            raise TooLate("it was heard")
        assert char_start <= len(self.sent)
        self.sent = self.sent[:char_start]
        self.stream, self.words, self.unseen = WordStream(plain()), [], [Revised(from_sample=0, take=1, words=0)]
        self._commit(self.stream.push(self.sent))
        self.push_text(text)


class Desk:
    """A field, its utterance, its clock; ``auto`` delivers committed events after every edit."""

    def __init__(self, auto: bool = True, out: Recorder | None = None) -> None:
        self.clock, self.out, self.auto = FakeClock(), out or Recorder(), auto
        self.live = LiveText(self.out, self.clock)  # type: ignore[arg-type]  # a recorder needs but four methods

    def edit(self, at: int, remove: int, insert: str) -> None:
        self.live.edit(at, remove, insert)
        if self.auto:
            self.deliver()

    def deliver(self) -> None:
        unseen, self.out.unseen = self.out.unseen, []
        for event in unseen:
            self.live.on_event(event)

    def rest(self) -> bool:
        """Type nothing for a while."""
        self.clock.ms += 700
        polled = self.live.poll()
        if self.auto:
            self.deliver()
        return polled

    def type(self, text: str) -> None:
        for char in text:
            self.edit(len(self.live.text), 0, char)

    def back(self, count: int) -> None:
        for _ in range(count):
            self.edit(len(self.live.text) - 1, 1, "")
