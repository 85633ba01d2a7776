"""Numbers, money, times, dates and measures as phrases. Each rule is a pattern of one token and its reading."""

import re
from collections.abc import Callable
from functools import lru_cache

from studio.text.tables import CURRENCIES, MONTH_NAMES, SCALE_LETTERS, UNITS, VULGAR

_NUM = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+|\.\d+|\d+"
_CUR = "[$£€¥₹]"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"  # of an IP address
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SIGNS = {"-": "minus", "+": "plus", "~": "about"}
_MONTHS = [name for key, name in MONTH_NAMES.items() if not key.endswith(".")]
_UNITS = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_SCALES = "|".join(sorted(SCALE_LETTERS, key=len, reverse=True))
LONGEST_NUMBER = 15  # digits; longer numbers are read digit by digit
NUMBER = re.compile(rf"[-+~]?(?:{_NUM})")


@lru_cache(maxsize=2048)
def _spell(number: int, to: str) -> str:
    """num2words' reading in plain words. Imported lazily: only texts with numbers need it."""
    from num2words import num2words

    return num2words(number, to=to).replace("-", " ").replace(",", "")


def digits(text: str) -> str:
    """Digit by digit; other characters are skipped."""
    return " ".join(_DIGITS[int(c)] for c in text if c.isdecimal())


def cardinal(text: str) -> str:
    """A number as written: sign, thousands' commas, decimals."""
    if text[0] in _SIGNS:
        return f"{_SIGNS[text[0]]} {cardinal(text[1:])}"
    whole, _, decimals = text.replace(",", "").partition(".")
    if len(whole) > LONGEST_NUMBER or (len(whole) > 1 and whole[0] == "0"):
        spoken = digits(whole)
    else:
        spoken = _spell(int(whole), "cardinal") if whole else ""
    return f"{spoken} point {digits(decimals)}".strip() if decimals else spoken


def number(text: str) -> str:
    """As ``cardinal``, but a bare number from 1100 to 2099 is read as a year."""
    if len(text) == 4 and text.isdecimal() and "1100" <= text <= "2099":
        return year(text)
    return cardinal(text)


def year(text: str) -> str:
    """1999: nineteen ninety nine; 2005: two thousand five."""
    return _spell(int(text), "year").replace("two thousand and ", "two thousand ")


def ordinal(text: str) -> str:
    """3 or 3rd: third."""
    return _spell(int(re.sub(r"\D", "", text)), "ordinal")


def plural(phrase: str) -> str:
    """The plural of a phrase: ninety, nineties."""
    return phrase[:-1] + "ies" if phrase.endswith("y") else phrase + ("es" if phrase.endswith("x") else "s")


def fraction(top: str, bottom: str) -> str:
    """1/2: one half; 3/4: three quarters; more than one whole: 22 over 7."""
    if (top, bottom) == ("24", "7"):
        return "twenty four seven"
    if not 0 < int(top) < int(bottom) <= 100 or len(top + bottom) > 5:
        return f"{cardinal(top)} over {cardinal(bottom)}"
    name = {"2": "half", "4": "quarter"}.get(bottom) or ordinal(bottom)
    if top == "1":
        return f"one {name}"
    return f"{cardinal(top)} {'halves' if name == 'half' else plural(name)}"


def is_one(amount: str) -> bool:
    """Whether a unit after this amount is in the singular."""
    return amount in ("1", "-1", "1.0") or "/" in amount or amount in VULGAR


def measure(amount: str, unit: str) -> str:
    """The unit's name after an amount."""
    return UNITS[unit][0 if is_one(amount) else 1]


def _money(match: re.Match[str]) -> str:
    sign, amount, scale = match["cur"], match["num"], match["scale"]
    one, several, cent, cents = CURRENCIES[sign]
    minus = "minus " if match["sign"] == "-" else ""
    whole, _, hundredths = amount.partition(".")
    if scale:
        return f"{minus}{cardinal(amount)} {SCALE_LETTERS[scale]} {several}"
    if len(hundredths) != 2:
        return f"{minus}{cardinal(amount)} {one if amount == '1' else several}"
    parts = []
    if whole.strip("0") or hundredths == "00":
        parts.append(f"{cardinal(whole or '0')} {one if whole == '1' else several}")
    if hundredths != "00":
        parts.append(f"{_spell(int(hundredths), 'cardinal')} {cent if hundredths == '01' else cents}")
    return minus + " and ".join(parts)


def clock(hours: str, minutes: str, half: str = "", seconds: str = "") -> str:
    """A time of day: 7:45, 10:05 (oh five), 12:00 (o'clock, unless a.m. or p.m. follows)."""
    spoken = cardinal(str(int(hours)))
    if minutes != "00":
        spoken += (" oh " if minutes[0] == "0" else " ") + cardinal(str(int(minutes)))
    elif not half and not seconds and 0 < int(hours) <= 12:
        spoken += " o'clock"
    elif not half and not seconds:
        spoken += " hundred"
    if seconds:
        spoken += f" and {cardinal(str(int(seconds)))} {'second' if seconds == '01' else 'seconds'}"
    return f"{spoken} {half[0].lower()} m" if half else spoken


def _date(month: str, day: str, the_year: str) -> str | None:
    if int(month) > 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{_MONTHS[int(month) - 1]} {ordinal(day)} {number(the_year)}"


def _time(match: re.Match[str]) -> str | None:
    hours, minutes, seconds, half = match["h"], match["m"], match["s"] or "", match["half"] or ""
    return clock(hours, minutes, half, seconds) if int(hours) < 25 and int(minutes) < 60 else None


def _phone(match: re.Match[str]) -> str:
    groups = [digits(group) for group in re.findall(r"\d+", match[0])]
    return ("plus " if match[0][0] == "+" else "") + ", ".join(groups)


def _range(match: re.Match[str]) -> str | None:
    first, second = phrase(match["a"]), phrase(match["b"])
    if first is None or second is None:
        return None
    if match["b"].endswith("%") or match["a"][0] == match["b"][0] == "$":
        first = first.removesuffix(" percent")
    return f"{first} to {second}"


def _mixed(match: re.Match[str]) -> str:
    whole, part = match[1], fraction(*VULGAR[match[2]].split("/"))
    if not whole:
        return part
    return f"{cardinal(whole)} and {'a ' + part[4:] if part.startswith('one ') else part}"


_RULES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]] = [
    (re.compile(pattern), read)
    for pattern, read in (
        (rf"[-+~]?(?:{_NUM})", lambda m: number(m[0])),
        (rf"(?P<sign>-?)(?P<cur>{_CUR})(?P<num>{_NUM})(?P<scale>{_SCALES})?", _money),
        (rf"(?P<sign>-?)(?P<num>{_NUM})(?P<scale>(?!))?(?P<cur>{_CUR})", _money),
        (r"(\d{1,6})(?:st|nd|rd|th|ST|ND|RD|TH)", lambda m: ordinal(m[1])),
        (r"([2-9]0|\d\d\d0)'?s", lambda m: plural(year(m[1]) if len(m[1]) == 4 else cardinal(m[1]))),
        (r"(?P<h>\d\d?):(?P<m>\d\d)(?::(?P<s>\d\d))?(?P<half>[aApP]\.?[mM]\.?)?", _time),
        (r"(\d\d?)([aApP])\.?[mM]\.?", lambda m: f"{cardinal(m[1])} {m[2].lower()} m"),
        (r"(\d\d?)/(\d\d?)/(\d{4}|\d\d)", lambda m: _date(*m.groups())),
        (r"(\d{4})-(\d\d)-(\d\d)", lambda m: _date(m[2], m[3], m[1])),
        (r"(\d\d?)\.(\d\d?)\.(\d{4})", lambda m: _date(m[2], m[1], m[3])),
        (rf"(?:{_BYTE}\.){{3}}{_BYTE}", lambda m: " dot ".join(map(digits, m[0].split(".")))),
        (r"\d{1,9}(?:\.\d{1,9}){2,}", lambda m: " point ".join(map(cardinal, m[0].split(".")))),
        (r"(\d+)/(\d{1,9})", lambda m: fraction(m[1], m[2])),
        (r"(\d*)([¼½¾⅓⅔⅛⅜⅝⅞])", _mixed),
        (r"(?:\+?\d{1,3}-)?\(?\d{3}-(?:\d{3}-)?\d{4}|\+\d{7,15}|0\d{6,14}", _phone),
        (rf"([-+~]?(?:{_NUM}))-?({_UNITS})", lambda m: f"{cardinal(m[1])} {measure(m[1], m[2])}"),
        (rf"(?P<a>{_CUR}?(?:{_NUM})%?)-(?P<b>{_CUR}?(?:{_NUM})\S{{0,5}})", _range),
        (rf"({_NUM})({_SCALES})", lambda m: f"{cardinal(m[1])} {SCALE_LETTERS[m[2]]}"),
    )
]


@lru_cache(maxsize=1024)
def phrase(token: str) -> str | None:
    """The reading of a token (without its mark) as a number, money, time, date or measure; else None."""
    for pattern, read in _RULES:
        match = pattern.fullmatch(token)
        if match is not None and (reading := read(match)) is not None:
            return reading
    return None
