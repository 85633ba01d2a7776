"""Numbers in English words: cardinals, ordinals, years, fractions, times of day, Roman numerals."""

import re
from functools import lru_cache

from studio.text.tables import VULGAR

# A number as written: thousands by commas, points, apostrophes or as lakhs; decimals by a point or a comma.
NUM = (
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?|\d{1,3}(?:'\d{3})+(?:[.,]\d+)?"
    r"|\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}|0,\d+|\d+,\d{1,2}|\d{1,3},\d{4,}|\d+\.\d+|\.\d+|\d+)"
)
SIGN = "[-+~−±]"
NUMBER = re.compile(f"{SIGN}?{NUM}")
LONGEST_NUMBER = 15  # digits; longer numbers are read digit by digit
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIGNS = {"-": "minus", "−": "minus", "+": "plus", "~": "about", "±": "plus or minus"}
_LAKHS = re.compile(r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_DECIMAL_COMMA = re.compile(r"(0|\d{1,3}(?:[.']\d{3})+),(\d+)|(\d+),(\d\d?|\d{4,})")
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}


@lru_cache(maxsize=2048)
def _spell(number: int, to: str, lang: str = "en") -> str:
    """num2words' reading in plain words. Imported lazily: only texts with numbers need it."""
    from num2words import num2words

    return num2words(number, lang=lang, to=to).replace("-", " ").replace(",", "")


def digits(text: str) -> str:
    """Digit by digit; other characters are skipped."""
    return " ".join(_DIGITS[int(c)] for c in text if c.isdecimal())


def to_plain(text: str) -> str:
    """A written number, without its sign, with a decimal point and nothing between thousands."""
    if match := _DECIMAL_COMMA.fullmatch(text):
        whole, decimals = (match[1], match[2]) if match[1] else (match[3], match[4])
        return f"{whole.replace('.', '').replace(chr(39), '')}.{decimals}"
    if text.count(".") > 1:
        text = text.replace(".", "")
    return text.replace(",", "").replace("'", "").replace(" ", "")


def cardinal(text: str) -> str:
    """A number as written: sign, thousands, decimals."""
    if text[0] in SIGNS:
        return f"{SIGNS[text[0]]} {cardinal(text[1:])}"
    whole, _, decimals = to_plain(text).partition(".")
    if len(whole) > LONGEST_NUMBER or (len(whole) > 1 and whole[0] == "0"):
        spoken = digits(whole)
    elif _LAKHS.fullmatch(text):
        spoken = _spell(int(whole), "cardinal", "en_IN")
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
    """3, 3rd or 1,000th: third, one thousandth. More than LONGEST_NUMBER digits are read one by one."""
    bare = re.sub(r"\D", "", text)
    return _spell(int(bare), "ordinal") if len(bare) <= LONGEST_NUMBER else digits(bare)


def plural(phrase: str) -> str:
    """The plural of a phrase: ninety, nineties."""
    return phrase[:-1] + "ies" if phrase.endswith("y") else phrase + ("es" if phrase.endswith("x") else "s")


def fraction(top: str, bottom: str, quarter: str = "quarter") -> str:
    """1/2: one half; 3/4: three quarters; 10/10: ten out of ten; more than one whole: 22 over 7."""
    if (top, bottom) == ("24", "7"):
        return "twenty four seven"
    if (top, bottom) in (("9", "11"), ("50", "50")):
        return f"{cardinal(top)} {cardinal(bottom)}"
    if top == bottom and top != "0":
        return f"{cardinal(top)} out of {cardinal(bottom)}"
    if not 0 < int(top) < int(bottom) <= 100 or len(top + bottom) > 5:
        return f"{cardinal(top)} over {cardinal(bottom)}"
    name = {"2": "half", "4": quarter}.get(bottom) or ordinal(bottom).removeprefix("one ")
    if top == "1":
        return f"one {name}"
    return f"{cardinal(top)} {'halves' if name == 'half' else plural(name)}"


def mixed(whole: str, part: str) -> str:
    """2 and 1/2 or ½: two and a half."""
    spoken = fraction(*VULGAR.get(part, part).split("/"))
    if not whole:
        return spoken
    if spoken.startswith("one "):
        part = spoken[4:]
        spoken = f"{'an' if part[0] == 'e' else 'a'} {part}"
    return f"{cardinal(whole)} and {spoken}"


def power(exponent: str) -> str:
    """An exponent, spoken after its base: squared, cubed, to the sixth, to the minus three."""
    plain = exponent.translate({ord("²"): "2", ord("³"): "3", ord("^"): None, ord("−"): "-"})
    if plain in ("2", "3"):
        return "squared" if plain == "2" else "cubed"
    return f"to the {cardinal(plain)}" if plain[0] in "-+" or len(plain) > 4 else f"to the {ordinal(plain)}"


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


def duration(hours: str, minutes: str, seconds: str) -> str:
    """1:23:45: one hour twenty three minutes and forty five seconds."""
    named = [(hours, "hour"), (minutes, "minute"), (seconds, "second")]
    parts = [f"{cardinal(str(int(n)))} {name}{'' if int(n) == 1 else 's'}" for n, name in named if int(n)]
    return " and ".join([" ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts or ["zero seconds"])


def roman(text: str) -> int:
    """The value of a Roman numeral in capitals; 0 if it is not one."""
    if not text or not _ROMAN.fullmatch(text):
        return 0
    values = [_VALUES[c] for c in text]
    return sum(-value if value < max(values[at:]) else value for at, value in enumerate(values))
