"""Convert layers to tiers without overlaps (Praat, ELAN), and back.

Overlapping marks of a layer are split into ``NAME``, ``NAME (2)``, ``NAME (3)``; notes are in ``NAME (notes)``,
``NAME (2 notes)``. A layer whose name already has such a suffix becomes ``NAME (1)``, so that names are unambiguous.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.errors import BadFile, BadOption
from studio.core.files import decode_text

MAX_BYTES = 16_000_000
MAX_LAYERS = 500

GRACE_S = 0.002  # formats in milliseconds may round the end of the sound up


@dataclass(frozen=True)
class SampleGrid:
    """The annotated sound: ``samples`` samples at ``rate_hz``. Times up to ``grace_s`` after its end are clipped."""

    rate_hz: int
    samples: int
    grace_s: float = GRACE_S

    def sample(self, at_s: float, where: str) -> int:
        """The sample nearest to a time.

        ``where``: the mark's name in messages. Raises BadFile: the time is not finite, negative, or too far after the
        end.
        """
        length_s = self.samples / self.rate_hz
        if not math.isfinite(at_s):
            raise BadFile(f"{where} lies at {at_s}", "times are finite numbers of seconds")
        if at_s < 0:
            raise BadFile(f"{where} lies at {at_s:g} s, before the sound", "times begin with 0")
        if at_s > length_s + self.grace_s:
            raise BadFile(
                f"{where} lies at {at_s:.3f} s, and the sound ends at {length_s:.3f} s", "give the file of this sound"
            )
        return min(round(at_s * self.rate_hz), self.samples)

    def annotation(self, layers: Iterable[AnnotationLayer]) -> Annotation:
        """The annotation of these layers. Raises BadFile where it is invalid or has too many layers."""
        checked = tuple(layers)
        if len(checked) > MAX_LAYERS:
            raise BadFile(f"the file holds {len(checked):,} layers", f"at most {MAX_LAYERS} are read")
        try:
            return Annotation(self.rate_hz, self.samples, checked).validated()
        except BadOption as error:
            raise BadFile(error.what, error.do) from error


def check_size(data: bytes) -> bytes:
    """Return ``data``. Raises BadFile where it exceeds 16 MB."""
    if len(data) > MAX_BYTES:
        raise BadFile(f"the file has {len(data):,} bytes", f"at most {MAX_BYTES:,} are read")
    return data


def check_count(content: str | bytes, signs: Sequence[str], most: int, what: str) -> None:
    """Raise BadFile if the signs occur more than ``most`` times: counting takes much less time than parsing."""
    count = 0
    for sign in signs:
        count += content.count(sign) if isinstance(content, str) else content.count(sign.encode())
    if count > most:
        raise BadFile(f"the file has more than {most:,} {what}", "divide it")


def text_of(data: bytes) -> str:
    """The text of a file, with Unix line ends. Raises BadFile where it is damaged or exceeds 16 MB."""
    return unix_newlines(decode_text(check_size(data)))


def unix_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


MAX_DEPTH = 100

_PART = re.compile(r"(?P<layer>.+) \((?P<part>[1-9]\d{0,2})\)", re.DOTALL)
_NOTES = re.compile(r"(?P<layer>.+) \((?:(?P<part>[1-9]\d{0,2}) )?notes\)", re.DOTALL)

Span = Callable[[AnnotationMark], tuple[int, int]]


@dataclass(frozen=True)
class MarkTier:
    """Marks without overlaps; in a notes tier, the labels are the notes."""

    name: str
    kind: Kind
    marks: tuple[AnnotationMark, ...]


def split_into_tiers(layer: AnnotationLayer, span: Span) -> list[tuple[AnnotationMark, ...]]:
    """The marks of a layer on as few tiers without overlaps as possible, at least one.

    Raises BadOption: more than 100 marks overlap.

    Args:
        span: start and end of a mark in the format's unit; two points at one time overlap.
    """
    tiers: list[list[AnnotationMark]] = [[]]
    ends: list[int] = [-1]
    for mark in sorted(layer.marks, key=span):
        start, end = span(mark)
        at = next((i for i, last in enumerate(ends) if last <= start), len(tiers))
        if at == MAX_DEPTH:
            raise BadOption(
                f"{layer.name}: more than {MAX_DEPTH} marks overlap", "write CSV or Label Studio's JSON instead"
            )
        if at == len(tiers):
            tiers.append([])
            ends.append(0)
        tiers[at].append(mark)
        ends[at] = end if end > start else end + 1
    return [tuple(one) for one in tiers]


def tier_name(layer: str, part: int) -> str:
    """Name of a layer's tier number ``part``, from 1."""
    if part > 1:
        return f"{layer} ({part})"
    return f"{layer} (1)" if _PART.fullmatch(layer) or _NOTES.fullmatch(layer) else layer


def notes_name(layer: str, part: int) -> str:
    """Name of the tier with its notes."""
    return f"{layer} (notes)" if part == 1 else f"{layer} ({part} notes)"


def layers_from_tiers(tiers: Sequence[MarkTier]) -> list[AnnotationLayer]:
    """Merge tiers named by ``tier_name`` and ``notes_name`` into layers, in order.

    A tier that is only named like a part or like notes stays a separate layer.
    """
    layers: dict[str, dict[int, MarkTier]] = {}
    rest: list[MarkTier] = []
    for tier in tiers:
        match = None if _NOTES.fullmatch(tier.name) else _PART.fullmatch(tier.name)
        layer, part = (match["layer"], int(match["part"])) if match else (tier.name, 1)
        if _NOTES.fullmatch(tier.name) or part in layers.get(layer, {}):
            rest.append(tier)
        else:
            layers.setdefault(layer, {})[part] = tier
    for layer, parts in list(layers.items()):
        first = parts.get(1)
        for part, tier in list(parts.items()):
            if part > 1 and (first is None or tier.kind != first.kind):
                rest.append(parts.pop(part))
        if not parts:
            del layers[layer]
    for tier in rest:
        if not _attach_notes(tier, layers):
            layers[_unused(tier.name, layers)] = {1: tier}
    return [
        AnnotationLayer(name, parts[1].kind, marks=tuple(mark for part in parts.values() for mark in part.marks))
        for name, parts in layers.items()
    ]


def _attach_notes(tier: MarkTier, layers: dict[str, dict[int, MarkTier]]) -> bool:
    """Attach a notes tier to its marks; False if a note has no mark."""
    match = _NOTES.fullmatch(tier.name)
    parts = layers.get(match["layer"], {}) if match else {}
    part = int(match["part"] or 1) if match else 0
    if part not in parts or parts[part].kind != tier.kind:
        return False
    notes = {(one.start_sample, one.end_sample): one.label for one in tier.marks}
    marks = parts[part].marks
    if not notes.keys() <= {(one.start_sample, one.end_sample) for one in marks}:
        return False
    parts[part] = replace(
        parts[part], marks=tuple(replace(one, note=notes.get((one.start_sample, one.end_sample), "")) for one in marks)
    )
    return True


def _unused(name: str, used: Iterable[str]) -> str:
    """The name, with a number if it is already used."""
    names = set(used)
    return next(one for one in (name, *(f"{name} {k}" for k in range(2, len(names) + 3))) if one not in names)
