"""Assignments: who is asked to annotate which kept utterances, and with which layers.

``assignments/<id>.json`` in the library's folder is one of them, whole. Links to it are signed elsewhere; removing the
file ends every link. What annotators said stays with the utterances.
"""

import json
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.annotation.edits import MAX_LABELS, MAX_LAYERS, PutLayer
from studio.annotation.layers import Layer
from studio.core import durable
from studio.core.errors import BadFile, BadOption, NotStored, Unavailable
from studio.core.files import read_bounded
from studio.library.annotations import checked_name
from studio.library.entries import MAX_TITLE_CHARS, now

MAX_ASSIGNMENTS = 500
MAX_UTTERANCES = 1000  # of one
MAX_ANNOTATORS = 32  # of one
MAX_TASK_CHARS = 4000
MAX_BYTES = 1 << 20
log = logging.getLogger("studio.library")
_ID = re.compile(r"[0-9a-f]{16}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Assignment:
    """Utterances, the people who annotate them, and with what.

    Attributes:
        task: what they are asked to do, in the owner's words.
        layers: empty ones: names, kinds and label sets, made for each annotator and utterance at the first look.
        utterances: SHA-256 of each.
    """

    id: str
    title: str
    task: str
    layers: tuple[Layer, ...]
    utterances: tuple[str, ...]
    annotators: tuple[str, ...]
    made_at: float

    def to_dict(self) -> dict[str, Any]:
        """As the file holds it."""
        return {
            "id": self.id,
            "title": self.title,
            "task": self.task,
            "layers": [{"name": one.name, "kind": one.kind, "labels": list(one.labels)} for one in self.layers],
            "utterances": list(self.utterances),
            "annotators": list(self.annotators),
            "made_at": self.made_at,
        }

    def first_layers(self) -> tuple[PutLayer, ...]:
        """The changes that make its layers where an annotator begins; the ids are the same for everybody."""
        made = enumerate(self.layers, 1)
        return tuple(PutLayer(f"{self.id}{n}", one.name, one.kind, one.labels) for n, one in made)


class Assignments:
    """The assignments of a library.

    Args:
        root: the library's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root / "assignments"

    def all(self) -> list[Assignment]:
        """Every one that can be read, the newest first."""
        found: list[Assignment] = []
        for path in self._root.glob("*.json"):
            try:
                found.append(self.get(path.stem))
            except (BadFile, Unavailable):
                continue
        return sorted(found, key=lambda one: (-one.made_at, one.id))

    def get(self, name: str) -> Assignment:
        """Raises BadFile where there is none of this id, or it is damaged; Unavailable where it cannot be read."""
        path = self._path(name)
        try:
            return _assignment(json.loads(read_bounded(path, MAX_BYTES)))
        except FileNotFoundError:
            raise BadFile("there is no such assignment", "the Library page lists those that there are") from None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            raise Unavailable(f"the assignment cannot be read: {error.strerror}", "try again") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadOption) as error:
            raise BadFile(f"the assignment {path} is damaged: {error}", "remove it") from error

    def make(
        self, title: str, task: str, layers: Iterable[Layer], utterances: Iterable[str], annotators: Iterable[str]
    ) -> Assignment:
        """A new one, on disk. Raises BadOption, NotStored."""
        made = Assignment(secrets.token_hex(8), title, task, tuple(layers), tuple(utterances), tuple(annotators), now())
        _checked(made)
        if len(list(self._root.glob("*.json"))) >= MAX_ASSIGNMENTS:
            raise BadOption(f"there are {MAX_ASSIGNMENTS} assignments", "remove one first")
        try:
            durable.make_folder(self._root)
            durable.replace(self._path(made.id), json.dumps(made.to_dict(), ensure_ascii=False, indent=1).encode())
        except OSError as error:
            raise NotStored(f"the assignment cannot be saved: {error.strerror}", "make room on the disk") from error
        return made

    def remove(self, name: str) -> None:
        """End an assignment; what was annotated stays. Raises BadFile, NotStored."""
        try:
            durable.remove(self._path(name))
        except OSError as error:
            raise NotStored(f"the assignment cannot be removed: {error.strerror}", "try again") from error

    def _path(self, name: str) -> Path:
        if not _ID.fullmatch(name):
            raise BadFile("there is no such assignment", "the Library page lists those that there are")
        return self._root / f"{name}.json"


def _assignment(data: Any) -> Assignment:
    layers = tuple(Layer(one["name"], one["kind"], tuple(one["labels"])) for one in data["layers"])
    lists = (tuple(data["utterances"]), tuple(data["annotators"]))
    return _checked(Assignment(data["id"], data["title"], data["task"], layers, *lists, float(data["made_at"])))


def _checked(one: Assignment) -> Assignment:
    if not one.title.strip() or len(one.title) > MAX_TITLE_CHARS or not one.title.isprintable():
        raise BadOption("the assignment needs a title", f"one line of at most {MAX_TITLE_CHARS} characters")
    if len(one.task) > MAX_TASK_CHARS or not one.task.replace("\n", "").isprintable():
        raise BadOption("what is asked cannot be said so", f"at most {MAX_TASK_CHARS} characters that can be shown")
    if not 1 <= len(one.layers) <= MAX_LAYERS or len({layer.name for layer in one.layers}) < len(one.layers):
        raise BadOption("the layers cannot be these", f"give 1 to {MAX_LAYERS}, each with a name of its own")
    for layer in one.layers:
        if layer.kind not in ("regions", "points") or len(set(layer.labels)) < len(layer.labels):
            raise BadOption(f"the layer {layer.name[:80]!r} cannot be one", "regions or points, each label once")
        if len(layer.labels) > MAX_LABELS:
            raise BadOption(f"{layer.name[:80]!r} has {len(layer.labels)} labels", f"give at most {MAX_LABELS}")
        layer.within(0)
    if not 1 <= len(set(one.utterances)) == len(one.utterances) <= MAX_UTTERANCES:
        raise BadOption("there have to be utterances", f"choose 1 to {MAX_UTTERANCES}, each once")
    if not all(_SHA256.fullmatch(sha256) for sha256 in one.utterances):
        raise BadOption("an utterance is not named by its SHA-256", "choose it on the Library page")
    if not 1 <= len(set(one.annotators)) == len(one.annotators) <= MAX_ANNOTATORS:
        raise BadOption("there have to be annotators", f"name 1 to {MAX_ANNOTATORS}, each once")
    for name in one.annotators:
        checked_name(name)
    return one
