"""Dates in figures as words: days, months with years, seasons of two years."""

import math
import re

from studio.text.numbers import cardinal, fraction, number, ordinal, year
from studio.text.tables import DAYS_AND_MONTHS, MONTH_NAMES, WEEKDAYS

MONTHS = tuple(dict.fromkeys(MONTH_NAMES.values()))
_FRACTION_OF = frozenset((16, 20, 24, 32, 64, 100))  # /16 is a fraction, /17 the day of a month
_RATIOS = (("22", "7"), ("12", "8"), ("16", "9"), ("16", "10"), ("24", "7"), ("10", "10"), ("12", "12"))
DAY_OR_MONTH = "|".join(sorted({one.rstrip(".") for one in DAYS_AND_MONTHS}, key=len, reverse=True))


def short_date(month: str, day: str) -> str | None:
    """12/25 and 25/12: december twenty fifth."""
    if int(month) > 12:
        month, day = day, month
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return f"{MONTHS[int(month) - 1]} {ordinal(day)}"


def full_date(month: str, day: str, the_year: str) -> str | None:
    spoken = short_date(month, day)
    return spoken and f"{spoken} {year('20' + the_year) if the_year[0] == '0' else number(the_year)}"


def named_date(match: re.Match[str]) -> str | None:
    """5-Mar-2011."""
    return (
        full_date(str([*MONTHS].index(MONTH_NAMES[match[3]]) + 1), match[1], match[4]) if int(match[1]) < 32 else None
    )


def date_or_fraction(match: re.Match[str]) -> str | None:
    top, bottom = match[1], match[2]
    has_zero = (len(top) == len(bottom) == 2 and "0" in (top[0], bottom[0])) or (top + bottom)[0] == "0"
    is_fraction = int(bottom) in _FRACTION_OF and math.gcd(int(top), int(bottom)) == 1
    is_day = 12 < int(bottom) <= 31 and not is_fraction and 0 < int(top) <= 12
    is_more = int(top) > int(bottom) and (bottom == "1" or 10 <= int(top) <= 31) and int(bottom) <= 12
    is_date = has_zero or is_day or (is_more and (top, bottom) not in _RATIOS)
    return (is_date and short_date(top, bottom)) or fraction(top, bottom)


def year_month(match: re.Match[str]) -> str:
    """2023-05 is a month; 2010-12 is a range of years, 2020-12 is a month."""
    is_range = int(match[2]) > 9 and int(match[2]) > int(match[1][2:])
    return (
        f"{year(match[1])} to {cardinal(match[2])}" if is_range else f"{MONTHS[int(match[2]) - 1]} {number(match[1])}"
    )


def season(match: re.Match[str]) -> str | None:
    """2020/21: both years are read."""
    follows = int(match[2]) == (int(match[1]) + 1) % 100
    return f"{year(match[1])} {year(str(int(match[1]) + 1))}" if follows else None


def day_or_month(text: str) -> str:
    return WEEKDAYS.get(text) or MONTH_NAMES.get(text) or text.lower()
