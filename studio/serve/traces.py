"""Routes of traces (files, audio, overlapped vocoding), of the Inspect page, and of teacher forcing on an upload."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, cast
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import FileResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from studio.core.errors import BadFile, BadMessage, BadText
from studio.core.sound_files import read_mono
from studio.core.traces.teacher_forcing import (
    MAX_RECORDING_S,
    SupportsTeacherForcing,
    TeacherForcingRequest,
    recomputer_of,
)
from studio.core.traces.textgrid import MAX_BYTES
from studio.core.traces.trace import open_trace
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
from studio.serve.trace_views import (
    MEDIA_TYPE,
    VIEWS,
    Recomputation,
    TraceViews,
    captions_file,
    forced,
    overlapped,
    pieces,
    stored_sound,
    uploaded_file,
    wav_file,
)

OPEN, PROSODY, ATTENTION = "/inspect/open", "/inspect/prosody", "/inspect/attention"
MAX_FILE_BYTES = 64_000_000  # an hour of 24 kHz speech is more: `studio inspect` opens it
FILES = dict.fromkeys((OPEN, PROSODY, ATTENTION), FileRoute(MAX_FILE_BYTES))  # the paths that take an upload
MAX_TEXT_CHARS = 16_000  # percent-encoded, in a header
_PARTS = {"meta.json": 1 << 20, "events.jsonl": 1 << 24, "audio.wav": MAX_FILE_BYTES, "layers.npz": 1 << 25}
MAX_EVENTS = 250_000  # ten minutes of speech have 70,000: 64 MB of them stay below
LIMITS = UnpackLimits(_PARTS, layer=1 << 25, events=MAX_EVENTS)
FORCE, VOICES = "/inspect/force", "/inspect/voices"
FORCE_FILES = {FORCE: FileRoute(MAX_FILE_BYTES)}
MAX_ALIGNED_S = 120.0  # an aligner cannot be interrupted
MAX_OPTIONS_CHARS = 2_000
_CAPTIONS = {".srt": "application/x-subrip; charset=utf-8", ".vtt": "text/vtt; charset=utf-8"}
_TEXTGRID = "the TextGrid"
_OPTIONS = 'write them by name, as {"m": 3}'


def add_inspection(app: FastAPI, trace_store: TraceStore, views: TraceViews, recomputation: Recomputation) -> None:
    """Add the routes; uploads are not stored."""

    @app.get("/traces/{token}.view")
    async def stored_view(request: Request, token: str) -> Response:
        return await views.view(request, partial(open_trace, trace_store.path(token)))

    @app.get("/traces/{token}.prosody")
    async def stored_prosody(request: Request, token: str) -> Response:
        return await views.prosody(request, partial(stored_sound, trace_store.path(token)))

    @app.get("/traces/{token}.attention")
    async def stored_trace_attention(request: Request, token: str) -> Response:
        return await recomputation.attention(request, partial(open_trace, trace_store.path(token)))

    @app.post(OPEN)
    async def uploaded_view(
        request: Request,
        body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"",
        x_studio_text: Annotated[str, Header(max_length=MAX_TEXT_CHARS)] = "",
    ) -> Response:
        with uploaded_file():
            return await views.view(request, partial(open_bytes, body, unquote(x_studio_text), LIMITS))

    @app.post(PROSODY)
    async def uploaded_prosody(request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b"") -> Response:
        with uploaded_file():
            return await views.prosody(request, partial(read_sound, body, MAX_FILE_BYTES))

    @app.post(ATTENTION)
    async def uploaded_attention(
        request: Request, body: Annotated[bytes, Body(media_type=MEDIA_TYPE)] = b""
    ) -> Response:
        with uploaded_file():
            return await recomputation.attention(request, partial(open_bytes, body, "", LIMITS))


def add_traces(app: FastAPI, trace_store: TraceStore, views: TraceViews) -> None:
    """Add the routes of stored traces."""

    @app.get("/traces/{token}.trace")
    async def trace(token: str) -> FileResponse:
        path, name = trace_store.path(token), download_name(token, ".trace")
        return FileResponse(path, media_type="application/zip", filename=name, headers=PRIVATE)

    @app.get("/traces/{token}.wav")
    async def wav(request: Request, token: str, as_heard: bool = False) -> Response:
        content = await views.compute(request, wav_file, trace_store.path(token), as_heard)
        name = download_name(token, "-as-heard.wav" if as_heard else ".wav")
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(len(content))}
        return StreamingResponse(pieces(content), media_type="audio/wav", headers=PRIVATE | headers)

    async def captions(request: Request, token: str, suffix: str, as_heard: bool) -> Response:
        content = await views.compute(request, captions_file, trace_store.path(token), suffix, as_heard)
        name = download_name(token, f"-as-heard{suffix}" if as_heard else suffix)
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=_CAPTIONS[suffix], headers=PRIVATE | headers)

    @app.get("/traces/{token}.srt")
    async def srt(request: Request, token: str, as_heard: bool = False) -> Response:
        return await captions(request, token, ".srt", as_heard)

    @app.get("/traces/{token}.vtt")
    async def webvtt(request: Request, token: str, as_heard: bool = False) -> Response:
        return await captions(request, token, ".vtt", as_heard)


def add_overlapped(app: FastAPI, trace_store: TraceStore, recomputation: Recomputation) -> None:
    """Add the route of overlapped vocoding, which stores a new trace under its own token."""

    @app.post("/traces/{token}/overlapped")
    async def overlapped_vocoding(request: Request, token: str) -> Response:
        load = partial(open_trace, trace_store.path(token))
        with trace_store.adding(address_of(request)) as path:
            await recomputation.run(request, overlapped, load, path)
        return private_json({"trace": path.stem})


def add_teacher_forcing(app: FastAPI, trace_store: TraceStore, recomputation: Recomputation) -> None:
    """Add the routes of teacher forcing: the voices that support it, and the upload of a recording."""

    @app.get(VOICES)
    async def voices() -> Response:
        """Summaries as in ``/api/voices``, their families (null for an engine without), and the aligner, if any."""
        await run_in_threadpool(VIEWS.start)  # the Inspect page asks before a file is chosen
        aligner = ALIGNER if find_spec(ALIGNER) else ""
        recomputer = recomputer_of(recomputation.engine)
        if not isinstance(recomputer, SupportsTeacherForcing):
            return private_json({"voices": [], "families": None, "aligner": aligner})
        cards = recomputer.teacher_forcing_cards()
        families = sorted({card.family for card in cards})
        summaries = [wire.card_summary(card) for card in cards]
        return private_json({"voices": summaries, "families": families, "aligner": aligner})

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
        read = partial(
            read_recording,
            body,
            unquote(x_studio_text),
            x_studio_textgrid_bytes,
            x_studio_placed_by,
            read_options(unquote(x_studio_options)),
        )
        with trace_store.adding(address_of(request)) as path:
            await recomputation.run(request, forced, read, unquote(x_studio_voice), path)
        return private_json({"trace": path.stem})


def read_options(text: str) -> dict[str, Any]:
    """The family's options, a JSON object; the family validates the values. Raises BadMessage."""
    try:
        options = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise BadMessage("the options are no JSON", _OPTIONS) from error
    if not isinstance(options, dict):
        raise BadMessage("the options are no JSON object", _OPTIONS)
    return cast("dict[str, Any]", options)


def read_recording(
    body: bytes, text: str, textgrid_bytes: int, placed_by: str, options: Mapping[str, Any]
) -> TeacherForcingRequest:
    """The request of an upload: a WAV, with its TextGrid before it where there is one.

    Raises BadFile: not a WAV or not a TextGrid, too long, or the aligner finds another text; BadOption: both a TextGrid
    and an aligner are given; BadText: there is no transcript; BadMessage: the aligner is unknown.

    Args:
        text: the transcript, where there is no TextGrid.
        textgrid_bytes: length of the TextGrid.
        options: the family's, which validates the values.
        placed_by: the aligner's name; empty where the voice finds the ends of words.
    """
    if placed_by not in ("", ALIGNER):
        raise BadMessage(f"nothing here is called {placed_by!r:.40}", f"words are placed by {ALIGNER}, or by the voice")
    pcm, rate_hz = read_mono(body[textgrid_bytes:], most_samples=MAX_FILE_BYTES // 2)
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
        raise BadText("the text of the recording is missing", "write what it says, or give its TextGrid")
    return replace(request_from_aligner(recording) if placed_by else recording, options=options)
