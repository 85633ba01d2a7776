"""Names of units, of their products and rates, sides with a unit, chemical formulas and moves of chess."""

import re

from studio.text.numbers import cardinal
from studio.text.tables import LENGTHS, PER, RATED, UNITS, VULGAR

_STOPPED = "tsp|tbsp|oz|lbs?|hrs?|mins?|secs?|yds?|ft|mi|gal|pt|qt|yrs?|wks?|doz|mos"
_POWER = r"(?:[²³]|\^[23]|(?<=m)[23]|(?<=ft)[23]|(?<=/s)2)?"
_PLAIN_POWER = re.compile(r"\b([mcdk]?m|ft|(?<=/)s)([23])\b")  # km2, kg/m3, m/s2
_NAME = rf"[A-Za-zµΩ°%¢×]+(?:\*[A-Za-z]+)?{_POWER}"
UNIT = rf"(?:(?:{_STOPPED})\.|ft[-*]lbs?|lb-ft|{_NAME}(?:/{_NAME}){{0,2}})"


def is_one(amount: str) -> bool:
    """Whether a unit after this amount is singular."""
    top, slash, bottom = amount.partition("/")
    is_part = bool(slash) and not (top.isdecimal() and bottom.isdecimal() and int(top) > int(bottom))
    return amount in ("1", "-1", "−1") or is_part or amount in VULGAR


def unit_name(unit: str, several: bool) -> str | None:
    """The name of a unit, of a power of one, or of a rate (m/s², g/L, km/day); None if it is not a unit."""
    unit = _PLAIN_POWER.sub(r"\1^\2", unit).replace("^2", "²").replace("^3", "³").rstrip(".")
    if unit in UNITS:
        return UNITS[unit][several]
    first, product, second = unit.partition("*")
    if product and "/" not in first:
        one = RATED[first][0] if first in RATED else unit_name(first, several=False)
        other = unit_name(second, several)
        return one and other and f"{one} {other}"
    if unit[-1] in "²³":
        if (bare := unit_name(unit[:-1], several)) is None or "/" in unit:
            return _rate(unit, several)
        word = ("square", "cubic") if unit[:-1] in LENGTHS else ("squared", "cubed")
        exponent = word["²³".index(unit[-1])]
        return f"{exponent} {bare}" if unit[:-1] in LENGTHS else f"{bare} {exponent}"
    return _rate(unit, several)


def _rate(unit: str, several: bool) -> str | None:
    over, slash, under = unit.rpartition("/")
    if not slash or not over or not under or over.count("/") > 1:
        return None
    below = under if under in PER else unit_name(under, several=False)
    above = RATED[over][several] if over in RATED else unit_name(over, several)
    return None if above is None or below is None else f"{above} per {below}"


def per(name: str | None) -> str | None:
    """The name of a unit with a negative power: cm⁻¹, s⁻²."""
    return name and f"per {name}"


def ion(match: re.Match[str]) -> str:
    """Na⁺, Ca²⁺: the letters, the number and the charge."""
    count = {"²": " two", "³": " three"}.get(match[2] or "", f" {cardinal(match[3])}" if match[3] else "")
    return f"{' '.join(match[1].lower())}{count} {'plus' if match[4] == '+' else 'minus'}"


def formula(match: re.Match[str]) -> str:
    """H2SO4, with two or more elements: letters and numbers one by one."""
    parts = re.findall(r"[A-Za-z]|\d+", match[0])
    return " ".join(cardinal(part) if part.isdecimal() else part.lower() for part in parts)


_PIECES = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}


def chess_move(match: re.Match[str]) -> str:
    """Nf3, Qxd5+, exd5; not e4, which may be anything."""
    piece, origin, takes, square, check = match.groups()
    parts = [
        _PIECES.get(piece, piece),
        *origin,
        "takes" if takes else "",
        *square,
        {"+": "check", "#": "mate"}.get(check),
    ]
    return " ".join(cardinal(one) if one.isdecimal() else one for one in parts if one)


def sides(match: re.Match[str]) -> str | None:
    """3x4m, 12"x15": sides with a unit of length."""
    name = match[4] in (*LENGTHS, "inch") and unit_name(match[4], several=True)
    return f"{' by '.join(cardinal(one) for one in match.groups()[:3] if one)} {name}" if name else None
