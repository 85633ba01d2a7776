"""The owner's routes of the library for its page, and those of the Compare page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, FastAPI, Header, Query, Request
from fastapi.responses import FileResponse, Response

from studio.core.errors import BadFile, BadMessage, BadOption, bad_file
from studio.core.traces.trace import open_trace
from studio.core.traces.trace_reader import MAX_BYTES
from studio.inspection.comparison.bundle import pack, pack_difference, pack_words
from studio.inspection.comparison.compare import MAX_UTTERANCES, UtteranceComparison
from studio.inspection.opening import open_bytes, read_sound
from studio.library.entries import MAX_TITLE_CHARS, LibraryEntry
from studio.library.index import Query as LibraryQuery
from studio.library.library import Library, open_entry
from studio.serve.library.access import EntryRemove, LibraryAccess, NoteChange, TraceKeep, find_entry
from studio.serve.library.annotation import ANNOTATION_FILES, annotation_summary, annotator_routes, owner_routes
from studio.serve.middleware.bodies import FileRoute
from studio.serve.responses import PRIVATE, private_json, read_body, takes
from studio.serve.trace_store import TraceStore
from studio.serve.trace_views import (
    MAX_PITCH_S,
    MEDIA_TYPE,
    LoadSound,
    LoadTrace,
    Recomputation,
    TraceViews,
    uploaded_file,
)
from studio.serve.traces import LIMITS, MAX_FILE_BYTES, MAX_TEXT_CHARS

BELOW, FILES = "/library", "/files"
MAX_SOUND_BYTES = MAX_BYTES["audio.wav"]  # of a trace that was added on the command line
LIBRARY_FILES = {BELOW + FILES: FileRoute(MAX_FILE_BYTES, "owner")} | ANNOTATION_FILES  # the paths that take an upload
PAGE = 50  # entries in a response
MAX_CHOICES = 200  # tags, and voices, in a response
SHOWN_CHARS = 600  # of a text in a list; an utterance may have a million
_FILE_SCHEMA = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_Moment = Annotated[float | None, Query(ge=-1e12, le=1e12)]  # Unix seconds; the page sends days of its time zone
_Words = Annotated[str, Query(max_length=MAX_TITLE_CHARS)]
COMPARE = "/compare"
MAX_NAME_CHARS = 64
_TRACE, _ENTRY = "trace", "kept"  # parameters of the query
_Index = Annotated[int, Query(ge=0, lt=MAX_UTTERANCES)]


def add_library(app: FastAPI, access: LibraryAccess, trace_store: TraceStore, recomputation: Recomputation) -> None:
    """Add the routes of the library and of annotation."""
    app.include_router(_read_routes(access, recomputation))
    app.include_router(_change_routes(access, trace_store))
    app.include_router(owner_routes(access, BELOW))
    app.include_router(annotator_routes(access))


def _read_routes(access: LibraryAccess, recomputation: Recomputation) -> APIRouter:
    routes = APIRouter(prefix=BELOW, dependencies=access.owner_only)

    @routes.get("/entries")
    async def entries(
        text: _Words = "",
        voice: _Words = "",
        tag: _Words = "",
        since_s: _Moment = None,
        until_s: _Moment = None,
        offset: int = 0,
    ) -> Response:
        query = LibraryQuery(
            text=text, voice=voice, tag=tag, since_s=since_s, until_s=until_s, limit=PAGE, offset=offset
        )
        return private_json(await access.call(lambda library: _page(library, query)))

    async def loader(name: str) -> LoadTrace:
        return await access.call(lambda library: _loader(library, name))

    @routes.get("/view/{name}")
    async def view(request: Request, name: str) -> Response:
        return await access.views.view(request, await loader(name))

    @routes.get("/prosody/{name}")
    async def prosody(request: Request, name: str) -> Response:
        def loader(library: Library) -> LoadSound:
            return library.loader(find_entry(library, name), read_sound, MAX_SOUND_BYTES)

        return await access.views.prosody(request, await access.call(loader))

    @routes.get("/attention/{name}")
    async def entry_attention(request: Request, name: str) -> Response:
        return await recomputation.attention(request, await loader(name))

    @routes.get("/file/{name}")
    async def file(name: str) -> Response:
        def work(library: Library) -> Response:
            entry = find_entry(library, name)
            path = library.path(entry)
            if not path.is_file():
                raise BadFile("its file is gone", "`studio library rebuild` makes the list again from what is there")
            filename = f"utterance-{entry.name}{path.suffix}"
            return FileResponse(path, media_type=MEDIA_TYPE, filename=filename, headers=PRIVATE)

        return await access.call(work)

    return routes


def _change_routes(access: LibraryAccess, trace_store: TraceStore) -> APIRouter:
    routes = APIRouter(prefix=BELOW, dependencies=access.owner_only)

    @routes.post("/keep", openapi_extra=takes(TraceKeep))
    async def keep(request: Request) -> Response:
        body = await read_body(request, TraceKeep)
        opened = await access.views.compute(request, _open_stored, trace_store.path(body.trace))

        def add(library: Library) -> dict[str, Any]:
            data = trace_store.read(body.trace)
            return _describe(library, library.add(data, title=body.title, tags=body.tags, opened=opened))

        return private_json(await access.call(add))

    @routes.post(FILES, openapi_extra={"requestBody": {"required": True, "content": _FILE_SCHEMA}})
    async def files(
        request: Request,
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
        x_studio_title: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
    ) -> Response:
        body, text, title = await request.body(), unquote(x_studio_text), unquote(x_studio_title)

        with uploaded_file():
            opened = await access.views.compute(request, open_entry, body, text, LIMITS)

        def add(library: Library) -> dict[str, Any]:
            return _describe(library, library.add(body, text, title, opened=opened))

        return private_json(await access.call(add))

    @routes.post("/note", openapi_extra=takes(NoteChange))
    async def note(request: Request) -> Response:
        body = await read_body(request, NoteChange)

        def change(library: Library) -> dict[str, Any]:
            entry = library.update_note(find_entry(library, body.name), body.title, tags=body.tags)
            return _describe(library, entry)

        return private_json(await access.call(change))

    @routes.post("/remove", openapi_extra=takes(EntryRemove))
    async def remove(request: Request) -> Response:
        body = await read_body(request, EntryRemove)
        await access.call(lambda library: library.remove(find_entry(library, body.name)))
        return private_json({"removed": body.name})

    return routes


def _open_stored(path: Path) -> LibraryEntry:
    """The entry of a stored trace, in the trace process. Raises BadFile."""
    with bad_file("the trace cannot be read", "it may have made room for a newer one"):
        return open_entry(path.read_bytes())


def _page(library: Library, query: LibraryQuery) -> dict[str, Any]:
    entries, count = library.find(query)
    tags = sorted(library.tags(), key=lambda tag_count: -tag_count[1])[:MAX_CHOICES]
    return {
        "of": count,
        "entries": [_describe(library, entry) for entry in entries],
        "tags": sorted(tags),
        "voices": library.voices()[:MAX_CHOICES],
    }


def _describe(library: Library, entry: LibraryEntry) -> dict[str, Any]:
    """An entry as the page lists it, with its annotators."""
    text = entry.text if len(entry.text) <= SHOWN_CHARS else entry.text[:SHOWN_CHARS] + "…"
    return {**replace(entry, text=text).to_dict(), "annotated": annotation_summary(library, entry.sha256)}


@dataclass(frozen=True)
class _UtteranceRef:
    """One utterance in the query: the token of a trace, or the name of an entry."""

    kind: str
    name: str


def add_comparison(app: FastAPI, trace_store: TraceStore, views: TraceViews, access: LibraryAccess | None) -> None:
    """Add the routes.

    Args:
        access: the library, which requires the owner's token; None without one.
    """

    async def answer(request: Request, pack_part: Callable[[UtteranceComparison], bytes]) -> Response:
        refs = _parse_query(request)
        if not any(ref.kind == _ENTRY for ref in refs):
            loads = _loaders(refs, trace_store, None)
        elif access is None:
            raise BadFile("this studio has no library", "compare utterances by the links of the Live page")
        else:
            await access.auth.owner(request)
            loads = await access.call(lambda library: _loaders(refs, trace_store, library))
        return await views.comparison(request, loads, pack_part)

    @app.get(COMPARE + "/view")
    async def view(request: Request) -> Response:
        return await answer(request, pack)

    @app.get(COMPARE + "/words")
    async def words(request: Request) -> Response:
        return await answer(request, partial(pack_words, max_s=MAX_PITCH_S))

    @app.get(COMPARE + "/difference")
    async def difference(request: Request, one: _Index, other: _Index, stretch: bool = False) -> Response:
        return await answer(request, partial(pack_difference, one=one, other=other, stretch=stretch))


def _parse_query(request: Request) -> list[_UtteranceRef]:
    """The utterances in the order of the query. Raises BadOption, BadMessage."""
    refs = [_UtteranceRef(kind, name) for kind, name in request.query_params.multi_items() if kind in (_TRACE, _ENTRY)]
    if not 1 <= len(refs) <= MAX_UTTERANCES:
        raise BadOption(f"there are {len(refs)} utterances to compare", f"give from 2 to {MAX_UTTERANCES}")
    if any(len(ref.name) > MAX_NAME_CHARS for ref in refs):
        raise BadMessage("a name of an utterance is too long", "open them by their links")
    return refs


def _loaders(refs: Sequence[_UtteranceRef], trace_store: TraceStore, library: Library | None) -> list[LoadTrace]:
    """What opens each utterance, in order. Raises BadFile with the number of the one that is missing."""
    loads: list[LoadTrace] = []
    for number, ref in enumerate(refs, 1):
        try:
            if ref.kind == _TRACE:
                loads.append(partial(open_trace, trace_store.path(ref.name)))
            else:
                assert library is not None, "checked by the caller"
                loads.append(_loader(library, ref.name))
        except BadFile as error:
            raise BadFile(f"number {number} of {len(refs)} cannot be opened: {error.what}", error.do) from error
    return loads


def _loader(library: Library, name: str) -> LoadTrace:
    """What opens an entry in another process. Raises BadFile where there is none."""
    entry = find_entry(library, name)
    return library.loader(entry, open_bytes, entry.note.text)
