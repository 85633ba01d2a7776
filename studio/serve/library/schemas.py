"""Request bodies of the library and of annotation."""

from typing import Annotated, Any, Literal

from pydantic import Field

from studio.annotation.edits import MAX_CHANGES, MAX_LABELS, MAX_LAYERS
from studio.annotation.layers import MAX_LABEL, MAX_NAME
from studio.library.assignments import MAX_ANNOTATORS, MAX_TASK_CHARS, MAX_UTTERANCES
from studio.library.entries import MAX_TITLE_CHARS
from studio.serve.schemas import StrictModel

_Name = Annotated[str, Field(max_length=MAX_NAME)]
_Id = Annotated[str, Field(max_length=64)]
# The library itself has tighter limits, with better messages.
_Line = Annotated[str, Field(max_length=1000)]
_Tags = Annotated[list[_Line], Field(max_length=1000)]


class TraceKeep(StrictModel):
    """The owner adds an utterance, by the token of its trace."""

    trace: str = Field(max_length=40)
    title: _Line = ""
    tags: _Tags = Field(default_factory=list)


class NoteChange(StrictModel):
    """The owner replaces the title and the tags of an entry."""

    name: str = Field(max_length=64)
    title: _Line
    tags: _Tags


class EntryRemove(StrictModel):
    """The owner deletes an entry."""

    name: str = Field(max_length=64)


class EditCreate(StrictModel):
    """An atomic set of changes; see ``studio.annotation.edits``."""

    edit: Annotated[str, Field(max_length=32)]
    changes: Annotated[list[dict[str, Any]], Field(max_length=MAX_CHANGES)]


class OwnEditCreate(EditCreate):
    """An edit by the owner, on behalf of an annotator."""

    name: _Id
    annotator: _Name


class AnnotationRemove(StrictModel):
    """The owner deletes one annotator's document of an utterance."""

    name: _Id
    annotator: _Name


class LayerCreate(StrictModel):
    """A layer of an assignment."""

    name: _Name
    kind: Literal["regions", "points"]
    labels: Annotated[list[Annotated[str, Field(max_length=MAX_LABEL)]], Field(max_length=MAX_LABELS)]


class AssignmentCreate(StrictModel):
    """The owner creates an assignment."""

    title: Annotated[str, Field(max_length=MAX_TITLE_CHARS)]
    task: Annotated[str, Field(max_length=MAX_TASK_CHARS)] = ""
    layers: Annotated[list[LayerCreate], Field(max_length=MAX_LAYERS)]
    utterances: Annotated[list[_Id], Field(max_length=MAX_UTTERANCES)]
    annotators: Annotated[list[_Name], Field(max_length=MAX_ANNOTATORS)]


class AssignmentRemove(StrictModel):
    """The owner ends an assignment and its links."""

    id: _Id
