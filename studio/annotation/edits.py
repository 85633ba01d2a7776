"""Edits of an annotation: what one annotator's document on one sound is after each of them.

A layer and a mark each have a *version*: the document's revision in which they were last written. A change says which
version it has seen (``was``; 0 for what is not there), so that two windows of one annotator never overwrite each
other unseen. An edit is several changes that hold together or not at all; it has a name of its own, so that one that
is sent again, because the answer was lost, is done once.
"""

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from studio.annotation.layers import MAX_MARKS, MAX_NAME, Annotation, Layer, Mark
from studio.core.errors import BadOption, StudioError

MAX_LAYERS = 32
MAX_LABELS = 64  # of one layer's set
MAX_CHANGES = 500  # of one edit that comes by itself; an import may have more
REMEMBERED = 256  # edits whose names are known
MAX_SAMPLE = 1 << 53  # what every reader of JSON keeps exactly
ID = re.compile(r"[0-9a-z]{1,32}")


class ChangedMeanwhile(StudioError):
    """A layer or a mark is not what the change has seen; nothing of the edit was done."""

    code = "changed_meanwhile"


@dataclass(frozen=True)
class PutLayer:
    """Make a layer, or give it another name, kind or label set; its marks stay."""

    layer: str
    name: str
    kind: str
    labels: tuple[str, ...]
    was: int = 0


@dataclass(frozen=True)
class DropLayer:
    """Remove a layer with its marks; ``was`` is the newest version of the layer and of all its marks."""

    layer: str
    was: int


@dataclass(frozen=True)
class PutMark:
    """Add or change a mark, which has its id."""

    layer: str
    mark: Mark
    was: int = 0


@dataclass(frozen=True)
class DropMark:
    """Remove a mark."""

    layer: str
    mark: str
    was: int


@dataclass(frozen=True)
class Finish:
    """The annotator says that the utterance is done, or that it is not."""

    is_done: bool


Change = PutLayer | DropLayer | PutMark | DropMark | Finish


@dataclass(frozen=True)
class Edit:
    """Changes that hold together.

    Args:
        name: given by whoever makes it.
        at: when, seconds since 1970.
    """

    name: str
    changes: tuple[Change, ...]
    at: float = 0.0


@dataclass
class _Layer:
    """A layer as a document holds it; ``marks`` and the versions of marks by id."""

    name: str
    kind: str
    labels: tuple[str, ...]
    version: int
    marks: dict[str, Mark] = field(default_factory=dict[str, Mark])
    versions: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def newest(self) -> int:
        return max(self.version, *self.versions.values(), 0)

    def bare(self) -> Layer:
        return Layer(self.name, "points" if self.kind == "points" else "regions", self.labels)


@dataclass
class Document:
    """All that one annotator said of one sound of ``samples`` samples at ``rate_hz``.

    Attributes:
        revision: how many edits were done.
        layers: by id, in the order of their making.
        is_done: whether the annotator says that nothing is left to do.
        changed_at: when the last edit was made.
    """

    annotator: str
    rate_hz: int
    samples: int
    revision: int = 0
    layers: dict[str, _Layer] = field(default_factory=dict[str, _Layer])
    is_done: bool = False
    changed_at: float = 0.0
    _known: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def marks(self) -> int:
        """How many marks there are."""
        return sum(len(one.marks) for one in self.layers.values())

    def known(self, edit: str) -> int | None:
        """The revision that an edit of this name made; None where it was not done, or long ago."""
        return self._known.get(edit)

    def changed(self, edit: Edit) -> "Document":
        """The document after an edit; this one stays as it is.

        Raises:
            BadOption: a change is not one that can be made; ChangedMeanwhile: it has seen another version.
        """
        touched = {one.layer for one in edit.changes if not isinstance(one, Finish)}
        layers = {
            name: replace(one, marks=dict(one.marks), versions=dict(one.versions)) if name in touched else one
            for name, one in self.layers.items()
        }
        after = replace(self, layers=layers, _known=dict(self._known))
        after.do(edit)
        return after

    def do(self, edit: Edit) -> None:
        """Do an edit here; where it raises, this document is of no use any more. Raises as ``changed`` does."""
        self.revision += 1
        for change in edit.changes:
            self._do(change)
        self.changed_at = max(self.changed_at, edit.at)
        self._known[edit.name] = self.revision
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def annotation(self) -> Annotation:
        """As formats and measures take it: marks sorted."""
        layers = tuple(replace(one.bare(), marks=tuple(sorted(one.marks.values()))) for one in self.layers.values())
        return Annotation(self.rate_hz, self.samples, layers)

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON, with versions, as pages and journals hold it."""
        return {
            "annotator": self.annotator,
            "rate_hz": self.rate_hz,
            "samples": self.samples,
            "revision": self.revision,
            "is_done": self.is_done,
            "changed_at": self.changed_at,
            "layers": [
                {
                    "id": name,
                    "name": one.name,
                    "kind": one.kind,
                    "labels": list(one.labels),
                    "version": one.version,
                    "marks": [
                        [mark.id, one.versions[mark.id], mark.start_sample, mark.end_sample, mark.label, mark.note]
                        for mark in sorted(one.marks.values())
                    ],
                }
                for name, one in self.layers.items()
            ],
        }

    def snapshot(self) -> dict[str, Any]:
        """What ``restored`` makes the document of again."""
        return {**self.to_dict(), "known": dict(self._known)}

    def _do(self, change: Change) -> None:
        match change:
            case Finish():
                self.is_done = change.is_done
            case PutLayer():
                self._put_layer(change)
            case DropLayer():
                self._see(self._layer(change.layer).newest, change.was)
                del self.layers[change.layer]
            case PutMark():
                self._put_mark(change)
            case DropMark():
                layer = self._layer(change.layer)
                self._see(layer.versions.get(change.mark, 0), change.was)
                if not change.was:
                    raise ChangedMeanwhile("the mark is not there any more", "reload the page")
                del layer.marks[change.mark], layer.versions[change.mark]

    def _put_layer(self, change: PutLayer) -> None:
        before = self.layers.get(change.layer)
        self._see(before.version if before else 0, change.was)
        if change.kind not in ("regions", "points"):
            raise BadOption(f"{change.kind[:40]!r} is no kind of layer", "give regions or points")
        if len(change.labels) > MAX_LABELS or len(set(change.labels)) < len(change.labels):
            raise BadOption(
                f"the label set of {change.name[:MAX_NAME]!r} cannot be one", f"at most {MAX_LABELS}, each once"
            )
        after = replace(before or _Layer("", "", (), 0), version=self.revision)
        after.name, after.kind, after.labels = change.name, change.kind, change.labels
        after.bare().within(self.samples)
        if before and before.kind != change.kind and before.marks:
            raise BadOption(f"{change.name!r} has marks and stays a layer of {before.kind}", "make another layer")
        if any(one.name == change.name for name, one in self.layers.items() if name != change.layer):
            raise BadOption(f"there is a layer {change.name!r} already", "give it another name")
        self.layers[change.layer] = after
        if len(self.layers) > MAX_LAYERS:
            raise BadOption(f"there are {MAX_LAYERS} layers already", "remove one first")

    def _put_mark(self, change: PutMark) -> None:
        layer, mark = self._layer(change.layer), change.mark
        self._see(layer.versions.get(mark.id, 0), change.was)
        layer.bare().check(mark, self.samples)
        layer.marks[mark.id], layer.versions[mark.id] = mark, self.revision
        if not change.was and self.marks > MAX_MARKS:
            raise BadOption(f"there are {MAX_MARKS} marks already", "one annotator makes no more on one utterance")

    def _layer(self, name: str) -> _Layer:
        if name not in self.layers:
            raise ChangedMeanwhile("the layer is not there any more", "reload the page")
        return self.layers[name]

    def _see(self, is_now: int, was: int) -> None:
        if is_now != was:
            raise ChangedMeanwhile("this was changed in another window meanwhile", "reload the page to see it")


def restored(data: Any) -> Document:
    """The document of a snapshot. Raises BadOption."""
    with _strictly("a snapshot"):
        found = Document(
            data["annotator"],
            data["rate_hz"],
            data["samples"],
            data["revision"],
            is_done=data["is_done"],
            changed_at=data["changed_at"],
            _known=dict(data["known"]),
        )
        for one in data["layers"]:
            layer = found.layers[one["id"]] = _Layer(one["name"], one["kind"], tuple(one["labels"]), one["version"])
            for name, version, start, end, label, note in one["marks"]:
                layer.marks[name] = Mark(start, end, label, note, name)
                layer.versions[name] = version
        found.annotation().checked()
        return found


def changes_of(annotation: Annotation, names: Iterator[str], after: Mapping[str, int]) -> tuple[Change, ...]:
    """The changes that add an annotation's layers to a document; each layer and mark gets the next of ``names``.

    Args:
        after: names of layers that are taken; a layer of such a name gets a number after it.
    """
    found: list[Change] = []
    taken = set(after)
    for layer in annotation.layers:
        name = next(_free(layer.name, taken))
        taken.add(name)
        place = next(names)
        found.append(PutLayer(place, name, layer.kind, layer.labels[:MAX_LABELS]))
        found += [PutMark(place, replace(mark, id=next(names))) for mark in layer.marks]
    return tuple(found)


def _free(name: str, taken: Iterable[str]) -> Iterator[str]:
    if name not in taken:
        yield name
    for number in range(2, 1000):
        ending = f" {number}"
        if (fresh := name[: MAX_NAME - len(ending)] + ending) not in taken:
            yield fresh


def edit_of(data: Any, at: float, most: int | None = MAX_CHANGES) -> Edit:
    """An edit as JSON has it. Raises BadOption."""
    with _strictly("an edit"):
        name, changes = _id(data["edit"]), data["changes"]
        if not isinstance(changes, list) or not changes or (most is not None and len(changes) > most):
            raise BadOption("an edit cannot be taken", f"it has 1 to {most} changes")
        return Edit(name, tuple(_change(one) for one in changes), at)


def edit_to_dict(edit: Edit) -> dict[str, Any]:
    """An edit as JSON."""
    return {"edit": edit.name, "at": edit.at, "changes": [_told(one) for one in edit.changes]}


def line(data: Mapping[str, Any]) -> bytes:
    """One line of a journal."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _change(data: Any) -> Change:
    op = data["op"]
    if op == "done":
        return Finish(_of(bool, data["is_done"]))
    layer = _id(data["layer"])
    was = _count(data["was"])
    if op == "put_layer":
        labels = tuple(_of(str, label) for label in _of(list, data["labels"]))
        return PutLayer(layer, _of(str, data["name"]), _of(str, data["kind"]), labels, was)
    if op == "drop_layer":
        return DropLayer(layer, was)
    mark = _id(data["mark"])
    if op == "drop_mark":
        return DropMark(layer, mark, was)
    if op != "put_mark":
        raise ValueError(f"no change is called {str(op)[:40]!r}")
    span = (_count(data["start"]), _count(data["end"]))
    return PutMark(layer, Mark(*span, _of(str, data["label"]), _of(str, data["note"]), mark), was)


def _told(change: Change) -> dict[str, Any]:
    match change:
        case Finish():
            return {"op": "done", "is_done": change.is_done}
        case PutLayer():
            what = {"name": change.name, "kind": change.kind, "labels": list(change.labels)}
            return {"op": "put_layer", "layer": change.layer, "was": change.was, **what}
        case DropLayer():
            return {"op": "drop_layer", "layer": change.layer, "was": change.was}
        case PutMark():
            mark = change.mark
            what = {"start": mark.start_sample, "end": mark.end_sample, "label": mark.label, "note": mark.note}
            return {"op": "put_mark", "layer": change.layer, "mark": mark.id, "was": change.was, **what}
        case DropMark():
            return {"op": "drop_mark", "layer": change.layer, "mark": change.mark, "was": change.was}


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{str(value)[:40]!r} is not a {kind.__name__}")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SAMPLE:
        raise ValueError(f"{str(value)[:40]!r} is no count")
    return value


def _id(value: Any) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise ValueError(f"{str(value)[:40]!r} is no id: 1 to 32 of a-z and 0-9")
    return value


@contextmanager
def _strictly(what: str) -> Generator[None]:
    """What is not shaped as JSON of ours is BadOption."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadOption(f"{what} is not what it should be: {error}", "reload the page and try again") from error
