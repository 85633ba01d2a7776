"""Routes of traces (files, audio, overlapped vocoding), of the Inspect page, and of teacher forcing on an upload."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, cast
from urllib.parse import unquote

import anyio.to_thread
import numpy as np
from anyio import CapacityLimiter
from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import FileResponse, Response
from starlette.concurrency import run_in_threadpool

from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadMessage, BadText, Busy
from studio.core.ports import Engine
from studio.core.traces.teacher_forcing import (
    MAX_RECORDING_S,
    CallerGone,
    NotSupported,
    SupportsAttention,
    SupportsOverlappedVocoding,
    SupportsTeacherForcing,
    TeacherForcingRequest,
    stored_attention,
)
from studio.core.traces.textgrid import MAX_BYTES
from studio.core.traces.trace import Trace, open_trace
from studio.core.traces.trace_reader import read_trace_wav
from studio.inspection.bundle import pack, pack_attention, pack_prosody
from studio.inspection.opening import (
    ALIGNER,
    UnpackLimits,
    open_bytes,
    read_sound,
    request_from_aligner,
    request_from_textgrid,
)
from studio.serve.live import protocol as wire
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.bodies import FileRoute
from studio.serve.responses import PRIVATE, private_json
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
FORCE, VOICES = "/inspect/force", "/inspect/voices"
FORCE_FILES = {FORCE: FileRoute(MAX_FILE_BYTES)}
MAX_ALIGNED_S = 120.0  # an aligner cannot be interrupted
MAX_OPTIONS_CHARS = 2_000
_TEXTGRID = "the TextGrid"
_OPTIONS = 'write them by name, as {"m": 3}'


async def run_while_connected(request: Request, work: Callable[[Callable[[], bool]], Response]) -> Response:
    """Run ``work`` in a thread; 204 where the client has disconnected.

    ``work``: takes a function that is False once the client has disconnected, and then raises ``CallerGone``.
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

        Raises Busy: another one is being computed; and what ``load`` and ``SupportsAttention`` raise.
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


class TeacherForcingService:
    """Teacher-forces voices on recordings; the engine runs one at a time, and none beside an attention request."""

    def __init__(self, engine: Engine, trace_store: TraceStore, views: TraceViews) -> None:
        self._engine, self._trace_store, self._views = engine, trace_store, views

    def voices(self) -> dict[str, Any]:
        """The voices that support teacher forcing, as in ``/api/voices``, and the aligner where it is installed.

        ``families`` are the voices' families; None where the engine has no teacher forcing.
        """
        aligner = ALIGNER if find_spec(ALIGNER) else ""
        if not isinstance(self._engine, SupportsTeacherForcing):
            return {"voices": [], "families": None, "aligner": aligner}
        cards = self._engine.teacher_forcing_cards()
        families = sorted({card.family for card in cards})
        return {"voices": [wire.card_summary(card) for card in cards], "families": families, "aligner": aligner}

    def run(
        self, read: Callable[[], TeacherForcingRequest], voice: str, owner: str, is_connected: Callable[[], bool]
    ) -> Response:
        """Respond with the token of the new trace; ``owner`` is the address in whose share it counts.

        Raises BadMessage: the recording, its text or its TextGrid is invalid; NotSupported: this engine, or the voice's
        family, has no teacher forcing; BadVoice, BadText, Busy, CallerGone, NeedsPackage, NotStored.
        """
        if not isinstance(self._engine, SupportsTeacherForcing):
            raise NotSupported("this server's engine takes no recordings", "`studio force` does")
        with uploaded_file():
            with self._views.slot():
                recording = read()
            trace = self._engine.teacher_force(replace(recording, voice=voice), is_connected)
        return private_json({"trace": self._trace_store.put(trace, owner)})


def add_teacher_forcing(app: FastAPI, service: TeacherForcingService) -> None:
    """Add the routes."""

    @app.get(VOICES)
    async def voices() -> Response:
        return private_json(service.voices())

    @app.post(FORCE)
    async def force(
        request: Request,
        body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"",
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
        x_studio_voice: Annotated[str, Header(max_length=200)] = "",
        x_studio_placed_by: Annotated[str, Header(max_length=40)] = "",
        x_studio_textgrid_bytes: Annotated[int, Header(ge=0, le=MAX_BYTES)] = 0,
        x_studio_options: Annotated[str, Header(max_length=MAX_OPTIONS_CHARS)] = "",
    ) -> Response:
        def read() -> TeacherForcingRequest:
            options = read_options(unquote(x_studio_options))
            recording = read_recording(body, unquote(x_studio_text), x_studio_textgrid_bytes, x_studio_placed_by)
            return replace(recording, options=options)

        voice, owner = unquote(x_studio_voice), address_of(request)
        return await run_while_connected(request, lambda is_connected: service.run(read, voice, owner, is_connected))


def read_options(text: str) -> dict[str, Any]:
    """The family's options, a JSON object; the family validates the values. Raises BadMessage."""
    try:
        options = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise BadMessage("the options are no JSON", _OPTIONS) from error
    if not isinstance(options, dict):
        raise BadMessage("the options are no JSON object", _OPTIONS)
    return cast("dict[str, Any]", options)


def read_recording(body: bytes, text: str, textgrid_bytes: int, placed_by: str) -> TeacherForcingRequest:
    """The request of an upload: a WAV, with its TextGrid before it where there is one.

    Raises BadFile: not a WAV or not a TextGrid, too long, or the aligner finds another text; BadOption: both a TextGrid
    and an aligner are given; BadText: there is no transcript; BadMessage: the aligner is unknown.

    Args:
        text: the transcript, where there is no TextGrid.
        textgrid_bytes: length of the TextGrid.
        placed_by: the aligner's name; empty where the voice finds the ends of words.
    """
    if placed_by not in ("", ALIGNER):
        raise BadMessage(f"nothing here is called {placed_by!r:.40}", f"words are placed by {ALIGNER}, or by the voice")
    pcm, rate_hz = read_wav(body[textgrid_bytes:])
    max_s = MAX_ALIGNED_S if placed_by else MAX_RECORDING_S
    if len(pcm) > max_s * rate_hz:
        raise BadFile(f"the recording lasts {len(pcm) / rate_hz:.0f} s", f"give at most {max_s:.0f} s")
    if not len(pcm):
        raise BadFile("the WAV holds no samples", "give one that does")
    if textgrid_bytes:
        recording = request_from_textgrid(pcm, rate_hz, body[:textgrid_bytes], _TEXTGRID)
    elif text.strip():
        recording = TeacherForcingRequest(pcm, rate_hz, text=text)
    else:
        raise BadText("what the recording says is not known", "write its text, or give its TextGrid")
    return request_from_aligner(recording) if placed_by else recording
