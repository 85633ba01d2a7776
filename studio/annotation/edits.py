"""Edits of an annotation: one annotator's document on one sound, with optimistic concurrency control.

Layers and marks have a *version*: the document's revision that last wrote them. A change names its base version
(``was``; 0 for a new item), so that two windows of one annotator do not overwrite each other. An edit is an atomic list
of changes with a unique name, so that an edit sent twice is applied once.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from studio.annotation.layers import MAX_MARKS, MAX_NAME, Annotation, AnnotationLayer, AnnotationMark, Count, Id
from studio.core.errors import BadOption, StudioError

MAX_LAYERS = 32
MAX_LABELS = 64  # of one layer's set
MAX_CHANGES = 500  # of one interactive edit; an import may have more
REMEMBERED = 256  # names of past edits


class AnnotationConflict(StudioError):
    """A layer or a mark does not have the version that the edit expects; nothing was changed."""

    code = "changed_meanwhile"


@dataclass(frozen=True)
class PutLayer:
    """Add a layer, or change its name, kind or label set; its marks stay."""

    layer: Id
    name: str
    kind: str
    labels: tuple[str, ...]
    was: Count = 0


@dataclass(frozen=True)
class DropLayer:
    """Remove a layer with its marks; ``was`` is the newest version of the layer and of all its marks."""

    layer: Id
    was: Count


@dataclass(frozen=True)
class PutMark:
    """Add or change a mark, identified by its id."""

    layer: Id
    mark: AnnotationMark
    was: Count = 0


@dataclass(frozen=True)
class DropMark:
    layer: Id
    mark: Id
    was: Count


@dataclass(frozen=True)
class SetDone:
    """Mark the utterance as done or not done."""

    is_done: Annotated[bool, Field(strict=True)]


Change = PutLayer | DropLayer | PutMark | DropMark | SetDone
_ID = TypeAdapter(Id)
_KINDS: dict[str, TypeAdapter[Any]] = {
    "done": TypeAdapter(SetDone),
    "put_layer": TypeAdapter(PutLayer),
    "drop_layer": TypeAdapter(DropLayer),
    "put_mark": TypeAdapter(PutMark),
    "drop_mark": TypeAdapter(DropMark),
}


@dataclass(frozen=True)
class AnnotationEdit:
    """Changes that are applied together."""

    name: str  # unique; chosen by the creator
    changes: tuple[Change, ...]
    at: float = 0.0  # seconds since 1970


@dataclass
class _StoredLayer:
    """A layer within a document; marks and their versions by id."""

    name: str
    kind: str
    labels: tuple[str, ...]
    version: int
    marks: dict[str, AnnotationMark] = field(default_factory=dict[str, AnnotationMark])
    versions: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def newest(self) -> int:
        return max(self.version, *self.versions.values(), 0)

    def without_marks(self) -> AnnotationLayer:
        return AnnotationLayer(self.name, "points" if self.kind == "points" else "regions", self.labels)


@dataclass
class AnnotationDocument:
    """One annotator's annotation of a sound of ``samples`` samples at ``rate_hz``."""

    annotator: str
    rate_hz: int
    samples: int
    revision: int = 0  # number of edits
    layers: dict[str, _StoredLayer] = field(default_factory=dict[str, _StoredLayer])  # by id, in order of creation
    is_done: bool = False  # whether the annotator marked the utterance as done
    changed_at: float = 0.0  # time of the last edit
    _known: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def marks(self) -> int:
        """Number of marks."""
        return sum(len(one.marks) for one in self.layers.values())

    def revision_of(self, edit: str) -> int | None:
        """The revision made by the edit of this name; None where it is unknown."""
        return self._known.get(edit)

    def with_edit(self, edit: AnnotationEdit) -> "AnnotationDocument":
        """A copy with an edit applied.

        Raises BadOption: a change is invalid; AnnotationConflict: a change is based on another version.
        """
        touched = {one.layer for one in edit.changes if not isinstance(one, SetDone)}
        layers = {
            name: replace(one, marks=dict(one.marks), versions=dict(one.versions)) if name in touched else one
            for name, one in self.layers.items()
        }
        after = replace(self, layers=layers, _known=dict(self._known))
        after.apply(edit)
        return after

    def apply(self, edit: AnnotationEdit) -> None:
        """Apply an edit in place; after an error the document is invalid. Raises as ``with_edit`` does."""
        self.revision += 1
        for change in edit.changes:
            self._apply_change(change)
        self.changed_at = max(self.changed_at, edit.at)
        self._known[edit.name] = self.revision
        while len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    def annotation(self) -> Annotation:
        """The annotation with sorted marks."""
        layers = tuple(
            replace(one.without_marks(), marks=tuple(sorted(one.marks.values()))) for one in self.layers.values()
        )
        return Annotation(self.rate_hz, self.samples, layers)

    def to_dict(self) -> dict[str, Any]:
        """JSON with versions, for pages and journals."""
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
        """Input of ``document_from_snapshot``."""
        return {**self.to_dict(), "known": dict(self._known)}

    def _apply_change(self, change: Change) -> None:
        match change:
            case SetDone():
                self.is_done = change.is_done
            case PutLayer():
                self._put_layer(change)
            case DropLayer():
                self._check_version(self._layer(change.layer).newest, change.was)
                del self.layers[change.layer]
            case PutMark():
                self._put_mark(change)
            case DropMark():
                layer = self._layer(change.layer)
                self._check_version(layer.versions.get(change.mark, 0), change.was)
                if not change.was:
                    raise AnnotationConflict("the mark was deleted", "reload the page")
                del layer.marks[change.mark], layer.versions[change.mark]

    def _put_layer(self, change: PutLayer) -> None:
        before = self.layers.get(change.layer)
        self._check_version(before.version if before else 0, change.was)
        if change.kind not in ("regions", "points"):
            raise BadOption(f"{change.kind[:40]!r} is no kind of layer", "give regions or points")
        if len(change.labels) > MAX_LABELS or len(set(change.labels)) < len(change.labels):
            raise BadOption(
                f"the label set of {change.name[:MAX_NAME]!r} is invalid", f"give at most {MAX_LABELS}, each once"
            )
        after = replace(before or _StoredLayer("", "", (), 0), version=self.revision)
        after.name, after.kind, after.labels = change.name, change.kind, change.labels
        after.without_marks().validated(self.samples)
        if before and before.kind != change.kind and before.marks:
            raise BadOption(f"{change.name!r} has marks and stays a layer of {before.kind}", "make another layer")
        if any(one.name == change.name for name, one in self.layers.items() if name != change.layer):
            raise BadOption(f"there is a layer {change.name!r} already", "give it another name")
        self.layers[change.layer] = after
        if len(self.layers) > MAX_LAYERS:
            raise BadOption(f"there are {MAX_LAYERS} layers already", "remove one first")

    def _put_mark(self, change: PutMark) -> None:
        layer, mark = self._layer(change.layer), change.mark
        self._check_version(layer.versions.get(mark.id, 0), change.was)
        layer.without_marks().check(mark, self.samples)
        layer.marks[mark.id], layer.versions[mark.id] = mark, self.revision
        if not change.was and self.marks > MAX_MARKS:
            raise BadOption(f"there are {MAX_MARKS} marks already", "one annotator makes no more on one utterance")

    def _layer(self, name: str) -> _StoredLayer:
        if name not in self.layers:
            raise AnnotationConflict("the layer was deleted", "reload the page")
        return self.layers[name]

    def _check_version(self, version: int, was: int) -> None:
        if version != was:
            raise AnnotationConflict("this was changed in another window", "reload the page to see it")


def document_from_snapshot(data: Any) -> AnnotationDocument:
    """The document of a snapshot. Raises BadOption."""
    with _well_formed("a snapshot"):
        document = AnnotationDocument(
            data["annotator"],
            data["rate_hz"],
            data["samples"],
            data["revision"],
            is_done=data["is_done"],
            changed_at=data["changed_at"],
            _known=dict(data["known"]),
        )
        for one in data["layers"]:
            layer = document.layers[one["id"]] = _StoredLayer(
                one["name"], one["kind"], tuple(one["labels"]), one["version"]
            )
            for name, version, start, end, label, note in one["marks"]:
                layer.marks[name] = AnnotationMark(start, end, label, note, name)
                layer.versions[name] = version
        document.annotation().validated()
        return document


def import_changes(annotation: Annotation, ids: Iterator[str], existing: Iterable[str]) -> tuple[Change, ...]:
    """The changes that add an annotation's layers to a document; each layer and mark gets the next of ``ids``.

    Args:
        existing: names of the document's layers; a layer of such a name gets a number.
    """
    changes: list[Change] = []
    used = set(existing)
    for layer in annotation.layers:
        name = next(_unused(layer.name, used))
        used.add(name)
        layer_id = next(ids)
        changes.append(PutLayer(layer_id, name, layer.kind, layer.labels[:MAX_LABELS]))
        changes += [PutMark(layer_id, replace(mark, id=next(ids))) for mark in layer.marks]
    return tuple(changes)


def _unused(name: str, used: Iterable[str]) -> Iterator[str]:
    if name not in used:
        yield name
    for number in range(2, 1000):
        suffix = f" {number}"
        if (numbered := name[: MAX_NAME - len(suffix)] + suffix) not in used:
            yield numbered


def parse_edit(data: Any, at: float, max_changes: int | None = MAX_CHANGES) -> AnnotationEdit:
    """An edit from JSON. Raises BadOption."""
    with _well_formed("an edit"):
        name, changes = _ID.validate_python(data["edit"]), data["changes"]
        if not isinstance(changes, list) or not changes or (max_changes is not None and len(changes) > max_changes):
            raise BadOption("the edit is invalid", f"it has 1 to {max_changes} changes")
        return AnnotationEdit(name, tuple(_change(one) for one in changes), at)


def edit_to_dict(edit: AnnotationEdit) -> dict[str, Any]:
    """An edit as JSON."""
    return {"edit": edit.name, "at": edit.at, "changes": [_change_to_dict(one) for one in edit.changes]}


def journal_line(data: Mapping[str, Any]) -> bytes:
    """One line of a journal."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _change(data: Any) -> Change:
    kind = _KINDS.get(str(data["op"]))
    if kind is None:
        raise ValueError(f"no change is called {str(data['op'])[:40]!r}")
    if kind is not _KINDS["done"] and "was" not in data:
        raise KeyError("was")
    if kind is _KINDS["put_mark"]:
        mark = {"start_sample": data["start"], "end_sample": data["end"], "id": data["mark"]}
        data = {**data, "mark": {**mark, "label": data["label"], "note": data["note"]}}
    return kind.validate_python(data)


def _change_to_dict(change: Change) -> dict[str, Any]:
    match change:
        case SetDone():
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


def first_problem(error: ValidationError) -> str:
    """The position and message of the first error in invalid JSON."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))[:80]
    return f"{where}: {first['msg']}" if where else str(first["msg"])


@contextmanager
def _well_formed(what: str) -> Generator[None]:
    """Turn errors of malformed JSON into BadOption."""
    try:
        yield
    except ValidationError as error:
        raise BadOption(f"{what} is malformed: {first_problem(error)}", "reload the page and try again") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadOption(f"{what} is malformed: {error}", "reload the page and try again") from error
