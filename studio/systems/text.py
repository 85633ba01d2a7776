"""Written words, and the cuts of a text for systems that take whole texts.

It is unknown how a third-party system reads "Dr." or "1999", so its words are the written ones.
"""

from collections.abc import Iterator, Sequence

from studio.core.text.typography import is_abbreviation
from studio.core.text.words import ClauseRule, SpokenWord, WordChanges, WordStream

CUTS = ("sentence", "clause", "words", "text")
MAX_CUT_CHARS = 4000  # below the limits of the known systems
_SENTENCE_MARKS, _CLAUSE_MARKS = ".?!…。！？", ".?!…。！？,;:、，；："
_CLOSERS = "\"'”’»)]}*_"
_MOST_WORDS = 60


class WrittenWords(WordStream):
    """Commits each written token with a letter or a digit at the white space after it."""

    def __init__(self) -> None:
        super().__init__(lambda tokens, before=(): [])

    def _may_continue_after(self, white: str) -> bool:
        return False

    def _close_token(self) -> Iterator[WordChanges]:
        if not self._token:
            return
        text = "".join(self._token)
        if any(char.isalnum() for char in text):
            position = (self._written, self._token_start, self._at)
            yield WordChanges([SpokenWord(self._words, text, *position)])
            self._words += 1
        self._written += 1
        self._token.clear()


def cut_length(words: Sequence[str], cut: str, most_words: int, *, is_all: bool) -> int | None:
    """Number of words in the next cut; None while it may still grow.

    Args:
        words: written words that are in no cut yet.
        cut: one of ``CUTS``; ``words`` cuts after ``most_words``, ``text`` at the end or a flush.
        is_all: the text has ended or was flushed: the rest is a cut.
    """
    if cut == "text":
        return len(words) if is_all and words else None
    marks = {"sentence": _SENTENCE_MARKS, "clause": _CLAUSE_MARKS}.get(cut, "")
    rule = ClauseRule(most_words if cut == "words" else _MOST_WORDS, MAX_CUT_CHARS // 2, marks)
    return rule.length([_ending(word) for word in words], is_all=is_all)


def ends_sentence(text: str) -> bool:
    """Whether the last word of a text ends a sentence."""
    words = text.split()
    return bool(words) and _ending(words[-1])[-1:] in tuple(_SENTENCE_MARKS)


def _ending(word: str) -> str:
    """A word without closing quotes, and without the full stop of an abbreviation, so that it ends in its mark."""
    bare = word.rstrip(_CLOSERS) or word
    return bare[:-1] if bare.endswith(".") and is_abbreviation(bare[:-1].lstrip("\"'“‘«([{*_")) else bare
