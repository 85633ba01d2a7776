"""Annotations of a sound: layers of labelled regions or points, in samples.

Regions of one layer may overlap; formats without overlaps split them into several tiers.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from studio.core.errors import BadOption

Kind = Literal["regions", "points"]

MAX_MARKS = 20_000
MAX_SAMPLE = 1 << 53  # exact in every JSON reader
MAX_NAME = 80
MAX_LABEL = 4_000  # a tier of utterances has whole sentences as labels
MAX_NOTE = 2_000
Id = Annotated[str, Field(pattern="^[0-9a-z]{1,32}$")]
Count = Annotated[int, Field(strict=True, ge=0, le=MAX_SAMPLE)]


@dataclass(frozen=True, order=True)
class AnnotationMark:
    """One region or point."""

    start_sample: Count
    end_sample: Count  # exclusive; equals ``start_sample`` for a point
    label: str = ""  # from the layer's set, or free text
    note: str = ""  # free text
    id: Id = ""  # permanent; chosen by the creator


@dataclass(frozen=True)
class AnnotationLayer:
    """Marks of one kind by one annotator."""

    name: str
    kind: Kind = "regions"
    labels: tuple[str, ...] = ()  # label set in the order of the number keys; other labels are allowed
    marks: tuple[AnnotationMark, ...] = ()

    def validated(self, samples: int) -> "AnnotationLayer":
        """The same layer with its marks sorted.

        Raises BadOption: a mark is outside the sound, ends before it begins, or is not of the layer's kind; there are
        too many marks; or a text is too long or not printable.
        """
        _check_text("the layer's name", self.name, MAX_NAME, required=True)
        for label in self.labels:
            _check_text("a label", label, MAX_LABEL, required=True)
        if len(self.marks) > MAX_MARKS:
            raise BadOption(f"{self.name}: {len(self.marks)} marks", f"a layer holds {MAX_MARKS}; make another")
        for mark in self.marks:
            self.check(mark, samples)
        return replace(self, marks=tuple(sorted(self.marks)))

    def check(self, mark: AnnotationMark, samples: int) -> None:
        """Raises BadOption where a mark is invalid in this layer; see ``validated``."""
        where = f"{self.name}: {mark.start_sample} to {mark.end_sample}"
        if not 0 <= mark.start_sample <= mark.end_sample <= samples:
            raise BadOption(f"{where} is not within the sound", f"it has samples 0 to {samples}")
        if self.kind == "points" and mark.start_sample != mark.end_sample:
            raise BadOption(f"{where} is a region in a layer of points", "give a point, or a layer of regions")
        if self.kind == "regions" and mark.start_sample == mark.end_sample:
            raise BadOption(f"{where} is a point in a layer of regions", "give it a length, or a layer of points")
        _check_text(f"{where}: the label", mark.label, MAX_LABEL)
        _check_text(f"{where}: the note", mark.note, MAX_NOTE)


@dataclass(frozen=True)
class Annotation:
    """All layers of one annotator on one sound of ``samples`` samples at ``rate_hz``."""

    rate_hz: int
    samples: int
    layers: tuple[AnnotationLayer, ...] = ()

    def validated(self) -> "Annotation":
        """The same with sorted marks. Raises BadOption: two layers have one name, or a layer is invalid."""
        names = [layer.name for layer in self.layers]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise BadOption(f"two layers are called {duplicate[:MAX_NAME]!r}", "give each a name of its own")
        return replace(self, layers=tuple(layer.validated(self.samples) for layer in self.layers))


def _check_text(what: str, text: str, max_chars: int, required: bool = False) -> None:
    if required and not text.strip():
        raise BadOption(f"{what} is empty", "write one")
    if len(text) > max_chars:
        raise BadOption(f"{what} has {len(text)} characters", f"at most {max_chars} are allowed")
    if any(ch not in "\n\t" and (ord(ch) < 32 or ord(ch) == 127 or 0xD800 <= ord(ch) <= 0xDFFF) for ch in text):
        raise BadOption(f"{what} holds a control character or a lone surrogate", "leave it out")
