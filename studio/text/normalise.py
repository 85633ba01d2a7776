"""Text normalisation, written tokens to spoken words: ``english()`` reads numbers and signs, ``plain()`` only words."""

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec

from studio.core.errors import NeedsPackage
from studio.core.ports import Normaliser
from studio.core.text.typography import MARKS, MUTE, split_mark
from studio.text import numbers
from studio.text.tables import (
    ABBREVIATIONS,
    CAPITAL_WORDS,
    CURRENCIES,
    DOTTED,
    MAY_END,
    MONTH_NAMES,
    READ_AS,
    SCALES,
    SPELLED,
    SYMBOLS,
    UNITS,
)

GROUP = "pip install 'streaming-tts-studio[text]'"
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?")
_RUN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|.")
_ADDRESS = re.compile(
    r"(?i:[a-z]+://|www\.)\S+|(?i:mailto:)?\S+@\S+\.\S+|/[\w.~-]+(?:/[\w.~-]*)*"
    r"|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.(?:[a-z]{2,6}|COM|ORG|NET)(?::\d+)?(?:/\S*)?"
)
_LONG_NUMBER = 3  # digits from which a number in an address is read digit by digit
_INNER = re.compile(r"[-/_]+|(?<=[,:;!?])(?=[A-Za-z])|(?<=[a-z]\.)(?=[A-Z][a-z])")
_DOTS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?")
_HALF = re.compile(r"([aApP])\.?[mM]\.?")
_LONE_AMOUNT = re.compile(rf"([{''.join(CURRENCIES)}])({numbers.NUMBER.pattern})")
_DAY = re.compile(r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?")
_PHONE_GROUPS = (7, 12)  # digits of a phone number in groups

Reading = tuple[int, list[tuple[str, int]]]  # tokens used, and each word with the offset of its token


def letters(word: str) -> str:
    """The reading of a word of letters: lower case; acronyms are spelled (TTS: t t s)."""
    bare, tail = word, ""
    if len(word) > 2 and word.endswith("s") and word[:-1].rstrip("'").isupper():
        bare, tail = word[:-1].rstrip("'"), "'s"
    lower = bare.lower()
    if bare in READ_AS:
        return READ_AS[bare] + tail
    if not bare.isupper() or not bare.isalpha() or len(bare) == 1:
        return word.lower().strip("'")
    spelled = lower in SPELLED or not set(lower) & set("aeiouy")
    if len(bare) <= 3:
        spelled = lower not in CAPITAL_WORDS
    return " ".join(lower) + tail if spelled and len(bare) <= 6 else word.lower().strip("'")


class PlainNormaliser:
    """Reads words of letters; other tokens have no reading."""

    why = f"numbers and signs need the text group: {GROUP}"

    def __call__(self, tokens: Sequence[str]) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        for k, token in enumerate(tokens):
            base, mark = split_mark(token)
            parts = [part for part in base.rstrip(".").split("-") if part]
            if parts and all(_WORD.fullmatch(part) for part in parts):
                out += [(word, k) for word in _with_mark(" ".join(map(letters, parts)), mark)]
        return out


class EnglishNormaliser:
    """Reads numbers, dates, times, money, measures, abbreviations and signs, too."""

    why = "there is no reading for this sign: write it in words"

    def __call__(self, tokens: Sequence[str]) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        k = 0
        while k < len(tokens):
            used, words = _read(tokens, k)
            out += [(word, k + offset) for word, offset in words]
            k += used
        return out


def english() -> Normaliser:
    """The English normaliser. Raises NeedsPackage without num2words."""
    if find_spec("num2words") is None:
        raise NeedsPackage("numbers are read by num2words, which is not installed", GROUP)
    return EnglishNormaliser()


def plain() -> Normaliser:
    """The normaliser without dependencies: words only."""
    return PlainNormaliser()


def best() -> Normaliser:
    """``english()`` if num2words is installed, else ``plain()``."""
    return EnglishNormaliser() if find_spec("num2words") else PlainNormaliser()


def _with_mark(phrase: str, mark: str) -> list[str]:
    """Words of a phrase, the last one with the token's mark."""
    words = phrase.split()
    if words and words[-1][-1] not in MARKS:
        words[-1] += mark
    return words


def _read(tokens: Sequence[str], k: int) -> Reading:
    """The reading of token k, alone or with the tokens after it."""
    token = tokens[k]
    base, mark = split_mark(token)
    if _WORD.fullmatch(base) and base not in MONTH_NAMES:
        return 1, [(word, 0) for word in _with_mark(letters(base), mark)]
    if k + 1 < len(tokens) and not mark:
        for rule in _GROUP_RULES:
            reading = rule(tokens[k:])
            if reading is not None:
                return reading
    if token in MUTE:
        return 1, []
    after = tokens[k + 1] if k + 1 < len(tokens) else ""
    return 1, [(word, 0) for word in _with_mark(_read_one(base, after), _ending(base, mark, after))]


def _ending(base: str, mark: str, after: str) -> str:
    """The mark of a token: its own, or the full stop of an abbreviation that ends the sentence."""
    may_end = base in MAY_END or (_HALF.fullmatch(base) and base.endswith("."))
    ends = not after or after[0].isupper()
    saint = base == "St." and after != ""
    return "." if not mark and may_end and ends and not saint else mark


def _read_one(base: str, after: str) -> str:
    """A token as a phrase; empty if it has no reading."""
    if base == "St." and after[:1].isupper():
        return "saint"
    phrase = ABBREVIATIONS.get(base) or DOTTED.get(base.lower()) or numbers.phrase(base)
    if phrase is not None:
        return phrase
    if _DOTS.fullmatch(base):
        return " ".join(base.lower().replace(".", ""))
    parts = [] if _ADDRESS.fullmatch(base) else [part for part in _INNER.split(base) if part]
    if len(parts) > 1 and not any(c in base for c in "+=<>×÷"):
        bare = [split_mark(part) for part in parts]
        return " ".join(word for part, inner in bare for word in _with_mark(_read_one(part, ""), inner))
    return _runs(base)


def _runs(base: str) -> str:
    """Runs of letters, numbers and signs one by one: mp3, v2.0, C++, me@example.com."""
    if base in ("/", "#"):
        return ""  # alone they are layout: no reading
    address = _ADDRESS.fullmatch(base) is not None
    runs = _RUN.findall(base)
    spoken: list[str] = []
    for at, run in enumerate(runs):
        before, after = (runs[at - 1] if at else ""), (runs[at + 1] if at + 1 < len(runs) else "")
        if run[0].isascii() and run[0].isalpha():
            is_spelled = len(runs) > 1 and len(run) > 1 and not set(run.lower()) & set("aeiouy")
            in_host = address and before == "."  # capitals have no meaning there
            spoken.append(" ".join(run.lower()) if is_spelled else letters(run.lower() if in_host else run))
        elif run[0].isdecimal():
            spoken.append(numbers.digits(run) if address and len(run) >= _LONG_NUMBER else numbers.cardinal(run))
        else:
            spoken.append(SYMBOLS.get(run, "") if address else _sign(run, before[-1:], after[:1]))
    return " ".join(spoken)


def _sign(sign: str, before: str, after: str) -> str:
    """A sign between two characters, or at an edge."""
    numeric = before.isdecimal() and after.isdecimal()
    inside = before.isalnum() and after.isalnum()
    quiet = sign in "_',:;!?" or (sign in "~/" and not numeric) or (sign in CURRENCIES and after.isdecimal())
    quiet = quiet or (sign in "*|" and not inside)
    name = "" if quiet else SYMBOLS.get(sign, "")
    if sign == "*" and inside and not numeric:
        name = "star"
    if sign == ".":
        name = "point" if numeric else "dot" if before and after else ""
    elif sign == "-":
        name = "minus" if after.isdecimal() else ""
    elif sign == "#":
        name = "number" if after.isdecimal() else "sharp" if before.isalpha() else "hashtag"
    return name


def _number_with(tokens: Sequence[str]) -> Reading | None:
    """An amount and what it counts: 5 km, $5 million, 7:45 p.m., 2 1/2, 3 March."""
    amount, (base, mark) = tokens[0], split_mark(tokens[1])
    first, second = None, None
    money = _LONE_AMOUNT.fullmatch(amount)
    if money and base in SCALES:
        first, second = numbers.cardinal(money[2]), f"{base} {CURRENCIES[money[1]][1]}"
    elif numbers.NUMBER.fullmatch(amount) and base in UNITS:
        first, second = numbers.cardinal(amount), numbers.measure(amount, base)
    elif "/" in amount and base in UNITS:
        first, second = numbers.phrase(amount), numbers.measure(amount, base)
    elif (half := _HALF.fullmatch(base)) and (hour := re.fullmatch(r"(\d\d?)(?::(\d\d))?", amount)):
        first, second = numbers.clock(hour[1], hour[2] or "00", half[1])[:-4], f"{half[1].lower()} m"
        mark = _ending(base, mark, tokens[2] if len(tokens) > 2 else "")
    elif amount.isdecimal() and re.fullmatch(r"[1-9]/[1-9]\d?", base):
        part = numbers.phrase(base) or ""
        first, second = numbers.cardinal(amount), f"and {'a ' + part[4:] if part.startswith('one ') else part}"
    elif _DAY.fullmatch(amount) and base in MONTH_NAMES:
        first, second = f"the {numbers.ordinal(amount)} of", MONTH_NAMES[base]
    if first is None or second is None:
        return None
    return 2, [(word, 0) for word in first.split()] + [(word, 1) for word in _with_mark(second, mark)]


def _month_day(tokens: Sequence[str]) -> Reading | None:
    """March 3rd, Jan. 5."""
    base, mark = split_mark(tokens[1])
    if tokens[0] not in MONTH_NAMES or not _DAY.fullmatch(base):
        return None
    day = [(word, 1) for word in _with_mark(numbers.ordinal(base), mark)]
    return 2, [(MONTH_NAMES[tokens[0]], 0), *day]


def _sign_between(tokens: Sequence[str]) -> Reading | None:
    """10 - 20 is a range, 5 - 3 = 2 a difference, 2 * 3 a product."""
    if tokens[0] not in MUTE or len(tokens) < 2 or not tokens[1][0].isdecimal():
        return None
    if tokens[0] == "*":
        return 1, [("times", 0)]
    return 1, [("minus" if "=" in tokens else "to", 0)]


def _numbered(tokens: Sequence[str]) -> Reading | None:
    """No. 5, # 5."""
    if tokens[0] in ("No.", "#") and tokens[1][0].isdecimal():
        return 1, [("number", 0)]
    return None


def _phone_groups(tokens: Sequence[str]) -> Reading | None:
    """+44 20 7946 0958: a telephone number in groups is read digit by digit."""
    groups = 0
    bases = [split_mark(token) for token in tokens]
    while groups < len(tokens) and re.fullmatch(r"\d{2,4}(?:-\d{4})?" if groups else r"\+?\d{1,4}", bases[groups][0]):
        groups += 1
        if bases[groups - 1][1]:
            break
    count = sum(c.isdecimal() for base, _ in bases[:groups] for c in base)
    if (
        groups < 2
        or not _PHONE_GROUPS[0] <= count <= _PHONE_GROUPS[1]
        or not re.search(r"\d{4}$", bases[groups - 1][0])
    ):
        return None
    if groups == 2 and len(bases[0][0]) != 3:
        return None
    plus = "plus " if tokens[0][0] == "+" else ""
    phrases = [(plus if k == 0 else "") + numbers.digits(base) for k, (base, _) in enumerate(bases[:groups])]
    return groups, [
        (word, k)
        for k, words in enumerate(phrases)
        for word in _with_mark(words, bases[k][1] or "," * (k < groups - 1))
    ]


_GROUP_RULES: list[Callable[[Sequence[str]], Reading | None]] = [
    _month_day, _phone_groups, _number_with, _sign_between, _numbered,
]  # fmt: skip
