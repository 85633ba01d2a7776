"""The properties of a language that decide when words are committed; each normaliser has one (``language``)."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from studio.core.errors import BadOption
from studio.core.ports import Normaliser
from studio.core.text import holding, typography
from studio.core.text.typography import MARKS, MAX_WORD_LETTERS

LANGUAGES = {"en": "English", "fr": "French"}  # of texts; the first is the default
DEFAULT = next(iter(LANGUAGES))


@dataclass(frozen=True)
class Language:
    """Rules that split a language's text into tokens, and the characters of its spoken words.

    Attributes:
        name: in English.
        can_grow: whether the next token can still change how one is spoken.
        is_abbreviation: whether a full stop after a word belongs to it.
        letters: lower-case letters of its words besides a to z.
        joiners: characters inside its spoken words, besides apostrophes.
        spaced: marks that belong to the previous word although white space precedes them. If any, words wait for the
            character after its white space.
    """

    name: str
    can_grow: Callable[[str], bool] = holding.can_grow
    is_abbreviation: Callable[[str], bool] = typography.is_abbreviation
    letters: str = ""
    joiners: str = ""
    spaced: str = ""

    def fold(self, char: str) -> str | None:
        """As ``typography.fold``; the language's own letters are unchanged."""
        return char if char.lower() in self.letters else typography.fold(char)

    def compose(self, letter: str, accent: str) -> str:
        """Join a letter and a combining accent; the letter alone if the language lacks the result."""
        composed = unicodedata.normalize("NFC", letter + accent) if self.letters else letter
        return composed if len(composed) == 1 and composed.lower() in self.letters else letter

    def split_mark(self, text: str) -> tuple[str, str]:
        """A piece's word and its trailing mark; the full stop of an abbreviation stays with the word."""
        if text[-1] not in MARKS or (text[-1] == "." and self.is_abbreviation(text[:-1])):
            return text, ""
        return text[:-1], text[-1]

    @cached_property
    def too_long(self) -> re.Pattern[str]:
        """A run of letters that is too long for a spoken word."""
        return re.compile(rf"[A-Za-z{self.letters}{self.letters.upper()}']{{{MAX_WORD_LETTERS + 1},}}")

    @cached_property
    def spoken(self) -> re.Pattern[str]:
        """A spoken word."""
        return re.compile(rf"[a-z'{self.letters}{re.escape(self.joiners)}]{{1,{MAX_WORD_LETTERS}}}[{MARKS}]?")


ENGLISH = Language("English")


def in_language(normalise: Normaliser, code: str) -> Normaliser:
    """A normaliser of another language, with the same lexicon (``in_language`` of the normaliser).

    Raises:
        BadOption: there is none.
        NeedsPackage: num2words is not installed.
    """
    if code not in LANGUAGES:
        raise BadOption(f"text is not read in the language {code!r:.20}", f"there are {', '.join(LANGUAGES)}")
    find: Callable[[str], Normaliser] | None = getattr(normalise, "in_language", None)
    if find is not None:
        return find(code)
    if code != DEFAULT:
        raise BadOption(f"this normaliser does not read {LANGUAGES[code]}", f"leave the language at {DEFAULT}")
    return normalise
