"""What can be shown to somebody: a text from a file may hold what a terminal obeys."""

from typing import Any
from unicodedata import category

_TURNS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # the direction of what follows


def is_printable(value: Any) -> bool:
    """Whether it can be shown: no half a sign, nothing that a terminal obeys or that turns what follows around."""
    return isinstance(value, str) and all(map(_is_shown, value))


def printable(value: object, most_chars: int = 1_000) -> str:
    """A value as text that a terminal can show, no longer than that: what is in a file may come from anywhere."""
    return "".join(filter(str.isprintable, str(value)[:most_chars]))


def escaped(text: str) -> str:
    """A message as it is, but for what cannot be shown, which is written as Python writes it; lines stay lines."""
    return "".join(sign if _is_shown(sign) or sign in "\n\t" else ascii(sign)[1:-1] for sign in text)


def _is_shown(sign: str) -> bool:
    return category(sign) not in ("Cc", "Cs") and sign not in _TURNS
