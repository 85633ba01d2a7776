"""CSV: a row for each mark, exact to the sample, without loss.

A row without times adds its label to the layer's set. Texts that a spreadsheet could read as a formula are prefixed
with an apostrophe, which is removed on reading.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from studio.annotation.formats.tiers import SampleGrid, decode_text, parse_number
from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.errors import BadFile
from studio.core.traces.textgrid import decimal
from studio.measure.tables import csv_text, plain_text, safe_cell

COLUMNS = ("layer", "kind", "start_sample", "end_sample", "start_s", "end_s", "label", "note")
_KINDS: Mapping[str, Kind | None] = {"regions": "regions", "points": "points", "": None}


@dataclass
class _LayerRows:
    """What the rows of one layer say."""

    kind: Kind | None = None
    labels: list[str] = field(default_factory=list)
    marks: list[AnnotationMark] = field(default_factory=list)


def write(annotation: Annotation) -> bytes:
    """Every layer, its set of labels first, in UTF-8."""
    rows: list[tuple[object, ...]] = [COLUMNS]
    for layer in annotation.layers:
        head = layer.name, layer.kind
        rows += [(*head, "", "", "", "", label, "") for label in layer.labels or ([] if layer.marks else [""])]
        for one in layer.marks:
            times = (decimal(at / annotation.rate_hz) for at in (one.start_sample, one.end_sample))
            rows.append((*head, one.start_sample, one.end_sample, *times, one.label, one.note))
    return csv_text(rows).encode()


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Layers in the order in which they come; samples where they are given, else seconds. A missing end is a point's.

    Raises:
        BadFile: it is no CSV with such columns, a time does not lie in the sound, or the file is larger than 16 MB.
    """
    grid = SampleGrid(rate_hz, samples)
    text = decode_text(data)
    head, _, _ = text.partition("\n")
    rows = csv.DictReader(
        io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), strict=True, restkey="", restval=""
    )
    layers: dict[str, _LayerRows] = {}
    try:
        columns = {name.strip().lower() for name in rows.fieldnames or () if name}
        if not columns & {"start_sample", "start_s"}:
            raise BadFile("the table has no column start_sample or start_s", f"its columns are {', '.join(COLUMNS)}")
        for at, row in enumerate(rows, 2):
            cells = {name.strip().lower(): value for name, value in row.items() if name and isinstance(value, str)}
            _take(cells, f"row {at}", layers, grid)
    except csv.Error as error:
        raise BadFile(f"the table cannot be read: {error}", "save it as CSV again") from error
    return grid.annotation(
        AnnotationLayer(name, one.kind or _kind(one.marks), tuple(one.labels), tuple(one.marks))
        for name, one in layers.items()
    )


def _take(cells: Mapping[str, str], where: str, layers: dict[str, _LayerRows], grid: SampleGrid) -> None:
    if not any(cells.values()):
        return
    layer = layers.setdefault(_text(cells.get("layer", "")) or "marks", _LayerRows())
    kind = cells.get("kind", "").strip().lower()
    if kind not in _KINDS or (layer.kind and _KINDS[kind] not in (None, layer.kind)):
        raise BadFile(f"{where} is of the kind {kind[:40]!r}", "a layer is of regions or of points")
    layer.kind = layer.kind or _KINDS[kind]
    label, note = _text(cells.get("label", "")), _text(cells.get("note", ""))
    start = _sample(cells, "start", where, grid)
    if start is None:
        if label:
            layer.labels.append(label)
        return
    end = _sample(cells, "end", where, grid)
    layer.marks.append(AnnotationMark(start, start if end is None else end, label, note))


def _sample(cells: Mapping[str, str], edge: str, where: str, grid: SampleGrid) -> int | None:
    if written := cells.get(f"{edge}_sample", "").strip():
        value = parse_number(written, where)
        if value != value // 1:
            raise BadFile(f"{where}: {edge}_sample is {written[:40]}", "samples are whole numbers")
        return grid.sample(value / grid.rate_hz, where)
    written = cells.get(f"{edge}_s", "")
    return grid.sample(parse_number(written, where), where) if written.strip() else None


def _text(cell: str) -> str:
    """A cell's text; an apostrophe goes only where ``safe_cell`` would have put it."""
    plain = plain_text(cell)
    return plain if safe_cell(plain) == cell else cell


def _kind(marks: list[AnnotationMark]) -> Kind:
    return "points" if marks and all(one.start_sample == one.end_sample for one in marks) else "regions"
