"""Pieces of a written token: folded to plain characters, without markup, split at quotes, brackets and dashes."""

import html
import re
import unicodedata
from dataclasses import dataclass, replace

from studio.core.text.language import ENGLISH, Language
from studio.core.text.reasons import UnsupportedSpan
from studio.core.text.typography import (
    BREAK,
    CURRENCY,
    FRACTIONS,
    MARKS,
    MAX_WORD_LETTERS,
    MUTE,
    WHITE,
    why_unsayable,
)

_PLAIN = re.compile(r"[A-Za-z]{1,40}(?:'[A-Za-z]{1,10})?[,.?!;:]?")
_SPLIT = re.compile(r"\0+|-{2,}|\.{2,}(?=[A-Za-z0-9])")
_LAYOUT = "*_~|"  # around a word: emphasis and tables
_TAIL = "'" + _LAYOUT + MARKS
_SHORT_YEAR = re.compile(r"'\d\d(?![\w'])")  # Nov '23
_EXTENSION = re.compile(
    r"\.(?:txt|pdf|docx?|csv|json|xml|html?|css|js|py|md|wav|mp[34]|flac|ogg|zip|gz|exe|png|jpe?g|gif|svg|env|ya?ml|ini|net"
    r"|NET)\b"
)
_ANGLED = re.compile(r"<(/?)([^<>]*[A-Za-z][^<>]*?)(/?)>")
# HTML elements whose tags appear in copied text; "<tags>" and "<me@example.com>" are spoken.
_ELEMENTS = frozenset(
    "a abbr b big blockquote body br center cite code dd del div dl dt em font h1 h2 h3 h4 h5 h6 head hr html i img "
    "ins kbd li link meta ol p pre q s samp script small span strike strong style sub sup table tbody td th thead "
    "title tr tt u ul var section article header footer nav main figure figcaption details summary button svg "
    "think thinking reasoning thought".split()  # the last four: of language models
)
# Elements of SSML and of speech markup; their tags have attributes, too.
_SSML = "speak break prosody emphasis say-as phoneme audio voice lang p s w mark sub desc"
_NAMES = "|".join(sorted({*_ELEMENTS, *_SSML.split()}, key=len, reverse=True))
_ANY_NAME = r"[A-Za-z][\w:-]{0,30}"
_ATTRIBUTE = r"""[\w:.-]+=(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]*)"""
_QUOTED = r"""[\w:.-]+=(?:"[^"<>]*"|'[^'<>]*')"""
_TAG = re.compile(
    rf"<(?:/?(?i:{_NAMES})(?:\s+{_ATTRIBUTE})*|{_ANY_NAME}(?:\s+{_QUOTED})+)\s*/?>|<!(?:--.*?--|(?i:doctype)[^<>]*)>",
    re.DOTALL,
)
# The beginning of a tag whose rest may follow after white space.
_OPEN_TAG = re.compile(rf"""[^<>]*(?:<[^<>]+>[^<>]*)*<{_ANY_NAME}(?:\s+{_ATTRIBUTE})*(?:\s+[\w:.-]+=["'][^"'<>]*)?""")
_LINK = re.compile(
    r"(?<=\])\((?:https?://|mailto:|www\.|[/#.])[^()\s]*(?:\([^()\s]*\)[^()\s]*)*\)"
    r"|(?<=\])\([\w%./-]{1,200}\.(?:png|jpe?g|gif|svg|webp|md|html?|pdf)(?:#[\w-]{1,80})?\)"
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_HYPHENATED = re.compile(rf"(?P<first>[A-Za-z]{{2,{MAX_WORD_LETTERS}}})(?P<gap>[-‐][{WHITE}]+)(?=[a-z])")
_JOINED = re.compile("(?:in|of|to|the|and|at|by|up|a)-")  # mother-in-law
_RANGE_GAP = re.compile(rf"(?<=\d[-‐–])[{WHITE}]+(?=\d)")
_LINE_HYPHEN = re.compile(r"(?:.*[^\w'-])?(?:[A-Za-z]{2,40}|\d{1,9})[-‐–]")
# A hyphen at a line's end stays after these: well-known, twenty-one.
_TWO_PARTS = frozenset(
    "well self high low long short half full part ill all old new ex non twenty thirty forty fifty sixty seventy "
    "eighty ninety".split()
)
# A zero-width space separates words, but not in a number or next to a sign.
_NO_SPACE = re.compile(r"(?<![^\W_]|\u200b)\u200b+|\u200b+(?![^\W_]|\u200b)|(?<=\d)\u200b+(?=\d)")
# Single Greek letters are signs; a word of them is not English.
_GREEK_NAMES = dict(
    zip(
        "αβγδεζηθικλνξορστυφχψω",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda nu xi omicron rho sigma tau upsilon phi chi "
        "psi omega".split(),
        strict=True,
    )
)
_LONE_GREEK = re.compile("(?<![α-ωΑ-Ωά-ώ])(?:[αβγδεζηθικλνξορστυφχψω]|[ΓΔΘΛΞΣΦΨ])(?![α-ωΑ-Ωά-ώ])")
_QUOTES = re.compile('["“”„]')
_FEET_INCHES = re.compile(r"\d['′’]\d\d?\Z")  # before a double quote: 5'11"
_FEET = re.compile(r"\d{1,3}")  # before an apostrophe at the end: 6' 2"
# Single characters of Roman numerals: their decomposition would be read as a letter.
_LONE_ROMAN = re.compile("(?<![Ⅰ-ⅿ])[ⅠⅤⅩⅬⅭⅮⅯⅰ-ⅿ](?![Ⅰ-ⅿ])")
_SECONDS = re.compile(rf"(?<![\d{FRACTIONS}])″")  # y″
# A dot between numbers or units is a product: 3·4, kg·m².
_TIMES_DOT = re.compile(r"(?<=\d)[·⋅∙](?=\d)|(?<=[A-Za-z])(?<![A-Za-z]{4})[·⋅∙](?=[A-Za-z]{1,3}(?![A-Za-z]))")


@dataclass(frozen=True)
class TokenPiece:
    """Input of a normaliser: plain characters, at most one trailing mark, and its position in the text as sent.

    Attributes:
        is_quoted: whether a quotation has begun before it and not ended.
    """

    text: str
    char_start: int
    char_end: int
    is_quoted: bool = False


def token_parts(token: str, language: Language = ENGLISH) -> list[tuple[int, int]]:
    """The written tokens in a text that ``may_continue`` held together: where each begins and ends.

    White space does not split a token inside a markup tag, after the hyphen of a word hyphenated at a line end, and
    before a mark that the language writes after white space.
    """
    tags, _, plains = _markup(token, language)
    parts: list[tuple[int, int]] = []
    begin: int | None = None
    for at, char in enumerate(token):
        if char in WHITE and at not in tags and at not in plains:
            if begin is not None:
                parts.append((begin, at))
            begin = None
        elif begin is None:
            begin = at
    return parts if begin is None else [*parts, (begin, len(token))]


def quotes(token: str, is_quoted: bool) -> tuple[list[int], list[int]]:
    """Indices of the double quotes that are inch marks, and of those that begin or end a quotation.

    Args:
        is_quoted: whether a quotation was open before the token.
    """
    inches: list[int] = []
    turns: list[int] = []
    for match in _QUOTES.finditer(token):
        at, before = match.start(), token[: match.start()]
        is_number = before[-1:] in [*FRACTIONS] or re.search(r"(?<![\d,])\d{1,3}\Z", before) is not None
        if match[0] in '"”' and is_number and (not is_quoted or _FEET_INCHES.search(before)):
            inches.append(at)
            continue
        is_first = not before.strip("([{*_") and token[at + 1 : at + 2].isalnum()
        begins = match[0] in "“„" or (match[0] == '"' and (is_first or not is_quoted))
        if begins != is_quoted:
            turns.append(at)
            is_quoted = begins
    return inches, turns


def split_token(
    token: str, start: int, language: Language = ENGLISH, is_quoted: bool = False
) -> tuple[list[TokenPiece], list[UnsupportedSpan]]:
    """Pieces and unsupported spans of one written token that begins at ``start``, each in order.

    Quotes, brackets, dashes and ellipses split a token; quotes and emphasis around a word are dropped. Markup tags, and
    signs of emphasis and tables that surround no word, are unsupported.

    Args:
        is_quoted: whether a quotation was open before the token.
    """
    if len(token) <= MAX_WORD_LETTERS and _PLAIN.fullmatch(token):
        return [TokenPiece(token, start, start + len(token), is_quoted)], []
    inches, turns = quotes(token, is_quoted)
    inches = [] if language.spaced else inches  # they are read in English only
    text, starts, ends, spans = _fold_token(token, start, language, inches)
    pieces: list[TokenPiece] = []
    begin = 0
    for gap in [*_SPLIT.finditer(text), None]:
        stop = gap.start() if gap else len(text)
        piece = _trim(text, begin, stop, _pause(text, gap) if gap else "", language)
        if piece is None and set(text[begin:stop]) & set(_LAYOUT):
            spans.append(UnsupportedSpan(starts[begin], ends[stop - 1], "layout"))
        elif piece is None and pieces and stop > begin:
            pieces[-1] = _add_mark(pieces[-1], text[begin:stop])
        elif piece is not None:
            word, first = piece
            if pieces and begin and text[begin - 1] == BREAK and text[begin] in MARKS and first > begin:
                pieces[-1] = _add_mark(pieces[-1], text[begin:first])  # "Hello",he said
            chars = (starts[first], ends[stop - 1])
            if language.too_long.search(word):
                spans.append(UnsupportedSpan(*chars, "long_word", {"count": str(MAX_WORD_LETTERS)}))
            else:
                is_turned = sum(start + turn < chars[0] for turn in turns) % 2 == 1
                pieces.append(TokenPiece(word, *chars, is_quoted != is_turned))
        begin = gap.end() if gap else stop
    return pieces, sorted(spans, key=lambda span: span.char_start)


def _add_mark(piece: TokenPiece, after: str) -> TokenPiece:
    """A piece with the mark that follows its closing quote or bracket, unless it has one already."""
    mark = next((mark for mark in MARKS if mark in after), "")
    if not mark or piece.text in MUTE or piece.text[-1] in MARKS:
        return piece
    return replace(piece, text=piece.text + mark)


def may_continue(token: str) -> bool:
    """Whether the white space after this token may be part of it: in a markup tag, or after a line's hyphen."""
    return _LINE_HYPHEN.fullmatch(token) is not None or is_open_tag(token)


def is_open_tag(token: str) -> bool:
    """Whether the token ends inside a markup tag."""
    return "<" in token and (_OPEN_TAG.fullmatch(token) is not None or is_open_note(token))


def is_open_note(token: str) -> bool:
    """Whether the token ends inside a comment of HTML or its document type."""
    note = token[token.rfind("<!") :]
    is_type = note[:9].lower() == "<!doctype" and ">" not in note
    return is_type or (note.startswith("<!--") and "-->" not in note)


def _fold_token(
    token: str, start: int, language: Language, inches: list[int]
) -> tuple[str, list[int], list[int], list[UnsupportedSpan]]:
    """The folded token, the start and end of each of its characters in the text as sent, and the unsupported spans."""
    text: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    spans: list[UnsupportedSpan] = []
    in_span = False  # whether the character before was unsupported
    tags, entities, plains = _markup(token, language)
    plains |= dict.fromkeys(inches, "inch")
    fold, at = language.fold, 0
    while at < len(token):
        stop, code = at + 1, tags.get(at, "")
        if entity := entities.get(at):
            stop, char = entity
            folded = [BREAK if c in WHITE else fold(c) for c in char]
            plain = None if None in folded else "".join(one or "" for one in folded)
        else:
            char = token[at]
            plain = None if code else plains[at] if at in plains else fold(char)
        begin, end = start + at, start + stop
        at = stop
        if plain is None and not in_span:
            values: dict[str, str] = {}
            if not code:
                code, values = why_unsayable(char[0], language.name)
            spans.append(UnsupportedSpan(begin, end, code, values))
            text.append(BREAK)
            starts.append(begin)
            ends.append(end)
        elif plain is None or (not plain and in_span):
            spans[-1] = replace(spans[-1], char_end=end)
        elif not plain and ends:
            ends[-1] = end  # an accent or an invisible character belongs to the letter before it
            text[-1] = language.compose(text[-1], char)
        else:
            text.extend(plain)
            starts.extend([begin] * len(plain))
            ends.extend([end] * len(plain))
        in_span = plain is None or (not plain and in_span)
    return "".join(text), starts, ends, spans


def _markup(token: str, language: Language) -> tuple[dict[int, str], dict[int, tuple[int, str]], dict[int, str]]:
    """The parts of a token that are not read character by character, by their indices.

    Returns:
        characters that are not spoken, with the code of the reason; HTML entities, with their end and character; and
        characters that are read as others: angle brackets around words, and hyphens and white space inside a word.
    """
    tags: dict[int, str] = {}
    entities: dict[int, tuple[int, str]] = {}
    plains: dict[int, str] = {}
    for match in _TAG.finditer(token):
        tags |= dict.fromkeys(range(*match.span()), "markup")
    for match in _LINK.finditer(token):
        tags |= dict.fromkeys(range(*match.span()), "link")
    for match in _ANGLED.finditer(token):
        if match.start() in tags:
            continue
        if match[1] or match[3] or match[2].lower() in _ELEMENTS:
            tags |= dict.fromkeys(range(*match.span()), "markup")
        else:
            plains |= {match.start(): BREAK, match.end() - 1: BREAK}
    for match in _ENTITY.finditer(token):
        char = html.unescape(match[0])
        if match.start() not in tags and char != match[0]:
            entities[match.start()] = (match.end(), char)
    for match in _HYPHENATED.finditer(token):
        keeps = match["first"].lower() in _TWO_PARTS or _JOINED.match(token, match.end())
        plains |= dict.fromkeys(range(*match.span("gap")), "") | ({match.start("gap"): "-"} if keeps else {})
    for match in _LONE_ROMAN.finditer(token):
        plains[match.start()] = str(int(unicodedata.numeric(match[0])))
    for match in _SECONDS.finditer(token):
        plains[match.start()] = BREAK
    for match in _TIMES_DOT.finditer(token):
        plains[match.start()] = "*"
    for match in _LONE_GREEK.finditer(token):
        plains[match.start()] = f"{BREAK}{_GREEK_NAMES[match[0].lower()]}{BREAK}"
    before_marks = re.finditer(rf"[{WHITE}]+(?=[{language.spaced}])", token) if language.spaced else ()
    for match in [*_RANGE_GAP.finditer(token), *_NO_SPACE.finditer(token), *before_marks]:
        plains |= dict.fromkeys(range(*match.span()), "")
    return tags, entities, plains


def _pause(text: str, gap: re.Match[str]) -> str:
    """The mark for a dash or an ellipsis inside a token; empty for a quote or a bracket."""
    if gap[0][0] == BREAK:
        return ""
    after = text[gap.end() : gap.end() + 2]
    return "." if gap[0][0] == "." and after[:1].isupper() and after[1:].islower() else ","


def _trim(text: str, begin: int, stop: int, pause: str, language: Language) -> tuple[str, int] | None:
    """A piece stripped to a word and one trailing mark, and its start in ``text``; None if nothing is left."""
    bare, first = text[begin:stop], begin
    if bare in MUTE:
        return bare, begin
    while begin < stop and text[begin] in _TAIL:
        after = text[begin + 1 : begin + 2]
        if (
            _SHORT_YEAR.match(text, begin, stop)
            or _EXTENSION.match(text, begin, stop)
            or (text[begin] in ".~" and (after.isdecimal() or after in [*CURRENCY]))
            or text[begin : begin + 2]
            in (
                "!=",
                "~=",
                "~/",
            )
        ):
            break
        begin += 1
    end = stop
    while end > begin and text[end - 1] in _TAIL:
        end -= 1
    word, tail = text[begin:end], text[end:stop]
    if not word:
        return None
    if tail[:1] == "'" and begin == first and _FEET.fullmatch(word) and not language.spaced:
        word, tail = word + "'", tail[1:]  # 6' 2"
    if tail.startswith(".") and language.is_abbreviation(word):
        word, tail = word + ".", tail[1:]
    if tail[:1] == "." and tail[1:2] in (",", ";", ":"):
        tail = tail[1:]  # the full stop of an abbreviation: Mass., said
    mark = next((mark for mark in MARKS if mark in tail), pause)
    return word + mark, begin
