"""The owner's routes of speakers that are added to voices from recordings: list, add, remove."""

import json
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, FastAPI, Header, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from studio.core.speakers import CONSENT, LIMITS, MAX_SPEECH_S, MIN_SPEECH_S, SENTENCE, SpeakerRequest, SupportsSpeakers
from studio.core.traces.teacher_forcing import NotSupported, recomputer_of
from studio.measure.references import MAX_FILE_BYTES, read_reference
from studio.serve.auth import TokenAuth
from studio.serve.middleware.bodies import FileRoute
from studio.serve.responses import StrictModel, private_json, read_body, takes
from studio.serve.trace_views import MEDIA_TYPE, VOICES, Recomputation, uploaded_file

BELOW, ADD = "/library/speakers", "/add"
SPEAKER_FILES = {BELOW + ADD: FileRoute(MAX_FILE_BYTES, "owner")}
CONSENTED = "given"  # value of the header X-Studio-Consent
_MAX_CHARS = 6 * 500  # percent-encoded, in a header
_FILE_SCHEMA = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_Text = Annotated[str, Header(max_length=_MAX_CHARS)]


class SpeakerRemove(StrictModel):
    """The owner removes an added speaker."""

    voice: Annotated[str, Field(max_length=80)]
    name: Annotated[str, Field(max_length=80)]


def add_speakers(app: FastAPI, auth: TokenAuth, recomputation: Recomputation) -> None:
    """Add the routes."""
    routes = APIRouter(prefix=BELOW, dependencies=[Depends(auth.owner)])
    engine = recomputation.engine

    @routes.get("")
    async def listed() -> Response:
        await run_in_threadpool(VOICES.start)  # so that it is ready when a recording arrives
        return private_json(await run_in_threadpool(_listed, engine))

    @routes.post(ADD, openapi_extra={"requestBody": {"required": True, "content": _FILE_SCHEMA}})
    async def add(
        request: Request,
        x_studio_voice: _Text = "",
        x_studio_name: _Text = "",
        x_studio_text: _Text = "",
        x_studio_consent: Annotated[str, Header(max_length=20)] = "",
        x_studio_consent_by: _Text = "",
        x_studio_keep: Annotated[bool, Header()] = False,
    ) -> Response:
        voice, name, text, by = map(unquote, (x_studio_voice, x_studio_name, x_studio_text, x_studio_consent_by))
        has_consent = x_studio_consent == CONSENTED
        SpeakerRequest.check_words(name, text, by, has_consent=has_consent)  # before the recording is looked at
        body = await request.body()
        added = await recomputation.run(request, _add, body, voice, name, text, by, x_studio_keep)
        return private_json(json.loads(added) | await run_in_threadpool(_listed, engine))

    @routes.post("/remove", openapi_extra=takes(SpeakerRemove))
    async def remove(request: Request) -> Response:
        body = await read_body(request, SpeakerRemove)
        await run_in_threadpool(lambda: _speakers_of(engine).speakers().remove(body.voice, body.name))
        return private_json(await run_in_threadpool(_listed, engine))

    app.include_router(routes)


def _add(engine: Any, _: Any, body: bytes, voice: str, name: str, text: str, by: str, keeps: bool) -> bytes:
    """Clean a recording and add its speaker: JSON of both. Runs in the voice process."""
    with uploaded_file():
        clean = read_reference(body)
    recording = body if keeps else None
    wanted = SpeakerRequest(voice, name, text, clean.samples, clean.rate_hz, clean.sha256, True, by, recording)
    added = _speakers_of(engine).speakers().add(wanted)
    report = {"steps": clean.steps, "level_db": round(clean.level_db, 1), "snr_db": round(clean.snr_db, 1)}
    return json.dumps({"added": asdict(added), "recording": report | {"length_s": clean.length_s}}).encode()


def _speakers_of(engine: Any) -> SupportsSpeakers:
    engine = recomputer_of(engine)
    if not isinstance(engine, SupportsSpeakers):
        raise NotSupported("this server's engine does not support added speakers", "use `studio voices speaker add`")
    return engine


def _listed(engine: Any) -> dict[str, Any]:
    engine = recomputer_of(engine)
    speakers = engine.speakers() if isinstance(engine, SupportsSpeakers) else None
    return {
        "voices": [asdict(one) for one in speakers.voices()] if speakers else [],
        "speakers": [asdict(one) for one in speakers.listed()] if speakers else [],
        "consent": CONSENT,
        "limits": LIMITS,
        "sentence": SENTENCE,
        "min_s": MIN_SPEECH_S,
        "max_s": MAX_SPEECH_S,
        "max_bytes": MAX_FILE_BYTES,
    }
