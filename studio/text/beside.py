"""Readings of sizes, marks, months and directions that depend on their neighbours."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from studio.core.text.typography import MARKS
from studio.text import numbers
from studio.text.dates import MONTHS
from studio.text.numbers import NUM, cardinal
from studio.text.tables import (
    CLEAR_MONTHS,
    DAYS_AND_MONTHS,
    FOOT_LONG,
    MARKED,
    MONTH_NAMES,
    MONTHS_FOLLOW,
    NAME_PARTS,
    NOT_MARKED,
    SIZED,
    STARTERS,
    STATES,
    STREETS,
    TIMED,
)
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
    is_sale = at.before.startswith("thru") and m[1][0] != "0" and int(m[2]) <= 31  # a month and a day
    if is_sale or not _EXPIRES.fullmatch(f"{at.earlier} {at.before}".strip().lower()):
        return None
    return f"{MONTHS[int(m[1]) - 1]} {numbers.number(f'20{m[2]}')}"


def _month(m: re.Match[str], at: Beside) -> str | None:
    """The 5th of Jan, in Mar; not the names in Jan Hus, in Mar Vista."""
    if re.match("[A-Z][a-z]", at.after) and at.after.rstrip(MARKS) not in (*STARTERS, *DAYS_AND_MONTHS):
        return None
    if at.after in NAME_PARTS:
        return None
    follows = at.before in MONTHS_FOLLOW and (at.before not in ("late", "next", "last") or at.earlier.lower() != "the")
    is_listed = at.before in ("and", "or", "to", "-") and at.earlier.rstrip(MARKS) in CLEAR_MONTHS
    is_month = follows or is_listed or (at.before == "of" and _OF_MONTH.fullmatch(at.earlier))
    return MONTH_NAMES[m[0]] if is_month else None


def _direction(m: re.Match[str], at: Beside) -> str | None:
    """51.5° N; Ave. NW; at 123 N. Main St.; not the initials in page 12 N. Hawthorne, Dr. S.W. Mitchell."""
    is_angle = at.before[-1:] == "°" or re.fullmatch(r"\d+(?:'|inch)", at.before)
    is_address = at.earlier.lower() in ("at", "to", "from", "near") or at.earlier[-1:] in (",", ":") or not at.earlier
    is_name = re.match("[A-Z][a-z]", at.after) and at.after not in STARTERS
    of_house = m[0][-1] == "." and not m[2] and at.before.isdecimal() and is_address and is_name
    if is_angle or of_house or (m[2] and at.before in STREETS):
        return _DIRECTIONS[m[1]] + (_DIRECTIONS[m[2]] if m[2] else "")
    return None


def _by(m: re.Match[str], at: Beside) -> str | None:
    """10 cm x 5 cm; a 20 x 20 grid."""
    is_size = at.earlier in ("a", "an", "A") and len(at.rest) > 1 and _is_noun(at.rest[1]) and at.before.isdecimal()
    if is_size or _SIDE.fullmatch(f"{at.earlier} {at.before}"):
        return "by"
    is_number = at.before[-1:].isdecimal() or at.before[-1:] in [*VULGARS]
    return "times" if is_number and at.after[:1].isdecimal() else None


def _is_noun(after: str) -> bool:
    word = after.rstrip(MARKS)
    return word.isalpha() and word.lower() not in SIZED and word not in STARTERS


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
    has_inches = re.match(r"\d\d?inch", at.after)
    is_length = at.before in ("a", "an", "A") and at.after.rstrip(MARKS) in FOOT_LONG
    if is_length or (is_side and _is_noun(at.after)) or (m[1] == "1" and (is_side or has_inches)):
        return f"{cardinal(m[1])} foot"
    return f"{cardinal(m[1])} feet" if is_side or has_inches else None


def _out_of(m: re.Match[str], at: Beside) -> str | None:
    """4.5/5, 9/10 on the test."""
    after = at.after.rstrip(MARKS)
    is_mark = (
        after == "stars" or (at.before.lower() in MARKED and after not in NOT_MARKED) or ("." in m[1] and not after)
    )
    return f"{cardinal(m[1])} out of {cardinal(m[2])}" if is_mark else None


def _hours(m: re.Match[str], at: Beside) -> str | None:
    """0600 hours."""
    if at.after.rstrip(MARKS) != "hours" or at.before not in ("at", "by", "until", "from"):
        return None
    zero = "zero " if m[1][0] == "0" else ""
    return f"{zero}{cardinal(str(int(m[1])))} hundred" if m[2] == "00" else f"{zero}{numbers.clock(m[1], m[2])}"


def _is_duration(at: Beside) -> bool:
    """It took 2h30, a 2h30 film."""
    return at.before.lower() in (*TIMED, "a", "an", "lasting", "about", "every")


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
    (r"(\d\d?)h([0-5]\d)", lambda m, at: numbers.duration(m[1], m[2], "0") if _is_duration(at) else None),
    (r"(\d{2,4})B", lambda m, at: f"{cardinal(m[1])} b" if at.before == "at" and at.after.istitle() else None),
    (r"\d{5}", lambda m, at: numbers.digits(m[0]) if at.before in STATES and at.earlier[-1:] == "," else None),
    (
        r"c\.",
        lambda m, at: (
            "century" if re.fullmatch(r"\d\d?(?:st|nd|rd|th)", at.before) and not at.after[:1].isdecimal() else None
        ),
    ),
    (r"X[IVX]{1,4}", _century),
)
