"""Reasons why a part of a text is not spoken: codes, sentences and their values. Pages translate the sentences."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from studio.core.errors import BadText
from studio.core.events import Unsupported

REASONS: Final = {
    "control": "{code} is a control character: it makes no sound",
    "half": "{code} is half a character (a lone surrogate): send whole characters",
    "unassigned": "{code} is not an assigned character",
    "letter": "this voice speaks {language} letters only: {char} ({name}) is not one of them",
    "sign": "this voice has no reading for {char} ({name}): write it in words",
    "markup": "HTML tags are skipped",
    "link": "the address of a link is skipped",
    "layout": "signs around no word are skipped",
    "long_word": "words of at most {count} letters can be spoken",
    "long_token": "more than {count} characters without white space cannot be spoken",
    "no_reading": "this symbol can't be spoken: write it in words",
    "no_french": "this symbol can't be spoken in French: write it in words",
    "no_numbers": "numbers and signs need the package num2words: pip install 'streaming-tts-studio[text]'",
    "long_cut": "a system takes at most {count} characters at once",
}

_MOST_REASONS = 3  # in an error


@dataclass(frozen=True)
class UnsupportedSpan:
    """[char_start, char_end) of the text as sent cannot be spoken.

    Attributes:
        code: of ``REASONS``.
        values: of the placeholders in its sentence.
    """

    char_start: int
    char_end: int
    code: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def why(self) -> str:
        """The reason as a sentence."""
        return REASONS[self.code].format_map(self.values)

    def event(self) -> Unsupported:
        """The event that an utterance reports."""
        return Unsupported(
            char_start=self.char_start, char_end=self.char_end, why=self.why, code=self.code, values=self.values
        )


def nothing_spoken(reasons: Iterable[str]) -> BadText:
    """The error of a text without a spoken word; ``reasons`` are those of its unsupported spans."""
    why = "; ".join([*dict.fromkeys(reasons)][:_MOST_REASONS]) or "it holds nothing to speak"
    return BadText(f"nothing of the text can be spoken: {why}", "give at least one word")
