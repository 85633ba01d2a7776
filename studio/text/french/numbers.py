"""Numbers in French words: cardinals, ordinals, decimals, fractions, times of day."""

import re
from functools import lru_cache

from studio.text.numbers import LONGEST_NUMBER, SIGN

# A number as written: thousands by spaces or points, or by several commas; decimals by a comma, or by a point.
NUM = (
    r"(?:[1-9]\d{0,2}(?: \d{3})+(?! ?\d)(?:,\d+)?|[1-9]\d{0,2}(?:\.\d{3})+(?![.\d])(?:,\d+)?|[1-9]\d{0,2}(?:,\d{3}){2,}"
    r"|\d+(?:[.,]\d+)?|,\d+)"
)
AMOUNT = f"{SIGN}?{NUM}"
SIGNS = {"-": "moins", "−": "moins", "+": "plus", "~": "environ", "±": "plus ou moins"}
_FRACTION_NAMES = {2: "demi", 3: "tiers", 4: "quart"}


@lru_cache(maxsize=2048)
def _spell(number: int, to: str) -> str:
    """num2words' reading. Imported lazily: only texts with numbers need it."""
    from num2words import num2words

    spoken = num2words(number, lang="fr", to=to)
    if to == "cardinal":
        return spoken
    return re.sub("(vingt|cent)sième", r"\1ième", spoken).removeprefix("un ")  # quatre-vingtième, millionième


def digits(text: str) -> str:
    """Digit by digit; other characters are skipped."""
    return " ".join(_spell(int(c), "cardinal") for c in text if c.isdecimal())


def whole(text: str) -> str:
    """A whole number; zeros at its beginning are read."""
    bare = text.lstrip("0")
    if len(bare) > LONGEST_NUMBER:
        return digits(text)
    zeros = ["zéro"] * (len(text) - len(bare))
    return " ".join([*zeros, _spell(int(bare), "cardinal")] if bare else zeros)


def to_plain(text: str) -> str:
    """A written number without its sign: nothing between thousands, and a comma, or a point, before decimals."""
    text = text.lstrip("".join(SIGNS)).replace(" ", "")
    if re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?", text):
        text = text.replace(".", "")
    return text.replace(",", "") if text.count(",") > 1 else text


def is_one(text: str) -> bool:
    """Whether the noun after this number is singular: numbers below two."""
    return abs(float(to_plain(text).replace(",", "."))) < 2


def cardinal(text: str, *, feminine: bool = False) -> str:
    """A number as written: sign, thousands, decimals. Feminine: une heure, vingt et une."""
    start = f"{SIGNS[text[0]]} " if text[0] in SIGNS else ""
    amount, mark, decimals = _parts(to_plain(text))
    spoken = start + (whole(amount) if amount else "zéro")
    if not decimals:
        return spoken + "e" if feminine and re.search(r"(?:^|\W)un$", spoken) else spoken
    return f"{spoken} {mark} {whole(decimals) if len(decimals) < 4 else digits(decimals)}"


def _parts(plain: str) -> tuple[str, str, str]:
    """The whole part of a number, the word for the decimal sign, and the decimals."""
    amount, comma, decimals = plain.partition(",")
    if comma:
        return amount, "virgule", decimals
    amount, _, decimals = plain.partition(".")
    return amount, "point", decimals


def ordinal(number: int, *, feminine: bool = False) -> str:
    """premier, première, deuxième."""
    return "première" if feminine and number == 1 else _spell(number, "ordinal")


def fraction(top: str, bottom: str) -> str:
    """1/2: un demi; 3/4: trois quarts; 5/8: cinq huitièmes; 15/20: quinze sur vingt."""
    above, below = int(top), int(bottom)
    if not 0 < above < below < 10:
        return f"{whole(top)} sur {whole(bottom)}"
    name = _FRACTION_NAMES.get(below) or ordinal(below)
    return f"{whole(top)} {name}{'s' if above > 1 and not name.endswith('s') else ''}"


def power(exponent: str) -> str:
    """An exponent, spoken after its base: au carré, au cube, puissance six."""
    plain = exponent.translate({ord("²"): "2", ord("³"): "3", ord("^"): None})
    return {"2": "au carré", "3": "au cube"}.get(plain) or f"puissance {cardinal(plain)}"


def clock(hours: str, minutes: str = "", seconds: str = "") -> str:
    """14h30: quatorze heures trente; with seconds, minutes are named."""
    hour, minute, second = (int(one or "0") for one in (hours, minutes, seconds))
    spoken = f"{cardinal(str(hour), feminine=True)} heure{'s' * (hour > 1)}"
    if minute or second:
        spoken += f" {cardinal(str(minute), feminine=True)}"
    if second:
        spoken += f" minute{'s' * (minute > 1)} {cardinal(str(second), feminine=True)} seconde{'s' * (second > 1)}"
    return spoken
