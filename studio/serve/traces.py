"""Routes of traces: files, audio, overlapped vocoding; and what the Inspect page draws of one or of an upload."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Annotated
from urllib.parse import unquote

import anyio.to_thread
import numpy as np
from anyio import CapacityLimiter
from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import FileResponse, Response
from starlette.concurrency import run_in_threadpool

from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadMessage, Busy
from studio.core.ports import Engine
from studio.core.traces.teacher_forcing import (
    CallerGone,
    NotSupported,
    SupportsAttention,
    SupportsOverlappedVocoding,
    stored_attention,
)
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import read_trace_wav
from studio.inspection.bundle import pack, pack_attention, pack_prosody
from studio.inspection.opening import UnpackLimits, open_bytes, read_sound
from studio.serve.errors import PRIVATE, private_json
from studio.serve.middleware.bodies import FileRoute
from studio.serve.middleware.limits import address_of
from studio.serve.trace_store import TraceStore, download_name

OPEN, PROSODY, ATTENTION = "/inspect/open", "/inspect/prosody", "/inspect/attention"
MAX_FILE_BYTES = 64_000_000  # an hour of 24 kHz speech is more: `studio inspect` opens it
FILES = dict.fromkeys((OPEN, PROSODY, ATTENTION), FileRoute(MAX_FILE_BYTES))  # the paths that take an upload
MAX_TEXT_CHARS = 16_000  # percent-encoded, in a header
_PARTS = {"meta.json": 1 << 20, "events.jsonl": 1 << 24, "audio.wav": MAX_FILE_BYTES, "layers.npz": 1 << 25}
MAX_EVENTS = 250_000  # ten minutes of speech have 70,000: 64 MB of them stay below
LIMITS = UnpackLimits(_PARTS, layer=1 << 25, events=MAX_EVENTS)
_SLOTS = 2
MAX_PITCH_S = 660.0  # ten minutes and the rest of a sentence
_POLL_S = 0.25  # how often the connection is checked
MEDIA_TYPE = "application/octet-stream"


async def run_while_connected(request: Request, work: Callable[[Callable[[], bool]], Response]) -> Response:
    """Run ``work`` in a thread; 204 where the client has disconnected.

    Args:
        work: takes a function that is False once the client has disconnected, and then raises ``CallerGone``.
    """
    disconnected = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(_POLL_S)
        disconnected.set()

    watching = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(work, lambda: not disconnected.is_set())
    except CallerGone:
        return Response(status_code=204, headers=PRIVATE)
    finally:
        watching.cancel()


class AttentionService:
    """Computes the attention of traces, one at a time, while the client is connected."""

    def __init__(self, engine: Engine, views: "TraceViews") -> None:
        self._engine, self._views = engine, views

    async def answer(self, request: Request, load: Callable[[], Trace]) -> Response:
        """Attention and likelihood of each frame of a trace, packed.

        Raises:
            Busy: another one is being computed; and what ``load`` and ``SupportsAttention`` raise.
        """
        return await run_while_connected(request, lambda is_connected: self._answer(load, is_connected))

    def _answer(self, load: Callable[[], Trace], is_connected: Callable[[], bool]) -> Response:
        with self._views.slot():
            trace = load()
        result = stored_attention(trace)
        if result is None:
            if not isinstance(self._engine, SupportsAttention):
                raise NotSupported("this server's engine cannot tell what a net attended to", "`studio inspect` can")
            result = self._engine.compute_attention(trace, is_connected)
        return bundle(pack_attention(result, trace.p_eos))


class TraceViews:
    """Opens traces and packs them for drawing, two at once: each takes a core and much memory."""

    def __init__(self) -> None:
        self._slots = threading.BoundedSemaphore(_SLOTS)

    @contextmanager
    def slot(self) -> Generator[None]:
        """A slot to open one trace. Raises Busy."""
        if not self._slots.acquire(blocking=False):
            raise Busy("other traces are being opened", "try again in a moment")
        try:
            yield
        finally:
            self._slots.release()

    def view(self, load: Callable[[], Trace]) -> Response:
        """What the page draws of a trace. Raises Busy, and what ``load`` raises."""
        with self.slot():
            return bundle(pack(load()))

    def prosody(self, load_sound: Callable[[], tuple[np.ndarray, int]]) -> Response:
        """Level and pitch, which the page requests after the picture. Raises Busy, and what ``load_sound`` raises.

        Args:
            load_sound: samples int16 [T] and their rate; reads only the audio of a trace.
        """
        with self.slot():
            return bundle(pack_prosody(*load_sound(), max_s=MAX_PITCH_S))


def bundle(content: bytes) -> Response:
    """A binary response for the page's scripts."""
    return Response(content, media_type=MEDIA_TYPE, headers=PRIVATE)


@contextmanager
def uploaded_file() -> Generator[None]:
    """Turns the BadFile (404) of an uploaded file into BadMessage (422)."""
    try:
        yield
    except BadFile as error:
        raise BadMessage(error.what, error.do) from error


def add_inspection(app: FastAPI, trace_store: TraceStore, views: TraceViews, attention: AttentionService) -> None:
    """Add the routes; uploads are not stored."""

    @app.get("/traces/{token}.view")
    def stored_view(token: str) -> Response:
        return views.view(lambda: open_trace(trace_store.path(token)))

    @app.get("/traces/{token}.prosody")
    def stored_prosody(token: str) -> Response:
        return views.prosody(lambda: read_wav(read_trace_wav(trace_store.path(token))))

    @app.get("/traces/{token}.attention")
    async def stored_trace_attention(request: Request, token: str) -> Response:
        return await attention.answer(request, lambda: open_trace(trace_store.path(token)))

    @app.post(OPEN)
    def uploaded_view(
        body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"",
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
    ) -> Response:
        with uploaded_file():
            return views.view(lambda: open_bytes(body, unquote(x_studio_text), LIMITS))

    @app.post(PROSODY)
    def uploaded_prosody(body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"") -> Response:
        with uploaded_file():
            return views.prosody(lambda: read_sound(body, MAX_FILE_BYTES))

    @app.post(ATTENTION)
    async def uploaded_attention(
        request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b""
    ) -> Response:
        with uploaded_file():
            return await attention.answer(request, lambda: open_bytes(body, "", LIMITS))


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
