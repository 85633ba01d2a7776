"""Written characters: white space, folding to plain letters, and unsupported characters."""

import re
import unicodedata
from functools import lru_cache

WHITE = (
    " \t\n\r\f\v\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
TOKEN = re.compile(f"[^{WHITE}]+")
MARKS = "?!.;:,"  # final marks of spoken words, the strongest first
CURRENCY = "$£€¥₹₩₽₺฿₪₦₫₱₴₿"
FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
# Non-ASCII symbols that a normaliser must know.
SYMBOLS = frozenset("¢§°‰±×÷µ²³π√∞≈≠≤≥©®™−→⇒Ω★✓✔✗¶" + CURRENCY[1:] + FRACTIONS)
MUTE = frozenset("-*~")  # alone, their reading depends on the next token: a range, a product, a pause, a bullet
PAUSE = "-"  # may be silent without being unsupported
MAX_TOKEN_CHARS = 200
MAX_WORD_LETTERS = 40

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# Written with a full stop that does not end a sentence; ``studio.text`` has their readings.
_ABBREVIATED = (
    "Dr Mr Mrs Ms Pres Prof Rev Sgt Capt Cpt ca Lt Col Gen Maj Cpl Adm Gov Sen Rep Hon Jr Sr St Mt Ft Ave Blvd Rd Inc "
    "Ltd Co Corp No no Nos nos Fig Figs figs Vol vol fig Ch Sec Eq eq p pg ext Apt Hwy Pkwy Ln Bros tsp tbsp oz lb lbs "
    "hr hrs mins secs in ft mi yd min sec gal pt qt yr yrs wk wks Esq Pvt Cmdr Messrs Attn attn est Est Rt Rte hon "
    "Supt Msgr c v al Sat Sun Assoc Asst Ct Cres Bldg bldg Univ Intl Natl govt Govt max Max Min avg Approx misc "
    "yds sq cu fl Rs Tel tel Drs Mx Rm Op doz mos Calif Tex Fla Ariz Colo Conn Mich Minn Nebr Nev Okla Tenn Wis Wyo "
    "ch incl excl qty Qty Assn ver Ver Ste Pt esp viz Amb Atty Det Insp Cdr Brig Mme Pfc Pl Sq Fwy Dist "
    "Mon Tue Tues Wed Thu Thur Thurs Fri "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec etc vs Vs approx dept Dept pp cf Ph.D "
    "Cf Pp Pg Avg Incl Excl Esp Viz apt ste rm &c"
)
ABBREVIATIONS = frozenset(_ABBREVIATED.split())


BREAK = "\0"  # separates pieces of a token
_TYPOGRAPHIC = {
    **dict.fromkeys('"“”„‟«»‹›「」『』()[]{}`', BREAK),
    **dict.fromkeys("’‘‛ʼ′´＇", "'"),
    **dict.fromkeys("‐‑‒–⁃", "-"),
    **dict.fromkeys("—―⸺", "--"),
    **dict.fromkeys("•·‣◦▪●¿¡", ""),
    "…": "...",
    "\u200b": BREAK,  # the zero-width space separates words
    **dict.fromkeys("⁄∕", "/"),
    "º": "°",
    "\u2126": "Ω",  # the ohm sign, whose decomposition is this letter
    # Superscripts are powers: their decomposition would make 10⁶ one hundred and six.
    **{char: f"^{plain}" for char, plain in zip("⁰¹⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "01456789+-n", strict=True)},
    **dict(zip("㎟㎠㎡㎢㎣㎤㎥㎦", "mm² cm² m² km² mm³ cm³ m³ km³".split(), strict=True)),
    "㎧": "m/s",
    "㎨": "m/s²",
    "№": "#",
    "″": "inch",
    "♭": f"{BREAK}flat",
    "♯": f"{BREAK}sharp",
    "μ": "µ",
    **dict(zip("ßẞæÆœŒøØđĐðÐþÞłŁıŋŊħĦĸ", "ss SS ae AE oe OE o O d D d D th Th l L i ng Ng h H k".split(), strict=True)),
}
_DOTTED = re.compile(r"[A-HJ-Z]|[A-Za-z](?:\.[A-Za-z])+|LL\.[BDM]|[BDM]\.(?:Sc|Ed|Eng|Phil|Com|Tech)")


def is_abbreviation(base: str) -> bool:
    """Whether a full stop after ``base`` belongs to it: Dr, p.m, J (but not I)."""
    tail = base.rpartition("-")[2]  # ex-C.I.A.
    is_short = base in ABBREVIATIONS or (("." in base or base[:1].isdecimal()) and tail in ABBREVIATIONS)  # Mon.-Fri
    return is_short or _DOTTED.fullmatch(tail if "." in tail else base) is not None


def split_mark(text: str) -> tuple[str, str]:
    """A piece's word and its trailing mark; the full stop of an abbreviation stays with the word."""
    if text[-1] not in MARKS or (text[-1] == "." and is_abbreviation(text[:-1])):
        return text, ""
    return text[:-1], text[-1]


def with_final_mark(word: str) -> str:
    """A word, or its phonemes, with a full stop if it has no final mark."""
    return word if word[-1:] in MARKS else f"{word}."


@lru_cache(maxsize=4096)
def fold(char: str) -> str | None:
    """A character as plain ones: itself, its base letter, ``""`` (invisible), or None (unsupported)."""
    if char == BREAK:  # reserved here; in a text it is a control character
        return None
    if char in _TYPOGRAPHIC:
        return _TYPOGRAPHIC[char]
    if " " < char < "\x7f" or char in SYMBOLS:
        return char
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return ""
    if unicodedata.category(char) == "Nd":
        return str(unicodedata.digit(char))
    base = "".join(c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) != "Mn")
    plain = "".join(_TYPOGRAPHIC.get(c, c) for c in base)
    return plain if plain and all(c == BREAK or c in SYMBOLS or " " < c < "\x7f" for c in plain) else None


def why_unsayable(char: str, language: str) -> tuple[str, dict[str, str]]:
    """The reason why ``fold`` rejects a character: its code and values."""
    category, name = unicodedata.category(char), unicodedata.name(char, "no name").lower()
    code = f"U+{ord(char):04X}"
    if category == "Cc":
        return "control", {"code": code}
    if category == "Cs":
        return "half", {"code": code}
    if category in ("Co", "Cn"):
        return "unassigned", {"code": code}
    if category[0] in "LMN":
        return "letter", {"language": language, "char": char, "name": name}
    return "sign", {"char": char, "name": name}
