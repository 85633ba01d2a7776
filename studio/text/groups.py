"""Readings of several written tokens together, as a table of patterns with their readers.

A pattern is matched against tokens joined by spaces; its reader returns one phrase for each token that it used.
"""

import re
from collections.abc import Callable, Sequence

from studio.core.text.typography import MARKS
from studio.text import numbers
from studio.text.measures import UNIT, is_one, unit_name
from studio.text.numbers import NUM, SIGN, cardinal
from studio.text.tables import (
    CODES,
    CURRENCIES,
    DAYS_AND_MONTHS,
    LENGTHS,
    MAY_END,
    MONTH_NAMES,
    NAME_GOES_ON,
    PER,
    SCALE_LETTERS,
    SCALES,
    STARTERS,
)
from studio.text.tokens import (
    AMOUNT,
    CURRENCY,
    SCIENTIFIC,
    VULGARS,
    amount_of,
    groups,
    money,
    phrase,
)

HALF = r"[aApP]\.?[mM]\.?"
_MONTH = "|".join(sorted(map(re.escape, MONTH_NAMES), key=len, reverse=True))
_CODE = "|".join(map(re.escape, CODES))
_SCALE_LETTER = "|".join(SCALE_LETTERS)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_HOUR = r"\d\d?(?:[:.]\d\d)?"
_HALF_TOKEN = re.compile(HALF)
_SCALE = "|".join((*SCALES, "bn", "tn", "mn", "mln", "bln", "m", "k", "K", "M"))
ZONES = frozenset("ET CT MT PT EST EDT CST CDT MST MDT PST PDT GMT UTC BST CET CEST IST JST".split())
_COMPASS = frozenset("N S E W NE NW SE SW".split())  # 5th Ave. N
_GROUPED_DIGITS = (7, 19)  # least and most digits of telephone and card numbers in groups


Phrases = list[str]
GroupReader = Callable[[re.Match[str], str], Phrases | None]


def spread(spoken: str, tokens: int) -> Phrases:
    """Distribute a phrase over tokens: one word to each of the last ones, the other words to the first.

    Tokens without a word get an empty phrase.
    """
    words = spoken.split()
    last = words[max(1, len(words) - tokens + 1) :] if tokens > 1 else []
    return [" ".join(words[: len(words) - len(last)]), *last, *[""] * (tokens - 1 - len(last))]


def _month_day(m: re.Match[str], before: str) -> Phrases | None:
    last = f" to {numbers.ordinal(m[3])}" if m[3] else ""
    return [MONTH_NAMES[m[1]], numbers.ordinal(m[2]) + last]


def _months(m: re.Match[str], before: str) -> Phrases:
    """Nov. 3-Dec. 5, Jan. 2020-Dec. 2021."""
    first, second = (numbers.number(one) if len(one) == 4 else numbers.ordinal(one) for one in (m[2], m[4]))
    return [MONTH_NAMES[m[1]], f"{first} to {MONTH_NAMES[m[3]]}", second]


def _day_month(m: re.Match[str], before: str) -> Phrases | None:
    last = f" to the {numbers.ordinal(m[2])}" if m[2] else ""
    the = "" if before.lower() == "the" else "the "
    return [f"{the}{numbers.ordinal(m[1])}{last} of", MONTH_NAMES[m[3]]]


def _digit_groups(m: re.Match[str], before: str) -> Phrases | None:
    """Telephone and card numbers; groups of three after a first one without a zero in front are thousands."""
    digit_runs = re.findall(r"\d+", m[0])
    count = sum(map(len, digit_runs))
    plain = m[0][0] == "+" or digit_runs[0][0] == "0"
    if not _GROUPED_DIGITS[0] <= count <= _GROUPED_DIGITS[1] or (
        len(digit_runs) == 2 and not plain and [*map(len, digit_runs)] not in ([3, 4], [5, 4])
    ):
        return None
    if not plain and all("1100" <= one <= "2099" and len(one) == 4 for one in digit_runs) and len(digit_runs) < 4:
        return None  # years
    if not plain and len(digit_runs) > 2 and count < 10 and len(digit_runs[-1]) != 4:
        return None
    tokens = m[0].split()
    return [groups(token) + "," * (k < len(tokens) - 1) for k, token in enumerate(tokens)]


def _thousands(m: re.Match[str], before: str) -> Phrases | None:
    sign, currency, amount, decimals, after = m[1], m[2] or "", m[3], m[4] or "", m[5]
    tokens = amount.count(" ") + 1
    plain = amount.replace(" ", "") + decimals.replace(",", ".")
    if currency:
        return spread(money(sign, currency, plain), tokens)
    spoken = spread(cardinal(sign + plain), tokens)
    if not after:
        return spoken
    if after in CURRENCIES or after in CODES:
        return spread(money(sign, CODES.get(after, after), plain), tokens + 1)
    name = unit_name(after, several=True)
    return [*spoken, name] if name else None


def _money_scale(m: re.Match[str], before: str) -> Phrases | None:
    start = money(m["sign"] or m["neg"], m["cur"], m["num"], m["scale"]).split()
    several = len(CURRENCIES[m["cur"]][1].split()) + 1
    return [" ".join(start[:-several]), " ".join(start[-several:])]


def _money_range(m: re.Match[str], before: str) -> Phrases | None:
    """$500 million-$1 billion."""
    first, second = (SCALE_LETTERS.get(scale, scale) for scale in (m[3], m[5]))
    currency = CURRENCIES[m[1]][1]
    return [cardinal(m[2]), f"{first} {currency} to {cardinal(m[4])}", f"{second} {currency}"]


def _amount_range(m: re.Match[str], before: str) -> Phrases | None:
    """500 million-1 billion, 5 km-10 km."""
    first, second = (
        SCALE_LETTERS.get(name, name) if name in SCALES or name in ("bn", "tn") else unit_name(name, not is_one(amount))
        for amount, name in ((m[1], m[2]), (m[3], m[4]))
    )
    return [cardinal(m[1]), f"{first} to {cardinal(m[3])}", second] if first and second else None


def _code_first(m: re.Match[str], before: str) -> Phrases | None:
    sign = CODES.get(m[1], m[1])
    if m[3]:
        spoken = money("", sign, m[2], m[3]).split()
        return [
            " ".join(spoken[: -len(CURRENCIES[sign][1].split()) - 1]),
            "",
            " ".join(spoken[-len(CURRENCIES[sign][1].split()) - 1 :]),
        ]
    return spread(money("", sign, m[2]), 2)


def _code_last(m: re.Match[str], before: str) -> Phrases | None:
    sign = CODES.get(m[3], m[3])
    if m[2]:
        return [amount_of(m[1]), SCALE_LETTERS.get(m[2], m[2]), CURRENCIES[sign][1]]
    names = money("", sign, m[1])
    if "." not in m[1] and "," not in m[1] and len(name := CURRENCIES[sign][0 if is_one(m[1]) else 1]) > 1:
        return [amount_of(m[1]), name]
    return spread(names, 2)


def _measured(m: re.Match[str], before: str) -> Phrases | None:
    name = unit_name(m[2], not is_one(m[1]))
    if name is None or (m[2] in ("x", "×") and m.string[m.end() + 1 : m.end() + 2].isdecimal()):
        return None
    amount = amount_of(m[1]) if re.fullmatch(AMOUNT, m[1]) else phrase(m[1])
    return [amount, name] if amount else None


def _sides(m: re.Match[str], before: str) -> Phrases | None:
    """3x4 m, 10 x 20 x 30 cm; not 2 × 10 mm, which is a product."""
    name = unit_name(m[2], several=True) if m[2].rstrip(".") in LENGTHS else None
    if name is None or (m[1].count("×") == 1 and " " in m[1]):
        return None
    spoken = [one if one in "x×" else cardinal(one) for one in re.split("([x×])| ", m[1]) if one]
    spoken = ["by" if one in "x×" else one for one in spoken]
    return [*(spoken if " " in m[1] else [" ".join(spoken)]), name]


def _scaled_measure(m: re.Match[str], before: str) -> Phrases | None:
    """30k km."""
    name = unit_name(m[3], several=True)
    return None if name is None else [f"{cardinal(m[1])} {SCALE_LETTERS[m[2]]}", name]


def _area(m: re.Match[str], before: str) -> Phrases | None:
    """500 sq ft, 16 fl oz."""
    name = unit_name(m[3], not is_one(m[1]))
    return None if name is None else [amount_of(m[1]), {"s": "square", "c": "cubic", "f": "fluid"}[m[2][0]], name]


def _code_per(m: re.Match[str], before: str) -> Phrases | None:
    """50 EUR/month."""
    under = m[3] if m[3] in PER else unit_name(m[3], several=False)
    return None if under is None else spread(f"{money('', CODES.get(m[2], m[2]), m[1])} per {under}", 2)


def _clock_half(m: re.Match[str], before: str) -> Phrases | None:
    """8 pm, 7:45 p.m., 7.30 pm, 1-2 pm."""
    times = [re.split("[:.]", one) for one in re.split("[-~]", m[1])]
    spoken = [numbers.clock(one[0], one[1] if len(one) > 1 else "00", "p")[:-4] for one in times]
    return [" to ".join(spoken), f"{m[2][0].lower()} m"]


def _clock_halves(m: re.Match[str], before: str) -> Phrases | None:
    """6:30 pm-8 pm."""
    first = _clock_half(re.fullmatch(rf"({_HOUR}) ({HALF})", f"{m[1]} {m[2]}") or m, before) or []
    second = _clock_half(re.fullmatch(rf"({_HOUR}) ({HALF})", f"{m[3]} {m[4]}") or m, before) or []
    return [first[0], f"{first[1]} to {second[0]}", second[1]]


def _clock_to(m: re.Match[str], before: str) -> Phrases | None:
    """8 a.m.-noon."""
    first, half = _clock_half(re.fullmatch(rf"({_HOUR}) ({HALF})", f"{m[1]} {m[2]}") or m, before) or ["", ""]
    return [first, f"{half} to {m[3]}"]


def _mixed(m: re.Match[str], before: str) -> Phrases | None:
    part = numbers.mixed(m[1], m[2]).split(" ", len(cardinal(m[1]).split()))[-1]
    spoken = [cardinal(m[1]), part]
    if not m[3]:
        return spoken
    name = unit_name(m[3], several=True)
    return [*spoken, name] if name else None


_GROUPS: tuple[tuple[str, GroupReader], ...] = (
    (rf"({_MONTH}) ({_DAY}|\d{{4}})[-~]({_MONTH}) ({_DAY}|\d{{4}})", _months),
    (rf"({_MONTH}) ({_DAY})(?:[-~]({_DAY}))?", _month_day),
    (rf"({_DAY})(?:[-~]({_DAY}))? ({_MONTH})", _day_month),
    (rf"({_MONTH}) (1[01]\d\d)", lambda m, _: [MONTH_NAMES[m[1]], numbers.year(m[2])]),
    (rf"({_MONTH}) (\d{{4}})", lambda m, _: [MONTH_NAMES[m[1]], numbers.number(m[2])]),
    (
        rf"({SIGN}?)({CURRENCY})?([1-9]\d{{0,2}}(?: \d{{3}})+)([.,]\d{{1,2}})?(?: ({CURRENCY}|{_CODE}|{UNIT}))?(?! \d)",
        _thousands,
    ),
    (rf"({SIGN}?)({CURRENCY})?([1-9]\d{{0,2}}(?: \d{{3}})+)([.,]\d{{1,2}})?()(?! \d)", _thousands),
    (r"\+\d{1,3}(?: \d(?= \d))?(?:[ -]\d{2,8})+|\d{1,6}(?:[ -]\d{2,6})+", _digit_groups),
    (
        rf"(?P<sign>{SIGN}?)(?P<cur>{CURRENCY})(?P<neg>[-−]?)(?P<num>{NUM}(?:[-~]{NUM})?) (?P<scale>{_SCALE})",
        _money_scale,
    ),
    (rf"({CURRENCY})({NUM}) ({_SCALE})[-~](?:{CURRENCY})?({NUM}) ({_SCALE})", _money_range),
    (rf"({NUM}) ({_SCALE}|{UNIT})[-~]({NUM}) ({_SCALE}|{UNIT})", _amount_range),
    (rf"({_CODE}|{CURRENCY}) ({SIGN}?{NUM})(?: ({_SCALE}))?", _code_first),
    (rf"({_CODE}|{CURRENCY}) ({SIGN}?{NUM})()(?:,-)?", _code_first),
    (
        rf"({_CODE}|{CURRENCY}) ({NUM})({_SCALE_LETTER})",  # USD 5m
        lambda m, _: spread(money("", CODES.get(m[1], m[1]), m[2], m[3]), 2),
    ),
    (rf"({_CODE})({NUM}) ({_SCALE})", lambda m, _: spread(money("", CODES[m[1]], m[2], m[3]), 2)),
    (
        rf"({NUM})({_SCALE_LETTER}) ({CURRENCY}|{_CODE})",
        lambda m, _: spread(money("", CODES.get(m[3], m[3]), m[1], m[2]), 2),
    ),
    (rf"({AMOUNT}) ({CURRENCY}|{_CODE})/([A-Za-z]+)", _code_per),
    (rf"({AMOUNT}) (?:({_SCALE}) )?({CURRENCY}|{_CODE})", _code_last),
    (rf"(?:{CURRENCY})({NUM})() ({_CODE})", _code_last),
    (rf"({_HOUR}(?:[-~]{_HOUR})?) ({HALF})", _clock_half),
    (rf"({_HOUR}) ({HALF})[-~]({_HOUR}) ({HALF})", _clock_halves),
    (rf"({_HOUR}) ({HALF})[-~](noon|midnight)", _clock_to),
    (rf"(\d+) ([1-9]/[1-9]\d?|[{VULGARS}])(?: ({UNIT}))?", _mixed),
    (rf"(\d+) ([1-9]/[1-9]\d?|[{VULGARS}])()", _mixed),
    (
        rf"({AMOUNT}) ([lL])/100 ?km",
        lambda m, _: [cardinal(m[1]), *spread("liters per one hundred kilometers", m[0].count(" "))],
    ),
    (rf"({AMOUNT}) (bn|tn|mn|mln|bln)", lambda m, _: [amount_of(m[1]), SCALE_LETTERS[m[2]]]),
    (rf"({NUM})([kKM]) ({UNIT})", _scaled_measure),
    (rf"({NUM}(?:[x×]{NUM}){{1,2}}|{NUM}(?: [x×] {NUM}){{1,2}}) ({UNIT})", _sides),
    (rf"({AMOUNT}) (sq|cu|fl)\.? ({UNIT})", _area),
    (rf"({AMOUNT}|\d+/\d+|\d*[{VULGARS}]|{SCIENTIFIC}) ({UNIT})", _measured),
)
GROUP_RULES = [(re.compile(rf"(?:{pattern})(?=[{MARKS}]?(?: |\Z))"), read) for pattern, read in _GROUPS]


def read_group(tokens: Sequence[str], before: str) -> list[tuple[str, int]] | None:
    """The words of the first tokens that are read together, each with its token's index; None if none are.

    A token that is spoken as part of its neighbours gets an empty word.
    """
    text = " ".join(tokens)
    for pattern, read in GROUP_RULES:
        match = pattern.match(text)
        if match is None or " " not in match[0] or (phrases := read(match, before)) is None:
            continue
        mark = text[match.end() : match.end() + 1].strip()
        after = text[match.end() + len(mark) :].strip()
        mark = mark or closing_stop(tokens[len(phrases) - 1], after)
        words: list[tuple[str, int]] = [
            (word, k) for k, spoken in enumerate(phrases) for word in spoken.split() or [""]
        ]
        last = max(k for k, (word, _) in enumerate(words) if word)
        if words[last][0][-1] not in MARKS:
            words[last] = (words[last][0] + mark, words[last][1])
        return words
    return None


def closing_stop(token: str, after: str) -> str:
    """The full stop of an abbreviation (p.m., oz.) that also ends the sentence."""
    is_half = token.endswith(".") and _HALF_TOKEN.fullmatch(token) is not None
    follows = re.split("[ /]", after)[0].rstrip(MARKS)
    if token == "c." and follows and follows not in STARTERS:
        return ""  # 14th c. France
    if not is_half and (
        token not in MAY_END
        or follows in _COMPASS
        or (token in NAME_GOES_ON and len(follows) > 1 and follows not in STARTERS)
    ):
        return ""
    if (follows in DAYS_AND_MONTHS and (is_half or token[:-1] in DAYS_AND_MONTHS)) or (is_half and follows in ZONES):
        return ""
    return "." if not after or after[0].isupper() else ""


def is_code(short: str, after: str) -> bool:
    """Whether a code follows an abbreviation: no. GB1234, apt. B4; not "He said no. B12 is a vitamin"."""
    digits = r"\d" if short in ("apt.", "ste.", "rm.") else r"\d{4}"
    return re.match(rf"[A-Z]{{1,4}}-?{digits}", after) is not None
