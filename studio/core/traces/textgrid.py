"""Praat TextGrids: tiers of intervals or points in seconds; written in the long text form, read in all three.

As in Praat's manual ("TextGrid file formats"), only free-standing numbers, quoted texts and flags count; a number
may also follow an equals sign. praatio is not used since it drops the sign of negative times and reads no exponents.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from studio.core.errors import BadFile
from studio.core.files import decode_text

MAX_BYTES = 16_000_000
MAX_TIERS = 500
MAX_ENTRIES = 100_000

_CHRONOLOGICAL = '"Praat chronological TextGrid text file"'
_CLASSES = {"IntervalTier": False, "TextTier": True}
_TOKEN = re.compile(
    r'"(?P<text>[^"]*(?:""[^"]*)*)"|(?P<open>")|![^\r\n]*|<(?P<flag>\w+)>'
    r"|(?<![^\s=])(?P<number>[-+]?(?:\d+[.,]?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)|--undefined--)%?(?!\S)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class TextGridEntry:
    """An interval, or a point (``end_s`` equals ``start_s``)."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True)
class TextGridTier:
    name: str
    is_points: bool
    entries: list[TextGridEntry] = field(default_factory=list[TextGridEntry])


def decimal(value_s: float) -> str:
    """Seconds with enough digits to recover the sample by rounding, without an exponent."""
    return f"{value_s:.12f}".rstrip("0").rstrip(".")


def write_tiers(tiers: Sequence[TextGridTier], length_s: float) -> str:
    """The long form, with empty intervals in the gaps of interval tiers, as Praat requires.

    Args:
        tiers: with sorted entries that do not overlap.
    """
    lines = ['File type = "ooTextFile"', 'Object class = "TextGrid"', "", "xmin = 0 ", f"xmax = {decimal(length_s)} "]
    lines += ["tiers? <exists> ", f"size = {len(tiers)} ", "item []: "]
    for i, tier in enumerate(tiers, 1):
        what = "points" if tier.is_points else "intervals"
        entries = tier.entries if tier.is_points else _filled(tier.entries, length_s)
        lines += [f"    item [{i}]:", f'        class = "{"TextTier" if tier.is_points else "IntervalTier"}" ']
        lines += [f"        name = {_quoted(tier.name)} ", "        xmin = 0 ", f"        xmax = {decimal(length_s)} "]
        lines.append(f"        {what}: size = {len(entries)} ")
        for j, one in enumerate(entries, 1):
            lines.append(f"        {what} [{j}]:")
            if tier.is_points:
                lines += [f"            number = {decimal(one.start_s)} ", f"            mark = {_quoted(one.text)} "]
            else:
                lines += [f"            xmin = {decimal(one.start_s)} ", f"            xmax = {decimal(one.end_s)} "]
                lines.append(f"            text = {_quoted(one.text)} ")
    return "\n".join(lines) + "\n"


def read_tiers(data: bytes) -> list[TextGridTier]:
    """The tiers of a TextGrid in one of the three text forms, in UTF-8, UTF-16 or Latin-1.

    Raises:
        BadFile: it is no TextGrid, ends early, holds a time that is not finite, or is larger than 16 MB.
    """
    if len(data) > MAX_BYTES:
        raise BadFile(f"the TextGrid has {len(data):,} bytes", f"give one of at most {MAX_BYTES:,}")
    if data.startswith(b"ooBinaryFile"):
        raise BadFile("this TextGrid is a binary file", "let Praat write it again: Save as text file")
    text = decode_text(data, "the TextGrid")
    tokens = _Tokens(text)
    if text.lstrip().startswith(_CHRONOLOGICAL):
        return _chronological_tiers(tokens)
    if not tokens.take("text").startswith("ooTextFile") or tokens.take("text") != "TextGrid":
        raise BadFile("this is no TextGrid", "Praat writes them: Save as text file")
    tokens.skip_span()
    if tokens.take("flag") != "exists":
        return []
    count = tokens.tier_count()
    tiers: list[TextGridTier] = []
    for _ in range(count):
        tiers.append(_tier(tokens, MAX_ENTRIES - sum(len(one.entries) for one in tiers)))
    return tiers


def _chronological_tiers(tokens: "_Tokens") -> list[TextGridTier]:
    """All tiers first, then the entries of all, each after the number of its tier."""
    tokens.take("text")
    tokens.skip_span()
    tiers = [_empty_tier(tokens) for _ in range(tokens.tier_count())]
    entries = 0
    while tokens.is_more():
        number = tokens.count()
        if not 1 <= number <= len(tiers):
            raise BadFile(f"the TextGrid has an entry of tier {number} of {len(tiers)}", "save it again")
        entries += 1
        _check_entries(entries, MAX_ENTRIES)
        tiers[number - 1].entries.append(_entry(tokens, tiers[number - 1]))
    return tiers


def _tier(tokens: "_Tokens", max_entries: int) -> TextGridTier:
    tier = _empty_tier(tokens)
    count = tokens.count()
    _check_entries(count, max_entries)
    tier.entries.extend(_entry(tokens, tier) for _ in range(count))
    return tier


def _empty_tier(tokens: "_Tokens") -> TextGridTier:
    kind = tokens.take("text")
    if kind not in _CLASSES:
        raise BadFile(f"a tier of the class {kind[:40]!r}", "TextGrids hold IntervalTier and TextTier")
    tier = TextGridTier(tokens.take("text"), _CLASSES[kind])
    tokens.skip_span()
    return tier


def _entry(tokens: "_Tokens", tier: TextGridTier) -> TextGridEntry:
    start_s = tokens.number()
    return TextGridEntry(start_s, start_s if tier.is_points else tokens.number(), tokens.take("text"))


def _check_entries(count: int, most: int) -> None:
    if count > most:
        raise BadFile(f"the TextGrid has more than {MAX_ENTRIES:,} intervals and points", "divide it")


class _Tokens:
    """The significant tokens of a TextGrid, in order."""

    def __init__(self, text: str) -> None:
        self._tokens = (one for one in _TOKEN.finditer(text) if one.lastgroup)
        self._next = next(self._tokens, None)

    def is_more(self) -> bool:
        return self._next is not None

    def take(self, kind: str) -> str:
        one, self._next = self._next, next(self._tokens, None)
        if one is None:
            raise BadFile("the TextGrid ends early", "save it again")
        if one.lastgroup != kind:
            raise BadFile(f"the TextGrid holds {one.group()[:40]!r} where a {kind} should be", "save it again")
        return one[kind].replace('""', '"').replace("\r\n", "\n").replace("\r", "\n")

    def number(self) -> float:
        written = self.take("number")
        value = math.nan if written.startswith("--") else float(written.replace(",", "."))
        if not math.isfinite(value):
            raise BadFile(f"the TextGrid holds the time {written[:40]}", "times are finite numbers of seconds")
        return value

    def skip_span(self) -> None:
        """Skip the start and the end of the grid or of a tier."""
        self.number()
        self.number()

    def tier_count(self) -> int:
        count = self.count()
        if count > MAX_TIERS:
            raise BadFile(f"the TextGrid has {count:,} tiers", f"give one of at most {MAX_TIERS}")
        return count

    def count(self) -> int:
        value = self.number()
        if value != int(value) or value < 0:
            raise BadFile(f"the TextGrid says that it holds {value:g} parts", "save it again")
        return int(value)


def _filled(entries: Sequence[TextGridEntry], length_s: float) -> list[TextGridEntry]:
    """Entries with empty intervals in the gaps."""
    filled: list[TextGridEntry] = []
    at_s = 0.0
    for one in entries:
        if one.start_s > at_s:
            filled.append(TextGridEntry(at_s, one.start_s, ""))
        filled.append(one)
        at_s = one.end_s
    if at_s < length_s or not filled:
        filled.append(TextGridEntry(at_s, length_s, ""))
    return filled


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
