"""Readings of one written token, as a table of patterns with their readers; the first reading applies."""

import re
from collections.abc import Callable
from functools import lru_cache

from studio.text.dates import (
    DAY_OR_MONTH,
    MONTHS,
    date_or_fraction,
    day_or_month,
    full_date,
    named_date,
    season,
    year_month,
)
from studio.text.measures import UNIT, chess_move, formula, ion, is_one, per, sides, unit_name
from studio.text.numbers import (
    NUM,
    SIGN,
    SIGNS,
    cardinal,
    clock,
    digits,
    duration,
    fraction,
    mixed,
    number,
    ordinal,
    plural,
    power,
    roman,
    to_plain,
    year,
)
from studio.text.tables import (
    CODES,
    CURRENCIES,
    MONTH_NAMES,
    PER,
    SCALE_LETTERS,
    SHORT_FORMS,
    VULGAR,
)

_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"  # of an IP address
_HEX = r"[0-9a-fA-F]{1,4}"
_SCALES = "|".join(sorted(SCALE_LETTERS, key=len, reverse=True))
_HALF = r"[aApP]\.?[mM]\.?"
CURRENCY = "|".join(sorted((re.escape(sign) for sign in CURRENCIES if not sign.isalpha()), key=len, reverse=True))
VULGARS = "".join(VULGAR)
AMOUNT = rf"{SIGN}?{NUM}(?:[-~±]{NUM})?"
EXPONENT = r"(?:[²³]|\^[-+−]?\d{0,4})*(?:[²³]|\^[-+−]?\d{1,4})"
SCIENTIFIC = rf"{SIGN}?{NUM}(?:[eE][-+]?\d{{1,3}}|[×x*]10{EXPONENT})|10{EXPONENT}"
_SHARED = (" percent", " degrees celsius", " degrees fahrenheit")  # said once in a range
_SHARES = re.compile(r"\d\d-\d\d")  # 50-50, 80-20
_DIRECTIONS = {"N": "north", "S": "south", "E": "east", "W": "west"}
_RESOLUTIONS = ("2", "4", "5", "8")  # 4K

Reader = Callable[[re.Match[str]], str | None]


def amount_of(text: str) -> str:
    """An amount or a range of two: 5, -3.2, 10-20, 5±1."""
    if match := re.fullmatch(rf"({SIGN}?{NUM})([-~±])({NUM})", text):
        return f"{cardinal(match[1])} {'plus or minus' if match[2] == '±' else 'to'} {cardinal(match[3])}"
    return cardinal(text)


def money(sign: str, currency: str, amount: str, scale: str = "") -> str:
    """An amount of money; ``sign`` is a character of SIGNS or empty."""
    one, several, cent, cents = CURRENCIES[currency]
    start = f"{SIGNS[sign]} " if sign else ""
    if scale:
        return f"{start}{amount_of(amount)} {SCALE_LETTERS.get(scale, scale)} {several}"
    whole, _, hundredths = ("", "", "") if "-" in amount or "~" in amount else to_plain(amount).partition(".")
    if currency == "€" and re.fullmatch(r"[1-9]\d{0,2}\.\d{3}", amount):
        return f"{start}{cardinal(amount.replace('.', ''))} {several}"
    if len(hundredths) != 2:
        return f"{start}{amount_of(amount)} {one if amount == '1' else several}"
    parts = []
    if whole.strip("0") or hundredths == "00":
        grouped = amount[:-3] if "," in amount[:-3] else whole  # lakhs are read as lakhs
        spoken = cardinal(grouped or "0")
        parts.append(f"{spoken} {one if whole == '1' else several}")
    if hundredths != "00":
        parts.append(f"{cardinal(hundredths.lstrip('0'))} {cent if hundredths == '01' else cents}")
    return start + " and ".join(parts)


def _time(match: re.Match[str]) -> str | None:
    hours, minutes, seconds, half = match["h"], match["m"], match["s"] or "", match["half"] or ""
    return clock(hours, minutes, half, seconds) if int(hours) < 25 and int(minutes) < 60 else None


def groups(text: str) -> str:
    """Groups of digits, each read digit by digit, with commas between them."""
    spoken = ", ".join(digits(group) for group in re.findall(r"\d+", text))
    return f"plus {spoken}" if text[0] == "+" else spoken


def _range(match: re.Match[str]) -> str | None:
    if _SHARES.fullmatch(match[0]) and (a := match["a"]) >= (b := match["b"]) and (a == b or int(a) + int(b) == 100):
        return f"{cardinal(a)} {cardinal(b)}"
    first, second = phrase(match["a"]), phrase(match["b"])
    if first is None or second is None:
        return None
    if match["b"].endswith("%"):
        first = first.removesuffix(" percent")
    if match["cur"] and match["b"][0].isdecimal():  # $10-15
        second = phrase(match["cur"] + match["b"])
        amount = match["a"].removeprefix(match["cur"])
        first = cardinal(amount) if re.fullmatch(NUM, amount) else phrase(amount)
        return second and first and f"{first} to {second}"
    return f"{first} to {second}"


def _measure(match: re.Match[str]) -> str | None:
    name = unit_name(match[3], not (is_one(match[1]) or match[2]))
    return name and f"{amount_of(match[1])} {name}"


def _fraction_measure(match: re.Match[str]) -> str | None:
    name = unit_name(match[2], several=match[1][0].isdecimal() and "/" not in match[1])
    return name and _with_words("", match[1], f" {name}")


def _stamp(match: re.Match[str]) -> str | None:
    """2024-03-15T10:30:00Z: the date, the time, and the zone if it is given as a letter."""
    date, seconds = phrase(match[1]), "" if match[3] in (None, ":00") else match[3].lstrip(":")
    time = phrase(match[2] + (f":{seconds}" if seconds else ""))
    return date and time and f"{date} {time}{' u t c' if match[4] == 'Z' else ''}"


def _scaled(match: re.Match[str]) -> str:
    if match[2] == "K" and match[1] in _RESOLUTIONS:
        return f"{cardinal(match[1])} k"
    if match[2] == "K" and len(match[1]) > 3 and match[1].isdecimal():  # a name (9700K) or a temperature
        return f"{number(match[1])} k"
    return f"{cardinal(match[1])} {SCALE_LETTERS[match[2]]}{' plus' if match[3] else ''}"


def _per(match: re.Match[str]) -> str | None:
    under = match[2] if match[2] in PER else unit_name(match[2], several=False)
    return under and _with_words("", match[1], f" per {under}")


def _worded_rate(match: re.Match[str]) -> str | None:
    """cells/L, requests/s."""
    below = match[2] if match[2] in PER else unit_name(match[2], several=False)
    return below and f"{match[1]} per {below}"


def _address(match: re.Match[str]) -> str:
    names = {".": "dot", ":": "colon", "/": "slash"}
    return " ".join(names.get(c) or (digits(c) if c.isdecimal() else c.lower()) for c in match[0])


def _short_duration(match: re.Match[str]) -> str | None:
    """1h30m, 5m30s."""
    return duration(match[1] or "0", match[2], match[3] or "0") if match[1] or match[3] else None


def _compound(match: re.Match[str]) -> str:
    """3-yr-old."""
    return f"{cardinal(match[1])} {unit_name(match[2], several=False)} {match[3]}"


def _days(match: re.Match[str]) -> str | None:
    first, second = phrase(match[1]), phrase(match[2])
    return f"{first} to {second}" if first and second else None


def _numerals(match: re.Match[str]) -> str | None:
    """I-III, IV-VI; not X-C or CD-V."""
    first, second = roman((match[1] or match[3]).upper()), roman((match[2] or match[4]).upper())
    is_range = (
        first and second > first and len(match[0]) > 3 and (set(match[0].upper()) <= set("IVX-~") or first > 1000)
    )
    return f"{number(str(first))} to {number(str(second))}" if is_range else None


def _bearing(match: re.Match[str]) -> str:
    """40°42'N: degrees and minutes of an arc, with the direction."""
    parts = [f"{cardinal(match[1])} {'degree' if match[1] == '1' else 'degrees'}"]
    for amount, name in ((match[2], "minute"), (match[3], "second")):
        if amount:
            parts.append(f"{cardinal(str(int(amount)))} {name}{'' if int(amount) == 1 else 's'}")
    return " ".join([*parts, *([_DIRECTIONS[match[4]]] if match[4] else [])])


def _with_words(before: str, token: str, after: str = "") -> str | None:
    """A token's reading between words; None if it has none."""
    spoken = phrase(token)
    return spoken and f"{before}{spoken}{after}"


def _hyphened_scale(match: re.Match[str]) -> str:
    """$3-million, 2-million."""
    if match[1][0].isdecimal():
        return f"{cardinal(match[1])} {match[2]}"
    currency = re.match(CURRENCY, match[1])
    assert currency is not None
    return money("", currency[0], match[1][currency.end() :], match[2])


def _consumption(match: re.Match[str]) -> str:
    """6l/100km."""
    name = unit_name(match[2], not is_one(match[1]))
    return f"{cardinal(match[1])} {name} per one hundred{' kilometers' if match[3] else ''}"


def _prefixed(match: re.Match[str]) -> str | None:
    return money(match["sign"] or match["neg"], match["cur"], match["num"], match["scale"] or "") + (
        " plus" if match["plus"] else ""
    )


_TO = "[-~]"
_RULES: list[tuple[re.Pattern[str], Reader]] = [
    (re.compile(pattern), read)
    for pattern, read in (
        (r"97[89]\d{10}", lambda m: digits(m[0])),  # ISBN
        (r"\+[1-9]\d{9,14}", lambda m: groups(m[0])),
        (r"((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", lambda m: full_date(m[2], m[3], m[1])),
        (rf"{SIGN}?{NUM}", lambda m: number(m[0])),
        (
            rf"({'|'.join(map(re.escape, sorted(CODES, key=len, reverse=True)))})\$?({NUM})({_SCALES})?",
            lambda m: money("", CODES[m[1]], m[2], m[3] or ""),
        ),
        (
            rf"(?P<sign>{SIGN}?)(?P<cur>{CURRENCY})(?P<neg>[-−+]?)(?P<num>{NUM})(?:,-|(?P<scale>{_SCALES})?(?P<plus>\+?))",
            _prefixed,
        ),
        (rf"(?:₹|Rs\.)({NUM})(L|[Cc]r)", lambda m: f"{cardinal(m[1])} {'lakh' if m[2] == 'L' else 'crore'} rupees"),
        (rf"((?:{CURRENCY}|Rs\.){NUM})/-", lambda m: phrase(m[1])),
        (
            rf"({CURRENCY})({NUM})([a-z]{{2,9}})",  # $5ea; not $5k
            lambda m: f"{money('', m[1], m[2])} {'each' if m[3] == 'ea' else m[3]}",
        ),
        (rf"({SIGN}?)({NUM})({CURRENCY})", lambda m: money(m[1], m[3], m[2])),
        (rf"((?:{CURRENCY}).*\d[A-Za-z]?|.*\d(?:{CURRENCY}))/([A-Za-z]+)", _per),
        (r"((?:[4-9]|1[0-9]|2[02-9]|30))st", lambda m: f"{cardinal(m[1])} stone"),
        (
            r"(\d{1,3}(?:,\d{3})+|\d{1,9})(?:st|nd|rd|th|ST|ND|RD|TH)(s|'s)?",
            lambda m: plural(ordinal(m[1])) if m[2] == "s" else ordinal(m[1]) + (m[2] or ""),
        ),
        (r"(\d{1,3}(?:,000)+)s", lambda m: plural(cardinal(m[1]).removeprefix("one "))),
        (r"([2-9]0|\d\d\d0)'?s", lambda m: plural(year(m[1]) if len(m[1]) == 4 else cardinal(m[1]))),
        (rf"(?P<h>\d\d?):(?P<m>\d\d)(?::(?P<s>\d\d))?(?P<half>{_HALF})?", _time),
        (r"(\d{1,3}):(\d{1,3}(?:,\d{3})+|\d{1,6})", lambda m: f"{cardinal(m[1])} to {cardinal(m[2])}"),
        (r"(\d\d?)\.(\d\d)([aApP])\.?[mM]\.?", lambda m: clock(m[1], m[2], m[3])),
        (r"(\d{1,3}(?:\.\d+)?)°(?=\d|[NSEW])(?:(\d\d?)'(?:(\d\d?)(?:''|inch)?)?)?([NSEW])?", _bearing),
        (rf"({NUM})in", lambda m: f"{cardinal(m[1])} {'inch' if m[1] == '1' else 'inches'}"),
        (r"(?:(\d+)h)?(\d+)m(?:in)?(?:(\d+)s)?", _short_duration),
        (r"([01]?\d|2[0-4])h([0-5]\d)", lambda m: clock(m[1], m[2])),
        (r"([A-Z]{2,4})-?((?:19|20)\d\d)", lambda m: f"{' '.join(m[1].lower())} {year(m[2])}"),
        (r"401\(?k\)?", lambda m: "four oh one k"),
        (r"WW(I{1,3}|[123])('s)?", lambda m: f"world war {cardinal(str(roman(m[1]) or m[1]))}{m[2] or ''}"),
        (
            r"(\d\d?)'(\d\d?)(?:inch)?",
            lambda m: f"{cardinal(m[1])} feet {cardinal(m[2])} {'inch' if m[2] == '1' else 'inches'}",
        ),
        (r"(\d\d?)([aApP])\.?[mM]\.?", lambda m: f"{cardinal(m[1])} {m[2].lower()} m"),
        (r"(\d\d?)([/-])(\d\d?)\2(\d{4}|\d\d)", lambda m: full_date(m[1], m[3], m[4])),
        (rf"(\d\d?)([-/.])({'|'.join(MONTH_NAMES)})\2(\d{{4}}|\d\d)", named_date),
        (r"(\d{4})([/.-])(\d\d?)\2(\d\d?)", lambda m: full_date(m[3], m[4], m[1])),
        (r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.\d{1,9})?(Z|[-+]\d\d:?\d\d)?", _stamp),
        (r"(\d\d?)\.(\d\d?)\.(\d{4})", lambda m: full_date(m[2], m[1], m[3])),
        (rf"(?:{_BYTE}\.){{3}}{_BYTE}(?::\d{{1,5}})?(?:/\d\d?)?", _address),
        (rf"(?:{_HEX}:){{7}}{_HEX}|(?=\S{{0,39}}::)(?:{_HEX})?(?:::?{_HEX}){{1,7}}(?:::)?(?:/\d{{1,3}})?", _address),
        (r"(?:\+?\d{1,3}\.)?\d{3}\.\d{3}\.\d{4}", lambda m: groups(m[0])),
        (r"\d{1,9}(?:\.\d{1,9}){2,}", lambda m: " point ".join(map(cardinal, m[0].split(".")))),
        (r"0\d{2,5}/\d{4,9}", lambda m: groups(m[0])),
        (r"(\d\d?)/(\d\d?)", date_or_fraction),
        (r"(0?[1-9]|1[0-2])/((?:19|20)\d\d)", lambda m: f"{MONTHS[int(m[1]) - 1]} {number(m[2])}"),
        (r"((?:19|20)\d\d)-(0[1-9]|1[0-2])", year_month),
        (r"((?:19|20)\d\d)/(?:\d\d)?(\d\d)", season),
        (r"\d(?:,\d){2,9}", lambda m: ", ".join(map(cardinal, m[0].split(",")))),
        (rf"({NUM})-(yrs?|mo|wk|hr|min|sec|ft|lb|mi|oz|km|kg|mm|cm)-([a-z]+)", _compound),
        (r"#(\d+)[-~]#?(\d+)", lambda m: f"number {cardinal(m[1])} to number {cardinal(m[2])}"),
        (r"(\d+)/(\d{1,9})", lambda m: fraction(m[1], m[2])),
        (r"(\d+)/(\d{1,9})(?:st|nd|rd|th)s?", lambda m: fraction(m[1], m[2], "fourth")),
        (rf"({SIGN}?)(\d*)-?([{VULGARS}])", lambda m: f"{SIGNS[m[1]] if m[1] else ''} {mixed(m[2], m[3])}".strip()),
        (r"([-−])(\d+/\d+)", lambda m: _with_words("minus ", m[2])),
        (r"(\d{1,3})-(\d{1,2}/\d{1,2})", lambda m: mixed(m[1], m[2])),
        (
            r"0\d{6,14}|\+?\d{1,6}(?:-\d{1,6}){2,6}|\d{3}-\d{4}|\d{5}-\d{4}|0\d+-\d+",
            lambda m: groups(m[0]),
        ),
        (rf"({SIGN}?{NUM})[×x*]10({EXPONENT})", lambda m: f"{cardinal(m[1])} times ten {power(m[2])}"),
        (rf"({SIGN}?{NUM})[eE]([-+]?\d{{1,3}})", lambda m: f"{cardinal(m[1])} times ten {power(m[2])}"),
        (rf"({SIGN}?{NUM})({EXPONENT})", lambda m: f"{cardinal(m[1])} {power(m[2])}"),
        (r"([A-Z][a-z]?)(?:([²³])|\^?(\d))?\^([+−-])", ion),
        (r"([KQRBN](?=\S*[x+#]|[cf][36]\Z)|[a-h](?=x))([a-h1-8]?)(x?)([a-h][1-8])([+#]?)", chess_move),
        (r"(?=\S*\d)(?:(?:[BCFHIKNOPSUVWY]|[ABCFGLMNRSTUZ][a-z])\d{0,2}){2,9}", formula),
        (
            r"([A-Za-zµ]+)\*([A-Za-zµ]+)\^-(?:([²³])|\^?1)",
            lambda m: unit_name(f"{m[1]}/{m[2]}{m[3] or ''}", several=True),
        ),
        (r"([a-z]{3,}s)/([A-Za-zµ]+)", _worded_rate),
        (
            r"([A-Za-zµ]+)\^-(?:([²³])|\^?1)",
            lambda m: per(unit_name(m[1] + (m[2] or ""), several=False)),
        ),
        (rf"([A-Za-z])({EXPONENT})", lambda m: f"{m[1].lower()} {power(m[2])}"),
        (r"(\d+|[A-Za-z])\^", lambda m: f"{cardinal(m[1]) if m[1].isdecimal() else m[1].lower()} to the"),
        (r"([A-DO]|AB)-", lambda m: f"{' '.join(m[1].lower())} minus"),
        (r"([i-nt-z])-(\d)", lambda m: f"{m[1]} minus {cardinal(m[2])}"),
        (r"(GMT|UTC)-(\d\d?)", lambda m: f"{' '.join(m[1].lower())} minus {cardinal(m[2])}"),
        (r"'(\d\d)", lambda m: f"oh {cardinal(m[1][1])}" if m[1][0] == "0" else cardinal(m[1])),
        (r"tel:(\+?\d{7,15})", lambda m: f"telephone {groups(m[1])}"),
        (
            r"\.([a-z]{1,4}|NET)(\d?)",
            lambda m: " ".join(
                ("dot", m[1].lower() if set(m[1].lower()) & set("aeiouy") else " ".join(m[1]), *map(cardinal, m[2]))
            ),
        ),
        (
            r"([A-Za-z]|\d+)\^(?:(-)\^?)?([A-Za-z])",
            lambda m: (
                f"{m[1].lower() if m[1].isalpha() else cardinal(m[1])} to the {'minus ' if m[2] else ''}{m[3].lower()}"
            ),
        ),
        (rf"({SIGN}?{NUM})([kKMBT]|bn|mn|tn)(\+?)", _scaled),
        (rf"({SIGN}?{NUM})([a-ln-z])({EXPONENT})", lambda m: f"{cardinal(m[1])} {m[2]} {power(m[3])}"),
        (rf"({AMOUNT})(-?)({UNIT})", _measure),
        (rf"(\d*[{VULGARS}]|\d+/\d+)({UNIT})", _fraction_measure),
        (rf"({NUM})(?:inch)?[x×X]({NUM})(?:(?:inch)?[x×X]({NUM}))?({UNIT})", sides),
        (r"(\d{3,5})×(\d{3,5})", lambda m: f"{number(m[1])} by {number(m[2])}"),
        (r"(\d{2,5})x(\d{1,5})", lambda m: f"{number(m[1])} by {number(m[2])}"),
        (r"(\d)x(\d)(?:x(\d))?", lambda m: " by ".join(cardinal(one) for one in m.groups() if one)),
        (rf"({NUM})([lL])/100(km)?", _consumption),
        (
            r"(?:mm|cm|m|km|ft|yd|mi)[²³]|(?!\w/[A-Z])[A-Za-zµ]+[²³]?/[a-zA-Z]+[²³]?|[JN]\*[a-z]+|kg\*m",
            lambda m: unit_name(m[0], several=True),
        ),
        (rf"({NUM})−({NUM})", lambda m: f"{cardinal(m[1])} minus {cardinal(m[2])}"),
        (
            rf"'?(?P<a>(?:(?P<cur>{CURRENCY})?{NUM})\S{{0,5}}?){_TO}'?(?P<b>(?:{CURRENCY})?{NUM}\S{{0,5}})",
            _range,
        ),
        (r"(\d\d?/\d\d?/\d{2,4}|\d{4}-\d\d-\d\d)[-~](\d\d?/\d\d?/\d{2,4}|\d{4}-\d\d-\d\d)", _days),
        (
            rf"({NUM})[-~]({NUM})-([a-z]+(?:-[a-z]+)*)",
            lambda m: f"{cardinal(m[1])} to {cardinal(m[2])} {m[3].replace('-', ' ')}",
        ),
        (rf"({DAY_OR_MONTH})\.?[-~]({DAY_OR_MONTH})\.?", lambda m: f"{day_or_month(m[1])} to {day_or_month(m[2])}"),
        (r"([IVXLCDM]+)[-~]([IVXLCDM]+)|([ivx]+)[-~]([ivx]+)", _numerals),
        (r"([IVX]{2,})-(\d+)", lambda m: f"{cardinal(str(roman(m[1])))} {cardinal(m[2])}" if roman(m[1]) else None),
        (rf"(\d*[{VULGARS}]|\d/\d)[-~](\d*[{VULGARS}]|\d/\d|\d\d?)", _days),
        (r"(\d{1,2})'-(\d{1,2})", lambda m: f"{cardinal(m[1])} to {cardinal(m[2])} feet"),
        (r"(\d'\d\d?)(?:inch)?[-~](\d'\d\d?)(?:inch)?", _days),
        (r"(\d+(?::\d\d)?)-?ish", lambda m: _with_words("", m[1], " ish")),
        (r"(\S*\d\S*)[-~](noon|midnight)", lambda m: _with_words("", m[1], f" to {m[2]}")),
        (r"([Nn]oon|[Mm]idnight)[-~](\S*\d\S*)", lambda m: _with_words(f"{m[1].lower()} to ", m[2])),
        (rf"((?:{CURRENCY})?{NUM})-(hundred|thousand|million|billion|trillion)", _hyphened_scale),
        (r"([IVXLC]{1,7})(?:st|nd|rd|th)", lambda m: ordinal(str(roman(m[1]))) if roman(m[1]) else None),
        (rf"({'|'.join(map(re.escape, SHORT_FORMS))})", lambda m: SHORT_FORMS[m[1]]),
        (r"w/([a-z]{2,40})", lambda m: f"with {m[1]}"),
        (
            r"((?:[A-Za-z]\.)+[A-Za-z]?|Ph\.D)\.?'?s|((?:[A-Z]\.){2,})s\.",
            lambda m: f"{' '.join((m[1] or m[2]).lower()).replace(' .', '')}'s",
        ),
        (
            r"([A-Z]{1,3})&([A-Z]{1,3})('?s)?",
            lambda m: f"{' '.join(m[1].lower())} and {' '.join(m[2].lower())}" + ("'s" if m[3] else ""),
        ),
        (rf"(\d+/\d+|\d*[{VULGARS}])-([a-z]+)", lambda m: _with_words("", m[1], f" {m[2]}")),
    )
]


@lru_cache(maxsize=2048)
def phrase(token: str) -> str | None:
    """The reading of a token (without its mark) as a number, money, time, date or measure; else None."""
    for pattern, read in _RULES:
        match = pattern.fullmatch(token)
        if match is not None and (reading := read(match)):
            return reading
    return None
