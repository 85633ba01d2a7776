r"""Label tracks of Audacity: a line for each mark, its times in seconds, exact to the sample.

A file is one track: points and regions stay apart by their length. Lost: notes, label sets, layers without marks, the
names of layers (where there are several, they stand before the labels), and line ends and tabs inside a label.
Lines that begin with a backslash say the frequencies of the line before (spectral selections); they are passed over.
"""

from studio.annotation.formats.placing import Placing, decoded, number
from studio.annotation.layers import Annotation, Layer, Mark
from studio.core.errors import BadFile
from studio.core.traces.textgrid import decimal

_REGIONS, _POINTS = "labels", "points"


def write(annotation: Annotation) -> bytes:
    """One track in the order of time, in UTF-8."""
    several = len(annotation.layers) > 1
    rows = sorted(
        (mark.start_sample, mark.end_sample, _line(f"{layer.name}: {mark.label}" if several else mark.label))
        for layer in annotation.layers
        for mark in layer.marks
    )
    lines = [
        f"{decimal(start / annotation.rate_hz)}\t{decimal(end / annotation.rate_hz)}\t{label}\n"
        for start, end, label in rows
    ]
    return "".join(lines).encode()


def read(data: bytes, rate_hz: int, samples: int) -> Annotation:
    """A layer ``labels`` of the regions and a layer ``points`` of what has no length.

    Raises:
        BadFile: a line has no two times, a time does not lie in the sound, or the file is larger than 16 MB.
    """
    placing = Placing(rate_hz, samples)
    found: dict[str, list[Mark]] = {_REGIONS: [], _POINTS: []}
    for at, line in enumerate(decoded(data).split("\n"), 1):
        if not line.strip() or line.startswith("\\"):
            continue
        where = f"line {at}"
        start, tab, rest = line.partition("\t")
        end, _, label = rest.partition("\t")
        if not tab:
            raise BadFile(f"{where} is no label of Audacity: {line[:40]!r}", "each has a start, a tab and an end")
        first, last = (placing.sample(number(one, where), where) for one in (start, end))
        if last < first:
            raise BadFile(f"{where} ends before it begins", "export the labels again")
        found[_POINTS if first == last else _REGIONS].append(Mark(first, last, label))
    layers = [Layer(_REGIONS, "regions", marks=tuple(found[_REGIONS]))]
    layers.append(Layer(_POINTS, "points", marks=tuple(found[_POINTS])))
    return placing.annotation([one for one in layers if one.marks] or layers[:1])


def _line(label: str) -> str:
    return " ".join(label.replace("\t", " ").split("\n"))
