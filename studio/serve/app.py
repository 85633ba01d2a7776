"""The FastAPI app of the server: all routes, sockets and middleware."""

import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, Protocol, runtime_checkable

from fastapi import FastAPI, Request, WebSocket
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

import studio
from studio.core.addresses import is_loopback
from studio.core.ports import Engine, EngineLoad, ModuleLoad, SupportsLoad
from studio.core.systems import SupportsSystems
from studio.mos.service import ListeningTests
from studio.serve.adapters.cartesia import add_cartesia
from studio.serve.adapters.deepgram import add_deepgram
from studio.serve.adapters.elevenlabs import add_elevenlabs
from studio.serve.adapters.elevenlabs_http import add_elevenlabs_http
from studio.serve.adapters.kyutai import add_kyutai
from studio.serve.adapters.lists import add_lists
from studio.serve.adapters.openai import add_openai
from studio.serve.adapters.speech import SPEECH, SpeechRequests
from studio.serve.auth import is_owner
from studio.serve.lexicon import LEXICON_FILES, add_lexicon
from studio.serve.library.access import LibraryAccess
from studio.serve.library.publishing import add_publishing
from studio.serve.library.routes import LIBRARY_FILES, add_comparison, add_library
from studio.serve.library.speakers import SPEAKER_FILES, add_speakers
from studio.serve.library.voices import add_voices
from studio.serve.live import protocol as wire
from studio.serve.live.chat import Chat
from studio.serve.live.socket import SpeakSession
from studio.serve.middleware.auth import HostOriginMiddleware, KeyMiddleware
from studio.serve.middleware.bodies import BodyLimitMiddleware
from studio.serve.middleware.error_pages import ErrorPagesMiddleware
from studio.serve.middleware.headers import RequestHeadersMiddleware, SecurityHeadersMiddleware
from studio.serve.mos.arena import add_arena
from studio.serve.mos.draft_routes import UPLOADS, add_drafts
from studio.serve.mos.live import add_live
from studio.serve.mos.owner import add_rated
from studio.serve.mos.routes import add_listening
from studio.serve.responses import add_error_handlers
from studio.serve.server import DRAIN, Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.systems import add_systems
from studio.serve.trace_store import TraceStore
from studio.serve.trace_views import Recomputation, TraceViews
from studio.serve.traces import (
    FILES,
    FORCE_FILES,
    add_inspection,
    add_overlapped,
    add_teacher_forcing,
    add_traces,
)
from studio.text.lexicon_book import FILE

_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)  # bounds of the histogram


@runtime_checkable
class SupportsStuck(Protocol):
    """An engine that detects a hung step."""

    def stuck(self) -> str:
        """What hangs; empty if nothing does."""
        ...


def create_app(engine: Engine, settings: ServeSettings, listening: ListeningTests | None = None) -> FastAPI:
    """The server of one engine; the caller owns the engine and the listening tests, and closes them.

    Raises BadFile: the traces folder cannot be created; BadOption: the key of the language model is missing.

    Args:
        listening: the listening tests; without them there are no ``/mos`` and no library routes. The library is in the
            same data folder and has the same owner.
    """
    trace_store = TraceStore(settings.traces_folder, settings.max_traces, settings.max_traces_bytes)
    app = guarded_app(settings, None if listening is None else partial(is_owner, listening))
    drain = Drain(engine, settings.drain_ms / 1000.0)
    setattr(app.state, DRAIN, drain)
    _add_socket(app, engine, trace_store, settings, drain)
    _add_health_and_voices(app, engine, drain)
    requests = SpeechRequests(engine, trace_store, settings)
    drain.watch(requests.running)
    setattr(app.state, SPEECH, requests)
    add_lists(app, engine)
    add_openai(app, requests)
    add_elevenlabs_http(app, requests)
    add_elevenlabs(app, engine, trace_store, settings, drain)
    add_kyutai(app, engine, trace_store, settings, drain)
    add_cartesia(app, engine, requests, trace_store, settings, drain)
    add_deepgram(app, engine, requests, trace_store, settings, drain)
    if isinstance(engine, SupportsLoad):
        add_metrics(app, engine)
    views, recomputation = TraceViews(), Recomputation(engine)
    add_traces(app, trace_store, views)
    add_inspection(app, trace_store, views, recomputation)
    add_teacher_forcing(app, trace_store, recomputation)
    add_overlapped(app, trace_store, recomputation)
    access = None
    if listening is not None:
        listening.cards = engine.cards
        auth = add_listening(app, listening, trace_store)
        add_drafts(app, listening, auth, engine)
        add_live(app, listening, auth, engine, settings, drain)
        add_arena(app, listening)
        if isinstance(engine, SupportsSystems):
            add_systems(app, auth, engine)
        add_rated(app, listening, auth, views, recomputation)
        access = LibraryAccess(listening.clips.root.parent / "library", auth, views)
        add_library(app, access, trace_store, recomputation)
        add_voices(app, auth, engine)
        add_publishing(app, auth, engine)
        add_speakers(app, auth, recomputation)
        add_lexicon(app, auth, listening.clips.root.parent / FILE)
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
    files = FILES | FORCE_FILES | UPLOADS | LIBRARY_FILES | SPEAKER_FILES | LEXICON_FILES
    app.add_middleware(ErrorPagesMiddleware)
    app.add_middleware(BodyLimitMiddleware, files=files, is_owner=owner)
    if settings.key:
        app.add_middleware(KeyMiddleware, key=settings.key, port=settings.port)
    if settings.allowed_origins:
        origins = [origin.lower().rstrip("/") for origin in settings.allowed_origins]
        app.add_middleware(
            CORSMiddleware,  # without credentials: no page of another origin uses the owner's cookie
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Studio-Trace", "X-Studio-Speech", "Retry-After"],
        )
    app.add_middleware(HostOriginMiddleware, settings=settings)
    app.add_middleware(SecurityHeadersMiddleware, settings=settings)
    app.add_middleware(RequestHeadersMiddleware)  # the last one added is the outermost
    add_error_handlers(app)
    return app


def _add_socket(app: FastAPI, engine: Engine, trace_store: TraceStore, settings: ServeSettings, drain: Drain) -> None:
    sockets: set[SpeakSession] = set()
    drain.watch(sockets)
    endpoint, hides_failures = settings.chat_endpoint(), not is_loopback(settings.host)
    chat = Chat(endpoint, settings.llm_replies_per_min, hides_failures=hides_failures) if endpoint else None

    @app.websocket("/ws/speak")
    async def speak(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, SpeakSession(websocket, engine, trace_store, settings, chat))


def _add_health_and_voices(app: FastAPI, engine: Engine, drain: Drain) -> None:
    began_s = time.monotonic()

    @app.get("/health")
    async def health(response: Response) -> dict[str, Any]:
        facts: dict[str, Any] = {"status": "ok", "version": studio.__version__, "protocol": wire.PROTOCOL}
        facts["places_free"] = engine.free_slots()
        if drain.is_announced:
            facts["status"] = "draining"
        if isinstance(engine, SupportsStuck) and engine.stuck():
            facts["status"], response.status_code = "stuck", 503
        return facts | {"uptime_s": round(time.monotonic() - began_s, 1)}

    @app.get("/api/voices")
    async def voices() -> dict[str, Any]:
        return {"voices": [wire.card_summary(card) for card in engine.cards()]}


class EngineCollector(Collector):
    """Collects an engine's load when Prometheus scrapes it."""

    def __init__(self, engine: SupportsLoad) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Any]:
        """The current value of every metric."""
        load = self._engine.load()
        yield from _gauges(load)
        yield from _counters(load)
        yield from _of_modules(load.modules)


def _gauges(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("places", "Concurrency slots.", load.slots),
        ("speaking", "Utterances in a slot.", load.speaking),
        ("queue_places", "Maximum length of the queue.", load.queue),
        ("waiting", "Length of the queue.", load.waiting),
        ("device_memory_bytes", "GPU memory of tensors.", load.device_bytes),
    ):
        yield GaugeMetricFamily(f"studio_engine_{name}", what, value=value)


def _counters(load: EngineLoad) -> Iterator[Any]:
    for name, what, value in (
        ("utterances_opened", "Utterances that got a slot.", load.opened),
        ("utterances_refused", "Utterances rejected because the engine was busy; each retry counts.", load.refused),
        ("utterances_failed", "Utterances that failed.", load.failed),
        ("queued_seconds", "Time in the queue of utterances that got a slot.", load.queued_ms / 1000.0),
        ("audio_seconds", "Generated audio.", load.audio_s),
        ("stalls", "Stalls: pauses in speech caused by compute.", load.stalls),
        ("stalled_seconds", "Total time of stalls.", load.stalled_ms / 1000.0),
    ):
        yield CounterMetricFamily(f"studio_engine_{name}", what, value=value)


def _of_modules(modules: tuple[ModuleLoad, ...]) -> Iterator[Any]:
    labels = ["voice", "module"]
    rows = HistogramMetricFamily("studio_module_rows", "Rows per run of a module.", labels=labels)
    seconds = CounterMetricFamily("studio_module_seconds", "Run time of a module.", labels=labels)
    slow = CounterMetricFamily("studio_module_slow_runs", "Runs that took longer than slow_run_ms.", labels=labels)
    for one in modules:
        counts = [sum(n for size, n in one.runs.items() if low < size <= high) for low, high in _spans()]
        buckets = zip([*map(str, map(float, _ROWS)), "+Inf"], accumulate(counts), strict=True)
        rows.add_metric([one.voice, one.name], [*buckets], sum_value=one.rows)
        seconds.add_metric([one.voice, one.name], sum(one.ms.values()) / 1000.0)
        slow.add_metric([one.voice, one.name], one.slow)
    yield rows
    yield seconds
    yield slow


def _spans() -> list[tuple[float, float]]:
    bounds = [0.0, *map(float, _ROWS), float("inf")]
    return [*pairwise(bounds)]


def add_metrics(app: FastAPI, engine: SupportsLoad) -> None:
    """Add ``/metrics``, which needs the key like every route that is not public."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EngineCollector(engine))
    ProcessCollector(registry=registry)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
