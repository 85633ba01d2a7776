"""Import and export formats of annotations, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from studio.annotation.formats import audacity, eaf, labelstudio, table, textgrid
from studio.annotation.layers import Annotation


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
        audacity.write,
        audacity.read,
    ),
    "labelstudio": Format("Label Studio JSON", ".json", "application/json", "", labelstudio.write, labelstudio.read),
    "eaf": Format("ELAN EAF", ".eaf", "application/xml", "times finer than a millisecond", eaf.write, eaf.read),
    "csv": Format("CSV", ".csv", "text/csv; charset=utf-8", "", table.write, table.read),
}
