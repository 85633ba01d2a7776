"""The routes of the Compare page: utterances of the shelf by their tokens, and of the library for the owner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile, BadMessage, BadOption
from studio.core.traces.trace import Trace, open_trace
from studio.inspection.comparison.bundle import pack, pack_difference, pack_words
from studio.inspection.comparison.compare import MOST, Comparison, compare, take_of
from studio.inspection.comparison.naming import labels
from studio.library.library import Library
from studio.serve.library.routes import Kept, named
from studio.serve.refusals import PRIVATE
from studio.serve.traces.inspection import MAX_FILE_BYTES, MEDIA_TYPE, MOST_PITCH_S, Views
from studio.serve.traces.shelf import TraceShelf

BELOW = "/compare"
MAX_NAME_CHARS = 64
_SHELF, _LIBRARY = "trace", "kept"
_Place = Annotated[int, Query(ge=0, lt=MOST)]


@dataclass(frozen=True)
class _Wanted:
    """One utterance as the address names it."""

    kind: str
    name: str


def add_comparison(app: FastAPI, shelf: TraceShelf, views: Views, kept: Kept | None) -> None:
    """Add the routes.

    Args:
        kept: the library, which wants the owner's token; None where there is none.
    """

    async def answer(request: Request, packed: Callable[[Comparison], bytes]) -> Response:
        wanted = _wanted(request)

        def work(library: Library | None) -> Response:
            with views.place():
                traces = _opened(wanted, shelf, library)
                names = labels(traces)
                found = compare([take_of(name, trace) for name, trace in zip(names, traces, strict=True)])
                return Response(packed(found), media_type=MEDIA_TYPE, headers=PRIVATE)

        if not any(one.kind == _LIBRARY for one in wanted):
            return await run_in_threadpool(work, None)
        if kept is None:
            raise BadFile("this studio has no library", "compare utterances by the links of the Live page")
        await kept.door.owner(request)
        return await kept.call(work)

    @app.get(BELOW + "/view")
    async def view(request: Request) -> Response:
        return await answer(request, pack)

    @app.get(BELOW + "/words")
    async def words(request: Request) -> Response:
        return await answer(request, lambda found: pack_words(found, MOST_PITCH_S))

    @app.get(BELOW + "/difference")
    async def difference(request: Request, one: _Place, other: _Place, stretch: bool = False) -> Response:
        return await answer(request, lambda found: pack_difference(found, one, other, stretch=stretch))


def _wanted(request: Request) -> list[_Wanted]:
    """The utterances in the order of the address. Raises BadOption, BadMessage."""
    found = [_Wanted(kind, name) for kind, name in request.query_params.multi_items() if kind in (_SHELF, _LIBRARY)]
    if not 1 <= len(found) <= MOST:
        raise BadOption(f"there are {len(found)} utterances to compare", f"give from 2 to {MOST}")
    if any(len(one.name) > MAX_NAME_CHARS for one in found):
        raise BadMessage("a name of an utterance is too long", "open them by their links")
    return found


def _opened(wanted: Sequence[_Wanted], shelf: TraceShelf, library: Library | None) -> list[Trace]:
    """Every one of them. Raises BadFile, which says the how manieth is not there, and BadMessage."""
    found: list[Trace] = []
    for number, one in enumerate(wanted, 1):
        try:
            if one.kind == _SHELF:
                trace = open_trace(shelf.path(one.name))
            else:
                assert library is not None, "asked for above"
                trace = library.open(named(library, one.name))
        except BadFile as error:
            raise BadFile(f"number {number} of {len(wanted)} cannot be opened: {error.what}", error.do) from error
        found.append(trace)
        if sum(each.pcm.nbytes for each in found) > MAX_FILE_BYTES:
            raise BadMessage("together they are too long to be compared here", "studio compare has no such limit")
    return found
