"""The commitment rule: text goes in, in any chunks; spoken words come out, each once and for good (DESIGN section 4).

A written token is complete at the white space after it, or at the end. A complete token that can still grow
(digits, currency, abbreviation, hyphen, a month that may have a day) is held until a token that cannot grow is
complete; the held group is then normalised together, so that "$5 million" is five million dollars. There is no
clock here, and nothing depends on where the text was cut into chunks.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from studio.core.ports import Normaliser
from studio.core.text.typography import (
    CURRENCY,
    FRACTIONS,
    MARKS,
    MAX_TOKEN_CHARS,
    MAX_WORD_LETTERS,
    MONTHS,
    MUTE,
    PAUSE,
    WHITE,
    Piece,
    UnsupportedSpan,
    is_abbreviation,
    pieces,
)

MAX_HELD_TOKENS = 6
_RUNS = re.compile(f"[{WHITE}]+|[^{WHITE}]+")
_GROWING = re.compile(f"[0-9#{re.escape(CURRENCY)}{FRACTIONS}]")
_SPOKEN = re.compile(rf"[a-z']{{1,{MAX_WORD_LETTERS}}}[{MARKS}]?")
_MONTHS = frozenset(MONTHS)
_NO_READING = "this normaliser has no reading for it: write it in words"


@dataclass(frozen=True)
class SpokenWord:
    """Spoken word ``i``: lower case letters and apostrophes with at most one trailing mark of ``,.?!;:``.

    Attributes:
        written: which written token (parted by white space, counted from 0) it comes from.
        char_start, char_end: what it was made from, in the text as sent; words of one token share a span.
    """

    i: int
    word: str
    written: int
    char_start: int
    char_end: int


@dataclass(frozen=True)
class WordMark:
    """A place from which a text can be read again: everything before it was committed.

    Attributes:
        at: characters read.
        words: spoken words committed.
        written: tokens completed.
        token, token_start: what was read of a token that a flush had parted from those before it.
    """

    at: int
    words: int
    written: int
    token: tuple[str, ...] = ()
    token_start: int = 0


@dataclass
class WordChanges:
    """What a push committed, and what it found that cannot be said; each in the order of the text."""

    words: list[SpokenWord] = field(default_factory=list[SpokenWord])
    unsupported: list[UnsupportedSpan] = field(default_factory=list[UnsupportedSpan])

    def extend(self, other: "WordChanges") -> None:
        """Append what came later."""
        self.words.extend(other.words)
        self.unsupported.extend(other.unsupported)


def is_spoken(word: str) -> bool:
    """Whether it is a spoken word: what a normaliser answers, and what a net can be told to say."""
    return _SPOKEN.fullmatch(word) is not None


def grows(token: str) -> bool:
    """Whether the token after this one can still change how it is said. A mark at its end closes it."""
    if token[-1] in MARKS:
        return token[-1] == "." and is_abbreviation(token[:-1])
    return token in MUTE or token[-1] == "-" or token in _MONTHS or _GROWING.search(token) is not None


class WordStream:
    """Text in, committed spoken words out.

    Attributes:
        seams: between the tokens of the group that was committed last: where to read again when the words before a
            seam were spoken, and cannot be said otherwise any more.

    Args:
        normalise: says the tokens of one held group. Where it has an attribute ``why``, that is what the
            listener is told about a token it has no word for.
    """

    def __init__(self, normalise: Normaliser) -> None:
        self._normalise = normalise
        self._why: str = getattr(normalise, "why", _NO_READING)
        self._at = 0  # characters received
        self._token: list[str] = []
        self._token_start = 0
        self._written = 0
        self._held: list[tuple[Piece, int]] = []
        self._words = 0
        self._ended = self._is_closing = False
        self.seams: list[WordMark] = []

    def mark(self) -> WordMark | None:
        """Where reading can begin again; None while a token is held, in the middle of one, and after the end.

        What follows a text that was over may be part of its last token, or be said together with it.
        """
        return None if self._held or self._is_closing or self._ended else self.here()

    def here(self) -> WordMark:
        """Where reading stands, as if what follows had nothing to do with the words before."""
        return WordMark(self._at, self._words, self._written, tuple(self._token), self._token_start)

    def back(self, mark: WordMark) -> None:
        """Return to a mark; the text from there on is to be given again."""
        self._at, self._words, self._written = mark.at, mark.words, mark.written
        self._token, self._token_start = [*mark.token], mark.token_start
        self._held, self._ended, self._is_closing = [], False, False

    def push(self, text: str) -> WordChanges:
        """Append text; what it commits."""
        changes = WordChanges()
        for step in self.feed(text):
            changes.extend(step)
        return changes

    def feed(self, text: str) -> Iterator[WordChanges]:
        """Append text as ``push`` does, but lazily, for pastes: a step for each run of white space or of letters.

        Most steps commit nothing, so that who reads a huge text may stop anywhere. Exhaust it before any other call.
        """
        assert not self._ended, "text after the end"
        for run in _RUNS.finditer(text):
            if run[0][0] in WHITE:
                yield from self._close_token()
                self._at += len(run[0])
                yield WordChanges()
                continue
            if not self._token:
                self._token_start = self._at
            room = MAX_TOKEN_CHARS + 1 - (self._at - self._token_start)
            self._token.append(run[0][: max(0, room)])  # an endless token is counted, not kept
            self._at += len(run[0])

    def flush(self) -> WordChanges:
        """Commit every complete token, held or not; never half a word."""
        return self._release([])

    def end(self) -> WordChanges:
        """Commit everything: the text is over."""
        changes = WordChanges()
        for step in self._close_token():
            changes.extend(step)
        changes.extend(self._release([]))
        self._ended = True
        return changes

    def _close_token(self) -> Iterator[WordChanges]:
        """White space or the end came: hold the token's pieces, or commit the group they complete."""
        if not self._token:
            return
        self._is_closing = True
        found, spans = self._pieces()
        for piece in found:
            self._held.append((piece, self._written))
            if not grows(piece.text) or len(self._held) >= MAX_HELD_TOKENS:
                # Spans of this token that lie before a later piece go out with it, in order.
                before = [span for span in spans if span.char_start < piece.char_start]
                spans = spans[len(before) :]
                yield self._release(before)
        if spans:
            yield self._release(spans)
        self._token.clear()
        self._written += 1
        self._is_closing = False

    def _pieces(self) -> tuple[list[Piece], list[UnsupportedSpan]]:
        if self._at - self._token_start > MAX_TOKEN_CHARS:
            why = f"more than {MAX_TOKEN_CHARS} characters without white space cannot be spoken"
            return [], [UnsupportedSpan(self._token_start, self._at, why)]
        return pieces("".join(self._token), self._token_start)

    def _release(self, spans: list[UnsupportedSpan]) -> WordChanges:
        """Normalise and commit the held group; ``spans`` were refused before it came to that."""
        held, self._held = self._held, []
        changes = WordChanges(unsupported=spans)
        if not held:
            return changes
        silent = {k for k, (piece, _) in enumerate(held) if piece.text != PAUSE}
        for word, k in self._normalise([piece.text for piece, _ in held]):
            assert is_spoken(word), f"a normaliser said {word!r}"
            piece, written = held[k]
            changes.words.append(SpokenWord(self._words, word, written, piece.char_start, piece.char_end))
            self._words += 1
            silent.discard(k)
        self.seams = _seams(held, changes.words)
        refused = [UnsupportedSpan(held[k][0].char_start, held[k][0].char_end, self._why) for k in silent]
        changes.unsupported = sorted([*spans, *refused], key=lambda span: span.char_start)
        return changes


def _seams(held: list[tuple[Piece, int]], words: list[SpokenWord]) -> list[WordMark]:
    """The places between tokens of a group that part its words in two, those before and those after."""
    found: list[WordMark] = []
    for (before, _), (piece, written) in pairwise(held):
        after = [word for word in words if word.char_start >= piece.char_start]
        if after and words[-len(after) :] == after and before.char_end < piece.char_start:
            found.append(WordMark(piece.char_start, after[0].i, written))
    return found
