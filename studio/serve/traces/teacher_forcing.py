"""Teacher forcing over HTTP: an uploaded recording becomes a trace in the store, for the Inspect page."""

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Annotated, Any, cast
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header, Request
from fastapi.responses import Response

from studio.core.clips import read_wav
from studio.core.errors import BadFile, BadMessage, BadText
from studio.core.ports import Engine
from studio.core.traces.teacher_forcing import (
    MAX_RECORDING_S,
    NotSupported,
    SupportsTeacherForcing,
    TeacherForcingRequest,
)
from studio.core.traces.textgrid import MAX_BYTES
from studio.inspection.opening import ALIGNER, request_from_aligner, request_from_textgrid
from studio.serve.errors import private_json
from studio.serve.live import protocol as wire
from studio.serve.middleware.bodies import FileRoute
from studio.serve.middleware.limits import address_of
from studio.serve.trace_store import TraceStore
from studio.serve.traces.inspection import (
    MAX_FILE_BYTES,
    MAX_TEXT_CHARS,
    MEDIA_TYPE,
    TraceViews,
    run_while_connected,
    uploaded_file,
)

FORCE, VOICES = "/inspect/force", "/inspect/voices"
FORCE_FILES = {FORCE: FileRoute(MAX_FILE_BYTES)}
MAX_ALIGNED_S = 120.0  # an aligner cannot be interrupted
MAX_OPTIONS_CHARS = 2_000
_TEXTGRID = "the TextGrid"
_OPTIONS = 'write them by name, as {"m": 3}'


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

        Raises:
            BadMessage: the recording, its text or its TextGrid is invalid.
            NotSupported: this engine, or the voice's family, has no teacher forcing.
            BadVoice, BadText, Busy, CallerGone, NeedsPackage, NotStored.
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

    Args:
        text: the transcript, where there is no TextGrid.
        textgrid_bytes: length of the TextGrid.
        placed_by: the aligner's name; empty where the voice finds the ends of words.

    Raises:
        BadFile: not a WAV or not a TextGrid, too long, or the aligner finds another text.
        BadOption: both a TextGrid and an aligner are given.
        BadText: there is no transcript.
        BadMessage: the aligner is unknown.
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
