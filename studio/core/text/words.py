"""Commitment of words: text goes in, in any chunks; final spoken words come out.

A written token is complete at the white space after it, or at the end. A markup tag may contain white space, and a word
hyphenated at a line end continues on the next line. A complete token that can still grow (an amount, an abbreviation, a
hyphen, a month that may have a day) is held until a token that cannot grow is complete, or until MAX_HELD_TOKENS are
held; the held group is then normalised together, so that "$5 million" is five million dollars. The normaliser also sees
the two tokens before the group. The result does not depend on time or on how the text was cut into chunks.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from studio.core.ports import Normaliser
from studio.core.text.holding import BETWEEN
from studio.core.text.language import ENGLISH, Language
from studio.core.text.pieces import (
    TokenPiece,
    is_open_note,
    is_open_tag,
    may_continue,
    quotes,
    split_token,
    token_parts,
)
from studio.core.text.reasons import UnsupportedSpan
from studio.core.text.typography import MARKS, MAX_TOKEN_CHARS, PAUSE, TOKEN, WHITE

MAX_HELD_TOKENS = 6
_RUNS = re.compile(f"[{WHITE}]+|[^{WHITE}]+")
MAX_TAG_CHARS = 1000  # of a markup tag with white space
_MAX_GAP_CHARS = 40  # of white space inside a token
_LINE_BREAK = re.compile("\r\n|[\n\r\v\f\x85\u2028\u2029]")


@dataclass(frozen=True)
class SpokenWord:
    """Spoken word ``i``: lower case letters and apostrophes with at most one trailing mark of ``,.?!;:``;
    hyphens, too, in French.

    Attributes:
        written: index of its written token (separated by white space, from 0).
        char_start, char_end: its source in the text as sent; words of one token share a span.
    """

    i: int
    word: str
    written: int
    char_start: int
    char_end: int


@dataclass(frozen=True)
class TextPosition:
    """A position to which reading can return: everything before it was committed.

    Attributes:
        at: characters read.
        words: spoken words committed.
        written: tokens completed.
        token, token_start: the part read so far of a token that follows a flush.
        before: the last two tokens committed, which decide how the next one is read.
        is_quoted: whether a quotation is open.
    """

    at: int
    words: int
    written: int
    token: tuple[str, ...] = ()
    token_start: int = 0
    before: tuple[str, ...] = ()
    is_quoted: bool = False


@dataclass
class WordChanges:
    """Words that a push committed, and unsupported spans; each in text order."""

    words: list[SpokenWord] = field(default_factory=list[SpokenWord])
    unsupported: list[UnsupportedSpan] = field(default_factory=list[UnsupportedSpan])

    def extend(self, other: "WordChanges") -> None:
        self.words.extend(other.words)
        self.unsupported.extend(other.unsupported)


def common_prefix(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements two sequences (texts, words, symbols) share at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def is_spoken_word(word: str) -> bool:
    """Whether this is a valid spoken word of English, as nets with teacher forcing accept."""
    return ENGLISH.spoken.fullmatch(word) is not None


def whole_text(normalise: Normaliser, text: str) -> WordChanges:
    """The words and unsupported spans of a whole text."""
    stream = WordStream(normalise)
    changes = stream.push(text)
    changes.extend(stream.end())
    return changes


class WordStream:
    """Text in, committed spoken words out.

    Attributes:
        resume_points: positions between the tokens of the group committed last; reading can resume there when the words
            before are already spoken.

    Args:
        normalise: normalises the tokens of one held group. Its optional attribute ``unread`` is the code
            of the reason for tokens without a word; ``language`` is that of the text (English).
    """

    def __init__(self, normalise: Normaliser) -> None:
        self._use(normalise)
        self._at = 0  # characters received
        self._token: list[str] = []  # with the white space inside it, and after it while it may continue
        self._token_start = self._part_start = 0
        self._before: tuple[str, ...] = ()
        self._written = 0
        self._held: list[tuple[TokenPiece, int]] = []
        self._words = 0
        self._ended = self._is_closing = self._is_quoted = False
        self.resume_points: list[TextPosition] = []

    def set_normaliser(self, normalise: Normaliser) -> WordChanges:
        """Use this one from the next token on; returns the held tokens, which this commits."""
        if normalise is self._next:
            return WordChanges()
        self._next = normalise
        return WordChanges() if self._token else self._switch()

    def _switch(self) -> WordChanges:
        changes = self._release([])
        self._use(self._next)
        return changes

    def _use(self, normalise: Normaliser) -> None:
        self._normalise = self._next = normalise
        self._unread: str = getattr(normalise, "unread", "no_reading")
        self._language: Language = getattr(normalise, "language", ENGLISH)

    def resume_point(self) -> TextPosition | None:
        """The position at which reading can resume; None while a token is held or incomplete, and after the end.

        Text appended after the end may be part of the last token, or be normalised together with it.
        """
        return None if self._held or self._is_closing or self._ended or self._has_gap() else self.position()

    def position(self) -> TextPosition:
        """The current position, regardless of held tokens."""
        token = tuple(self._token)
        return TextPosition(
            self._at, self._words, self._written, token, self._token_start, self._before, self._is_quoted
        )

    def rewind(self, mark: TextPosition) -> None:
        """Return to a position; the text from there on has to be pushed again."""
        self._at, self._words, self._written = mark.at, mark.words, mark.written
        self._token, self._token_start, self._before = [*mark.token], mark.token_start, mark.before
        self._is_quoted = mark.is_quoted
        gaps = [k for k, run in enumerate(self._token, start=1) if run[0] in WHITE]
        self._part_start = self._token_start + sum(map(len, self._token[: gaps[-1] if gaps else 0]))
        self._held, self._ended, self._is_closing, self._next = [], False, False, self._normalise

    def push(self, text: str) -> WordChanges:
        """Append text and return what it commits."""
        changes = WordChanges()
        for step in self.feed(text):
            changes.extend(step)
        return changes

    def feed(self, text: str) -> Iterator[WordChanges]:
        """``push`` in small steps, one for each run of white space or of other characters, for huge pastes.

        Most steps commit nothing. Exhaust the iterator before any other call.
        """
        assert not self._ended, "text after the end"
        for run in _RUNS.finditer(text):
            if run[0][0] in WHITE:
                if self._may_continue_after(run[0]):
                    self._token.append(run[0])
                else:
                    yield from self._close_token()
                self._at += len(run[0])
                yield WordChanges()
                continue
            if self._has_gap():
                if self._continues_with(run[0]):
                    self._part_start = self._at
                else:
                    yield from self._close_token()
            if not self._token:
                self._token_start = self._part_start = self._at
            room = MAX_TOKEN_CHARS + 1 - (self._at - self._part_start)
            if room > 0:
                self._token.append(run[0][:room])  # only the length of an endless token is stored
            self._at += len(run[0])

    def flush(self) -> WordChanges:
        """Commit every complete token, held or not; never half a word."""
        changes = WordChanges()
        for step in self._close_token() if self._has_gap() else ():
            changes.extend(step)
        changes.extend(self._release([]))
        return changes

    def end(self) -> WordChanges:
        """Commit everything; the text has ended."""
        changes = WordChanges()
        for step in self._close_token():
            changes.extend(step)
        changes.extend(self._release([]))
        self._ended = True
        return changes

    def _has_gap(self) -> bool:
        """Whether white space was read after a token that may continue."""
        return bool(self._token) and self._token[-1][0] in WHITE

    def _may_continue_after(self, white: str) -> bool:
        """Whether the token may continue after this additional white space."""
        if not self._token:
            return False
        if not self._has_gap():
            is_short = self._at - self._part_start <= MAX_TOKEN_CHARS and self._at - self._token_start <= MAX_TAG_CHARS
            return is_short and len(white) <= _MAX_GAP_CHARS and self._may_continue()
        gap = self._gap() + white
        return len(gap) <= _MAX_GAP_CHARS and len(_LINE_BREAK.findall(gap)) <= 1

    def _may_continue(self) -> bool:
        return bool(self._language.spaced) or may_continue("".join(self._token))

    def _continues_with(self, text: str) -> bool:
        """Whether this text, which follows the token's white space, continues the token."""
        token, lines = "".join(self._token).rstrip(WHITE), len(_LINE_BREAK.findall(self._gap()))
        if lines > 1:
            return False
        if lines == 0 and text[0] in self._language.spaced:
            return True
        if is_open_note(token):
            return True
        if is_open_tag(token):
            return text[0].isalpha() or text[0] in "/>"
        if not may_continue(token):
            return False
        if lines == 1 and token[-2:-1].isdecimal():
            return text[0].isdecimal()
        return lines == 1 and "a" <= text[0] <= "z"

    def _gap(self) -> str:
        """The white space at the token's end; it may have arrived in several chunks."""
        text = "".join(self._token)
        return text[len(text.rstrip(WHITE)) :]

    def _close_token(self) -> Iterator[WordChanges]:
        """At white space or the end: hold the token's pieces, or commit the group they complete."""
        if not self._token:
            return
        self._is_closing = True
        text = "".join(self._token)
        has_white = any(run[0] in WHITE for run in self._token)
        for begin, end in token_parts(text, self._language) if has_white else [(0, len(text))]:
            token_pieces, spans = self._pieces(text[begin:end], self._token_start + begin)
            for piece in token_pieces:
                self._held.append((piece, self._written))
                grows = self._language.can_grow(piece.text) or (piece.text in BETWEEN and len(self._held) > 1)
                if not grows or len(self._held) >= MAX_HELD_TOKENS:
                    # Spans of this token that lie before a later piece go out with it, in order.
                    before = [span for span in spans if span.char_start < piece.char_start]
                    spans = spans[len(before) :]
                    yield self._release(before)
            if spans:
                yield self._release(spans)
            self._written += len(TOKEN.findall(text, begin, end))
        self._token.clear()
        if self._next is not self._normalise:
            yield self._switch()
        self._is_closing = False

    def _pieces(self, token: str, start: int) -> tuple[list[TokenPiece], list[UnsupportedSpan]]:
        if max(map(len, TOKEN.findall(token))) > MAX_TOKEN_CHARS:
            end = self._at if start == self._part_start else start + len(token)
            return [], [UnsupportedSpan(start, end, "long_token", {"count": str(MAX_TOKEN_CHARS)})]
        found = split_token(token, start, self._language, self._is_quoted)
        self._is_quoted ^= len(quotes(token, self._is_quoted)[1]) % 2 == 1
        return found

    def _release(self, spans: list[UnsupportedSpan]) -> WordChanges:
        """Normalise and commit the held group; ``spans`` were found unsupported before."""
        held, self._held = self._held, []
        changes = WordChanges(unsupported=spans)
        if not held:
            return changes
        silent = {k for k, (piece, _) in enumerate(held) if piece.text != PAUSE}
        texts = [piece.text for piece, _ in held]
        for word, k in self._normalise(texts, self._before):
            silent.discard(k)
            if not word:
                continue  # spoken with its neighbours
            assert self._language.spoken.fullmatch(word), f"a normaliser returned {word!r}"
            piece, written = held[k]
            changes.words.append(SpokenWord(self._words, word, written, piece.char_start, piece.char_end))
            self._words += 1
        self.resume_points = _resume_points(held, changes.words, self._before)
        self._before = (*self._before, *texts)[-2:]
        unread = [UnsupportedSpan(held[k][0].char_start, held[k][0].char_end, self._unread) for k in silent]
        changes.unsupported = sorted([*spans, *unread], key=lambda span: span.char_start)
        return changes


def _resume_points(
    held: list[tuple[TokenPiece, int]], words: list[SpokenWord], committed: tuple[str, ...]
) -> list[TextPosition]:
    """Positions between tokens of a group that separate its words into those before and those after."""
    points: list[TextPosition] = []
    for k, ((before, _), (piece, written)) in enumerate(pairwise(held), start=1):
        after = [word for word in words if word.char_start >= piece.char_start]
        if after and words[-len(after) :] == after and before.char_end < piece.char_start:
            previous = (*committed, *(one.text for one, _ in held[:k]))[-2:]
            points.append(
                TextPosition(piece.char_start, after[0].i, written, before=previous, is_quoted=piece.is_quoted)
            )
    return points


@dataclass(frozen=True)
class ClauseRule:
    """A clause ends after a word with one of ``marks``, after ``most_words`` words (1 or more), or with the word that
    reaches ``most_letters`` letters.

    A committed word includes its mark, so no text after the clause is needed.
    """

    most_words: int
    most_letters: int
    marks: str = MARKS

    def length(self, words: Sequence[str], *, is_all: bool) -> int | None:
        """Number of words in the next clause; None while it may still grow.

        Args:
            words: committed words that are in no clause yet.
            is_all: the text has ended or was flushed: the rest is a clause.
        """
        letters = 0
        for count, word in enumerate(words, start=1):
            letters += len(word)
            if word[-1] in self.marks or count >= self.most_words or letters >= self.most_letters:
                return count
        return len(words) if is_all and words else None
