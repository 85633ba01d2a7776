"""Praat TextGrids: a tier for each layer, exact to the sample. Lost: label sets.

Praat treats intervals without text as gaps, so a region without a label is written as one blank.
"""

from dataclasses import replace

from studio.annotation.formats.tiers import (
    MarkTier,
    SampleGrid,
    check_size,
    layers_from_tiers,
    notes_name,
    split_into_tiers,
    tier_name,
)
from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark
from studio.core.errors import BadFile, BadOption
from studio.core.traces.textgrid import TextGridEntry, read_tiers, write_tiers
from studio.core.traces.textgrid import TextGridTier as GridTier

SILENCES = frozenset({"sil", "sp", "spn", "<eps>", "<p>", "#"})
_REFERENCE_GRACE_S = 0.1  # an aligner's last frame may end after the sound


def write(annotation: Annotation) -> bytes:
    """The long form in UTF-8. Raises BadOption: the sound is empty, or too many marks overlap."""
    if not annotation.samples:
        raise BadOption("the sound has no samples", "a TextGrid needs a length")
    rate_hz = annotation.rate_hz
    tiers: list[GridTier] = []
    for layer in annotation.layers:
        for part, marks in enumerate(split_into_tiers(layer, _span), 1):
            tiers.append(_tier(tier_name(layer.name, part), layer, {one: one.label for one in marks}, rate_hz))
            if notes := {one: one.note for one in marks if one.note}:
                tiers.append(_tier(notes_name(layer.name, part), layer, notes, rate_hz))
    return write_tiers(tiers, annotation.samples / rate_hz).encode()


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Every tier as a layer; intervals without text are gaps.

    Raises BadFile: it is no TextGrid, is larger than 16 MB, or a time is outside the sound.
    """
    return _read(data, SampleGrid(rate_hz, samples))


def read_reference(data: bytes, rate_hz: int, samples: int) -> tuple[AnnotationLayer, ...]:
    """Every tier of an aligner's TextGrid without its silences, for ``studio.annotation.agreement``.

    Raises BadFile: it is no TextGrid, or ends more than 100 ms after the sound.
    """
    layers = _read(data, SampleGrid(rate_hz, samples, _REFERENCE_GRACE_S)).layers
    return tuple(replace(one, marks=tuple(mark for mark in one.marks if _is_speech(mark.label))) for one in layers)


def _is_speech(label: str) -> bool:
    return label.strip().lower() not in SILENCES | {""}


def _read(data: bytes, grid: SampleGrid) -> Annotation:
    tiers: list[MarkTier] = []
    for number, tier in enumerate(read_tiers(check_size(data)), 1):
        name = tier.name if tier.name.strip() else f"tier {number}"
        entries = tier.entries if tier.is_points else [one for one in tier.entries if one.text]
        marks = tuple(_mark(one, name, tier.is_points, grid) for one in entries)
        tiers.append(MarkTier(name, "points" if tier.is_points else "regions", marks))
    return grid.annotation(layers_from_tiers(tiers))


def _span(mark: AnnotationMark) -> tuple[int, int]:
    return mark.start_sample, mark.end_sample


def _tier(name: str, layer: AnnotationLayer, texts: dict[AnnotationMark, str], rate_hz: int) -> GridTier:
    is_points = layer.kind == "points"
    entries = [
        TextGridEntry(
            mark.start_sample / rate_hz, mark.end_sample / rate_hz, text if is_points else _escape_blank(text)
        )
        for mark, text in texts.items()
    ]
    return GridTier(name, is_points, entries)


def _mark(entry: TextGridEntry, name: str, is_points: bool, grid: SampleGrid) -> AnnotationMark:
    where = f"{name}: {entry.text[:40]!r}"
    start, end = grid.sample(entry.start_s, where), grid.sample(entry.end_s, where)
    if entry.end_s < entry.start_s or (not is_points and start == end):
        raise BadFile(f"{where} lies from {entry.start_s:g} to {entry.end_s:g} s", "an interval ends after it begins")
    return AnnotationMark(start, end, entry.text if is_points else _unescape_blank(entry.text))


def _escape_blank(text: str) -> str:
    """Append a blank to blank text, so that it is not empty."""
    return text if text.strip() else text + " "


def _unescape_blank(text: str) -> str:
    return text if text.strip() else text[:-1]
