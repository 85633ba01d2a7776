"""What annotators say of a sound: layers of labelled regions or points, in samples of that sound.

A mark lies where its samples lie, so it is exact whatever the format it came from; seconds appear only where people
read. Regions of one layer may overlap: formats that cannot say so spread them over several tiers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from studio.core.errors import BadOption

Kind = Literal["regions", "points"]

MAX_MARKS = 20_000
MAX_NAME = 80
MAX_LABEL = 200
MAX_NOTE = 2_000


@dataclass(frozen=True, order=True)
class Mark:
    """One region or point.

    Args:
        start_sample: where it begins, or the point itself.
        end_sample: where it ends, exclusive; ``start_sample`` again for a point.
        label: of the layer's set, or free text.
        note: what else the annotator says.
        id: names it for as long as it lives; given by whoever makes it.
    """

    start_sample: int
    end_sample: int
    label: str = ""
    note: str = ""
    id: str = ""


@dataclass(frozen=True)
class Layer:
    """Marks of one kind by one annotator.

    Args:
        labels: what the number keys offer, in this order; others may be written all the same.
    """

    name: str
    kind: Kind = "regions"
    labels: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()

    def within(self, samples: int) -> "Layer":
        """The same layer with its marks sorted.

        Raises:
            BadOption: a mark lies outside a sound of so many samples, ends before it begins, is empty where a region
                is wanted or long where a point is; or there are too many; or a text is too long or holds what cannot
                be shown.
        """
        _text("the layer's name", self.name, MAX_NAME, needed=True)
        for label in self.labels:
            _text("a label", label, MAX_LABEL, needed=True)
        if len(self.marks) > MAX_MARKS:
            raise BadOption(f"{self.name}: {len(self.marks)} marks", f"a layer holds {MAX_MARKS}; make another")
        for mark in self.marks:
            self.check(mark, samples)
        return replace(self, marks=tuple(sorted(self.marks)))

    def check(self, mark: Mark, samples: int) -> None:
        """Raises BadOption where a mark cannot be one of this layer's, as ``within`` does."""
        where = f"{self.name}: {mark.start_sample} to {mark.end_sample}"
        if not 0 <= mark.start_sample <= mark.end_sample <= samples:
            raise BadOption(f"{where} is not within the sound", f"it has samples 0 to {samples}")
        if self.kind == "points" and mark.start_sample != mark.end_sample:
            raise BadOption(f"{where} is a region in a layer of points", "give a point, or a layer of regions")
        if self.kind == "regions" and mark.start_sample == mark.end_sample:
            raise BadOption(f"{where} is a point in a layer of regions", "give it a length, or a layer of points")
        _text(f"{where}: the label", mark.label, MAX_LABEL)
        _text(f"{where}: the note", mark.note, MAX_NOTE)


@dataclass(frozen=True)
class Annotation:
    """All layers of one annotator on one sound of ``samples`` samples at ``rate_hz``."""

    rate_hz: int
    samples: int
    layers: tuple[Layer, ...] = ()

    def checked(self) -> "Annotation":
        """The same with every layer's marks sorted. Raises BadOption: two layers of one name, or a layer is wrong."""
        names = [layer.name for layer in self.layers]
        if twice := _twice(names):
            raise BadOption(f"two layers are called {twice[:MAX_NAME]!r}", "give each a name of its own")
        return replace(self, layers=tuple(layer.within(self.samples) for layer in self.layers))


def _twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), "")


def _text(what: str, text: str, most: int, needed: bool = False) -> None:
    if needed and not text.strip():
        raise BadOption(f"{what} is empty", "write one")
    if len(text) > most:
        raise BadOption(f"{what} has {len(text)} characters", f"at most {most} are kept")
    if any(ch not in "\n\t" and (ord(ch) < 32 or ord(ch) == 127 or 0xD800 <= ord(ch) <= 0xDFFF) for ch in text):
        raise BadOption(f"{what} holds a control character or half a character", "leave it out")
