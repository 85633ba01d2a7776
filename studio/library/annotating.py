"""Annotations of kept utterances taken from files, given to files, and compared."""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from studio.annotation.agreement import Agreement, agreement
from studio.annotation.edits import Document, Edit, changes_of
from studio.annotation.formats.registry import FORMATS, Format
from studio.annotation.layers import Layer
from studio.core.errors import BadOption
from studio.library.entries import Entry, now
from studio.library.library import Library

MAX_FILE_BYTES = 16_000_000  # of an annotation
COLLAR_MS = 20.0


def format_of(name: str) -> Format:
    """A format by its name. Raises BadOption."""
    if name not in FORMATS:
        raise BadOption(f"there is no format {name[:40]!r}", f"give one of {', '.join(FORMATS)}")
    return FORMATS[name]


def written(library: Library, entry: Entry, annotator: str, name: str) -> bytes:
    """What an annotator said, as a file of a format. Raises BadOption, BadFile."""
    return format_of(name).write(library.document(entry, annotator).annotation())


def take(library: Library, entry: Entry, annotator: str, name: str, data: bytes) -> Document:
    """Add the layers of a file to what an annotator has said; a layer whose name is taken gets a number.

    Raises:
        BadFile: the file is not of this format, or its times lie beyond the sound; nothing was taken.
        BadOption: it has more than one annotator may say.
    """
    before = library.document(entry, annotator)
    found = format_of(name).read(data, before.rate_hz, before.samples)
    if not found.layers:
        raise BadOption("the file has no layers", "nothing was taken")
    taken = {one.name: 1 for one in before.layers.values()}
    edit = Edit(f"file{secrets.token_hex(8)}", changes_of(found, _names(), taken), now())
    return library.annotate(entry, annotator, edit)


def by_annotator(library: Library, entry: Entry, layer: str) -> dict[str, Layer]:
    """The layer of this name of everybody who has one. Raises BadFile."""
    found: dict[str, Layer] = {}
    for document in library.annotations.of(entry.sha256):
        for one in document.annotation().layers:
            if one.name == layer:
                found[document.annotator] = one
    return found


def shared_layers(library: Library, entry: Entry) -> list[str]:
    """Names of layers that two annotators or more have, in the order of the first one's. Raises BadFile."""
    counts: dict[str, int] = {}
    for document in library.annotations.of(entry.sha256):
        for one in document.layers.values():
            counts[one.name] = counts.get(one.name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def agreed(library: Library, entry: Entry, layer: str, collar_ms: float = COLLAR_MS) -> Agreement:
    """How far annotators agree in a layer that each of them calls so. Raises BadOption, BadFile."""
    document = next(iter(library.annotations.of(entry.sha256)), None)
    if document is None:
        raise BadOption("nobody has annotated this utterance", "two have to, in layers of the same name")
    return agreement(by_annotator(library, entry, layer), document.samples, document.rate_hz, collar_ms)


def agreement_to_dict(found: Agreement) -> dict[str, Any]:
    """All figures as JSON, and the marks that only one of two has, by their ids."""
    figures = ("precision", "recall", "f1", "kappa_marks", "kappa_frames")
    pairs = [
        {
            "one": pair.one,
            "other": pair.other,
            "matched": len(pair.matched),
            "only_one": [mark.id for mark in pair.only_one],
            "only_other": [mark.id for mark in pair.only_other],
            **{name: asdict(getattr(pair, name)) for name in figures},
        }
        for pair in found.pairs
    ]
    overall = ("precision", "recall", "f1", "alpha_marks", "alpha_frames")
    about = {"kind": found.kind, "collar_ms": found.collar_ms, "frame_ms": found.frame_ms, "pairs": pairs}
    return about | {name: asdict(getattr(found, name)) for name in overall}


def agreement_rows(found: Agreement) -> list[Sequence[object]]:
    """The figures as a table: a row for each pair, then all annotators together."""
    rows: list[Sequence[object]] = [
        [
            f"{pair.one}, {pair.other}",
            len(pair.matched),
            len(pair.only_one),
            len(pair.only_other),
            *(_shown(one.value) for one in (pair.f1, pair.kappa_marks, pair.kappa_frames)),
        ]
        for pair in found.pairs
    ]
    alphas = (found.f1, found.alpha_marks, found.alpha_frames)
    return [*rows, ["all", "", "", "", *(_shown(one.value) for one in alphas)]]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _names() -> Iterator[str]:
    while True:
        yield secrets.token_hex(8)
