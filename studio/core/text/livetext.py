"""Live text: edits of a text field in, text for an utterance out.

Text is sent up to the last white space, so that the word being typed can be corrected freely; a word that ends a
sentence is also sent after a pause. An edit of a word that was sent but not played revises the text from there on: at
once if the edit is complete (a word replaced, a space typed), else after a pause. An edit of played text changes no
sound: an ``edited`` event marks the words it touches, and the text after it is sent as usual. A replaced word counts as
spoken: when autocorrect turns a played "teh " into "the ", nothing is spoken again. After ``end``, edits of unplayed
text are revisions, and nothing can be appended.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from threading import Lock

from studio.core.errors import BadMessage, BadText, Closed, TooLate
from studio.core.events import Committed, Edited, Event, Revised, TypingTimes
from studio.core.ports import Utterance
from studio.core.text.typography import ABBREVIATIONS, TOKEN, WHITE
from studio.core.time import Clock

IDLE_FLUSH_MS = 700  # pause in typing after which the text is flushed
MAX_FIELD_CHARS = 200_000
MAX_NOTED_CHARS = 1000  # of the new text in an ``edited`` event
MAX_TIMED_CHARS = 1000  # of a ``typed`` event: a word has fewer
_AT_ONCE_MS = 1.0  # text typed so shortly before it is sent needs no ``typed`` event
_WORD_AND_SPACE = re.compile(f"[^{WHITE}]*[{WHITE}]+")
_ANY_WHITE = re.compile(f"[{WHITE}]")
_EDIT_MS = 400.0  # pause after which an incomplete edit is sent
_TRIES = 3  # to revise text that is being played
_BLOCK_CHARS = 64  # first search window; a word may be as long as the field
_SENTENCE_END = re.compile(r"[^\W\d_]['\"”’)\]]*[.!?…]+['\"”’)\]]*\Z")
_END_CHARS = 40  # of the word being typed, examined for the end of a sentence
_SURROGATE = re.compile("[\ud800-\udfff]")


def join_surrogates(text: str) -> str:
    """A text whose pairs of surrogates are characters; a lone surrogate is U+FFFD, and a last high one stays."""
    if not _SURROGATE.search(text):
        return text
    half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    whole = text[: len(text) - len(half)].encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return _SURROGATE.sub("\ufffd", whole) + half


class LiveText:
    """A text field that an utterance speaks while it is typed. Every method may be called from any thread.

    The field's first ``_covered`` characters were sent, or correct text that was sent. ``_origin`` holds the position
    of each of them in the text as sent; a correction has the position of the word that it corrects.

    Args:
        utterance: receives the text, flushes, and ``typed`` and ``edited`` events.
        idle_ms: pause in typing after which sent text is flushed.
        revises: whether edits of sent text that was not played revise the utterance; else sent text stays.
    """

    def __init__(
        self, utterance: Utterance, clock: Clock, idle_ms: float = IDLE_FLUSH_MS, *, revises: bool = True
    ) -> None:
        self._utterance = utterance
        self._clock = clock
        self._idle_ms = idle_ms
        self._lock = Lock()
        self._field = ""
        self._typed_ms = array("d")  # when each of the field's characters was typed
        self._covered = 0
        self._origin = array("l")
        self._sent: list[str] = []  # the characters of the text as sent
        self._word_ends: list[int] = []  # of committed words in the text as sent, by word index
        self._word_starts: list[int] = []
        self._late: list[tuple[int, int, str]] = []  # edits of sent text whose words are not committed yet
        self._last_edit_ms = clock.now_ms()
        self._revises = revises
        self._is_changing = False  # a revised word is being rewritten: nothing is sent
        self._unspoken = False
        self._half: tuple[int, str] | None = None  # position and value of a high surrogate without its pair
        self._ended = False
        self._sent_chars = 0

    @property
    def text(self) -> str:
        """The content of the field."""
        return self._field

    @property
    def sent_chars(self) -> int:
        """Characters sent to the utterance, counting those sent again after an edit."""
        return self._sent_chars

    def field_span(self, char_start: int, char_end: int) -> tuple[int, int]:
        """The range of the field that corresponds to [char_start, char_end) of the text as sent."""
        with self._lock:
            return bisect_left(self._origin, char_start), bisect_left(self._origin, char_end)

    def edit(self, at: int, remove: int, insert: str) -> None:
        """Replace ``[at, at + remove)`` of the field, in code points, by ``insert``.

        Raises:
            BadMessage: the range is not inside the field, which stays unchanged.
            BadText: the field would exceed MAX_FIELD_CHARS.
            Closed: after ``end``, for appended text, and for any edit without ``revises``.
        """
        with self._lock:
            self._check(at, remove, insert)
            half, self._half = self._half, None
            if half and at == half[0] + 1 and not remove and "\udc00" <= insert[:1] <= "\udfff":
                at, remove, insert = half[0], 1, half[1] + insert  # the pair is one character
            insert = join_surrogates(insert)
            if _SURROGATE.search(insert[-1:]):
                self._half = (at + len(insert) - 1, insert[-1])
                insert = insert[:-1] + "\ufffd"  # until its pair comes
            self._typed_ms[at : at + remove] = array("d", [self._clock.now_ms()]) * len(insert)
            if self._ended:
                self._edit_ended(at, remove, insert)
                return
            self._last_edit_ms = self._clock.now_ms()
            is_whole = len(insert) > 1 or (insert != "" and insert in WHITE) or at == len(self._field)
            extends = at == self._covered and self._mid_word() and insert[:1] not in WHITE
            self._is_changing = (self._take_back(at, remove, extends) or self._is_changing) and not is_whole
            if at < self._covered or (extends and at == self._covered):
                self._edit_covered(at, remove, insert)
            else:
                self._field = self._field[:at] + insert + self._field[at + remove :]
            self._send(len(self._field) - len(_tail(self._field)))

    def on_event(self, event: Event) -> None:
        """Handle an event of the utterance; ``committed`` and ``revised`` locate the words that edits touch."""
        if isinstance(event, Revised):
            with self._lock:
                del self._word_starts[event.words :], self._word_ends[event.words :]
        if not isinstance(event, Committed):
            return
        with self._lock:
            self._word_starts.append(event.char_start)
            self._word_ends.append(event.char_end)
            self._late = [late for late in self._late if late[1] > event.char_start]
            for first, last, text in self._late:
                if event.char_end > first and event.char_start < last:
                    self._utterance.add_event(Edited(first=event.i, last=event.i, text=text))

    def poll(self) -> bool:
        """After a pause in typing, send an edited word or the end of a sentence, and flush. Whether it was due."""
        with self._lock:
            deadline = self._deadline_ms()
            if deadline is None or self._clock.now_ms() < deadline:
                return False
            self._pause()
            return True

    def pause(self) -> None:
        """Do now what ``poll`` does after a pause; for replayed typing."""
        with self._lock:
            if self._deadline_ms() is not None:
                self._pause()

    def next_deadline_ms(self) -> float | None:
        """Clock time at which ``poll`` will have something to do; None for never."""
        with self._lock:
            return self._deadline_ms()

    def end(self) -> None:
        """Send the rest and end the utterance."""
        with self._lock:
            if self._ended:
                return
            self._ended, self._is_changing = True, False
            self._send(len(self._field))
            self._utterance.end()

    def _pause(self) -> None:
        if self._is_changing:
            self._is_changing = False
            self._send(len(self._field) - len(_tail(self._field)))
            return
        if self._is_sentence_over():
            self._send(len(self._field))
            self._utterance.push_text(" ")  # commits the last word
            self._sent.append(" ")
        self._unspoken = False
        self._utterance.flush()

    def _deadline_ms(self) -> float | None:
        if self._is_changing and not self._ended:
            return self._last_edit_ms + min(_EDIT_MS, self._idle_ms)
        if self._ended or not (self._unspoken or self._is_sentence_over()):
            return None
        return self._last_edit_ms + self._idle_ms

    def _is_sentence_over(self) -> bool:
        """Whether the unsent word being typed ends a sentence; "3." and "Mr." do not."""
        tail = self._field[max(self._covered, len(self._field) - _END_CHARS) :]
        return _SENTENCE_END.search(tail) is not None and tail[:-1] not in ABBREVIATIONS

    def _check(self, at: int, remove: int, insert: str) -> None:
        if self._ended and (not self._revises or at >= len(self._field)):
            raise Closed("the text has ended", "open a new utterance")
        if not (0 <= at <= at + remove <= len(self._field)):
            raise BadMessage(
                f"the edit [{at}, {at + remove}) is outside the field's {len(self._field)} characters",
                "count code points, and send every change of the field in order",
            )
        if len(self._field) - remove + len(insert) > MAX_FIELD_CHARS:
            raise BadText(
                f"the text field holds at most {MAX_FIELD_CHARS:,} characters",
                "shorten the text, or send it as a stream",
            )

    def _take_back(self, at: int, remove: int, extends: bool) -> bool:
        """Delete unplayed text from the edited word on from the utterance; returns whether there was any.

        Args:
            extends: the edit extends the last word that was sent.
        """
        for _ in range(_TRIES if self._revises and (at < self._covered or extends) else 0):
            left = self._open_from(at, remove)
            if left is None:
                return False
            char = self._origin[left]
            try:
                self._utterance.revise(char, "")
            except TooLate:
                continue  # it was played in the meantime
            self._covered = left
            del self._origin[left:], self._sent[char:]
            return True
        return False

    def _open_from(self, at: int, remove: int) -> int | None:
        """Index from which the text that an edit touches can be revised; None if all of it was played."""
        settled = bisect_left(self._origin, self._utterance.settled_chars())
        if at < settled and at + remove <= settled:
            return None
        left = max(settled, _left(self._field, at))
        while 0 < left < self._covered and self._origin[left - 1] == self._origin[left]:
            left -= 1
        return left if left < self._covered else None

    def _edit_ended(self, at: int, remove: int, insert: str) -> None:
        """An edit after ``end``: a single revision, since an ended utterance would finish after a deletion."""
        for _ in range(_TRIES):
            left = self._open_from(at, remove)
            if left is None:
                break
            if at < left:  # the first part of the range was played: as many words are corrections
                start = _left(self._field, at)
                words, new = len(TOKEN.findall(self._field, start, left)), self._field[start:at] + insert
                cut = max(0, _corrections(new + self._field[at + remove :], words, at - start) - (at - start))
                self._edit_ended(left, at + remove - left, insert[cut:])
                remove, insert = left - at, insert[:cut]
                while remove and insert[-1:] == self._field[at + remove - 1]:  # or the next word would look changed
                    remove, insert = remove - 1, insert[:-1]
                break
            char, field = self._origin[left], self._field[:at] + insert + self._field[at + remove :]
            try:
                self._utterance.revise(char, field[left:])
            except TooLate:
                continue  # it was played in the meantime
            if self._sent[char:] != [*field[left:]]:
                self._sent_chars += len(field) - left
            self._field, self._covered = field, len(field)
            del self._origin[left:], self._sent[char:]
            self._origin.extend(range(char, char + len(field) - left))
            self._sent.extend(field[left:])
            return
        self._edit_covered(at, remove, insert)

    def _mid_word(self) -> bool:
        """Whether the covered part ends inside a word (its white space was deleted)."""
        return self._covered > 0 and self._field[self._covered - 1] not in WHITE

    def _edit_covered(self, at: int, remove: int, insert: str) -> None:
        """An edit that begins in the covered part, or extends a word of it."""
        before, stop = self._field, at + remove
        self._field = before[:at] + insert + before[stop:]
        left = _left(before, at)
        if not self._was_sent(before, stop):
            # No sent text follows: as many words as were replaced are corrections, the rest is new text.
            old_end = self._covered
            words = len(TOKEN.findall(before, left, old_end))
            new_end = left + _corrections(self._field[left:], words, at - left)
            follows = array("l")
        else:
            # Sent text follows the edit: nothing new can be spoken there any more.
            # Deleting whole words with the space after them leaves the next word unchanged.
            is_whole = not insert and left == at < stop and before[stop - 1] in WHITE
            old_end = stop if is_whole else min(_right(before, stop), self._covered)
            new_end = old_end - remove + len(insert)
            follows = self._origin[stop:]
        gone = self._gone(left) if not before[left:old_end].strip(WHITE) else None
        if gone is None:
            self._note(before, left, old_end, new_end)
        elif text := self._field[left:new_end].strip(WHITE):
            self._touch(gone, self._sent_word_end(gone), text)
        # A correction has the position of the text that it corrects.
        position = self._origin[at - 1 if at > left else left] if gone is None else gone
        self._covered = new_end if not follows else self._covered - remove + len(insert)
        corrected = self._covered - at - len(follows)
        self._origin = self._origin[: min(at, self._covered)] + array("l", [position]) * corrected + follows

    def _was_sent(self, before: str, start: int) -> bool:
        """Whether a word from ``start`` on was sent; corrections have the position of the character before them."""
        if not before[start : self._covered].strip(WHITE):
            return False
        return start == 0 or self._origin[self._covered - 1] > self._origin[start - 1]

    def _gone(self, at: int) -> int | None:
        """Start, in the text as sent, of the first word that was deleted at ``at``; None if none was."""
        first = self._sent_word_end(self._origin[at - 1]) if at > 0 else 0  # the word before is still there
        end = self._origin[at] if at < self._covered else len(self._sent)
        return next((k for k in range(first, end) if self._sent[k] not in WHITE), None)

    def _sent_word_end(self, at: int) -> int:
        while at < len(self._sent) and self._sent[at] not in WHITE:
            at += 1
        return at

    def _note(self, before: str, left: int, old_end: int, new_end: int) -> None:
        """Emit ``edited`` for the sent words that the edit changed, with the new text."""
        shift = new_end - old_end
        if before[left:old_end].strip(WHITE) == self._field[left:new_end].strip(WHITE):
            return
        if not before[left:old_end].strip(WHITE):  # inserted between two words: noted on the one before, or else after
            left = _left(before, len(before[:left].rstrip(WHITE)))
            if not before[left:old_end].strip(WHITE):
                old_end = _right(before, len(before) - len(before[old_end:].lstrip(WHITE)))
        text = self._field[left : old_end + shift].strip(WHITE)
        old_end = left + len(before[left : min(old_end, self._covered)].rstrip(WHITE))
        if old_end > left:
            self._touch(self._origin[left], self._origin[old_end - 1] + 1, text)

    def _touch(self, first_char: int, end_char: int, text: str) -> None:
        """Emit ``edited`` for [first_char, end_char) of the text as sent, now or when its words are committed."""
        text = text[:MAX_NOTED_CHARS]
        first = bisect_right(self._word_ends, first_char)
        last = bisect_left(self._word_starts, end_char) - 1
        if first <= last:
            self._utterance.add_event(Edited(first=first, last=last, text=text))
        after = [(end_char, late[1], "") for late in self._late if not late[2] and late[0] < end_char < late[1]]
        self._late = [late for late in self._late if late[1] <= first_char or late[0] >= end_char] + after
        if not self._word_ends or self._word_ends[-1] < end_char:
            self._late.append((first_char, end_char, text))

    def _send(self, until: int) -> None:
        """Send the field up to ``until``."""
        text = self._field[self._covered : until]
        if not text or self._is_changing:
            return
        self._note_keys(until)
        self._origin.extend(range(len(self._sent), len(self._sent) + len(text)))
        self._covered = until
        self._sent.extend(text)
        self._unspoken = self._unspoken or bool(text.strip(WHITE))
        self._utterance.push_text(text)
        self._sent_chars += len(text)

    def _note_keys(self, until: int) -> None:
        """Emit ``typed`` for text that was typed earlier than it is sent."""
        now_ms = self._clock.now_ms()
        typed_ms = self._typed_ms[self._covered : min(until, self._covered + MAX_TIMED_CHARS)]
        before_ms = [round(now_ms - one_ms, 1) for one_ms in typed_ms]
        if max(before_ms, default=0.0) >= _AT_ONCE_MS:  # empty after an edit that was refused half way
            self._utterance.add_event(TypingTimes(char_start=len(self._sent), before_ms=before_ms))


def _tail(text: str) -> str:
    """The word being typed: what follows the last white space."""
    return text[_left(text, len(text)) :]


def _left(text: str, at: int) -> int:
    """Start of the word that ends at ``at``."""
    block = _BLOCK_CHARS
    while at > 0:
        start = max(0, at - block)
        if spaces := [match.end() for match in _ANY_WHITE.finditer(text, start, at)]:
            return spaces[-1]
        at, block = start, 2 * block
    return 0


def _right(text: str, at: int) -> int:
    """End of the word that contains ``at``."""
    space = _ANY_WHITE.search(text, at)
    return space.start() if space else max(at, len(text))


def _corrections(new: str, words: int, sent_chars: int) -> int:
    """Length of the part of ``new`` that corrects ``words`` sent words.

    A word without white space after it is new text, unless its first ``sent_chars`` characters were sent.
    """
    at = 0
    for _ in range(words):
        match = _WORD_AND_SPACE.match(new, at)
        if match is None:
            return len(new) if at < sent_chars else at
        at = match.end()
    return at
