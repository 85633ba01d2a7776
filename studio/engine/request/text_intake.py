"""Text intake: what was sent, how far it was read, and the positions from which it can be read again."""

import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from studio.core.ports import Normaliser
from studio.core.text.typography import WHITE
from studio.core.text.words import TextPosition, WordChanges, WordStream, common_prefix

_POSITION_CHARS = 4096  # interval of positions in text without words


@dataclass(frozen=True)
class _Push:
    at_ms: float
    text: str
    normalise: Normaliser  # at the time of the push: a later change of language does not affect this text


class _Piece(NamedTuple):
    at: int
    text: str
    normalise: Normaliser


@dataclass(frozen=True)
class _Flush:
    at_ms: float


@dataclass(frozen=True)
class _End:
    at_ms: float
    is_whole: bool  # the unfinished last word is spoken too


@dataclass(frozen=True)
class IntakeStep:
    """What one read committed, and whether it read a flush or the end."""

    changes: WordChanges
    is_flush: bool = False
    is_end: bool = False


class TextIntake:
    """Stores text from clients; the engine reads it as words are needed.

    Attributes:
        chars: length of the text as sent.
        unread_chars: number of these characters not read yet.
        at_ms: arrival time of what was read last.
    """

    def __init__(self, normalise: Normaliser, lock: threading.RLock, words: WordStream | None = None) -> None:
        self.chars = self.unread_chars = 0
        self.at_ms = 0.0
        self._lock = lock  # the request's: clients push while the engine reads
        self._normalise = normalise
        self._words = words or WordStream(normalise)
        self._feeding: Iterator[WordChanges] = iter(())
        self._inbox: deque[_Push | _Flush | _End] = deque()
        self._end: _End | None = None
        self._pieces: deque[_Piece] = deque()  # from the first position on
        self._positions: deque[TextPosition] = deque((TextPosition(0, 0, 0),))
        self._inner_positions: deque[TextPosition] = deque()  # between tokens that were normalised together
        self._end_position: TextPosition | None = None  # once the end was read

    @property
    def has_unread(self) -> bool:
        """Whether anything is unread."""
        return bool(self._inbox)

    # ------------------------------------------------------------ called by clients, with the lock

    def push(self, text: str, at_ms: float) -> None:
        """Append text."""
        self._append(text)
        self.unread_chars += len(text)
        self._inbox.append(_Push(at_ms, text, self._normalise))

    def set_normaliser(self, normalise: Normaliser) -> None:
        """Use this normaliser for text sent from now on; a word that has begun keeps the previous one."""
        self._normalise = normalise

    def flush(self, at_ms: float) -> None:
        """Append a flush."""
        if not (self._inbox and isinstance(self._inbox[-1], _Flush)):  # repeated flushes must not use memory
            self._inbox.append(_Flush(at_ms))

    def end(self, at_ms: float, *, is_whole: bool = True) -> None:
        """Append the end; with ``is_whole``, the unfinished last word is spoken."""
        self._end = _End(at_ms, is_whole)
        self._inbox.append(self._end)

    def settled_chars(self, settled_words: int) -> int:
        """Characters before the first position that does not affect the settled words."""
        return min((one.at for one in self._positions_after(settled_words)), default=self.chars)

    def continues_word(self, char_start: int, text: str, settled_words: int) -> bool:
        """Whether text from a character on continues the settled last word of a text that had ended."""
        end = self._end_position
        if end is None or char_start != end.at or self._positions_after(settled_words):
            return False
        before = self._text_from(end.at - 1)[:1]
        return bool(before and text) and before not in WHITE and text[0] not in WHITE

    def _positions_after(self, settled_words: int) -> list[TextPosition]:
        return [one for one in (*self._positions, *self._inner_positions) if one.words >= settled_words]

    def revise(self, char_start: int, text: str) -> int | None:
        """Replace the text from a character on; returns where it begins to differ, None if it is the same."""
        old = self._text_from(char_start)
        if old == text:
            return None
        same = common_prefix(old, text)
        self._cut(char_start + same)
        self._append(text[same:])
        return char_start + same

    # ------------------------------------------------------------ called by the engine's thread

    def rewind(self, char: int, settled_words: int, at_ms: float, unused: IntakeStep | None = None) -> int:
        """Go back so that all text from a character on is read again.

        Args:
            unused: the last step, if its words were not used: they are read again as well.

        Returns:
            Number of words that remain, at least the settled ones.
        """
        used_words = sys.maxsize if unused is None else unused.changes.words[0].i
        end = self._end_position
        if end is not None and end.words > used_words:
            end = None
        first = self._positions[0]
        self._positions = deque(
            one for one in self._positions if (one.at <= char and one.words <= used_words) or one is first
        )
        self._inner_positions = deque(
            one for one in self._inner_positions if one.at <= char and one.words <= used_words
        )
        position = self._positions[-1]
        if position.words < settled_words:  # a group's first words are settled, or the last ones of an ended text
            others = (*reversed(self._inner_positions), *filter(None, (end,)))
            position = next((one for one in others if one.words >= settled_words), position)
            self._positions.append(position)
        self._end_position = None
        self._words.rewind(position)
        self._feeding = iter(())
        has_flush = any(isinstance(one, _Flush) for one in self._inbox) or (unused is not None and unused.is_flush)
        self.unread_chars = self.chars - position.at
        # In pieces as they arrived: joining a million characters for each revised word would delay other requests.
        pieces = self._pieces_from(position.at) or [_Piece(position.at, "", self._normalise)]
        self._inbox = deque(_Push(at_ms, one.text, one.normalise) for one in pieces)
        if has_flush:
            self._inbox.append(_Flush(at_ms))
        if self._end is not None:
            self._inbox.append(self._end)
        return position.words

    def begin(self, at_ms: float) -> None:
        """Treat everything unread as received now; a flush before further text has no effect."""
        sent = [one for one in self._inbox if not isinstance(one, _End)]
        is_flushed = bool(sent) and isinstance(sent[-1], _Flush)
        self._inbox = deque(one for one in sent if isinstance(one, _Push))
        if is_flushed:
            self._inbox.append(_Flush(at_ms))
        if self._end is not None:
            self._inbox.append(self._end)
        self._inbox = deque(replace(one, at_ms=at_ms) for one in self._inbox)

    def step(self) -> IntakeStep | None:
        """Read a bounded piece; None if nothing is unread."""
        step = self._read()
        if step is not None:
            with self._lock:
                self._record_position()
        return step

    def _read(self) -> IntakeStep | None:
        changes = next(self._feeding, None)
        if changes is not None:
            return IntakeStep(changes)
        with self._lock:
            if not self._inbox:
                return None
            message = self._inbox.popleft()
            self.at_ms = message.at_ms
            match message:
                case _Push(text=text, normalise=normalise):
                    self.unread_chars -= len(text)
                    changes = self._words.set_normaliser(normalise)
                    self._feeding = iter(self._words.feed(text))
                    return IntakeStep(changes)
                case _Flush():
                    return IntakeStep(self._words.flush(), is_flush=True)
                case _End(is_whole=False):
                    return IntakeStep(self._words.flush(), is_end=True)
                case _End():
                    changes = self._words.end()
                    self._end_position = self._words.position()
                    return IntakeStep(changes, is_end=True)

    def discard_before(self, words: int) -> None:
        """Discard the text of the first words, which will not be read again."""
        with self._lock:
            while len(self._positions) > 1 and self._positions[1].words <= words:
                self._positions.popleft()
            while self._inner_positions and self._inner_positions[0].words < words:
                self._inner_positions.popleft()
            first = self._positions[0].at
            while self._pieces and self._pieces[0].at + len(self._pieces[0].text) <= first:
                self._pieces.popleft()

    def _record_position(self) -> None:
        position, last = self._words.resume_point(), self._positions[-1]
        if position is None or position.at == last.at:
            return
        if position.words > last.words:
            self._positions.append(position)
            self._inner_positions.extend(self._words.resume_points)
        elif position.at - last.at >= _POSITION_CHARS:
            self._positions[-1] = position

    def text(self, char_start: int, char_end: int) -> str:
        """Part of the text as sent that was not discarded."""
        with self._lock:
            parts = [(at, text) for at, text, _ in self._pieces if at < char_end and at + len(text) > char_start]
            return "".join(text[max(0, char_start - at) : char_end - at] for at, text in parts)

    def _append(self, text: str) -> None:
        self._pieces.append(_Piece(self.chars, text, self._normalise))
        self.chars += len(text)

    def _text_from(self, char: int) -> str:
        return "".join(one.text for one in self._pieces_from(char))

    def _pieces_from(self, char: int) -> list[_Piece]:
        return [
            _Piece(max(at, char), text[max(0, char - at) :], normalise)
            for at, text, normalise in self._pieces
            if at + len(text) > char
        ]

    def _cut(self, char: int) -> None:
        while self._pieces and self._pieces[-1].at >= char:
            self._pieces.pop()
        if self._pieces:
            last = self._pieces[-1]
            self._pieces[-1] = last._replace(text=last.text[: char - last.at])
        self.chars = char
