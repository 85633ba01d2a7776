"""Readings of French tokens that are read together, as a table of patterns with their readers.

A pattern is matched against tokens joined by spaces. A reader's phrase has ``|`` between the words of one token and
those of the next.
"""

import re
from collections.abc import Callable

from studio.core.text.typography import MARKS
from studio.text.french import tables
from studio.text.french.numbers import (
    AMOUNT,
    NUM,
    SIGNS,
    cardinal,
    clock,
    fraction,
    is_one,
    ordinal,
    power,
    to_plain,
    whole,
)
from studio.text.numbers import SIGN, roman
from studio.text.tables import VULGAR

Reader = Callable[[re.Match[str], str, str], str | None]  # arguments: match, token before it, token after it
_CURRENCY = "|".join(map(re.escape, tables.CURRENCIES))
_UNIT = "|".join(sorted(map(re.escape, tables.UNITS), key=len, reverse=True))
_UNIT = rf"(?:{_UNIT})[²³]?(?:/(?:{'|'.join(tables.PER)}|{_UNIT})[²³]?)?"
_SHARE = rf"\d*[{''.join(VULGAR)}]|\d+/\d+"
_MONTH = "|".join((*tables.MONTHS, *(re.escape(one) for one in tables.ABBREVIATIONS if one[:3] in ("jan", "fév"))))
_MILLIONS = "millions?|milliards?"
_LENGTHS = ("mm", "cm", "dm", "m", "km")
_CENTS = {"€": "centime", "$": "cent", "£": "penny"}


def is_feminine(noun: str) -> bool:
    """Whether a number before this word is feminine."""
    bare = noun.rstrip(MARKS)
    forms = {bare, bare.removesuffix("s"), bare.removesuffix("x")}
    if forms & tables.MASCULINE:
        return False
    return bool(forms & tables.FEMININE) or bare.removesuffix("s").endswith(tables.FEMININE_ENDINGS)


def _amount(m: re.Match[str], before: str, after: str) -> str:
    if re.fullmatch(r"0\d", m[0]) and before in ("h", "heures", "heure"):
        return cardinal(m[0][1], feminine=True)
    return cardinal(m[0], feminine=is_feminine(after))


def _counted(amount: str, unit: tuple[str, str]) -> str:
    """An amount and its unit, in the singular or plural."""
    one, several = unit
    spoken = cardinal(amount, feminine=is_feminine(one.split()[0]) or one == "livre")
    of = _of(several) if re.search("(?:million|milliard|billion)s?$", spoken) else ""
    return f"{spoken}|{of}{one if is_one(amount) else several}"


def _of(names: str) -> str:
    return "d'" if names[0] in "aeéo" else "de "


def unit_names(unit: str) -> tuple[str, str]:
    """Singular and plural name of a unit, of a power of one, or of a rate."""
    if unit in tables.UNITS:
        return tables.UNITS[unit]
    over, slash, under = unit.partition("/")
    if slash:
        per = tables.PER.get(under) or unit_names(under)[0]
        one, several = unit_names(over)
        return f"{one} par {per}", f"{several} par {per}"
    (one, several), exponent = tables.UNITS[unit[:-1]], "²³".index(unit[-1])
    if unit[:-1] not in _LENGTHS:
        return f"{one} {power(unit[-1])}", f"{several} {power(unit[-1])}"
    word = ("carré", "cube")[exponent]
    return f"{one} {word}", f"{several} {word}s"


def _measured(m: re.Match[str], before: str, after: str) -> str | None:
    if m[2] == "K" and " " not in m[0]:
        return None  # 4K
    unit = unit_names(m[2])
    if re.fullmatch(AMOUNT, m[1]):
        return _counted(m[1], unit)
    share = _share(m[1])
    return f"{share}|{unit[1] if m[1][0].isdecimal() and '/' not in m[1] else unit[0]}"


def _share(text: str) -> str:
    """½, 2½, 3/4."""
    if text[-1] not in VULGAR:
        return fraction(*text.split("/"))
    part = fraction(*VULGAR[text[-1]].split("/"))
    if not text[:-1]:
        return part
    return f"{cardinal(text[:-1].strip())} et {part.removeprefix('un ') if part == 'un demi' else part}"


def money(sign: str, amount: str, currency: str, scale: str = "") -> str:
    """12,50 €: douze euros cinquante; 5 M€: cinq millions d'euros."""
    one, several = tables.CURRENCIES[currency]
    start = f"{SIGNS[sign]} " if sign else ""
    if scale:
        return f"{start}{_scaled(amount, scale)}|{'' if scale == 'k' else _of(several)}{several}"
    units, _, hundredths = to_plain(amount).replace(".", ",").partition(",")
    if len(hundredths) not in (1, 2):
        return start + _counted(amount, (one, several))
    cents = int(hundredths.ljust(2, "0"))
    if not int(units or "0") and cents:
        name = _CENTS.get(currency, "centime")
        plural = "pence" if name == "penny" else f"{name}s"
        return f"{start}{cardinal(str(cents))}|{name if cents == 1 else plural}"
    return start + _counted(units or "0", (one, several)) + (f" {cardinal(str(cents))}" if cents else "")


def _per(spoken: str, under: str | None) -> str | None:
    if not under:
        return spoken
    name = tables.PER.get(under) or tables.UNITS.get(under, ("",))[0]
    return f"{spoken} par {name}" if name else None


def _date(day: str, month: str, year: str) -> str | None:
    if not (1 <= int(day) <= 31 and 1 <= int(month) <= 12):
        return None
    spoken = f"{'premier' if int(day) == 1 else cardinal(str(int(day)))} {tables.MONTHS[int(month) - 1]}"
    return f"{spoken} {whole(year)}" if year else spoken


def _day_and_month(m: re.Match[str], before: str, after: str) -> str | None:
    is_date = before.lower() in tables.DATED or "0" in (m[1][0], m[2][0])
    return _date(m[1], m[2], "") if is_date else None


def _clock(m: re.Match[str], before: str, after: str) -> str | None:
    if int(m[1]) > 24:
        return None
    spoken = clock(*(one or "" for one in m.groups()))
    return spoken.replace(" heure", "|heure", 1) if " " in m[0] else spoken


def _phone(m: re.Match[str], before: str, after: str) -> str:
    numbers = re.sub(r"\D", "", m[0])
    if m[0][0] == "+":
        return "plus " + ", ".join(map(whole, (numbers[:2], numbers[2], *re.findall("..", numbers[3:]))))
    return ", ".join(map(whole, re.findall("..", numbers)))


def _ordinal(m: re.Match[str], before: str, after: str) -> str | None:
    number, ending = (int(m[1]) if m[1].isdecimal() else roman(m[1])), m[2]
    if not number or (number > 1 and ending.rstrip("s") in ("er", "re", "ère", "ière")):
        return None
    if ending in ("d", "nd", "de", "nde"):
        return None if number != 2 else "seconde" if ending.endswith("e") else "second"
    return ordinal(number, feminine="r" in ending and "er" not in ending) + "s" * ending.endswith("s")


def _roman(m: re.Match[str], before: str, after: str) -> str | None:
    text, value = m[1], roman(m[1])
    is_ruler, is_part = before in tables.RULERS, before.lower() in tables.PARTS
    if not value or not (
        is_ruler or is_part or (len(text) > 1 and set(text) <= set("IVX")) or (len(text) > 3 and value > 1000)
    ):
        return None
    return "premier" if is_ruler and value == 1 else cardinal(str(value))


def _between(m: re.Match[str], before: str, after: str) -> str | None:
    """A separate sign between two numbers."""
    if not (before[-1:].isdecimal() and after[:1].isdecimal()):
        return None
    return {"-": "à", "~": "à", "−": "moins", "*": "fois", "x": "fois", "/": "sur"}[m[0]]


def phrase(token: str, before: str = "", after: str = "") -> str | None:
    """The reading of one token by ``RULES``; None if none applies."""
    for pattern, read in RULES:
        match = pattern.fullmatch(token)
        if match is not None and (spoken := read(match, before, after)) is not None:
            return spoken
    return None


def _range(m: re.Match[str], before: str, after: str) -> str | None:
    first, second = phrase(m[1]), phrase(m[2])
    return f"{first} à {second}".replace("|", " ") if first and second else None


RULES: list[tuple[re.Pattern[str], Reader]] = [
    (re.compile(rf"(?:{pattern})(?=[{MARKS}]?(?: |\Z))"), read)
    for pattern, read in (
        (r"(?:\+\d\d [1-9]|0[1-9])(?:[ .-]?\d\d){4}", _phone),
        (r"\+\d{1,3}(?: \d{2,4}){2,5}", lambda m, b, a: f"plus {', '.join(map(whole, m[0][1:].split()))}"),
        (r"(\d\d?)([/.-])(\d\d?)\2(\d{4}|\d\d)", lambda m, b, a: _date(m[1], m[3], m[4])),
        (r"(\d{4})-(\d\d)-(\d\d)", lambda m, b, a: _date(m[3], m[2], m[1])),
        (r"(\d\d?)/(\d\d?)", _day_and_month),
        (rf"1 ({_MONTH})", lambda m, b, a: f"premier|{tables.ABBREVIATIONS.get(m[1], m[1])}"),
        (r"(\d\d?) ?[hH]([0-5]\d)?(?:min|mn)?", _clock),
        (r"(\d\d?):([0-5]\d)(?::([0-5]\d))?", _clock),
        (
            rf"({SIGN}?)({NUM}) ?({_MILLIONS}|k|Mds?|M)? ?({_CURRENCY})(?:/([a-z]+))?",
            lambda m, b, a: _per(money(m[1], m[2], m[4], m[3] or ""), m[5]),
        ),
        (
            rf"({SIGN}?)({_CURRENCY}) ?({NUM})(?: ?({_MILLIONS}|k|Mds?|M))?",
            lambda m, b, a: money(m[1], m[3], m[2], m[4] or ""),
        ),
        (rf"({NUM})-({NUM}) ?({_UNIT}|{_CURRENCY})", lambda m, b, a: f"{cardinal(m[1])} à {_measure_of(m[2], m[3])}"),
        (rf"({AMOUNT}) ?[lL]/100 ?km", lambda m, b, a: f"{_counted(m[1], tables.UNITS['l'])} aux cent kilomètres"),
        (rf"({AMOUNT}|{_SHARE}) ?({_UNIT})", _measured),
        (r"(\d+|[IVX]+|[LC][IVXLC]+)(ers?|i?ères?|res?|i?èmes?|es?|n?de?)", _ordinal),
        (rf"(\d+ [{''.join(VULGAR)}]|\d*[{''.join(VULGAR)}])", lambda m, b, a: _share(m[1])),
        (r"(\d{1,4})/(\d{1,4})", lambda m, b, a: fraction(m[1], m[2])),
        (r"(\d+,\d+)/(\d+)", lambda m, b, a: f"{cardinal(m[1])} sur {cardinal(m[2])}"),
        (r"(\d+)([hj])/(\d+)", lambda m, b, a: f"{_measure_of(m[1], m[2])} sur {cardinal(m[3])}".replace("|", " ")),
        (
            r"(?![1-9]\d{0,2}(?:\.\d{3})+(?!\.?\d))\d+(?:\.\d+){2,}",
            lambda m, b, a: " point ".join(map(whole, m[0].split("."))),
        ),
        (
            rf"({AMOUNT})(?:[×x*]10\^|[eE])([-−+]?\d{{1,3}})",
            lambda m, b, a: f"{cardinal(m[1])} fois dix {power('^' + m[2])}",
        ),
        (rf"({AMOUNT})([²³]|\^[-−]?\d{{1,4}})", lambda m, b, a: f"{cardinal(m[1])} {power(m[2])}"),
        (r"([A-Za-z])([²³]|\^[-−]?\d{1,4})", lambda m, b, a: f"{m[1].lower()} {power(m[2])}"),
        (r"(\d+):(\d+)", lambda m, b, a: f"{cardinal(m[1])} pour {cardinal(m[2])}"),
        (r"(\d{1,5})x(\d{1,5})", lambda m, b, a: f"{cardinal(m[1])} par {cardinal(m[2])}"),
        (rf"({AMOUNT}) ?(k|Mds?|M)", lambda m, b, a: _scaled(m[1], m[2])),
        (r"(?:[nN]°|#) ?(\d+)", lambda m, b, a: f"numéro {cardinal(m[1])}"),
        (AMOUNT, _amount),
        (r"([^\s~-]*\d[^\s~-]*)[-~]([^\s~-]*\d[^\s~-]*?)", _range),
        (r"[-~−*x/]", _between),
        (rf"({'|'.join(tables.WORDS_TOO)})\.", lambda m, b, a: None if a[:1].isdecimal() else m[0].lower()),
        (r"p\. ex\.", lambda m, b, a: "par|exemple"),
        (r"p\.", lambda m, b, a: None if a[:1].isdecimal() else "p"),
        (r"(av|apr?)\. J\.-C\.", lambda m, b, a: f"{'avant' if m[1] == 'av' else 'après'}|jésus-christ"),
        (r"s\.", lambda m, b, a: None if re.fullmatch("[IVX]+e", b) else "s."),
        (r"Me", lambda m, b, a: "maître" if a[:1].isupper() else None),
        (r"([IVXLCDM]+)", _roman),
        (
            rf"(?=\S*[²³/]|(?:[kcm][mg]|ms|[kMG]Hz|[kMG]W)(?:[{MARKS} ]|\Z))({_UNIT})",
            lambda m, b, a: unit_names(m[1])[1],
        ),
    )
]
READ_BESIDE = re.compile(r"Me|[IVXLCDM]|x|[kcm][mg]|ms|[IVX](?:er|i?ère|re|e)")  # words to which RULES apply


def _measure_of(amount: str, unit: str) -> str:
    return money("", amount, unit) if unit in tables.CURRENCIES else _counted(amount, unit_names(unit))


def _scaled(amount: str, scale: str) -> str:
    name = tables.SCALES.get(scale, scale).removesuffix("s")
    return f"{cardinal(amount)} {name}{'s' if name != 'mille' and not is_one(amount) else ''}"
