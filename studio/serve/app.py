"""The FastAPI app of the server: all routes, sockets and middleware."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import Response

import studio
from studio.core.ports import Engine, SupportsLoad
from studio.mos.service import ListeningTests
from studio.serve.auth import is_owner
from studio.serve.errors import add_error_handlers
from studio.serve.library.access import LibraryAccess
from studio.serve.library.comparison import add_comparison
from studio.serve.library.routes import LIBRARY_FILES, add_library
from studio.serve.live import protocol as wire
from studio.serve.live.admission import admit
from studio.serve.live.socket import SpeakSession
from studio.serve.metrics import add_metrics
from studio.serve.middleware.auth import HostOriginMiddleware, KeyMiddleware
from studio.serve.middleware.bodies import BodyLimitMiddleware
from studio.serve.middleware.headers import RequestHeadersMiddleware, SecurityHeadersMiddleware
from studio.serve.mos.draft_routes import UPLOADS, add_drafts
from studio.serve.mos.live import add_live
from studio.serve.mos.owner import add_rated
from studio.serve.mos.routes import add_arena, add_listening
from studio.serve.server import DRAIN, Drain
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore
from studio.serve.traces import inspection
from studio.serve.traces.inspection import add_overlapped, add_traces
from studio.serve.traces.teacher_forcing import FORCE_FILES, TeacherForcingService, add_teacher_forcing


@runtime_checkable
class SupportsStuck(Protocol):
    """An engine that detects a hung step."""

    def stuck(self) -> str:
        """What hangs; empty if nothing does."""
        ...


def create_app(
    engine: Engine,
    settings: ServeSettings,
    listening: ListeningTests | None = None,
) -> FastAPI:
    """The server of one engine; the caller owns the engine and the listening tests, and closes them.

    Args:
        listening: the listening tests; without them there are no ``/mos`` and no library routes. The library is in the
            same data folder and has the same owner.

    Raises:
        BadFile: the traces folder cannot be created.
    """
    trace_store = TraceStore(settings.traces_folder, settings.max_traces, settings.max_traces_bytes)
    app = guarded_app(settings, None if listening is None else partial(is_owner, listening))
    drain = Drain(engine, settings.drain_ms / 1000.0)
    setattr(app.state, DRAIN, drain)
    _add_socket(app, engine, trace_store, settings, drain)
    _add_health_and_voices(app, engine)
    if isinstance(engine, SupportsLoad):
        add_metrics(app, engine)
    add_traces(app, trace_store)
    views = inspection.TraceViews()
    attention = inspection.AttentionService(engine, views)
    inspection.add_inspection(app, trace_store, views, attention)
    add_teacher_forcing(app, TeacherForcingService(engine, trace_store, views))
    add_overlapped(app, trace_store, views, engine)
    access = None
    if listening is not None:
        listening.cards = engine.cards
        auth = add_listening(app, listening, trace_store)
        add_drafts(app, listening, auth, engine)
        add_live(app, listening, auth, engine, settings, drain)
        add_arena(app, listening)
        add_rated(app, listening, auth, views, attention)
        access = LibraryAccess(listening.clips.root.parent / "library", auth, views)
        add_library(app, access, trace_store, attention)
    add_comparison(app, trace_store, views, access)
    return app


def guarded_app(settings: ServeSettings, owner: Callable[[Request], Awaitable[bool]] | None = None) -> FastAPI:
    """An app with middleware and error handlers, without routes.

    Args:
        owner: whether a request has the owner's token; None rejects all uploads of the owner.
    """
    app = FastAPI(
        title="Streaming-TTS Studio", version=studio.__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(
        BodyLimitMiddleware, files=inspection.FILES | FORCE_FILES | UPLOADS | LIBRARY_FILES, is_owner=owner
    )
    if settings.key:
        app.add_middleware(KeyMiddleware, key=settings.key, port=settings.port)
    app.add_middleware(HostOriginMiddleware, settings=settings)
    app.add_middleware(SecurityHeadersMiddleware, settings=settings)
    app.add_middleware(RequestHeadersMiddleware)  # the last one added is the outermost
    add_error_handlers(app)
    return app


def _add_socket(app: FastAPI, engine: Engine, trace_store: TraceStore, settings: ServeSettings, drain: Drain) -> None:
    sockets: set[SpeakSession] = set()
    drain.watch(sockets)

    @app.websocket("/ws/speak")
    async def speak(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, SpeakSession(websocket, engine, trace_store, settings))


def _add_health_and_voices(app: FastAPI, engine: Engine) -> None:
    began_s = time.monotonic()

    @app.get("/health")
    async def health(response: Response) -> dict[str, Any]:
        facts: dict[str, Any] = {"status": "ok", "version": studio.__version__, "protocol": wire.PROTOCOL}
        facts["places_free"] = engine.free_slots()
        if isinstance(engine, SupportsStuck) and engine.stuck():
            facts["status"], response.status_code = "stuck", 503
        return facts | {"uptime_s": round(time.monotonic() - began_s, 1)}

    @app.get("/api/voices")
    async def voices() -> dict[str, Any]:
        return {"voices": [wire.card_summary(card) for card in engine.cards()]}
