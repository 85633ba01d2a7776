"""Text normalisation, written tokens to spoken words: ``english()`` reads numbers and signs, ``plain()`` only words."""

import re
from collections.abc import Sequence
from importlib.util import find_spec

from studio.core.errors import NeedsPackage
from studio.core.ports import Normaliser
from studio.core.text.language import DEFAULT
from studio.core.text.typography import MARKS, MUTE, split_mark
from studio.text import numbers
from studio.text.addresses import ADDRESS, ADDRESS_RUN, LONG_NUMBER
from studio.text.beside import Beside
from studio.text.context import read_in_context
from studio.text.groups import closing_stop, is_code, read_group
from studio.text.tables import (
    ABBREVIATIONS,
    CAPITAL_WORDS,
    CURRENCIES,
    DOTTED,
    MONTH_NAMES,
    NUMBERED,
    OPERATORS,
    PARTS,
    READ_AS,
    SINGULARS,
    SOUNDS,
    SPELLED,
    STARTERS,
    SYMBOLS,
    WORDS_TOO,
)
from studio.text.tokens import EXPONENT, phrase

GROUP = "pip install 'streaming-tts-studio[text]'"
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*'?")
_BESIDE = (
    frozenset("Dr St Ft pp in IV ft x N A Gen Col Gov Sen Rep Rev Adm Lt Sat Sun Rs kr".split())
    | frozenset("IVX")
    | frozenset(("exp", "Exp"))
    | frozenset(MONTH_NAMES)
    | frozenset(NUMBERED)
)  # words whose reading depends on their neighbours
_OPERATOR = "|".join(map(re.escape, OPERATORS))
_RUN = re.compile(
    rf"[A-Za-z]+(?:'[A-Za-z]+)*|\d{{1,9}}(?:\.\d{{1,9}}){{2,}}|\d{{1,3}}(?:,\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<![A-Za-z\d])\.\d+|{_OPERATOR}|{EXPONENT}|."
)
_INNER = re.compile(
    r"[-/_]+|(?<=[,:;!?])(?=[A-Za-z])|(?<=[a-z0-9%]\.)(?=[A-Z][a-z])|(?<=\b[A-Z]\.)(?=[A-Z][a-z])|(?<=[a-z]\.)(?=[IA]\b)"
)
_NUMERAL = re.compile("[ivx]+|[IVXLC]+(?:th|st|nd|rd)")
_COMPARED = re.compile(r"([<>≤≥≈]|[<>]=)([^<>=]*\d[^<>=]*)")
_CODE = re.compile(r"#(?![0-9A-F]{6}\Z)([A-Z]{1,4}-\d\S*)")  # order #A-1234; not the hashtag #G20
_SHORT_AND_NUMBER = re.compile(rf"({'|'.join(map(re.escape, ABBREVIATIONS))})(\d\S*)")
_DOTS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]?|LL\.[BDM]\.?")
_DEGREE = re.compile(r"([BDM])\.([A-Z][a-z]+)\.?")  # B.Sc., M.Phil.
_LONG_CODE = 6  # digits; numbers behind letters with at least so many are read digit by digit: GB123456789
_LETTERS = re.compile(
    "[A-Z]o[A-Z]|[HK](?:Cl|Br)|(?:Li|Na|Mg|Al|Ca|Cr|Fe|Cu|Zn|Ag|Ba|Pb)(?:Cl|Br|F|I|OH|O|CN|S)"
)  # YoY, NaCl
_CAMEL = re.compile("[a-z]{2,}(?:[A-Z][a-z]{2,}|Id|By|To|At|On|In|Of|Ms)+")  # getUserName
_CAPITAL = re.compile("(?=[A-Z])")

_WORDS_TOO = frozenset(map(str.lower, WORDS_TOO))
Words = list[tuple[str, int]]  # each with the index of its token


def letters(word: str) -> str:
    """The reading of a word of letters: lower case; acronyms are spelled (TTS: t t s)."""
    bare, tail = word, ""
    if word.endswith("s") and word[:-1].rstrip("'") in ("PhD", "BSc", "MSc"):
        bare, tail = word[:-1].rstrip("'"), "'s"
    if len(word) > 2 and word.endswith("s") and word[:-1].rstrip("'").isupper():
        bare, tail = word[:-1].rstrip("'"), "'s"
    lower = bare.lower()
    if bare in READ_AS:
        return READ_AS[bare] + tail
    if _LETTERS.fullmatch(bare):
        return " ".join(lower) + tail
    if _CAMEL.fullmatch(bare):
        return _CAPITAL.sub(" ", bare).lower() + tail
    if 1 < len(word) <= 5 and word.islower() and word.isalpha() and not set(word) & set("aeiouy") | {word} & SOUNDS:
        return " ".join(word)
    if not bare.isupper() or not bare.isalpha() or len(bare) == 1:
        return word.lower().strip("'")
    spelled = lower in SPELLED or not set(lower) & set("aeiouy")
    if len(bare) <= 3:
        spelled = lower not in CAPITAL_WORDS
    return " ".join(lower) + tail if spelled and len(bare) <= 6 else word.lower().strip("'")


class PlainNormaliser:
    """Reads words of letters; other tokens have no reading."""

    unread = "no_numbers"

    def in_language(self, code: str) -> Normaliser:
        """See ``studio.core.text.language``."""
        if code != DEFAULT:
            raise NeedsPackage("French is read with num2words, which is not installed", GROUP)
        return self

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        for k, token in enumerate(tokens):
            base, mark = split_mark(token)
            if not mark and base[-1] == "." and base[:-1] in WORDS_TOO:
                mark = "."
            parts = [part for part in base.rstrip(".").split("-") if part]
            if parts and all(_WORD.fullmatch(part) for part in parts):
                out += [(word, k) for word in _with_mark(" ".join(map(letters, parts)), mark)]
        return out


class EnglishNormaliser:
    """Reads words, numbers, dates, times, money, measures, abbreviations and signs."""

    def in_language(self, code: str) -> Normaliser:
        """See ``studio.core.text.language``."""
        if code == "fr":
            from studio.text.french.normalise import FrenchNormaliser

            return FrenchNormaliser()
        return self

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> list[tuple[str, int]]:
        out: list[tuple[str, int]] = []
        k = 0
        while k < len(tokens):
            words = _read(tokens, k, [*before, *tokens[:k]])
            out += [(word, k + offset) for word, offset in words]
            k += max((offset for _, offset in words), default=0) + 1
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


def _with_mark(spoken: str, mark: str) -> list[str]:
    """Words of a phrase, the last one with the token's mark."""
    words = spoken.split()
    if words and words[-1][-1] not in MARKS:
        words[-1] += mark
    return words


def _read(tokens: Sequence[str], k: int, before: Sequence[str]) -> Words:
    """The reading of token k, alone or with the tokens after it; offsets count from k."""
    token = tokens[k]
    base, mark = split_mark(token)
    is_numeral = _NUMERAL.fullmatch(base) is not None and (
        base[0].isupper() or (bool(before) and before[-1].capitalize() in PARTS)
    )
    last = before[-1] if before else ""
    is_read_alone = base not in _BESIDE and not is_numeral and last.lower() != "per"
    if is_read_alone and _WORD.fullmatch(base) and not base.removesuffix("'s").isupper():
        return [(word, 0) for word in _with_mark(letters(base), mark)]
    rest = tokens[k + 1 :]
    if compared := _COMPARED.fullmatch(token):
        spoken = OPERATORS.get(compared[1]) or SYMBOLS[compared[1]]
        return [*((word, 0) for word in spoken.split()), *_read([compared[2], *rest], 0, before)]
    if rest and not mark and (words := read_group(tokens[k:], last)) is not None:
        return _before_noun(words) if last in ("a", "an", "A") else words
    at = Beside(before[-2] if len(before) > 1 else "", last, rest[0] if rest and not mark else "", rest)
    is_day = base in ("Sat.", "Sun.") and mark
    spoken = None if is_day else read_in_context(base, at)  # Sat., 9 a.m.
    if spoken is None and (token in MUTE or base == ">"):
        return []
    if spoken is None:
        spoken = _read_one(base)
    words = [(word, 0) for word in _with_mark(spoken, _ending(base, mark, rest[0] if rest else ""))]
    is_unit = (len(words) > 1 and ":" not in base) or base in ABBREVIATIONS
    return _before_noun(words) if last in ("a", "an", "A") and is_unit else words


def _before_noun(words: Words) -> Words:
    """Put units in the singular (a five dollar note, a two gigabyte disk), unless there are cents."""
    if any(word in ("cents", "pence") for word, _ in words) and any(word == "and" for word, _ in words):
        return words
    return [(SINGULARS.get(word, word), at) for word, at in words]


def _ending(base: str, mark: str, after: str) -> str:
    """The mark of a token: its own, or the full stop of an abbreviation that ends the sentence."""
    if mark or not base.endswith("."):
        return mark
    if base in ("St.", "Dr."):
        return "." if not after else ""
    if base in NUMBERED and is_code(base, after):
        return ""
    if stop := closing_stop(base, after):
        return stop
    many = (base.count(".") > 1 or len(base) == 2) and base.lower() not in DOTTED
    return "." if many and (not after or split_mark(after)[0] in STARTERS) else ""


def _read_one(base: str) -> str:
    """The reading of a single token; empty if it has none."""
    spoken = ABBREVIATIONS.get(base) or DOTTED.get(base.lower()) or phrase(base)
    if spoken is not None:
        return spoken
    if base[:4] in DOTTED and len(base) > 4:  # e.g.this
        return f"{DOTTED[base[:4]]} {_read_one(base[4:])}"
    if (match := _SHORT_AND_NUMBER.fullmatch(base)) is not None:  # c.1500, No.5, pp.3-7
        short = NUMBERED.get(match[1]) or ABBREVIATIONS[match[1]]
        return f"{short} {_read_one(match[2])}"
    if base.endswith("'s") and (name := ABBREVIATIONS.get(base[:-2])):  # Jr.'s
        return f"{name}'s"
    if code := _CODE.fullmatch(base):
        return f"number {_read_one(code[1])}"
    if degree := _DEGREE.fullmatch(base):
        return f"{degree[1].lower()} {'s c' if degree[2] == 'Sc' else degree[2].lower()}"
    if _DOTS.fullmatch(base):
        return " ".join(base.lower().replace(".", ""))
    parts = [] if ADDRESS.fullmatch(base) else [part for part in _INNER.split(base) if part.strip("'")]
    if len(parts) > 1 and not any(c in base for c in "+=<>×÷") and "->" not in base:
        bare = [split_mark(part.lstrip("'")) for part in parts]
        bare = [
            (one[:-1], ".") if one[:-1].lower() in _WORDS_TOO and one[-1:] == "." else (one, mark) for one, mark in bare
        ]
        marks = [_ending(*one, after) for one, after in zip(bare, parts[1:], strict=False)] + [bare[-1][1]]
        spoken = [_with_mark(_read_one(one), mark) for (one, _), mark in zip(bare, marks, strict=True)]
        return " ".join(word for words in spoken for word in words)
    return _runs(base)


def _runs(base: str) -> str:
    """Runs of letters, numbers and signs one by one: mp3, v2.0, C++, me@example.com."""
    if not base.strip("/#"):
        return ""  # alone they are layout: no reading
    address = ADDRESS.fullmatch(base) is not None
    runs = (ADDRESS_RUN if address else _RUN).findall(base)
    spoken: list[str] = []
    for at, run in enumerate(runs):
        before, after = (runs[at - 1] if at else ""), (runs[at + 1] if at + 1 < len(runs) else "")
        if run == "s" and before[-1:].isdecimal() and at + 1 == len(runs):
            continue  # MP3s
        if run == "s" and before == "'" and at + 1 == len(runs) and runs[at - 2][-1:].isdecimal():
            spoken[-2:] = [f"{spoken[-2]}'s"]  # the 747's wings
            continue
        if run[0].isascii() and run[0].isalpha():
            is_spelled = len(runs) > 1 and len(run) > 1 and not set(run.lower()) & set("aeiouy")
            in_host = address and before == "."  # capitals have no meaning there
            plain = run.lower() if address and run in READ_AS else letters(run.lower() if in_host else run)
            spoken.append(" ".join(run.lower()) if is_spelled else plain)
        elif run[-1].isdecimal() and run[0] in ".0123456789":
            reading = phrase(run) if run.count(".") > 1 else None
            by_digits = len(run) >= (LONG_NUMBER if address else _LONG_CODE) and (address or before.isalpha())
            reading = reading or (numbers.digits(run) if by_digits else numbers.cardinal(run))
            spoken.append(numbers.plural(reading) if after == "s" and at + 2 == len(runs) else reading)
        elif run in OPERATORS:
            spoken.append(OPERATORS[run])
        elif len(run) > 1 or (run in "²³" and before[-1:].isalnum()):
            spoken.append(numbers.power(run))
        elif run == "µ" and not after[:1].isalpha():
            spoken.append("mu")
        else:
            in_address = {"~": "tilde"}.get(run) or SYMBOLS.get(run, "")
            spoken.append(in_address if address else _sign(run, before[-1:], after[:1]))
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
