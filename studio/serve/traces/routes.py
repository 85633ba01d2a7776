"""Routes of stored traces: the file, its audio as a WAV file, and overlapped vocoding of its frames."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response

from studio.core.errors import Busy
from studio.core.ports import Engine
from studio.core.traces.teacher_forcing import NotSupported, SupportsOverlappedVocoding
from studio.core.traces.trace import open_trace
from studio.serve.errors import PRIVATE, private_json
from studio.serve.middleware.limits import address_of
from studio.serve.trace_store import TraceStore, download_name
from studio.serve.traces.inspection import TraceViews, run_while_connected

AT_ONCE = 2  # exports of audio: each takes a core and, for an hour of audio, half a gigabyte
MAX_WAITING, MAX_WAITING_PER_ADDRESS = 16, 8  # requests for exports: in total, and of one network address


class _WavExporter:
    """Exports audio on its own few threads, so that no other route waits for it."""

    def __init__(self, trace_store: TraceStore) -> None:
        self._trace_store = trace_store
        self._slots, self._threads = asyncio.Semaphore(AT_ONCE), CapacityLimiter(AT_ONCE)
        self._waiting: Counter[str] = Counter()

    async def export(self, request: Request, token: str, *, as_heard: bool) -> bytes | None:
        """A WAV file; None where the client has disconnected. Raises BadFile, Busy."""
        address = address_of(request)
        if self._waiting.total() >= MAX_WAITING or self._waiting[address] >= MAX_WAITING_PER_ADDRESS:
            raise Busy("too many sounds are being fetched", "try again in a moment")
        self._waiting[address] += 1
        try:
            async with self._slots:
                if await request.is_disconnected():
                    return None
                make = partial(self._trace_store.wav, token, as_heard=as_heard)
                return await anyio.to_thread.run_sync(make, limiter=self._threads)
        finally:
            self._waiting -= Counter((address,))  # removes an address without requests


def add_traces(app: FastAPI, trace_store: TraceStore) -> None:
    """Add the routes of stored traces."""
    exporter = _WavExporter(trace_store)

    @app.get("/traces/{token}.trace")
    async def trace(token: str) -> FileResponse:
        path, name = trace_store.path(token), download_name(token, ".trace")
        return FileResponse(path, media_type="application/zip", filename=name, headers=PRIVATE)

    @app.get("/traces/{token}.wav")
    async def wav(request: Request, token: str, as_heard: bool = False) -> Response:
        content = await exporter.export(request, token, as_heard=as_heard)
        name = download_name(token, "-as-heard.wav" if as_heard else ".wav")
        headers = PRIVATE | {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content or b"", media_type="audio/wav", headers=headers)


def add_overlapped(app: FastAPI, trace_store: TraceStore, views: TraceViews, engine: Engine) -> None:
    """Add the route of overlapped vocoding, which stores a new trace under its own token."""

    @app.post("/traces/{token}/overlapped")
    async def overlapped(request: Request, token: str) -> Response:
        def work(is_connected: Callable[[], bool]) -> Response:
            with views.slot():
                trace = open_trace(trace_store.path(token))
            if not isinstance(engine, SupportsOverlappedVocoding):
                raise NotSupported("this server's engine has no frames to vocode", "`studio compare --overlapped` may")
            vocoded = engine.vocode_overlapped(trace, is_connected)
            return private_json({"trace": trace_store.put(vocoded, address_of(request))})

        return await run_while_connected(request, work)
