"""The routes of the Library page: what was kept, for the studio's owner alone; each call carries the owner's token."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote

from fastapi import APIRouter, FastAPI, Header, Request
from fastapi import Query as Asked
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile, BadOption
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.opening import sound_of_bytes
from studio.library.entries import MAX_TITLE_CHARS, Entry
from studio.library.index import Query
from studio.library.library import Library
from studio.serve.door.bodies import FileRoute
from studio.serve.library.annotation import ANNOTATION_FILES, AnnotationRoutes, annotated
from studio.serve.mos.door import Door, read_body, takes
from studio.serve.refusals import PRIVATE, private_json
from studio.serve.traces.inspection import LIMITS, MAX_FILE_BYTES, MAX_TEXT_CHARS, MEDIA_TYPE, Attention, Views, sent
from studio.serve.traces.shelf import TraceShelf

BELOW, FILES = "/library", "/files"
MAX_SOUND_BYTES = MAX_BYTES["audio.wav"]  # of a trace that was kept from the command line
LIBRARY_FILES = {BELOW + FILES: FileRoute(MAX_FILE_BYTES, "owner")} | ANNOTATION_FILES  # the paths that take a file
PAGE = 50  # entries in one answer
MAX_CHOICES = 200  # tags and voices to choose from, of each
SHOWN_CHARS = 600  # of a text in a list; an utterance may have a million
_A_FILE = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
T = TypeVar("T")

_Words = Annotated[str, Asked(max_length=MAX_TITLE_CHARS)]
# What a note may be is said in words by the library itself; here is only what is read at all.
_Line = Annotated[str, Field(max_length=1000)]
_Tags = Annotated[list[_Line], Field(max_length=1000)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class TraceKeep(_Strict):
    """An owner keeps an utterance, by the token of its trace."""

    trace: str = Field(max_length=40)
    title: _Line = ""
    tags: _Tags = Field(default_factory=list)


class NoteChange(_Strict):
    """An owner gives what was kept another title, and tags instead of those that it had."""

    name: str = Field(max_length=64)
    title: _Line
    tags: _Tags


class EntryRemove(_Strict):
    """An owner deletes what was kept."""

    name: str = Field(max_length=64)


class Kept:
    """What the routes share; the library is opened at the first call, so that one that is damaged stops no start."""

    def __init__(self, root: Path, door: Door, shelf: TraceShelf, views: Views, attention: Attention) -> None:
        self.door, self.shelf, self.views, self.attention = door, shelf, views, attention
        self._root = root
        self._opening = threading.Lock()
        self._library: Library | None = None

    async def call(self, work: Callable[[Library], T]) -> T:
        """Do something beside the loop. Raises BadFile where the folder cannot be used, and what ``work`` raises."""
        return await run_in_threadpool(lambda: work(self._opened()))

    def _opened(self) -> Library:
        with self._opening:
            if self._library is None:
                self._library = Library(self._root)
            return self._library


def add_library(app: FastAPI, root: Path, door: Door, shelf: TraceShelf, views: Views, attention: Attention) -> Kept:
    """Put the routes of the library in a folder into an app. What they share, for others that open what was kept."""
    kept = Kept(root, door, shelf, views, attention)
    app.include_router(_reading(kept))
    app.include_router(_changing(kept))
    annotating = AnnotationRoutes(door, views, kept.call, named)
    app.include_router(annotating.owners(BELOW))
    app.include_router(annotating.assigned())
    return kept


def _reading(kept: Kept) -> APIRouter:
    routes = APIRouter(prefix=BELOW)

    @routes.get("/entries")
    async def entries(
        request: Request,
        text: _Words = "",
        voice: _Words = "",
        tag: _Words = "",
        since: date | None = None,
        until: date | None = None,
        offset: int = 0,
    ) -> Response:
        await kept.door.owner(request)
        wanted = Query(text=text, voice=voice, tag=tag, since=since, until=until, limit=PAGE, offset=offset)
        return private_json(await kept.call(lambda library: _page(library, wanted)))

    @routes.get("/view/{name}")
    async def view(request: Request, name: str) -> Response:
        await kept.door.owner(request)
        return await kept.call(lambda library: kept.views.packed(lambda: library.open(named(library, name))))

    @routes.get("/prosody/{name}")
    async def prosody(request: Request, name: str) -> Response:
        await kept.door.owner(request)

        def work(library: Library) -> Response:
            return kept.views.prosody(lambda: sound_of_bytes(library.read(named(library, name)), MAX_SOUND_BYTES))

        return await kept.call(work)

    @routes.get("/attention/{name}")
    async def attention(request: Request, name: str) -> Response:
        await kept.door.owner(request)
        trace = await kept.call(lambda library: library.open(named(library, name)))
        return await kept.attention.answer(request, lambda: trace)

    @routes.get("/file/{name}")
    async def file(request: Request, name: str) -> Response:
        await kept.door.owner(request)

        def found(library: Library) -> Response:
            entry = named(library, name)
            path = library.path(entry)
            if not path.is_file():
                raise BadFile("its file is gone", "`studio library rebuild` makes the list again from what is there")
            called = f"utterance-{entry.name}{path.suffix}"
            return FileResponse(path, media_type=MEDIA_TYPE, filename=called, headers=PRIVATE)

        return await kept.call(found)

    return routes


def _changing(kept: Kept) -> APIRouter:
    routes = APIRouter(prefix=BELOW)

    @routes.post("/keep", openapi_extra=takes(TraceKeep))
    async def keep(request: Request) -> Response:
        await kept.door.owner(request)
        wanted = await read_body(request, TraceKeep)

        def keep(library: Library) -> Entry:
            with kept.views.place():
                return library.keep(kept.shelf.read(wanted.trace), title=wanted.title, tags=wanted.tags)

        return private_json(await kept.call(lambda library: _shown(library, keep(library))))

    @routes.post(FILES, openapi_extra={"requestBody": {"required": True, "content": _A_FILE}})
    async def files(
        request: Request,
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
        x_studio_title: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
    ) -> Response:
        await kept.door.owner(request)
        body, text, title = await request.body(), unquote(x_studio_text), unquote(x_studio_title)

        def keep(library: Library) -> Entry:
            with kept.views.place(), sent():
                return library.keep(body, text, title, limits=LIMITS)

        return private_json(await kept.call(lambda library: _shown(library, keep(library))))

    @routes.post("/note", openapi_extra=takes(NoteChange))
    async def note(request: Request) -> Response:
        await kept.door.owner(request)
        wanted = await read_body(request, NoteChange)

        def change(library: Library) -> Entry:
            return library.note(named(library, wanted.name), wanted.title, tags=wanted.tags)

        return private_json(await kept.call(lambda library: _shown(library, change(library))))

    @routes.post("/remove", openapi_extra=takes(EntryRemove))
    async def remove(request: Request) -> Response:
        await kept.door.owner(request)
        wanted = await read_body(request, EntryRemove)
        await kept.call(lambda library: library.remove(named(library, wanted.name)))
        return private_json({"removed": wanted.name})

    return routes


def _page(library: Library, wanted: Query) -> dict[str, Any]:
    found, of = library.find(wanted)
    most = sorted(library.tags(), key=lambda one: -one[1])[:MAX_CHOICES]
    return {
        "of": of,
        "entries": [_shown(library, one) for one in found],
        "tags": sorted(most),
        "voices": library.voices()[:MAX_CHOICES],
    }


def named(library: Library, name: str) -> Entry:
    """Raises BadFile where there is no such entry."""
    try:
        return library.entry(name)
    except BadOption as error:
        raise BadFile(f"the library has no {name[:64]!r}", "the Library page lists what it has") from error


def _shown(library: Library, entry: Entry) -> dict[str, Any]:
    """An entry as the page lists it, and who annotated it."""
    text = entry.text if len(entry.text) <= SHOWN_CHARS else entry.text[:SHOWN_CHARS] + "…"
    return {**replace(entry, text=text).to_dict(), "annotated": annotated(library, entry.sha256)}
