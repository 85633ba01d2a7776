"""Import, export and compare annotations of stored utterances."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from studio.annotation.agreement import Agreement, agreement
from studio.annotation.corpus_agreement import CorpusAgreement, CorpusFigure, LayerOfSound
from studio.annotation.edits import AnnotationDocument, AnnotationEdit, import_changes
from studio.annotation.formats.registry import FORMATS, Format
from studio.annotation.layers import MAX_MARKS, Annotation, AnnotationLayer, Kind
from studio.core.errors import BadFile, BadOption
from studio.library.annotations import Annotations
from studio.library.entries import LibraryEntry, now_s
from studio.library.index import Query
from studio.library.library import Library

MAX_FILE_BYTES = 16_000_000  # of an annotation
COLLAR_MS = 20.0
_PAGE = 500  # utterances read from the index at once


def format_of(name: str) -> Format:
    """A format by its name. Raises BadOption."""
    if name not in FORMATS:
        raise BadOption(f"there is no format {name[:40]!r}", f"give one of {', '.join(FORMATS)}")
    return FORMATS[name]


def export_annotation(library: Library, entry: LibraryEntry, annotator: str, name: str) -> bytes:
    """An annotator's annotation as a file. Raises BadOption, BadFile."""
    return format_of(name).write(library.document(entry, annotator).annotation())


def import_annotation(
    library: Library, entry: LibraryEntry, annotator: str, name: str, data: bytes
) -> AnnotationDocument:
    """Add the layers of a file to an annotation; a layer whose name exists gets a number.

    Raises:
        BadFile: the file is invalid, or its times lie beyond the sound; nothing was imported.
        BadOption: the annotation would exceed its limits.
    """
    before = library.document(entry, annotator)
    return add_annotation(library, entry, annotator, read_annotation(name, data, before.rate_hz, before.samples))


def read_annotation(name: str, data: bytes, rate_hz: int, samples: int) -> Annotation:
    """An annotation of a sound from a file in the format ``name``. Raises BadFile, BadOption."""
    annotation = format_of(name).read(data, rate_hz, samples)
    if (count := sum(len(layer.marks) for layer in annotation.layers)) > MAX_MARKS:
        raise BadFile(f"the file has {count:,} marks", f"an annotation holds {MAX_MARKS:,}; divide it")
    return annotation


def add_annotation(library: Library, entry: LibraryEntry, annotator: str, annotation: Annotation) -> AnnotationDocument:
    """Add the layers that were read from a file, as ``import_annotation`` does."""
    before = library.document(entry, annotator)
    if not annotation.layers:
        raise BadOption("the file has no layers", "nothing was imported")
    existing = [one.name for one in before.layers.values()]
    edit = AnnotationEdit(f"file{secrets.token_hex(8)}", import_changes(annotation, _new_ids(), existing), now_s())
    return library.annotate(entry, annotator, edit)


def layer_by_annotator(documents: Iterable[AnnotationDocument], layer: str) -> dict[str, AnnotationLayer]:
    """The layer of this name by annotator."""
    layers: dict[str, AnnotationLayer] = {}
    for document in documents:
        for one in document.annotation().layers:
            if one.name == layer:
                layers[document.annotator] = one
    return layers


def shared_layers(documents: Iterable[AnnotationDocument]) -> list[str]:
    """Names of layers shared by at least two annotators, in the order of the first."""
    counts: dict[str, int] = {}
    for document in documents:
        for one in document.layers.values():
            counts[one.name] = counts.get(one.name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def layer_agreement(
    documents: Sequence[AnnotationDocument], layer: str, collar_ms: float = COLLAR_MS, max_marks: int | None = None
) -> Agreement:
    """Agreement of the annotators of a layer, by the documents of one utterance.

    ``max_marks``: limit of the marks that are compared, counted once for each other annotator. Raises BadOption.
    """
    if not documents:
        raise BadOption("this utterance has no annotation", "two annotators need a layer of the same name")
    layers = layer_by_annotator(documents, layer)
    compared = (len(layers) - 1) * sum(len(one.marks) for one in layers.values())
    if max_marks is not None and compared > max_marks:
        raise BadOption(
            f"{len(layers)} annotators have too many marks to be compared here",
            "`studio library annotations --agreement` has no such limit",
        )
    return agreement(layers, documents[0].samples, documents[0].rate_hz, collar_ms)


def stored_agreement(root: Path, sha256: str, layer: str, collar_ms: float, max_marks: int) -> dict[str, Any]:
    """Agreement on a layer of an utterance of the library in ``root`` as JSON; without a layer, the names of all.

    Needs only the journals, so another process can call it. Raises BadOption, BadFile, Unavailable.
    """
    documents = Annotations(root, bool).of(sha256)
    if not layer:
        return {"layers": shared_layers(documents)}
    return agreement_to_dict(layer_agreement(documents, layer, collar_ms, max_marks))


def corpus_layers(
    library: Library, query: Query
) -> tuple[dict[tuple[str, Kind], list[LayerOfSound]], list[tuple[str, str]]]:
    """The layers shared by two or more annotators, over all matching utterances, by name and kind.

    Also (utterance, layer) where one annotator's layer holds regions and another's points. ``limit`` and ``offset`` of
    the query are not used. Raises BadFile.
    """
    layers_of: dict[tuple[str, Kind], list[LayerOfSound]] = {}
    mixed: list[tuple[str, str]] = []
    for entry in _all_entries(library, query):
        documents = library.annotations.of(entry.sha256)
        if len(documents) < 2:
            continue
        for name in shared_layers(documents):
            layers = layer_by_annotator(documents, name)
            kinds: set[Kind] = {one.kind for one in layers.values()}
            if len(kinds) > 1:
                mixed.append((entry.name, name))
                continue
            sound = LayerOfSound(layers, documents[0].samples, documents[0].rate_hz)
            layers_of.setdefault((name, kinds.pop()), []).append(sound)
    return layers_of, mixed


def _all_entries(library: Library, query: Query) -> Iterator[LibraryEntry]:
    done, of = 0, 1
    while done < of:
        entries, of = library.find(replace(query, limit=_PAGE, offset=done))
        yield from entries
        if not entries:
            return
        done += len(entries)


def corpus_rows(agreements: Sequence[CorpusAgreement]) -> list[Sequence[object]]:
    """Table rows, one for each layer."""
    return [
        [
            one.layer,
            one.sounds,
            len(one.annotators),
            *(_with_ends(f) for f in (one.boundary_f1, one.matched, one.alpha_marks, one.alpha_frames)),
        ]
        for one in agreements
    ]


def _with_ends(figure: CorpusFigure | None) -> str:
    if figure is None or figure.value is None:
        return "-"
    ends = "" if figure.low is None else f" [{figure.low:.2f}, {figure.high:.2f}]"
    return f"{figure.value:.3f}{ends}"


def agreement_to_dict(result: Agreement) -> dict[str, Any]:
    """All figures as JSON, with the ids of unmatched marks."""
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
        for pair in result.pairs
    ]
    overall = ("precision", "recall", "f1", "alpha_marks", "alpha_frames")
    about = {"kind": result.kind, "collar_ms": result.collar_ms, "frame_ms": result.frame_ms, "pairs": pairs}
    return about | {name: asdict(getattr(result, name)) for name in overall}


def agreement_rows(result: Agreement) -> list[Sequence[object]]:
    """Table rows: one for each pair, then one for all annotators."""
    rows: list[Sequence[object]] = [
        [
            f"{pair.one}, {pair.other}",
            len(pair.matched),
            len(pair.only_one),
            len(pair.only_other),
            *(_figure_text(one.value) for one in (pair.f1, pair.kappa_marks, pair.kappa_frames)),
        ]
        for pair in result.pairs
    ]
    alphas = (result.f1, result.alpha_marks, result.alpha_frames)
    return [*rows, ["all", "", "", "", *(_figure_text(one.value) for one in alphas)]]


def _figure_text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _new_ids() -> Iterator[str]:
    while True:
        yield secrets.token_hex(8)
