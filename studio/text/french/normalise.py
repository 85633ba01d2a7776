"""French text normalisation, written tokens to spoken words; hyphens stay in words (peut-être)."""

import re
from collections.abc import Sequence

from studio.core.text.language import Language
from studio.core.text.typography import CURRENCY, MARKS, MAX_WORD_LETTERS, MUTE
from studio.text.addresses import ADDRESS, ADDRESS_RUN, LONG_NUMBER
from studio.text.french import tables
from studio.text.french.numbers import NUM, cardinal, digits, power
from studio.text.french.readings import READ_BESIDE, RULES
from studio.text.groups import spread
from studio.text.tables import SOUNDS

Words = list[tuple[str, int]]  # each with the index of its token

_SMALL = "àâäæçéèêëîïôöœùûüÿ"
_LOW, _CAPITAL = f"a-z{_SMALL}", f"A-Z{_SMALL.upper()}"
_VOWELS = set("aeiouyàâäæéèêëîïôöœùûü")
_PART = f"(?:[{_CAPITAL}][{_LOW}]*|[{_LOW}]+)"
_WORD = re.compile(f"{_PART}(?:['-]{_PART})*'?")
_LETTERS = re.compile(f"[{_LOW}{_CAPITAL}]+(?:['-][{_LOW}{_CAPITAL}]+)*'?")
_ELIDED = re.compile(rf"(?i:((?:[ldjmtsnc]|qu|jusqu|lorsqu|puisqu|quoiqu)'))(?=\d|[{_CAPITAL}]{{2}})(.+)")
_SOUNDS_LIKE_A_WORD = re.compile(
    "(?:[bcdfgpt][lr]|vr|s[cklmnpt]|[cpt]h|[^aeiouy])?[aeiouy]{1,2}(?:[^aeiouy]{1,2}[aeiouy]{1,2})*[^aeiouy]{0,2}"
)
_RUN = re.compile(rf"[{_LOW}{_CAPITAL}]+(?:'[{_LOW}{_CAPITAL}]+)*|{NUM}|!=|->|<=|>=|[²³]|\^[-−]?\d{{1,4}}|.")
_DOTTED = re.compile(r"(?:[A-Za-z]\.-?)+[A-Za-z]?\.?")
_INITIAL = re.compile(r"[A-LN-Z]\.")
_GROWING = re.compile(rf"[^{_LOW}{_CAPITAL}%°]*\d[^{_LOW}{_CAPITAL}%°{re.escape(CURRENCY)}]*")
_COMPLETE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{1,4}|\d{1,2}:\d\d(?::\d\d)?|\d\d(?:[.-]\d\d){4}")


def is_abbreviation(base: str) -> bool:
    """Whether a full stop after ``base`` belongs to it."""
    return _abbreviation(f"{base}.") is not None or re.fullmatch(r"[A-Z]|[A-Za-z](?:\.-?[A-Za-z])+", base) is not None


def _abbreviation(base: str) -> str | None:
    return tables.ABBREVIATIONS.get(base) or tables.ABBREVIATIONS.get(base[:1].lower() + base[1:])


def can_grow(token: str) -> bool:
    """Whether the next token can still change how this one is spoken."""
    if token in tables.BESIDE or token in MUTE or token[-1] == "-":
        return True
    if token[-1] in MARKS:
        return _INITIAL.fullmatch(token) is not None
    return _GROWING.fullmatch(token) is not None and _COMPLETE.fullmatch(token) is None


FRENCH = Language("French", can_grow, is_abbreviation, _SMALL, joiners="-", spaced="?!:;»—…")


class FrenchNormaliser:
    """Reads French words, numbers, dates, times, money, measures, abbreviations and signs; hyphens stay in words."""

    unread = "no_french"
    language = FRENCH

    def __call__(self, tokens: Sequence[str], before: Sequence[str] = ()) -> Words:
        out: Words = []
        k = 0
        while k < len(tokens):
            words, used = _read(tokens[k:], [*before, *tokens[:k]][-1:])
            out += [(word, k + offset) for word, offset in words]
            k += used
        return out


def _read(tokens: Sequence[str], before: Sequence[str]) -> tuple[Words, int]:
    """The words of the first tokens that are read together, and the number of these tokens."""
    base, mark = FRENCH.split_mark(tokens[0])
    if match := _ELIDED.fullmatch(base):
        words, used = _read([match[2] + mark, *tokens[1:]], ())
        if not words:
            return [], used
        elided, first = match[1].lower(), words[0][0]
        if len(elided + first.rstrip(MARKS)) > MAX_WORD_LETTERS:
            return [(elided, 0), *words], used
        return [(elided + first, 0), *words[1:]], used
    text = " ".join(tokens)
    is_word = _WORD.fullmatch(base) and not READ_BESIDE.fullmatch(base)
    for pattern, read in () if is_word else RULES:
        match = pattern.match(text)
        if match is None:
            continue
        used = match[0].count(" ") + 1
        end = FRENCH.split_mark(tokens[used - 1])[1]
        after = "" if end or used == len(tokens) else tokens[used]
        spoken = read(match, before[0] if before else "", after)
        if spoken is not None:
            parts = spoken.split("|")
            phrases = [*spread(parts[0], max(1, used - len(parts) + 1)), *parts[1:]]
            words = [(word, min(at, used - 1)) for at, one in enumerate(phrases) for word in one.split() or [""]]
            return _with_mark(words, end or _closing_stop(tokens[used - 1], after)), used
    if tokens[0] in MUTE:
        return [], 1
    mark = mark or _closing_stop(base, tokens[1] if len(tokens) > 1 else "")
    return _with_mark([(word, 0) for word in _read_one(base).split()], mark), 1


def _closing_stop(base: str, after: str) -> str:
    """The full stop of an abbreviation that also ends the sentence."""
    may_end = base in tables.MAY_END and (not after or after[0].isupper())
    return "." if may_end or (not after and _INITIAL.fullmatch(base)) else ""


def _with_mark(words: Words, mark: str) -> Words:
    """Words of a phrase, with the mark at the last one that is not empty."""
    last = max((at for at, (word, _) in enumerate(words) if word), default=None)
    if last is not None and words[last][0][-1] not in MARKS:
        words[last] = words[last][0] + mark, words[last][1]
    return words


def _read_one(base: str) -> str:
    """The reading of a single token; empty if it has none."""
    if spoken := _abbreviation(base) or tables.SHORT_FORMS.get(base):
        return spoken
    if _LETTERS.fullmatch(base):
        parts = [{"St": "saint", "Ste": "sainte"}.get(part) or letters(part) for part in base.split("-")]
        joined = "-".join(parts)
        is_one = len(joined) <= MAX_WORD_LETTERS and " " not in joined
        return joined if is_one else " ".join(parts)
    if _DOTTED.fullmatch(base):
        return " ".join(base.lower().replace(".", "").replace("-", ""))
    return _runs(base)


def letters(word: str) -> str:
    """The reading of a word of letters: lower case; acronyms are spelled (SNCF: s n c f)."""
    lower = word.lower()
    if len(word) == 1 or "'" in word or lower in SOUNDS:
        return lower
    has_vowel = bool(set(lower) & _VOWELS)
    if not word.isupper():
        return lower if has_vowel or not word.islower() or len(word) > 5 else " ".join(lower)
    is_word = has_vowel and lower not in tables.SPELLED and _SOUNDS_LIKE_A_WORD.fullmatch(_without_accents(lower))
    if len(word) <= 3 or lower in tables.CAPITAL_WORDS:
        is_word = lower in tables.CAPITAL_WORDS
    return lower if is_word or len(word) > 6 else " ".join(lower)


def _without_accents(word: str) -> str:
    return word.translate(str.maketrans("àâäéèêëîïôöœùûüÿæ", "aaaeeeeiiooeuuuya"))


def _runs(base: str) -> str:
    """Runs of letters, numbers and signs one by one: mp3, v2.0, moi@exemple.fr."""
    address = ADDRESS.fullmatch(base) is not None
    runs = (ADDRESS_RUN if address else _RUN).findall(base)
    spoken: list[str] = []
    for at, run in enumerate(runs):
        before, after = (runs[at - 1] if at else ""), (runs[at + 1] if at + 1 < len(runs) else "")
        if _LETTERS.fullmatch(run):
            spoken.append(letters(run.lower() if address else run))
        elif run[-1].isdecimal() and run[0] != "^":
            spoken.append(digits(run) if address and len(run) >= LONG_NUMBER else cardinal(run))
        elif len(run) > 1 or run in "²³":
            spoken.append(
                {"!=": "différent de", "->": "vers", "<=": "inférieur ou égal à", ">=": "supérieur ou égal à"}.get(run)
                or power(run)
            )
        elif (
            run in MARKS and not address and before.isalpha() and (after.istitle() or (run != "." and after.isalpha()))
        ):
            spoken[-1] += run  # no space follows the mark
        else:
            spoken.append(_sign(run, before[-1:], after[:1], address=address))
    return " ".join(spoken)


def _sign(sign: str, before: str, after: str, *, address: bool) -> str:
    """A sign between two characters, or at an edge."""
    if address:
        return tables.SYMBOLS.get(sign, "")
    if sign == "-":
        return ("moins" if before.isdecimal() or not before else "") if after.isdecimal() else ""
    if sign in "/_'\".,:;!?":
        return {".": "point", ",": "virgule"}.get(sign, "") if before.isdecimal() and after.isdecimal() else ""
    if sign == "#":
        return "numéro" if after.isdecimal() else "hashtag" if after else "dièse"
    return tables.SYMBOLS.get(sign, "")
