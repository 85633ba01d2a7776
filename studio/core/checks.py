"""Checks of values that come from outside (JSON, cards, traces, command lines), and text that a terminal can show."""

import math
from typing import Any
from unicodedata import category

MAX_WHOLE = 2**63 - 1
_BIDI_CONTROLS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_number(value: Any) -> bool:
    """Whether this is a finite number that fits a double. A bool is none, nor is a JSON integer of 400 digits."""
    if type(value) is int:
        return abs(value) <= MAX_WHOLE
    return type(value) is float and math.isfinite(value)


def is_printable(value: Any) -> bool:
    """Whether this is text without lone surrogates, control characters and bidirectional controls."""
    return isinstance(value, str) and all(map(_is_visible, value))


def to_printable(value: object, max_chars: int = 1_000) -> str:
    """At most ``max_chars`` characters of a value as text, without those that a terminal should not get."""
    return "".join(filter(str.isprintable, str(value)[:max_chars]))


def escape_unprintable(text: str) -> str:
    """A message with Python escapes in the place of unprintable characters; line breaks and tabs stay."""
    return "".join(char if _is_visible(char) or char in "\n\t" else ascii(char)[1:-1] for char in text)


def _is_visible(char: str) -> bool:
    return category(char) not in ("Cc", "Cs") and char not in _BIDI_CONTROLS
