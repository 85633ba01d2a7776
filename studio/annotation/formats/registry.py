"""The formats that annotations are taken from and given to, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from studio.annotation.formats import audacity, eaf, labelstudio, table, textgrid
from studio.annotation.layers import Annotation


@dataclass(frozen=True)
class Format:
    """One format.

    Attributes:
        title: as a page names it.
        suffix: of its files, with the point.
        media_type: of its files.
        loses: what it cannot hold, as a page says it; empty where it holds everything.
        write: raises BadOption where it cannot hold the annotation at all.
        read: the annotation of a sound at ``rate_hz`` with so many samples; its marks have no ids yet. Raises BadFile,
            and takes nothing then.
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
