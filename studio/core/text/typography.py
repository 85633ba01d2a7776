"""Written characters: white space, folding to plain letters, and unsupported characters."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

WHITE = (
    " \t\n\r\f\v\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
TOKEN = re.compile(f"[^{WHITE}]+")
MARKS = "?!.;:,"  # final marks of spoken words, the strongest first
CURRENCY = "$£€¥₹"
FRACTIONS = "¼½¾⅓⅔⅛⅜⅝⅞"
SYMBOLS = frozenset("£€¥₹¢§°±×÷µ²³π√∞≈≠≤≥©®™" + FRACTIONS)  # non-ASCII symbols that a normaliser must know
MUTE = frozenset("-*")  # alone, their reading depends on the next token: a range, a product, a pause, a bullet
PAUSE = "-"  # may be silent without being unsupported
MAX_TOKEN_CHARS = 200
MAX_WORD_LETTERS = 40

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
# Written with a full stop that does not end a sentence; ``studio.text`` has their readings.
_ABBREVIATED = (
    "Dr Mr Mrs Ms Prof Rev Sgt Capt Lt Col Gen Gov Sen Rep Hon Jr Sr St Mt Ft Ave Blvd Rd Inc Ltd Co Corp No "
    "Nos Fig Vol Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec etc vs Vs approx dept Dept pp cf Ph.D"
)
ABBREVIATIONS = frozenset(_ABBREVIATED.split())

_BREAK = "\0"
_TYPOGRAPHIC = {
    **dict.fromkeys('"“”„‟«»‹›「」『』()[]{}`', _BREAK),
    **dict.fromkeys("’‘‛ʼ′´＇", "'"),
    **dict.fromkeys("‐‑‒–−⁃", "-"),
    **dict.fromkeys("—―⸺", "--"),
    **dict.fromkeys("•·‣◦▪●¿¡", ""),
    "…": "...",
    "⁄": "/",
    "№": "#",
    "μ": "µ",
    **dict(zip("ßẞæÆœŒøØđĐðÐþÞłŁıŋŊħĦĸ", "ss SS ae AE oe OE o O d D d D th Th l L i ng Ng h H k".split(), strict=True)),
}
_PLAIN = re.compile(r"[A-Za-z]{1,40}(?:'[A-Za-z]{1,10})?[,.?!;:]?")
_SPLIT = re.compile(r"\0+|-{2,}|\.{2,}(?=[A-Za-z0-9])")
_LONG = re.compile(rf"[A-Za-z']{{{MAX_WORD_LETTERS + 1},}}")
_DOTTED = re.compile(r"[A-HJ-Z]|[A-Za-z](?:\.[A-Za-z])+")
_LAYOUT = "*_~|"  # around a word: emphasis and tables
_TAIL = "'" + _LAYOUT + MARKS
_ANGLED = re.compile(r"<(/?)([^<>]*[A-Za-z][^<>]*?)(/?)>")
# HTML elements whose tags appear in copied text; "<tags>" and "<me@example.com>" are spoken.
_ELEMENTS = frozenset(
    "a abbr b big blockquote body br center cite code dd del div dl dt em font h1 h2 h3 h4 h5 h6 head hr html i img "
    "ins kbd li link meta ol p pre q s samp script small span strike strong style sub sup table tbody td th thead "
    "title tr tt u ul var".split()
)
_A_TAG = "a tag of markup is not spoken"


@dataclass(frozen=True)
class TokenPiece:
    """Input of a normaliser: ASCII and SYMBOLS, at most one trailing mark, and its place in the text as sent."""

    text: str
    char_start: int
    char_end: int


@dataclass(frozen=True)
class UnsupportedSpan:
    """[char_start, char_end) of the text as sent cannot be spoken."""

    char_start: int
    char_end: int
    why: str


def is_abbreviation(base: str) -> bool:
    """Whether a full stop after ``base`` belongs to it: Dr, p.m, J (but not I)."""
    return base in ABBREVIATIONS or _DOTTED.fullmatch(base) is not None


def split_mark(text: str) -> tuple[str, str]:
    """A piece's word and its trailing mark; the full stop of an abbreviation stays with the word."""
    if text[-1] not in MARKS or (text[-1] == "." and is_abbreviation(text[:-1])):
        return text, ""
    return text[:-1], text[-1]


def with_final_mark(word: str) -> str:
    """A word, or its phonemes, with a full stop where it has no final mark."""
    return word if word[-1:] in MARKS else f"{word}."


@lru_cache(maxsize=4096)
def fold(char: str) -> str | None:
    """A character as plain ones: itself, its base letter, ``""`` (invisible), or None (unsupported)."""
    if char == _BREAK:  # reserved here; in a text it is a control character
        return None
    if char in _TYPOGRAPHIC:
        return _TYPOGRAPHIC[char]
    if " " < char < "\x7f" or char in SYMBOLS:
        return char
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return ""
    base = "".join(c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) != "Mn")
    plain = "".join(_TYPOGRAPHIC.get(c, c) for c in base)
    return plain if plain and all(c == _BREAK or " " < c < "\x7f" for c in plain) else None


def why_unsayable(char: str) -> str:
    """Why ``fold`` refuses a character, and what to write instead."""
    category, name = unicodedata.category(char), unicodedata.name(char, "no name").lower()
    code = f"U+{ord(char):04X}"
    if category == "Cc":
        return f"{code} is a control character: it makes no sound"
    if category == "Cs":
        return f"{code} is half a character (a lone surrogate): send whole characters"
    if category in ("Co", "Cn"):
        return f"{code} is not an assigned character"
    if category[0] in "LMN":
        return f"this voice speaks English letters only: {char} ({name}) is not one of them"
    return f"this voice has no reading for {char} ({name}): write it in words"


def split_token(token: str, start: int) -> tuple[list[TokenPiece], list[UnsupportedSpan]]:
    """Pieces and unsupported spans of one written token that begins at ``start``, each in order.

    Quotes, brackets, dashes and ellipses split a token; quotes and emphasis around a word are dropped. Markup tags, and
    signs of emphasis and tables that surround no word, are unsupported.
    """
    if len(token) <= MAX_WORD_LETTERS and _PLAIN.fullmatch(token):
        return [TokenPiece(token, start, start + len(token))], []
    text, starts, ends, spans = _fold_token(token, start)
    pieces: list[TokenPiece] = []
    begin = 0
    for gap in [*_SPLIT.finditer(text), None]:
        stop = gap.start() if gap else len(text)
        pause = bool(gap) and text[stop] != _BREAK
        piece = _trim(text, begin, stop, pause)
        if piece is None and set(text[begin:stop]) & set(_LAYOUT):
            spans.append(UnsupportedSpan(starts[begin], ends[stop - 1], "signs around no word are not spoken"))
        elif piece is None and pieces and stop > begin:
            pieces[-1] = _add_mark(pieces[-1], text[begin:stop])
        elif piece is not None:
            word, first = piece
            place = (starts[first], ends[stop - 1])
            if _LONG.search(word):
                spans.append(UnsupportedSpan(*place, f"words of at most {MAX_WORD_LETTERS} letters can be spoken"))
            else:
                pieces.append(TokenPiece(word, *place))
        begin = gap.end() if gap else stop
    return pieces, sorted(spans, key=lambda span: span.char_start)


def _add_mark(piece: TokenPiece, after: str) -> TokenPiece:
    """A piece with the mark that follows its closing quote or bracket, unless it has one already."""
    mark = next((mark for mark in MARKS if mark in after), "")
    if not mark or piece.text in MUTE or piece.text[-1] in MARKS:
        return piece
    return TokenPiece(piece.text + mark, piece.char_start, piece.char_end)


def _fold_token(token: str, start: int) -> tuple[str, list[int], list[int], list[UnsupportedSpan]]:
    """The folded token, the start and end of each of its characters in the text as sent, and the unsupported spans."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    spans: list[UnsupportedSpan] = []
    in_span = False  # whether the character before was unsupported
    breaks, tags = _angled(token)
    for at, char in enumerate(token, start):
        is_tag = at - start in tags
        plain = None if is_tag else _BREAK if at - start in breaks else fold(char)
        if plain is None and not in_span:
            spans.append(UnsupportedSpan(at, at + 1, _A_TAG if is_tag else why_unsayable(char)))
            text.append(_BREAK)
            starts.append(at)
            ends.append(at + 1)
        elif plain is None or (not plain and in_span):
            spans[-1] = UnsupportedSpan(spans[-1].char_start, at + 1, spans[-1].why)
        elif not plain and ends:
            ends[-1] = at + 1  # an accent or an invisible character belongs to the letter before it
        else:
            text.extend(plain)
            starts.extend([at] * len(plain))
            ends.extend([at + 1] * len(plain))
        in_span = plain is None or (not plain and in_span)
    return "".join(text), starts, ends, spans


def _angled(token: str) -> tuple[set[int], set[int]]:
    """Indices in a token of angle brackets around other text, and of the characters of markup tags."""
    breaks, tags = set[int](), set[int]()
    for match in _ANGLED.finditer(token):
        if match[1] or match[3] or match[2].lower() in _ELEMENTS:
            tags |= {*range(*match.span())}
        else:
            breaks |= {match.start(), match.end() - 1}
    return breaks, tags


def _trim(text: str, begin: int, stop: int, pause: bool) -> tuple[str, int] | None:
    """A piece stripped to a word and one trailing mark, and its start in ``text``; None where nothing is left."""
    bare = text[begin:stop]
    if bare in MUTE:
        return bare, begin
    while begin < stop and text[begin] in _TAIL:
        if text[begin] in ".~" and text[begin + 1 : begin + 2].isdecimal():
            break
        begin += 1
    end = stop
    while end > begin and text[end - 1] in _TAIL:
        end -= 1
    word, tail = text[begin:end], text[end:stop]
    if not word:
        return None
    if tail.startswith(".") and is_abbreviation(word):
        word, tail = word + ".", tail[1:]
    mark = next((mark for mark in MARKS if mark in tail), "," if pause else "")
    return word + mark, begin
