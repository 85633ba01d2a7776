"""The routes of the Compare page: stored traces by token, and entries of the library for the owner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile, BadMessage, BadOption
from studio.core.traces.trace import Trace, open_trace
from studio.inspection.comparison.bundle import pack, pack_difference, pack_words
from studio.inspection.comparison.compare import (
    MAX_UTTERANCES,
    UtteranceComparison,
    compare,
    compared_utterance,
    labels,
)
from studio.library.library import Library
from studio.serve.errors import PRIVATE
from studio.serve.library.access import LibraryAccess, find_entry
from studio.serve.trace_store import TraceStore
from studio.serve.traces.inspection import MAX_FILE_BYTES, MAX_PITCH_S, MEDIA_TYPE, TraceViews

BELOW = "/compare"
MAX_NAME_CHARS = 64
_TRACE, _ENTRY = "trace", "kept"  # parameters of the query
_Index = Annotated[int, Query(ge=0, lt=MAX_UTTERANCES)]


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

        def work(library: Library | None) -> Response:
            with views.slot():
                traces = _open_traces(refs, trace_store, library)
                utterances = [compared_utterance(*one) for one in zip(labels(traces), traces, strict=True)]
                return Response(pack_part(compare(utterances)), media_type=MEDIA_TYPE, headers=PRIVATE)

        if not any(ref.kind == _ENTRY for ref in refs):
            return await run_in_threadpool(work, None)
        if access is None:
            raise BadFile("this studio has no library", "compare utterances by the links of the Live page")
        await access.auth.owner(request)
        return await access.call(work)

    @app.get(BELOW + "/view")
    async def view(request: Request) -> Response:
        return await answer(request, pack)

    @app.get(BELOW + "/words")
    async def words(request: Request) -> Response:
        return await answer(request, lambda comparison: pack_words(comparison, MAX_PITCH_S))

    @app.get(BELOW + "/difference")
    async def difference(request: Request, one: _Index, other: _Index, stretch: bool = False) -> Response:
        return await answer(request, lambda comparison: pack_difference(comparison, one, other, stretch=stretch))


def _parse_query(request: Request) -> list[_UtteranceRef]:
    """The utterances in the order of the query. Raises BadOption, BadMessage."""
    refs = [_UtteranceRef(kind, name) for kind, name in request.query_params.multi_items() if kind in (_TRACE, _ENTRY)]
    if not 1 <= len(refs) <= MAX_UTTERANCES:
        raise BadOption(f"there are {len(refs)} utterances to compare", f"give from 2 to {MAX_UTTERANCES}")
    if any(len(ref.name) > MAX_NAME_CHARS for ref in refs):
        raise BadMessage("a name of an utterance is too long", "open them by their links")
    return refs


def _open_traces(refs: Sequence[_UtteranceRef], trace_store: TraceStore, library: Library | None) -> list[Trace]:
    """The traces in order. Raises BadFile with the number of the one that cannot be opened, and BadMessage."""
    traces: list[Trace] = []
    for number, ref in enumerate(refs, 1):
        try:
            if ref.kind == _TRACE:
                trace = open_trace(trace_store.path(ref.name))
            else:
                assert library is not None, "checked by the caller"
                trace = library.open(find_entry(library, ref.name))
        except BadFile as error:
            raise BadFile(f"number {number} of {len(refs)} cannot be opened: {error.what}", error.do) from error
        traces.append(trace)
        if sum(one.pcm.nbytes for one in traces) > MAX_FILE_BYTES:
            raise BadMessage("together they are too long to be compared here", "studio compare has no such limit")
    return traces
