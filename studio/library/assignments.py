"""Assignments: which annotators annotate which utterances, and with which layers.

Each one is a file ``assignments/<id>.json`` in the library's folder. Links to it are signed elsewhere; deleting the
file invalidates them. Annotations stay with the utterances.
"""

import json
import logging
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from studio.annotation.edits import MAX_LABELS, MAX_LAYERS, PutLayer, first_problem
from studio.annotation.layers import AnnotationLayer
from studio.core import durable
from studio.core.errors import BadFile, BadOption, Unavailable, not_stored
from studio.core.files import list_folder, read_bounded
from studio.library.annotations import check_annotator
from studio.library.entries import MAX_TITLE_CHARS, now_s

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
    """Utterances, annotators and layers."""

    id: str
    title: str
    task: str  # instructions for the annotators
    layers: tuple[AnnotationLayer, ...]  # templates without marks, created when an annotator first opens an utterance
    utterances: tuple[str, ...]  # SHA-256 of each
    annotators: tuple[str, ...]
    made_at: float
    is_blind: bool = True  # annotators get sound and text alone, nothing that identifies the system

    def to_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "task": self.task,
            "layers": [{"name": one.name, "kind": one.kind, "labels": list(one.labels)} for one in self.layers],
            "utterances": list(self.utterances),
            "annotators": list(self.annotators),
            "made_at": self.made_at,
            "is_blind": self.is_blind,
        }

    def first_layers(self) -> tuple[PutLayer, ...]:
        """The changes that create its layers; the ids are equal for all annotators."""
        layers = enumerate(self.layers, 1)
        return tuple(PutLayer(f"{self.id}{n}", one.name, one.kind, one.labels) for n, one in layers)


_ASSIGNMENT = TypeAdapter(Assignment)


class Assignments:
    """The assignments of a library. ``root``: the library's folder."""

    def __init__(self, root: Path) -> None:
        self._root = root / "assignments"

    def all(self) -> list[Assignment]:
        """All undamaged assignments, the newest first. Raises Unavailable where the folder or one cannot be read."""
        assignments: list[Assignment] = []
        for path in self._files():
            try:
                assignments.append(self.get(path.stem))
            except BadFile as error:
                log.error("left out: %s", error)
        return sorted(assignments, key=lambda one: (-one.made_at, one.id))

    def get(self, name: str) -> Assignment:
        """Raises BadFile where it is missing or damaged, Unavailable where it cannot be read."""
        path = self._path(name)
        try:
            return _validated(_ASSIGNMENT.validate_json(read_bounded(path, MAX_BYTES), strict=True))
        except FileNotFoundError:
            raise BadFile("there is no such assignment", "the Library page lists them") from None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            raise Unavailable(f"the assignment cannot be read: {error.strerror}", "try again") from error
        except (ValidationError, BadOption) as error:
            why = first_problem(error) if isinstance(error, ValidationError) else error
            log.error("%s is damaged: %s", path, why)
            raise BadFile(f"the assignment {name} is damaged", "remove it, and make it again") from error

    def make(
        self,
        title: str,
        task: str,
        layers: Iterable[AnnotationLayer],
        utterances: Iterable[str],
        annotators: Iterable[str],
        *,
        is_blind: bool = True,
    ) -> Assignment:
        """Create and store an assignment. Raises BadOption, NotStored."""
        assignment = Assignment(
            secrets.token_hex(8), title, task, tuple(layers), tuple(utterances), tuple(annotators), now_s(), is_blind
        )
        _validated(assignment)
        if len(self._files()) >= MAX_ASSIGNMENTS:
            raise BadOption(f"there are {MAX_ASSIGNMENTS} assignments", "remove one first")
        with not_stored("the assignment cannot be saved", "make room on the disk"):
            durable.make_folder(self._root)
            durable.replace(
                self._path(assignment.id), json.dumps(assignment.to_dict(), ensure_ascii=False, indent=1).encode()
            )
        return assignment

    def remove(self, name: str) -> None:
        """Delete an assignment; annotations stay. Raises BadFile where there is none, NotStored."""
        with not_stored("the assignment cannot be removed", "try again"):
            if not self._path(name).exists():
                raise BadFile("there is no such assignment", "the Library page lists them")
            durable.remove(self._path(name))

    def _files(self) -> list[Path]:
        try:
            return list_folder(self._root, "*.json")
        except OSError as error:
            raise Unavailable(f"the assignments cannot be read: {error.strerror}", "try again") from error

    def _path(self, name: str) -> Path:
        if not _ID.fullmatch(name):
            raise BadFile("there is no such assignment", "the Library page lists them")
        return self._root / f"{name}.json"


def _validated(one: Assignment) -> Assignment:
    if not one.title.strip() or len(one.title) > MAX_TITLE_CHARS or not one.title.isprintable():
        raise BadOption("the assignment needs a title", f"one line of at most {MAX_TITLE_CHARS} characters")
    if len(one.task) > MAX_TASK_CHARS or not one.task.replace("\n", "").isprintable():
        raise BadOption("the instructions are invalid", f"give at most {MAX_TASK_CHARS} printable characters")
    if not 1 <= len(one.layers) <= MAX_LAYERS or len({layer.name for layer in one.layers}) < len(one.layers):
        raise BadOption("the layers are invalid", f"give 1 to {MAX_LAYERS}, each with a name of its own")
    for layer in one.layers:
        if layer.kind not in ("regions", "points") or len(set(layer.labels)) < len(layer.labels):
            raise BadOption(f"the layer {layer.name[:80]!r} is invalid", "give regions or points, each label once")
        if len(layer.labels) > MAX_LABELS:
            raise BadOption(f"{layer.name[:80]!r} has {len(layer.labels)} labels", f"give at most {MAX_LABELS}")
        layer.validated(0)
    if not 1 <= len(set(one.utterances)) == len(one.utterances) <= MAX_UTTERANCES:
        raise BadOption("there have to be utterances", f"choose 1 to {MAX_UTTERANCES}, each once")
    if not all(_SHA256.fullmatch(sha256) for sha256 in one.utterances):
        raise BadOption("an utterance is not named by its SHA-256", "choose it on the Library page")
    if not 1 <= len(set(one.annotators)) == len(one.annotators) <= MAX_ANNOTATORS:
        raise BadOption("there have to be annotators", f"name 1 to {MAX_ANNOTATORS}, each once")
    for name in one.annotators:
        check_annotator(name)
    return one
