"""The text side of an utterance: what was sent, how far it was read, and from where it can be read again."""

import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from studio.core.ports import Normaliser
from studio.core.sequences import in_common
from studio.core.text.typography import WHITE
from studio.core.text.words import WordChanges, WordMark, WordStream

_MARK_CHARS = 4096  # text that commits nothing is marked so often


@dataclass(frozen=True)
class _Push:
    at_ms: float
    text: str


@dataclass(frozen=True)
class _Flush:
    at_ms: float


@dataclass(frozen=True)
class _End:
    at_ms: float
    is_whole: bool  # half a word that stands there is spoken, too


@dataclass(frozen=True)
class Read:
    """A step of reading: what it committed, and whether a flush or the end was read."""

    changes: WordChanges
    is_flush: bool = False
    is_end: bool = False


class Reading:
    """Takes text from callers and reads it as it is needed.

    Attributes:
        chars: of the text as sent.
        unread_chars: of those, how many wait.
        at_ms: when what was read last came in.
    """

    def __init__(self, normalise: Normaliser, lock: threading.RLock) -> None:
        self.chars = self.unread_chars = 0
        self.at_ms = 0.0
        self._lock = lock  # the utterance's own: callers push while the engine reads
        self._words = WordStream(normalise)
        self._feeding: Iterator[WordChanges] = iter(())
        self._inbox: deque[_Push | _Flush | _End] = deque()
        self._end: _End | None = None
        self._pieces: deque[tuple[int, str]] = deque()  # the text as sent from the first mark on, and where each begins
        self._marks: deque[WordMark] = deque((WordMark(0, 0, 0),))
        self._seams: deque[WordMark] = deque()  # between tokens that were normalised together
        self._over: WordMark | None = None  # where the text ended, once that was read

    @property
    def waits(self) -> bool:
        """Whether anything is unread."""
        return bool(self._inbox)

    # ------------------------------------------------------------ what callers do, holding the lock

    def push(self, text: str, at_ms: float) -> None:
        """Append text."""
        self._append(text)
        self.unread_chars += len(text)
        self._inbox.append(_Push(at_ms, text))

    def flush(self, at_ms: float) -> None:
        """What is committed then is to be spoken."""
        if not (self._inbox and isinstance(self._inbox[-1], _Flush)):  # a second one changes nothing, and takes memory
            self._inbox.append(_Flush(at_ms))

    def end(self, at_ms: float, *, is_whole: bool = True) -> None:
        """No more text; the word that nothing follows yet is spoken where the text is whole."""
        self._end = _End(at_ms, is_whole)
        self._inbox.append(self._end)

    def settled(self, bound_words: int) -> int:
        """How many characters stand before the first place that so many words do not depend on."""
        return min((mark.at for mark in self._places(bound_words)), default=self.chars)

    def parts_word(self, char_start: int, text: str, bound_words: int) -> bool:
        """Whether text from a character on goes on with the last word of a text that was over, which is bound."""
        over = self._over
        if over is None or char_start != over.at or self._places(bound_words):
            return False
        before = self._from(over.at - 1)[:1]
        return bool(before and text) and before not in WHITE and text[0] not in WHITE

    def _places(self, bound_words: int) -> list[WordMark]:
        return [mark for mark in (*self._marks, *self._seams) if mark.words >= bound_words]

    def revise(self, char_start: int, text: str) -> int | None:
        """Replace the text from a character on; where it begins to differ, None where it does not."""
        old = self._from(char_start)
        if old == text:
            return None
        same = in_common(old, text)
        self._cut(char_start + same)
        self._append(text[same:])
        return char_start + same

    # ------------------------------------------------------------ what the engine's thread does

    def read_again(self, char: int, bound_words: int, at_ms: float, untaken: Read | None = None) -> int:
        """Go back so far that all text from a character on is read anew; how many words stay, those bound and more.

        Args:
            untaken: a step that was read last, whose words nobody took: they are read anew, too.
        """
        taken_words = sys.maxsize if untaken is None else untaken.changes.words[0].i
        over = self._over if self._over is not None and self._over.words <= taken_words else None
        self._marks = deque(
            mark for mark in self._marks if (mark.at <= char and mark.words <= taken_words) or mark is self._marks[0]
        )
        self._seams = deque(seam for seam in self._seams if seam.at <= char and seam.words <= taken_words)
        mark = self._marks[-1]
        if mark.words < bound_words:  # the words of a group, or the last ones of a text that was over, are bound
            others = (*reversed(self._seams), *filter(None, (over,)))
            mark = next((one for one in others if one.words >= bound_words), mark)
            self._marks.append(mark)
        self._over = None
        self._words.back(mark)
        self._feeding = iter(())
        flushes = any(isinstance(one, _Flush) for one in self._inbox) or (untaken is not None and untaken.is_flush)
        self.unread_chars = self.chars - mark.at
        # In the pieces in which it came: to join a million characters for each word revised would hold others up.
        self._inbox = deque(_Push(at_ms, text) for text in self._pieces_from(mark.at) or [""])
        if flushes:
            self._inbox.append(_Flush(at_ms))
        if self._end is not None:
            self._inbox.append(self._end)
        return mark.words

    def begin(self, at_ms: float) -> None:
        """All that waits came in now: a flush that text follows changes nothing any more."""
        sent = [one for one in self._inbox if not isinstance(one, _End)]
        is_flushed = bool(sent) and isinstance(sent[-1], _Flush)
        self._inbox = deque(one for one in sent if isinstance(one, _Push))
        if is_flushed:
            self._inbox.append(_Flush(at_ms))
        if self._end is not None:
            self._inbox.append(self._end)
        self._inbox = deque(replace(one, at_ms=at_ms) for one in self._inbox)

    def step(self) -> Read | None:
        """Read a bounded piece; None where nothing waits."""
        read = self._step()
        if read is not None:
            with self._lock:
                self._mark()
        return read

    def _step(self) -> Read | None:
        changes = next(self._feeding, None)
        if changes is not None:
            return Read(changes)
        with self._lock:
            if not self._inbox:
                return None
            message = self._inbox.popleft()
            self.at_ms = message.at_ms
            match message:
                case _Push(text=text):
                    self.unread_chars -= len(text)
                    self._feeding = iter(self._words.feed(text))
                    return Read(WordChanges())
                case _Flush():
                    return Read(self._words.flush(), is_flush=True)
                case _End(is_whole=False):
                    return Read(self._words.flush(), is_end=True)
                case _End():
                    changes = self._words.end()
                    self._over = self._words.here()
                    return Read(changes, is_end=True)

    def forget(self, words: int) -> None:
        """So many words will never be read again."""
        with self._lock:
            while len(self._marks) > 1 and self._marks[1].words <= words:
                self._marks.popleft()
            while self._seams and self._seams[0].words < words:
                self._seams.popleft()
            first = self._marks[0].at
            while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= first:
                self._pieces.popleft()

    def _mark(self) -> None:
        mark, last = self._words.mark(), self._marks[-1]
        if mark is None or mark.at == last.at:
            return
        if mark.words > last.words:
            self._marks.append(mark)
            self._seams.extend(self._words.seams)
        elif mark.at - last.at >= _MARK_CHARS:
            self._marks[-1] = mark

    def _append(self, text: str) -> None:
        self._pieces.append((self.chars, text))
        self.chars += len(text)

    def _from(self, char: int) -> str:
        return "".join(self._pieces_from(char))

    def _pieces_from(self, char: int) -> list[str]:
        return [text[max(0, char - at) :] for at, text in self._pieces if at + len(text) > char]

    def _cut(self, char: int) -> None:
        while self._pieces and self._pieces[-1][0] >= char:
            self._pieces.pop()
        if self._pieces:
            at, text = self._pieces[-1]
            self._pieces[-1] = (at, text[: char - at])
        self.chars = char
