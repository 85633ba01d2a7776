"""Readings of a token that depend on its neighbours, as a table of patterns with their readers."""

import re

from studio.core.text.typography import MARKS, split_mark
from studio.text import numbers
from studio.text.beside import BESIDE_RULES, Beside, ContextReader
from studio.text.dates import short_date
from studio.text.groups import HALF, is_code
from studio.text.measures import UNIT, is_one, unit_name
from studio.text.numbers import NUM, cardinal
from studio.text.tables import (
    ABBREVIATIONS,
    BOOKS,
    CALLED,
    CODED,
    CODES,
    COMMON_NAMES,
    COUNTED,
    CURRENCIES,
    DATED,
    DAYS_AND_MONTHS,
    DAYS_FOLLOW,
    MINUS_FOLLOWS,
    MONTH_NAMES,
    NUMBERED,
    PARTS,
    PLACES,
    RULERS,
    SCALE_LETTERS,
    SCALES,
    SCORED,
    SOVEREIGNS,
    STARTERS,
    TIMED,
    UNITS,
    WEEKDAYS,
    YEARS,
)

MEASURED = frozenset("of about weighs exerts draws at with a".split())  # 9 N, 2 A


_VARIABLE = re.compile(r"[-+−]?(?:[\d.,]+[a-z]?|[b-hj-zB-HJ-Z]|[a-zA-Z]\([a-z]\))(?:[²³]|\^\d)?[?!.,;:]?")
# Tokens that may begin a range with blanks around its dash: an amount, a time, a unit.
_FROM = re.compile(rf"\S*\d\S*(?<![{MARKS}])|{HALF}|{'|'.join(re.escape(unit) for unit in UNITS)}")


_SEVERAL = re.compile(r"[IVX]+,? (?:and|&|or|to|of)|[A-Z][a-z]+s [IVX]+,")  # Parts I and V


def _roman(m: re.Match[str], at: Beside) -> str | None:
    text, of = m[1].upper(), m[2] or ""
    name = split_mark(at.before)[0] if at.before and at.before[-1] not in MARKS else ""
    name = at.before if at.before.capitalize() in PARTS else name  # Vol. V
    value = numbers.roman(text)
    if not value:
        return None
    if m[1].islower():
        return cardinal(str(value)) if name.capitalize() in PARTS - {"Game", "Mark", "Class"} else None
    if text == "IV" and (name[:1].islower() or name in ("An", "The")) and name.capitalize() not in PARTS:
        return "i v"  # a drip
    is_ruler = at.earlier in RULERS and name[:1].isupper()
    if (is_ruler or name in SOVEREIGNS) and value < 40 and (is_ruler or text != "I" or name not in COMMON_NAMES):
        return f"the {numbers.ordinal(str(value))}{of}"
    is_part = name in PARTS or name.capitalize() in PARTS - {"Game", "Mark", "Class"}
    is_part = is_part or name.capitalize().removesuffix("s") in PARTS or _SEVERAL.fullmatch(f"{at.earlier} {at.before}")
    if len(text) == 1:
        return cardinal(str(value)) + of if is_part and text in "IVX" else None
    is_numeral = set(text) <= set("IVX") or (set(text) <= set("IVXL") and len(text) > 2 and text != "XXL")
    if is_part or is_numeral or (len(text) > 3 and 1100 <= value <= 2099):
        return (numbers.number(str(value)) if value >= 1000 else cardinal(str(value))) + of
    return None


def _last_of_a_ruler(m: re.Match[str], at: Beside) -> str | None:
    """King George V. at the end of a sentence."""
    ends = not at.after or at.after in STARTERS
    is_ruler = at.earlier in RULERS and at.before[:1].isupper() and at.before[-1] not in MARKS
    return f"the {numbers.ordinal(str(numbers.roman(m[1])))}." if ends and is_ruler else None


def _hyphen(m: re.Match[str], at: Beside) -> str | None:
    """A separate sign between two numbers or variables: a difference, a product or a range."""
    sign = m[0]
    if not at.after or not at.before:
        return None
    letters = len(at.before) == 1 and at.before.isalpha() and re.fullmatch(rf"[A-Za-z][{MARKS}]?", at.after)
    if not letters and not (_VARIABLE.fullmatch(at.before) and _VARIABLE.fullmatch(at.after)):
        if sign in "-~" and _is_day_or_month(at.before) and _is_day_or_month(at.rest[0]):
            return "to"
        if (
            sign in "-~"
            and _FROM.fullmatch(at.before)
            and (at.after[0].isdecimal() or at.after[0] in CURRENCIES or at.after in MONTH_NAMES)
        ):
            return "to"
        is_minus = sign == "−" or (sign == "-" and at.before.lower() in MINUS_FOLLOWS and _number(at.after))
        return "minus" if is_minus and at.before[-1] not in MARKS else None
    if sign == "*":
        return "times"
    if sign == "~" and at.before.isalpha() and at.after[0].isdecimal():
        return "about"
    if sign == "~" or at.before[-1] in MARKS:
        return "to" if at.before[-1] not in MARKS else None
    if at.earlier.lower() in SCORED:
        return "to"
    if sign == "−" or "=" in at.rest or not (_number(at.before) and _number(at.after)):
        return "minus"
    return "minus" if float(_number(at.before)) > float(_number(at.after)) else "to"


def _is_day_or_month(token: str) -> bool:
    return token in DAYS_AND_MONTHS or token.rstrip(MARKS) in DAYS_AND_MONTHS


def _number(text: str) -> str:
    match = re.fullmatch(rf"({NUM})[{MARKS}]?", text)
    return numbers.to_plain(match[1]) if match else ""


def _doctor(m: re.Match[str], at: Beside) -> str:
    named = at.before[:1].isupper() and at.before[-1] not in MARKS and at.before not in STARTERS
    if named and at.after in STARTERS and m[0][-1] == ".":
        return "drive."
    return "drive" if named and not at.after[:1].isupper() else "doctor"


def _saint(m: re.Match[str], at: Beside) -> str:
    if at.after in STARTERS and m[0][-1] == ".":
        return "street."
    is_named = at.before[:1].isupper() or at.before[:1].isdecimal()
    if is_named and re.fullmatch(rf"[NS]\.?[EW]\.?[{MARKS}]?", at.after):
        return "street"  # 5th St. NW
    return "saint" if at.after[:1].isupper() else "street"


def _title(m: re.Match[str], at: Beside) -> str | None:
    return ABBREVIATIONS[f"{m[0]}."] if re.match("[A-Z][a-z]", at.after) else None


def _weekday(m: re.Match[str], at: Beside) -> str | None:
    """Sat and Sun as days: before a date or a time, or after words that precede days."""
    is_day = at.after[:1].isdecimal() or at.after in MONTH_NAMES or at.before.lower() in DAYS_FOLLOW
    joined = ("-", "~", "&", "and", "or", "to", "through")
    is_day = is_day or (at.before in joined and _is_day_or_month(at.earlier)) or at.before.rstrip(",") in WEEKDAYS
    is_day = is_day or (at.after in joined and len(at.rest) > 1 and _is_day_or_month(at.rest[1]))
    is_day = is_day or (m[0][-1] == "." and at.after[:1].islower())  # Sat. night
    return WEEKDAYS[m[1]] if is_day else m[0].lower()


def _after_date(at: Beside) -> bool:
    return at.before in MONTH_NAMES or (at.earlier in MONTH_NAMES and re.fullmatch(r"\d\d?,", at.before) is not None)


def _verse(m: re.Match[str], at: Beside) -> str | None:
    """John 3:16."""
    if at.before not in BOOKS:
        return None
    return f"{cardinal(m[1])} {cardinal(m[2])}" + (f" to {cardinal(m[3])}" if m[3] else "")


def _unit_or_word(m: re.Match[str], at: Beside) -> str | None:
    """After a number a unit, elsewhere a word that may end the sentence."""
    if at.before[-1:].isdecimal():
        return "inch" if m[0] == "in." and is_one(at.before) else None
    if at.before.lower() in ("a", "an", "per"):
        return None
    return {"ft.": "featuring", "min.": "minimum"}.get(m[0], m[0])


def _is_code(at: Beside) -> bool:
    named = at.earlier if at.before in ("is", "was") else at.before
    of_card = at.before == "ending" and at.earlier.lower() in ("card", "number", "account", "phone")
    return named.lower().rstrip(":") in CODED or (at.earlier, at.before) == ("ending", "in") or of_card


_EMERGENCY = ("911", "999")


def _dialled(m: re.Match[str], at: Beside) -> str | None:
    is_second = m[0] in (*_EMERGENCY, "112") and at.before in ("or", "and") and at.earlier in _EMERGENCY
    of_call = at.after.rstrip(MARKS) in ("call", "calls", "operator", "dispatcher")
    called = at.before.lower() in CALLED or is_second or (m[0] in _EMERGENCY and of_call)
    return numbers.digits(m[0]) if called else None


def _airliner(m: re.Match[str], at: Beside) -> str | None:
    """Boeing 737, a 747-400: the two digits in the middle of its name are a number."""
    if at.after == "=" or not (m[2] or at.before == "Boeing"):
        return None
    name = "seven oh seven" if m[1] == "0" else f"seven {cardinal(f'{m[1]}7')}"
    return f"{name} {cardinal(m[2])} {' '.join((m[3] or '').lower())}".strip() if m[2] else name


def _letters(m: re.Match[str], at: Beside) -> str | None:
    """Rows A-F, A-Z; not an A-B test."""
    is_range = (
        (at.before[-1:] == "s" and at.before not in ("is", "was", "this", "has", "his", "its", "as"))
        or at.before in ("from", "From", "columns", "grade", "Grade")
        or m[1] + m[2] == "AZ"
    )
    return f"{m[1].lower()} to {m[2].lower()}" if is_range and m[1] < m[2] else None


def _counted(m: re.Match[str], at: Beside) -> str | None:
    """2024 people: a count, not a year. Hundreds (1500 people) are read like years."""
    is_amount = len(m[0]) == 4 and at.after.rstrip(MARKS) in COUNTED and at.before.lower() not in ("the", "of", "in")
    return cardinal(m[0]) if is_amount and m[0][2:] != "00" else None


def _numbered(m: re.Match[str], at: Beside) -> str | None:
    if (
        not (at.after[:1].isdecimal() or is_code(m[0], at.after))
        or (m[0] == "c." and not at.after[:3].isdecimal())
        or (m[0] == "sec." and at.before[-1:].isdecimal())
    ):
        return m[0] if m[0] in ("no.", "c.", "apt.") else None
    return NUMBERED[m[0]]


_CONTEXTS: tuple[tuple[str, ContextReader], ...] = (
    *BESIDE_RULES,
    (r"[-−*~]", _hyphen),
    (r"([IVXLCDM]+|[ivx]+)('s)?", _roman),
    (r"([IVX])\.", _last_of_a_ruler),
    (r"Dr\.?", _doctor),
    (r"St\.?", _saint),
    ("Gen|Col|Gov|Sen|Rep|Rev|Adm|Lt", _title),
    (r"(Sat|Sun)\.?", _weekday),
    (r"ft", lambda m, at: "featuring" if at.after[:1].isupper() and not at.before[-1:].isdecimal() else None),
    (r"Ft", lambda m, at: "fort" if at.after[:1].isupper() else None),
    ("|".join(map(re.escape, NUMBERED)), _numbered),
    (r"(\d\d?):(\d\d):(\d\d)", lambda m, at: numbers.duration(*m.groups()) if at.before.lower() in TIMED else None),
    (r"(\d{1,3}):(\d{1,3})(?:-(\d{1,3}))?", _verse),
    (r"in\.|ft\.|min\.", _unit_or_word),
    (
        r"([\d,]+)s",
        lambda m, at: (
            f"{'ten' if m[1] == '10' else cardinal(m[1])[4:]}s"
            if m[1].strip("0,") == "1" and len(m[1]) > 1 and at.after == "of"
            else None
        ),
    ),
    (r"N\.?", lambda m, at: "newtons" if at.before[:1].isdecimal() and at.earlier in MEASURED else None),
    (r"A\.?", lambda m, at: "amps" if at.before[:1].isdecimal() and at.earlier in MEASURED else None),
    (r"7(\d)7(?:-([1-9]00|[89]|10)(ER|LR)?)?", _airliner),
    (r"\d\d\d", _dialled),
    (r"([A-Z])-([A-Z])", _letters),
    (
        r"20/20",
        lambda m, at: "twenty twenty" if at.after.rstrip(MARKS) in ("vision", "hindsight", "eyesight") else None,
    ),
    (r"\d{4,8}", lambda m, at: numbers.digits(m[0]) if _is_code(at) else _counted(m, at)),
    (r"10\d\d", lambda m, at: numbers.year(m[0]) if at.before.lower() in YEARS or _after_date(at) else None),
    (r"2[1-9]\d\d", lambda m, at: numbers.year(m[0]) if at.before.lower() == "year" else None),
    (
        r"(\d\d?)/(\d\d?)",
        lambda m, at: short_date(m[1], m[2]) if at.before.lower() in DATED or at.earlier in ("week", "Week") else None,
    ),
    (r"(\d+)-(\d+)", lambda m, at: f"{cardinal(m[1])} to {cardinal(m[2])}" if at.before.lower() in SCORED else None),
    (
        r"([-+−]?\d+)([a-hj-z])",
        lambda m, at: (
            f"{cardinal(m[1])} {m[2]}"
            if re.match(r"[-+−=*/<>^]", at.after) or re.fullmatch(r"[-+−=*]", at.before)
            else None
        ),
    ),
    (
        r"in",
        lambda m, at: "inches" if at.before[-1:].isdecimal() and at.earlier in ("ft", "feet", "×", "x", "by") else None,
    ),
    (
        r"(\d+)m",
        lambda m, at: (
            f"{cardinal(m[1])} {'minute' if m[1] == '1' else 'minutes'}"
            if re.fullmatch(r"\d+h", at.before) or re.fullmatch(r"\d+s\W?", at.after)
            else None
        ),
    ),
    (r"(\d+)s", lambda m, at: f"{cardinal(m[1])} seconds" if re.fullmatch(r"\d+m", at.before) else None),
    (
        r"x(\d{1,6})",
        lambda m, at: f"extension {numbers.digits(m[1])}" if re.fullmatch(r"\S*\d{4}", at.before) else None,
    ),
    ("|".join(CODES), lambda m, at: CURRENCIES[CODES[m[0]]][1] if at.before in SCALES | SCALE_LETTERS.keys() else None),
    (
        rf"({NUM})([A-Z])",
        lambda m, at: f"{cardinal(m[1])} {m[2].lower()}" if at.before.rstrip(".").lower() in PLACES else None,
    ),
    (UNIT, lambda m, at: unit_name(m[0], several=False) if at.before.lower() == "per" else None),
    (r">", lambda m, at: None if not at.before or at.before[-1] in MARKS else "greater than"),
)
CONTEXT_RULES = [(re.compile(pattern), read) for pattern, read in _CONTEXTS]


def read_in_context(base: str, at: Beside) -> str | None:
    """A token's reading that depends on its neighbours; None if it is read as it is alone."""
    for pattern, read in CONTEXT_RULES:
        match = pattern.fullmatch(base)
        if match is not None and (spoken := read(match, at)) is not None:
            return spoken
    return None
