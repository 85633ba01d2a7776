"""What annotators and the owner of a library send: the bodies of the routes in ``annotation.py``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from studio.annotation.edits import MAX_CHANGES, MAX_LABELS, MAX_LAYERS
from studio.annotation.layers import MAX_LABEL, MAX_NAME
from studio.library.assignments import MAX_ANNOTATORS, MAX_TASK_CHARS, MAX_UTTERANCES
from studio.library.entries import MAX_TITLE_CHARS

_Name = Annotated[str, Field(max_length=MAX_NAME)]
_Id = Annotated[str, Field(max_length=64)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class EditCreate(_Strict):
    """Changes that hold together; what each may be, ``studio.annotation.edits`` says."""

    edit: Annotated[str, Field(max_length=32)]
    changes: Annotated[list[dict[str, Any]], Field(max_length=MAX_CHANGES)]


class OwnEditCreate(EditCreate):
    """The same by the owner's token, for an annotator of the owner's choice."""

    name: _Id
    annotator: _Name


class AnnotationRemove(_Strict):
    """An owner deletes what one annotator said of an utterance."""

    name: _Id
    annotator: _Name


class LayerCreate(_Strict):
    """A layer that annotators are given."""

    name: _Name
    kind: Literal["regions", "points"]
    labels: Annotated[list[Annotated[str, Field(max_length=MAX_LABEL)]], Field(max_length=MAX_LABELS)]


class AssignmentCreate(_Strict):
    """An owner asks people to annotate utterances."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)]
    task: Annotated[str, Field(max_length=MAX_TASK_CHARS)] = ""
    layers: Annotated[list[LayerCreate], Field(max_length=MAX_LAYERS)]
    utterances: Annotated[list[_Id], Field(max_length=MAX_UTTERANCES)]
    annotators: Annotated[list[_Name], Field(max_length=MAX_ANNOTATORS)]


class AssignmentRemove(_Strict):
    """An owner ends an assignment and its links."""

    id: _Id
