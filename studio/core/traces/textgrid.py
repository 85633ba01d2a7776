"""Praat's TextGrids as text: tiers of intervals or of points, in seconds, written in the long form and read in both.

Read as Praat itself reads them (its manual, "TextGrid file formats"): free-standing numbers, quoted texts and flags
count, everything else is decoration. praatio drops the sign of a negative time and reads no exponents; this tells the
one and reads the other.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from studio.core.errors import BadFile

MAX_BYTES = 16_000_000
MAX_TIERS = 500
MAX_ENTRIES = 300_000

_CLASSES = {"IntervalTier": False, "TextTier": True}
_TOKEN = re.compile(
    r'"(?P<text>[^"]*(?:""[^"]*)*)"|(?P<open>")|![^\n]*|<(?P<flag>\w+)>'
    r"|(?<!\S)(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)|--undefined--)%?(?!\S)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One interval, or a point: ``end_s`` is ``start_s`` then."""

    start_s: float
    end_s: float
    text: str


@dataclass(frozen=True)
class Tier:
    """Entries of one kind in the order of the file."""

    name: str
    is_points: bool
    entries: list[Entry] = field(default_factory=list[Entry])


def decimal(value_s: float) -> str:
    """Seconds with enough digits that rounding brings a sample back, without an exponent."""
    return f"{value_s:.12f}".rstrip("0").rstrip(".")


def write_tiers(tiers: Sequence[Tier], length_s: float) -> str:
    """The long form; what lies between the intervals of a tier is filled with empty ones, as Praat wants it.

    Args:
        tiers: whose entries are in order and do not overlap.
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


def read_tiers(data: bytes) -> list[Tier]:
    """The tiers of a TextGrid in its long or short text form, in UTF-8, or in UTF-16 with its mark.

    Raises:
        BadFile: it is none, ends early, holds a time that is no finite number, or is larger than 16 MB.
    """
    if len(data) > MAX_BYTES:
        raise BadFile(f"the TextGrid has {len(data):,} bytes", f"give one of at most {MAX_BYTES:,}")
    tokens = _Tokens(_decoded(data))
    if not tokens.take("text").startswith("ooTextFile") or tokens.take("text") != "TextGrid":
        raise BadFile("this is no TextGrid", "Praat writes them: Save as text file")
    tokens.skip_span()
    if tokens.take("flag") != "exists":
        return []
    count = tokens.count()
    if count > MAX_TIERS:
        raise BadFile(f"the TextGrid has {count:,} tiers", f"give one of at most {MAX_TIERS}")
    found: list[Tier] = []
    for _ in range(count):
        found.append(_tier(tokens, MAX_ENTRIES - sum(len(one.entries) for one in found)))
    return found


def _tier(tokens: "_Tokens", most: int) -> Tier:
    kind = tokens.take("text")
    if kind not in _CLASSES:
        raise BadFile(f"a tier of the class {kind[:40]!r}", "TextGrids hold IntervalTier and TextTier")
    tier = Tier(tokens.take("text"), _CLASSES[kind])
    tokens.skip_span()
    count = tokens.count()
    if count > most:
        raise BadFile(f"the TextGrid has more than {MAX_ENTRIES:,} intervals and points", "divide it")
    for _ in range(count):
        start_s = tokens.number()
        end_s = start_s if tier.is_points else tokens.number()
        tier.entries.append(Entry(start_s, end_s, tokens.take("text")))
    return tier


class _Tokens:
    """What counts of the text, one after the other."""

    def __init__(self, text: str) -> None:
        self._found = (one for one in _TOKEN.finditer(text) if one.lastgroup)

    def take(self, kind: str) -> str:
        one = next(self._found, None)
        if one is None:
            raise BadFile("the TextGrid ends early", "save it again")
        if one.lastgroup != kind:
            raise BadFile(f"the TextGrid holds {one.group()[:40]!r} where a {kind} should be", "save it again")
        return one[kind].replace('""', '"').replace("\r\n", "\n").replace("\r", "\n")

    def number(self) -> float:
        written = self.take("number")
        value = math.nan if written.startswith("--") else float(written)
        if not math.isfinite(value):
            raise BadFile(f"the TextGrid holds the time {written[:40]}", "times are finite numbers of seconds")
        return value

    def skip_span(self) -> None:
        """Pass the start and the end of the grid or of a tier."""
        self.number()
        self.number()

    def count(self) -> int:
        value = self.number()
        if value != int(value) or value < 0:
            raise BadFile(f"the TextGrid says that it holds {value:g} parts", "save it again")
        return int(value)


def _decoded(data: bytes) -> str:
    if data.startswith(b"ooBinaryFile"):
        raise BadFile("this TextGrid is a binary file", "let Praat write it again: Save as text file")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise BadFile("the TextGrid is in neither UTF-8 nor UTF-16", "save it as UTF-8") from error


def _filled(entries: Sequence[Entry], length_s: float) -> list[Entry]:
    found: list[Entry] = []
    at_s = 0.0
    for one in entries:
        if one.start_s > at_s:
            found.append(Entry(at_s, one.start_s, ""))
        found.append(one)
        at_s = one.end_s
    if at_s < length_s or not found:
        found.append(Entry(at_s, length_s, ""))
    return found


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
