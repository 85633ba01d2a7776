"""Import and export formats of annotations, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from studio.annotation.formats import eaf, labelstudio, table, textgrid
from studio.annotation.formats.tiers import SampleGrid, decode_text, parse_number
from studio.annotation.layers import Annotation, AnnotationLayer, AnnotationMark
from studio.core.errors import BadFile
from studio.core.traces.textgrid import decimal

_REGIONS, _POINTS = "labels", "points"


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

    Raises:
        BadFile: a line has no two times, a time does not lie in the sound, or the file is larger than 16 MB.
    """
    grid = SampleGrid(rate_hz, samples)
    found: dict[str, list[AnnotationMark]] = {_REGIONS: [], _POINTS: []}
    for at, line in enumerate(decode_text(data).split("\n"), 1):
        if not line.strip() or line.startswith("\\"):
            continue
        where = f"line {at}"
        start, tab, rest = line.partition("\t")
        end, _, label = rest.partition("\t")
        if not tab:
            raise BadFile(f"{where} is not an Audacity label: {line[:40]!r}", "each has a start, a tab and an end")
        first, last = (grid.sample(parse_number(one, where), where) for one in (start, end))
        if last < first:
            raise BadFile(f"{where} ends before it begins", "export the labels again")
        found[_POINTS if first == last else _REGIONS].append(AnnotationMark(first, last, label))
    layers = [AnnotationLayer(_REGIONS, "regions", marks=tuple(found[_REGIONS]))]
    layers.append(AnnotationLayer(_POINTS, "points", marks=tuple(found[_POINTS])))
    return grid.annotation([one for one in layers if one.marks] or layers[:1])


def _one_line(label: str) -> str:
    return " ".join(label.replace("\t", " ").split("\n"))


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        title: display name.
        suffix: of its files, with the point.
        loses: what it cannot represent, for display; empty for nothing.
        write: raises BadOption where it cannot represent the annotation at all.
        read: (data, rate_hz, samples) to an annotation without ids. Raises BadFile.
    """

    title: str
    suffix: str
    media_type: str
    loses: str
    write: Callable[[Annotation], bytes]
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
    "csv": Format("CSV", ".csv", "text/csv; charset=utf-8", "", table.write, table.read),
}
