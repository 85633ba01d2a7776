"""Readings of sizes, marks, months and directions that depend on their neighbours."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from studio.core.text.typography import MARKS
from studio.text import numbers
from studio.text.dates import MONTHS
from studio.text.numbers import NUM, cardinal
from studio.text.tables import MARKED, MONTH_NAMES, MONTHS_FOLLOW, SIZED, STATES, STREETS, TIMED
from studio.text.tokens import VULGARS, phrase


class Beside(NamedTuple):
    """Neighbours of a token; empty at the edges.

    Attributes:
        earlier, before: the second and the first token before it.
        after: the token after it.
        rest: all held tokens after it.
    """

    earlier: str
    before: str
    after: str
    rest: Sequence[str]


ContextReader = Callable[[re.Match[str], Beside], str | None]
_CARD_MONTH = r"(0?[1-9]|1[0-2])/(?:20)?(\d\d)"
_EXPIRES = re.compile(
    r"(?:\S* )?(?:exp|expiry|expiration)[.:]?|(?:exp\.?|expiry|expiration) date:?|(?:valid|good) thru:?|card expires:?"
)
_OF_MONTH = re.compile(r"\d\d?(?:st|nd|rd|th)|end|start|beginning|middle|month")
_DIRECTIONS = {"N": "north", "S": "south", "E": "east", "W": "west"}
# 10 cm x 5 cm, 5' x 7', 8½" x 11"
_SIDE = re.compile(
    rf"(?:.* )?(?:(?:{NUM}|\d*[{VULGARS}]|\d+/\d+) ?(?:mm|cm|m|km|ft|in|yd|inch|inches|feet|foot|meters)|\d+')"
)


def _expires(m: re.Match[str], at: Beside) -> str | None:
    return "expires" if re.fullmatch(rf"{_CARD_MONTH}[{MARKS}]?", at.after) else None


def _month_of_card(m: re.Match[str], at: Beside) -> str | None:
    """Exp 09/27: a month and a year."""
    if not _EXPIRES.fullmatch(f"{at.earlier} {at.before}".strip().lower()):
        return None
    return f"{MONTHS[int(m[1]) - 1]} {numbers.number(f'20{m[2]}')}"


def _month(m: re.Match[str], at: Beside) -> str | None:
    """The 5th of Jan, in Mar."""
    is_month = (at.before == "of" and _OF_MONTH.fullmatch(at.earlier)) or at.before.lower() in MONTHS_FOLLOW
    is_listed = at.before in ("and", "or", "to", "-") and at.earlier.rstrip(MARKS) in MONTH_NAMES
    return MONTH_NAMES[m[0]] if is_month or is_listed else None


def _direction(m: re.Match[str], at: Beside) -> str | None:
    """51.5° N; Ave. NW; 123 N. Main St."""
    is_angle = at.before[-1:] == "°" or re.fullmatch(r"\d+(?:'|inch)", at.before)
    of_house = m[0][-1] == "." and not m[2] and at.before.isdecimal() and re.match("[A-Z][a-z]", at.after)
    if is_angle or of_house or (m[2] and at.before in STREETS):
        return _DIRECTIONS[m[1]] + (_DIRECTIONS[m[2]] if m[2] else "")
    return None


def _by(m: re.Match[str], at: Beside) -> str | None:
    """10 cm x 5 cm; a 20 x 20 grid."""
    is_size = at.earlier in ("a", "an", "A") and len(at.rest) > 1 and _is_noun(at.rest[1]) and at.before.isdecimal()
    if is_size or _SIDE.fullmatch(f"{at.earlier} {at.before}"):
        return "by"
    return "times" if at.before[-1:].isdecimal() and at.after[:1].isdecimal() else None


def _is_noun(after: str) -> bool:
    word = after.rstrip(MARKS)
    return word.isalpha() and (word.islower() or word.isupper()) and word not in SIZED


def _inches(m: re.Match[str], at: Beside) -> str | None:
    """A 12" ruler; 46" of an arc."""
    if at.earlier[-1:] == "°" and at.before[-1:] == "'" and m[1].isdecimal():
        return f"{cardinal(m[1])} second{'' if m[1] == '1' else 's'}"
    return phrase(f"{m[1]}-inch") if _is_noun(at.after) else None


def _feet(m: re.Match[str], at: Beside) -> str | None:
    """6' 2", a 6' fence, 5' x 7'; 26' of an arc."""
    if at.before[-1:] == "°":
        return f"{cardinal(m[1])} minute{'' if m[1] == '1' else 's'}"
    is_side = at.after in ("x", "×") or (at.before in ("x", "×") and at.earlier[-1:] == "'")
    if m[1] == "1" or ((is_side or at.before in ("a", "an", "A")) and _is_noun(at.after)):
        return f"{cardinal(m[1])} foot"
    return f"{cardinal(m[1])} feet" if is_side or re.match(r"\d\d?inch", at.after) else None


def _out_of(m: re.Match[str], at: Beside) -> str | None:
    """4.5/5, 9/10 on the test."""
    is_mark = at.after.rstrip(MARKS) == "stars" or (at.before.lower() in MARKED and at.after != "of") or "." in m[1]
    return f"{cardinal(m[1])} out of {cardinal(m[2])}" if is_mark else None


def _hours(m: re.Match[str], at: Beside) -> str | None:
    """0600 hours."""
    if at.after.rstrip(MARKS) != "hours" or at.before not in ("at", "by", "until", "from"):
        return None
    zero = "zero " if m[1][0] == "0" else ""
    return f"{zero}{cardinal(str(int(m[1])))} hundred" if m[2] == "00" else f"{zero}{numbers.clock(m[1], m[2])}"


def _century(m: re.Match[str], at: Beside) -> str | None:
    """The XXI century, an XX chromosome."""
    if at.after.startswith("chromosome"):
        return " ".join(m[0].lower())
    is_century = at.after.rstrip(MARKS) in ("century", "centuries") and numbers.roman(m[0])
    return numbers.ordinal(str(numbers.roman(m[0]))) if is_century else None


BESIDE_RULES: tuple[tuple[str, ContextReader], ...] = (
    (r"[x×]", _by),
    (r"(\S*\d\S*)inch", _inches),
    (r"(\d{1,3})'", _feet),
    (r"([NS]|[EW](?=\.?\Z))\.?([EW]?)\.?", _direction),
    ("exp|Exp", _expires),
    (_CARD_MONTH, _month_of_card),
    ("Jan|Mar|Jun", _month),
    (r"(\d\d?(?:\.\d)?)/(5|10)", _out_of),
    (r"([01]\d|2[0-4])([0-5]\d)", _hours),
    (r"(\d\d?)h([0-5]\d)", lambda m, at: numbers.duration(m[1], m[2], "0") if at.before.lower() in TIMED else None),
    (r"(\d{1,4})B", lambda m, at: f"{cardinal(m[1])} b" if at.before == "at" and at.after.istitle() else None),
    (r"\d{5}", lambda m, at: numbers.digits(m[0]) if at.before in STATES else None),
    (
        r"c\.",
        lambda m, at: (
            "century" if re.fullmatch(r"\d\d?(?:st|nd|rd|th)", at.before) and not at.after[:1].isdecimal() else None
        ),
    ),
    (r"[IVX]{2,5}", _century),
)
