"""Import and export formats of annotations, by name; those of Audacity and CSV."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from studio.annotation.formats import eaf, labelstudio, textgrid
from studio.annotation.formats.tiers import MAX_BYTES, SampleGrid, check_count, text_of, unix_newlines
from studio.annotation.layers import MAX_MARKS, Annotation, AnnotationLayer, AnnotationMark, Kind
from studio.core.csv_files import MAX_LINES, parse_number, read_table
from studio.core.errors import BadFile
from studio.core.traces.textgrid import decimal
from studio.measure.tables import csv_text, plain_text, safe_cell

MAX_ROWS, MAX_COLUMNS = 40_000, 100  # of a CSV; an annotation of the studio has 20,000 marks
_SEEN_ROWS = 1_000  # examined to recognise columns of labels
_REGIONS, _POINTS = "labels", "points"
COLUMNS = ("layer", "kind", "start_sample", "end_sample", "start_s", "end_s", "label", "note")
# Names of these columns in the tables of Praat, ELAN, Audino and spreadsheets.
_OTHER_NAMES = (
    {
        f"{word}{name}": f"{edge}_{unit}"
        for edge, words in (
            ("start", ("start", "begin", "onset", "start_time", "begin_time", "starttime")),
            ("end", ("end", "stop", "offset", "end_time", "stop_time", "endtime")),
            ("duration", ("duration", "dur")),
        )
        for word in words
        for unit, ends in (
            ("s", ("", "_s", "_(s)", "(s)", "_sec", "_seconds", "_ss.msec", "_hh:mm:ss.ms")),
            ("ms", ("_ms", "_msec", "_(ms)")),
        )
        for name in ends
    }
    | dict.fromkeys(("tmin", "xmin"), "start_s")
    | dict.fromkeys(("tmax", "xmax"), "end_s")
    | dict.fromkeys(
        ("text", "annotation", "value", "transcript", "transcription", "utterance", "word", "phone"), "label"
    )
    | {"tier": "layer"}
)
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{1,2}(?:[.,]\d+)?)")  # 01:02:03.5
_SPACED = re.compile(r"\s*([-+]?[\d.,]+(?:[eE][-+]?\d+)?)[ \t]+([-+]?[\d.,]+(?:[eE][-+]?\d+)?)(?:[ \t]+(.*))?")
_HTK_S = 1e-7  # the unit of HTK's label files
# Columns of other programs' tables, such as Raven's, that hold no labels.
_NO_LABELS = re.compile(
    r"time|duration|freq|selection|view|channel|file|path|speaker|confidence|score|_id$|^id$|unnamed"
)
_KINDS: Mapping[str, Kind | None] = {"regions": "regions", "points": "points", "": None}


def write_audacity(annotation: Annotation) -> bytes:
    r"""Audacity label track: a line for each mark, with times in seconds, exact to the sample.

    A file is one track; points have no length. Lost: notes, label sets, layers without marks, layer names (of several
    layers they are prefixed to labels), and line ends and tabs in labels. Lines that begin with a backslash (spectral
    selections) are skipped.
    """
    several = len(annotation.layers) > 1
    rows = sorted(
        (mark.start_sample, mark.end_sample, _one_line(f"{layer.name}: {mark.label}" if several else mark.label))
        for layer in annotation.layers
        for mark in layer.marks
    )
    lines = [
        f"{decimal(start / annotation.rate_hz)}\t{decimal(end / annotation.rate_hz)}\t{label}\n"
        for start, end, label in rows
    ]
    return "".join(lines).encode()


def read_audacity(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """A layer ``labels`` of regions and a layer ``points``.

    Blanks instead of tabs, a first line of column names, and HTK's whole numbers of 100 ns can also be read.

    Raises BadFile: a line lacks one of its two times, a time is outside the sound, or the file has more than 16 MB or
    20,000 labels.
    """
    grid, text = SampleGrid(rate_hz, samples), text_of(data)
    check_count(text, "\n", MAX_LINES, "lines")
    marks: dict[str, list[AnnotationMark]] = {_REGIONS: [], _POINTS: []}
    unit_s = _unit_s(text, samples / rate_hz)
    for at, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("\\"):
            continue
        where = f"line {at}"
        spaced = _SPACED.fullmatch(line) if "\t" not in line else None
        start, tab, rest = (spaced[1], "\t", f"{spaced[2]}\t{spaced[3] or ''}") if spaced else line.partition("\t")
        end, _, label = rest.partition("\t")
        if not tab:
            raise BadFile(f"{where} is not an Audacity label: {line[:40]!r}", "each has a start, a tab and an end")
        if at == 1 and not any(map(str.isdecimal, start + end)):
            continue  # column names
        first, last = (grid.sample(unit_s * parse_number(one, where), where) for one in (start, end))
        if last < first:
            raise BadFile(f"{where} ends before it begins", "export the labels again")
        _add(marks[_POINTS if first == last else _REGIONS], AnnotationMark(first, last, label), where)
    layers = [AnnotationLayer(_REGIONS, "regions", marks=tuple(marks[_REGIONS]))]
    layers.append(AnnotationLayer(_POINTS, "points", marks=tuple(marks[_POINTS])))
    return grid.annotation([one for one in layers if one.marks] or layers[:1])


def _unit_s(text: str, length_s: float) -> float:
    """Unit of a file's times: HTK's if all are whole numbers separated by blanks, the last beyond the sound's end."""
    lines = [_SPACED.fullmatch(line) for line in text.split("\n") if line.strip()]
    ends = [int(one[2]) for one in lines if one and one[1].isdecimal() and one[2].isdecimal()]
    is_htk = "\t" not in text and bool(ends) and len(ends) == len(lines) and max(ends) > length_s
    return _HTK_S if is_htk else 1.0


def _one_line(label: str) -> str:
    return " ".join(label.replace("\t", " ").split("\n"))


@dataclass
class _LayerRows:
    """The data of a layer's rows."""

    kind: Kind | None = None
    labels: list[str] = field(default_factory=list)
    marks: list[AnnotationMark] = field(default_factory=list)


def write_csv(annotation: Annotation) -> bytes:
    """CSV in UTF-8: a row for each mark, exact to the sample, without loss; each layer begins with its label set.

    A row without times adds its label to the layer's set. Texts that a spreadsheet could read as a formula are prefixed
    with an apostrophe, which is removed on reading.
    """
    rows: list[tuple[object, ...]] = [COLUMNS]
    for layer in annotation.layers:
        head = layer.name, layer.kind
        rows += [(*head, "", "", "", "", label, "") for label in layer.labels or ([] if layer.marks else [""])]
        for one in layer.marks:
            times = (decimal(at / annotation.rate_hz) for at in (one.start_sample, one.end_sample))
            rows.append((*head, one.start_sample, one.end_sample, *times, one.label, one.note))
    return csv_text(rows).encode()


def read_csv(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """Layers in file order. Times are samples if given, else seconds (or a clock, 01:02:03.5), else milliseconds.

    Without an end, the duration gives it; without both, the row is a point.

    Columns may have the names of other programs (tmin, tier, text, tmax; begin, end; onset, duration).

    Raises BadFile: it is no CSV with such columns, a time is outside the sound, or the file has more than 16 MB or
    40,000 rows.
    """
    grid = SampleGrid(rate_hz, samples)
    is_ours = data.startswith(f"{','.join(COLUMNS)}\n".encode())
    table = read_table(data, max_bytes=MAX_BYTES, exact=is_ours)
    names = {
        one: other
        for one in table.columns
        if (other := _OTHER_NAMES.get(one, one)) == one or other not in table.columns
    }
    if not {"start_sample", "start_s", "start_ms"} & set(names.values()):
        raise BadFile(
            "the table has no column start_sample, start_s or start_ms", f"its columns are {', '.join(COLUMNS)}"
        )
    if len(table.columns) > MAX_COLUMNS:
        raise BadFile(f"the table has {len(table.columns):,} columns", f"its columns are {', '.join(COLUMNS)}")
    if {"type", "speaker"} <= set(names) and "layer" not in names.values():
        names["type"] = "layer"  # words and phones of the Montreal Forced Aligner
    first = list(islice(table.rows, _SEEN_ROWS))
    tiers = _tiers(dict(zip(table.columns, table.titles, strict=True)), names, [cells for _, cells in first])
    layers: dict[str, _LayerRows] = {}
    for count, (line, cells) in enumerate(chain(first, table.rows)):
        if count == MAX_ROWS:
            raise BadFile(f"the table has more than {MAX_ROWS:,} rows", "divide it")
        known = {names[one]: cell for one, cell in cells.items() if one in names and one not in tiers}
        said = [{"layer": title, "label": cells[one]} for one, title in tiers.items() if cells[one]]
        for labels in said or [{}]:
            _add_row(known | labels, f"line {line}", layers, grid)
    return grid.annotation(
        AnnotationLayer(name, one.kind or _kind_of_marks(one.marks), tuple(one.labels), tuple(one.marks))
        for name, one in layers.items()
    )


def _tiers(titles: Mapping[str, str], names: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Columns of labels that are separate layers, with their titles: ``word`` beside ``phone``, or ELAN's tiers."""
    labels = [one for one in titles if names.get(one) == "label"]
    if len(labels) == 1 or "layer" in names.values():
        return {}
    known = {*COLUMNS, "start_ms", "end_ms", "duration_s", "duration_ms"}
    others = [one for one in titles if names.get(one, one) not in known and not _NO_LABELS.search(one)]
    texts = [one for one in others if not all(_is_number(row[one]) for row in rows)]
    return {one: titles[one] for one in labels or texts}


def _is_number(cell: str) -> bool:
    return not cell or re.fullmatch(r"[-+]?[\d.,:]+", cell) is not None


def _add_row(cells: Mapping[str, str], where: str, layers: dict[str, _LayerRows], grid: SampleGrid) -> None:
    layer = layers.setdefault(_cell_text(cells.get("layer", "")) or "marks", _LayerRows())
    kind = cells.get("kind", "").strip().lower()
    if kind not in _KINDS or (layer.kind and _KINDS[kind] not in (None, layer.kind)):
        raise BadFile(f"{where} is of the kind {kind[:40]!r}", "a layer is of regions or of points")
    layer.kind = layer.kind or _KINDS[kind]
    label, note = _cell_text(cells.get("label", "")), _cell_text(cells.get("note", ""))
    start = _edge_sample(cells, "start", where, grid)
    if start is None:
        if label:
            layer.labels.append(label)
        return
    end = _edge_sample(cells, "end", where, grid)
    _add(layer.marks, AnnotationMark(start, start if end is None else end, label, note), where)


def _add(marks: list[AnnotationMark], mark: AnnotationMark, where: str) -> None:
    if len(marks) == MAX_MARKS:
        raise BadFile(f"{where}: a layer has more than {MAX_MARKS:,} marks", "divide it")
    marks.append(mark)


def _edge_sample(cells: Mapping[str, str], edge: str, where: str, grid: SampleGrid) -> int | None:
    if written := cells.get(f"{edge}_sample", "").strip():
        value = parse_number(written, where)
        if value != value // 1:
            raise BadFile(f"{where}: {edge}_sample is {written[:40]}", "samples are whole numbers")
        return grid.sample(value / grid.rate_hz, where)
    at_s = _seconds(cells, edge, where)
    if at_s is None and edge == "end" and (length_s := _seconds(cells, "duration", where)) is not None:
        at_s = (_seconds(cells, "start", where) or 0.0) + length_s
    return None if at_s is None else grid.sample(at_s, where)


def _seconds(cells: Mapping[str, str], what: str, where: str) -> float | None:
    """A time or a length in seconds, milliseconds or as 01:02:03.5; None where the cell is blank or missing."""
    if written := cells.get(f"{what}_s", "").strip():
        clock = _CLOCK.fullmatch(written)
        if clock:
            hours, minutes = int(clock[1] or 0), int(clock[2])
            return 3600.0 * hours + 60.0 * minutes + parse_number(clock[3], where)
        return parse_number(written, where)
    written = cells.get(f"{what}_ms", "").strip()
    return parse_number(written, where) / 1000.0 if written else None


def _cell_text(cell: str) -> str:
    """A cell's text; an apostrophe is removed only where ``safe_cell`` would have added it."""
    plain = plain_text(cell)
    return unix_newlines(plain if safe_cell(plain) == cell else cell)


def _kind_of_marks(marks: list[AnnotationMark]) -> Kind:
    return "points" if marks and all(one.start_sample == one.end_sample for one in marks) else "regions"


@dataclass(frozen=True)
class Format:
    """One format."""

    title: str  # display name
    suffix: str  # of its files, with the dot
    media_type: str
    loses: str  # what it cannot represent, for display; empty for nothing
    write: Callable[[Annotation], bytes]  # raises BadOption where it cannot represent the annotation at all
    # (data, rate_hz, samples) to an annotation without ids. Raises BadFile
    read: Callable[[bytes, int, int], Annotation]


FORMATS: Mapping[str, Format] = {
    "textgrid": Format(
        "Praat TextGrid", ".TextGrid", "text/plain; charset=utf-8", "label sets", textgrid.write, textgrid.read
    ),
    "audacity": Format(
        "Audacity labels",
        ".txt",
        "text/plain; charset=utf-8",
        "notes, label sets, the names of layers",
        write_audacity,
        read_audacity,
    ),
    "labelstudio": Format("Label Studio JSON", ".json", "application/json", "", labelstudio.write, labelstudio.read),
    "eaf": Format("ELAN EAF", ".eaf", "application/xml", "times finer than a millisecond", eaf.write, eaf.read),
    "csv": Format("CSV", ".csv", "text/csv; charset=utf-8", "", write_csv, read_csv),
}
