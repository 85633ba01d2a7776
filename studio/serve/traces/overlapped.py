"""The route that vocodes the frames of a trace of the shelf anew, a segment at a time, to compare the two."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import Response

from studio.core.ports import Engine
from studio.core.traces.forced import Unable
from studio.core.traces.overlapped import Overlaps
from studio.core.traces.trace import open_trace
from studio.serve.door.addresses import address_of
from studio.serve.refusals import private_json
from studio.serve.traces.inspection import Views, while_asked
from studio.serve.traces.shelf import TraceShelf


def add_overlapped(app: FastAPI, shelf: TraceShelf, views: Views, engine: Engine) -> None:
    """Add the route; the new trace lies on the shelf beside the one that it was made from, under a name of its own."""

    @app.post("/traces/{token}/overlapped")
    async def overlapped(request: Request, token: str) -> Response:
        def work(wanted: Callable[[], bool]) -> Response:
            with views.place():
                trace = open_trace(shelf.path(token))
            if not isinstance(engine, Overlaps):
                raise Unable("this server's engine has no frames to vocode", "`studio compare --overlapped` may")
            return private_json({"trace": shelf.put(engine.overlap(trace, wanted), address_of(request))})

        return await while_asked(request, work)
