"""The FastAPI app: the socket, the traces, the voices and the health of the server."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import Response

import studio
from studio.core.load import TellsLoad
from studio.core.ports import Engine
from studio.mos.service import Listening
from studio.serve.door.bodies import BoundedBodies
from studio.serve.door.guard import Guard
from studio.serve.door.headers import SafeHeaders
from studio.serve.door.key import Keyed
from studio.serve.door.request_headers import OwnHeaders
from studio.serve.drain import Drain
from studio.serve.library.routes import LIBRARY_FILES, add_library
from studio.serve.live import protocol as wire
from studio.serve.live.admission import admit
from studio.serve.live.socket import Session
from studio.serve.metrics import add_metrics
from studio.serve.mos.arena import add_arena
from studio.serve.mos.door import is_owner
from studio.serve.mos.drafts.routes import UPLOADS, add_drafts
from studio.serve.mos.live import add_live
from studio.serve.mos.rated import add_rated
from studio.serve.mos.routes import add_listening
from studio.serve.refusals import add_refusals
from studio.serve.run import DRAIN
from studio.serve.traces import inspection
from studio.serve.traces.comparison import add_comparison
from studio.serve.traces.forcing import FORCE_FILES, Sending, add_forcing
from studio.serve.traces.overlapped import add_overlapped
from studio.serve.traces.routes import add_traces
from studio.serve.traces.shelf import TraceShelf
from studio.settings import ServeSettings


@runtime_checkable
class CountsPlaces(Protocol):
    """An engine that can tell how many utterances it would still take."""

    def places_free(self) -> int:
        """Places that the next utterances can take."""
        ...


@runtime_checkable
class TellsStuck(Protocol):
    """An engine that knows when it does not get on."""

    def stuck(self) -> str:
        """What does not come back; empty where nothing is amiss."""
        ...


def create_app(
    engine: Engine,
    settings: ServeSettings,
    listening: Listening | None = None,
) -> FastAPI:
    """The server of one engine; the caller owns the engine and the listening tests, and closes them.

    Args:
        listening: the listening tests; without them there are neither ``/mos`` routes nor those of the library, which
            lies in the same data folder and has the same owner.

    Raises:
        BadFile: the traces folder cannot be made.
    """
    shelf = TraceShelf(settings.traces_folder, settings.max_traces, settings.max_traces_bytes)
    app = guarded_app(settings, None if listening is None else partial(is_owner, listening))
    drain = Drain(engine, settings.drain_ms / 1000.0)
    setattr(app.state, DRAIN, drain)
    _add_socket(app, engine, shelf, settings, drain)
    _add_facts(app, engine)
    if isinstance(engine, TellsLoad):
        add_metrics(app, engine)
    add_traces(app, shelf)
    views = inspection.Views()
    attention = inspection.Attention(engine, views)
    inspection.add_inspection(app, shelf, views, attention)
    add_forcing(app, Sending(engine, shelf, views))
    add_overlapped(app, shelf, views, engine)
    kept = None
    if listening is not None:
        listening.cards = engine.cards
        door = add_listening(app, listening, shelf)
        add_drafts(app, listening, door, engine)
        add_live(app, listening, door, engine, settings, drain)
        add_arena(app, listening)
        add_rated(app, listening, door, views, attention)
        kept = add_library(app, listening.clips.root.parent / "library", door, shelf, views, attention)
    add_comparison(app, shelf, views, kept)
    return app


def guarded_app(settings: ServeSettings, owner: Callable[[Request], Awaitable[bool]] | None = None) -> FastAPI:
    """An app with nothing in it but the guard at its door and the answers to errors.

    Args:
        owner: whether a request brings the owner's token; nobody's does without it.
    """
    app = FastAPI(
        title="Streaming-TTS Studio", version=studio.__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(BoundedBodies, files=inspection.FILES | FORCE_FILES | UPLOADS | LIBRARY_FILES, is_owner=owner)
    if settings.key:
        app.add_middleware(Keyed, key=settings.key, port=settings.port)
    app.add_middleware(Guard, settings=settings)
    app.add_middleware(SafeHeaders, settings=settings)
    app.add_middleware(OwnHeaders)  # the last one added is the outermost
    add_refusals(app)
    return app


def _add_socket(app: FastAPI, engine: Engine, shelf: TraceShelf, settings: ServeSettings, drain: Drain) -> None:
    sockets: set[Session] = set()
    drain.watch(sockets)

    @app.websocket("/ws/speak")
    async def speak(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, Session(websocket, engine, shelf, settings))


def _add_facts(app: FastAPI, engine: Engine) -> None:
    began_s = time.monotonic()

    @app.get("/health")
    async def health(response: Response) -> dict[str, Any]:
        facts: dict[str, Any] = {"status": "ok", "version": studio.__version__, "protocol": wire.PROTOCOL}
        if isinstance(engine, CountsPlaces):
            facts["places_free"] = engine.places_free()
        if isinstance(engine, TellsStuck) and engine.stuck():
            facts["status"], response.status_code = "stuck", 503
        return facts | {"uptime_s": round(time.monotonic() - began_s, 1)}

    @app.get("/api/voices")
    async def voices() -> dict[str, Any]:
        return {"voices": [wire.card_summary(card) for card in engine.cards()]}
