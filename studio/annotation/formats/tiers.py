"""Layers as tiers whose marks may not overlap, and back: Praat and ELAN know no others.

The marks of a layer that overlap are spread over ``NAME``, ``NAME (2)``, ``NAME (3)``; their notes lie in
``NAME (notes)``, ``NAME (2 notes)``. A layer whose own name ends like that is called ``NAME (1)`` there, so every name
leads back to one layer.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from studio.annotation.layers import Kind, Layer, Mark
from studio.core.errors import BadOption

MAX_DEPTH = 100

_PART = re.compile(r"(?P<layer>.+) \((?P<part>[1-9]\d{0,2})\)", re.DOTALL)
_NOTES = re.compile(r"(?P<layer>.+) \((?:(?P<part>[1-9]\d{0,2}) )?notes\)", re.DOTALL)

Span = Callable[[Mark], tuple[int, int]]


@dataclass(frozen=True)
class Tier:
    """Marks that follow one another; of a tier of notes the labels are notes."""

    name: str
    kind: Kind
    marks: tuple[Mark, ...]


def spread(layer: Layer, span: Span) -> list[tuple[Mark, ...]]:
    """The marks of a layer on as few tiers as hold them without overlap, at least one.

    Args:
        span: where a mark begins and ends in the format's own unit; two points in one place overlap, too.

    Raises:
        BadOption: more than 100 of them lie over one another.
    """
    tiers: list[list[Mark]] = [[]]
    ends: list[int] = [-1]
    for mark in sorted(layer.marks, key=span):
        start, end = span(mark)
        at = next((i for i, last in enumerate(ends) if last <= start), len(tiers))
        if at == MAX_DEPTH:
            raise BadOption(
                f"{layer.name}: more than {MAX_DEPTH} marks lie over one another",
                "write CSV or Label Studio's JSON, which hold them as they are",
            )
        if at == len(tiers):
            tiers.append([])
            ends.append(0)
        tiers[at].append(mark)
        ends[at] = end if end > start else end + 1
    return [tuple(one) for one in tiers]


def tier_name(layer: str, part: int) -> str:
    """What the part ``part`` (from 1) of a layer is called."""
    if part > 1:
        return f"{layer} ({part})"
    return f"{layer} (1)" if _PART.fullmatch(layer) or _NOTES.fullmatch(layer) else layer


def notes_name(layer: str, part: int) -> str:
    """What the tier of the notes of that part is called."""
    return f"{layer} (notes)" if part == 1 else f"{layer} ({part} notes)"


def gathered(tiers: Sequence[Tier]) -> list[Layer]:
    """Layers of tiers that ``tier_name`` and ``notes_name`` may have named, in their order.

    A tier that only looks like a part or like notes stays a layer of its own.
    """
    layers: dict[str, dict[int, Tier]] = {}
    rest: list[Tier] = []
    for tier in tiers:
        found = None if _NOTES.fullmatch(tier.name) else _PART.fullmatch(tier.name)
        layer, part = (found["layer"], int(found["part"])) if found else (tier.name, 1)
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
        if not _noted(tier, layers):
            layers[_free(tier.name, layers)] = {1: tier}
    return [
        Layer(name, parts[1].kind, marks=tuple(mark for part in parts.values() for mark in part.marks))
        for name, parts in layers.items()
    ]


def _noted(tier: Tier, layers: dict[str, dict[int, Tier]]) -> bool:
    """Lay a tier of notes on its marks; whether each note found its own."""
    found = _NOTES.fullmatch(tier.name)
    parts = layers.get(found["layer"], {}) if found else {}
    part = int(found["part"] or 1) if found else 0
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


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, or with a number where a layer has it already."""
    names = set(taken)
    return next(one for one in (name, *(f"{name} {k}" for k in range(2, len(names) + 3))) if one not in names)
