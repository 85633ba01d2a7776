"""What the routes of the library share: access, by which it is opened at the first call, and request bodies."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.annotation.edits import MAX_CHANGES, MAX_LABELS, MAX_LAYERS
from studio.annotation.layers import MAX_LABEL, MAX_NAME
from studio.core.errors import BadFile, BadOption
from studio.core.locks import within_lock
from studio.library.assignments import MAX_ANNOTATORS, MAX_TASK_CHARS, MAX_UTTERANCES
from studio.library.entries import MAX_TITLE_CHARS, LibraryEntry
from studio.library.library import Library
from studio.serve.auth import TokenAuth
from studio.serve.responses import StrictModel
from studio.serve.trace_views import VIEWS, TraceViews

T = TypeVar("T")


class LibraryAccess:
    """The library of a folder, the callers' authentication and the views of traces.

    Attributes:
        owner_only: dependencies of a router that requires the owner's token.
    """

    def __init__(self, root: Path, auth: TokenAuth, views: TraceViews) -> None:
        self.auth, self.views = auth, views
        self.owner_only = [Depends(auth.owner)]
        self._root = root
        self._lock = threading.Lock()
        self._library: Library | None = None

    async def call(self, work: Callable[[Library], T]) -> T:
        """Run ``work`` in a thread. Raises BadFile where the folder cannot be used, and what ``work`` raises."""
        return await run_in_threadpool(lambda: work(self._open()))

    def _open(self) -> Library:
        VIEWS.start()  # who looks at the library opens something of it next
        with within_lock(self._lock):
            if self._library is None:
                self._library = Library(self._root)
            return self._library


def find_entry(library: Library, name: str) -> LibraryEntry:
    """An entry by name. Raises BadFile where there is none."""
    try:
        return library.entry(name)
    except BadOption as error:
        raise BadFile(f"the library has no {name[:64]!r}", "the Library page lists what it has") from error


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
    is_blind: bool = True


class AssignmentRemove(StrictModel):
    """The owner ends an assignment and its links."""

    id: _Id
