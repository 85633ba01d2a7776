"""ElevenLabs' HTTP routes: a whole text, as bytes or as JSON with the times of its characters."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from studio.core import events as ev
from studio.core.errors import BadMessage, BadOption, BadText, BadVoice, Busy, StudioError
from studio.core.folders import without_folders
from studio.serve.adapters.alignment import AlignedToken, Alignment
from studio.serve.adapters.elevenlabs import DEFAULT_FORMAT, FORMATS
from studio.serve.adapters.encoding import MAX_SPEED, MIN_SPEED, Encoder, open_encoder
from studio.serve.adapters.speech import (
    MAX_INPUT_CHARS,
    MAX_WHOLE_BYTES,
    Speech,
    SpeechFailed,
    SpeechRequests,
    SpeechResponse,
    encoded,
    json_with_sound,
    retry_header,
)
from studio.serve.adapters.validation import markup_of
from studio.serve.adapters.voices import find_voice
from studio.serve.live.protocol import Text
from studio.serve.responses import private_json

_STATUS: dict[type[StudioError], int] = {BadVoice: 404, Busy: 503, SpeechFailed: 500, StudioError: 422}


class VoiceSettings(BaseModel):
    """The setting that is used; the others are ignored."""

    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] | None = None


class ConvertBody(BaseModel):
    """The body of every route; fields that are not listed are ignored."""

    model_config = ConfigDict(strict=True)
    text: Annotated[Text, Field(max_length=MAX_INPUT_CHARS)]
    model_id: Annotated[str, Field(max_length=200)] = ""
    language_code: Annotated[str | None, Field(max_length=20)] = None
    voice_settings: VoiceSettings | None = None


@dataclass(frozen=True)
class _Conversion:
    """A speech with its encoder; times in the encoded audio are those of the voice divided by ``speed``."""

    speech: Speech
    encoder: Encoder
    media_type: str
    speed: float

    def times(self, characters: Iterable[tuple[str, int, int]]) -> dict[str, list[Any]]:
        """Characters with their times in seconds, in three lists of one length."""
        per_s = self.speech.card.sample_rate_hz * self.speed
        chars, starts, ends = zip(*((char, a / per_s, b / per_s) for char, a, b in characters), strict=True)
        return {
            "characters": [*chars],
            "character_start_times_seconds": [*starts],
            "character_end_times_seconds": [*ends],
        }

    def message(self, audio: bytes, tokens: Iterable[AlignedToken]) -> dict[str, Any]:
        """A piece of audio with the characters whose words have ended."""
        return {"audio_base64": base64.b64encode(audio).decode("ascii"), **self.alignments(tokens)}

    def alignments(self, tokens: Iterable[AlignedToken]) -> dict[str, Any]:
        """The characters of tokens, as written and as spoken; None where there are none."""
        tokens = [*tokens]
        written = [one for token in tokens for one in token.characters()]
        spoken = [one for token in tokens for one in token.spoken_characters()]
        return {
            "alignment": self.times(written) if written else None,
            "normalized_alignment": self.times(spoken) if spoken else None,
        }


def add_elevenlabs_http(app: FastAPI, requests: SpeechRequests) -> None:
    """Add the routes."""

    async def respond(
        request: Request, voice: str, response: Callable[[Request, _Conversion], Awaitable[Response]]
    ) -> Response:
        try:
            return await response(request, await _open(request, voice, requests))
        except StudioError as error:
            return _error_response(error)

    async def sound(_: Request, one: _Conversion) -> Response:
        return SpeechResponse(requests, one.speech, encoded(one.speech, one.encoder), one.media_type)

    async def whole(_: Request, one: _Conversion) -> Response:
        sound, words = bytearray(), list[AlignedToken]()
        try:
            async for audio, tokens in _pieces(one):
                sound += audio
                words += tokens
                if len(sound) > MAX_WHOLE_BYTES:
                    raise BadText("the sound is too long for one JSON", "ask for stream/with-timestamps, or for mp3")
        finally:
            requests.close(one.speech)
        return json_with_sound("audio_base64", sound, one.alignments(words))

    async def lines(_: Request, one: _Conversion) -> Response:
        return SpeechResponse(requests, one.speech, _lines(one), "application/x-ndjson")

    @app.post("/v1/text-to-speech/{voice}")
    @app.post("/v1/text-to-speech/{voice}/stream")
    async def convert(request: Request, voice: str) -> Response:
        return await respond(request, voice, sound)

    @app.post("/v1/text-to-speech/{voice}/with-timestamps")
    async def with_timestamps(request: Request, voice: str) -> Response:
        return await respond(request, voice, whole)

    @app.post("/v1/text-to-speech/{voice}/stream/with-timestamps")
    async def stream_with_timestamps(request: Request, voice: str) -> Response:
        return await respond(request, voice, lines)


async def _open(request: Request, voice: str, requests: SpeechRequests) -> _Conversion:
    body = _parsed(await request.body())
    if not body.text.strip():
        raise BadText("the text is empty", "give some text")
    name = request.query_params.get("output_format", DEFAULT_FORMAT)
    if name not in FORMATS:
        raise BadOption(f"there is no output_format {name[:40]!r}", f"there are {', '.join(FORMATS)}")
    cards = requests.engine.cards()
    card, address = find_voice(voice, body.model_id, cards, requests.aliases, body.language_code)
    speed = (body.voice_settings.speed if body.voice_settings else None) or 1.0
    encoder = await open_encoder(FORMATS[name], card.sample_rate_hz, speed)
    speech = await requests.open(request, address, body.text, markup_of(request.query_params, "breaks"))
    return _Conversion(speech, encoder, FORMATS[name].media_type, speed)


def _parsed(raw: bytes) -> ConvertBody:
    """Raises BadMessage."""
    try:
        return ConvertBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(map(str, first["loc"])) or "the body"
    raise BadMessage(f"{where}: {first['msg'][:200]}", "see docs/clients.md for the fields")


async def _pieces(one: _Conversion) -> AsyncIterator[tuple[bytes, list[AlignedToken]]]:
    """Encoded audio, and the tokens whose words have ended. Raises StudioError: as ``Speech.events``."""
    alignment = Alignment()
    async for event in one.speech.events():
        audio = await one.encoder.encode(event.pcm) if isinstance(event, ev.Audio) else b""
        tokens = [*alignment.add(event), *filter(None, (alignment.rest(event),))]
        if audio or tokens:
            yield audio, tokens
    if audio := await one.encoder.finish():
        yield audio, []


async def _lines(one: _Conversion) -> AsyncIterator[bytes]:
    """One line of JSON for each piece; the connection breaks off where the voice fails."""
    try:
        async for audio, tokens in _pieces(one):
            with one.speech.sending():
                yield json.dumps(one.message(audio, tokens)).encode() + b"\n"
    except StudioError:
        one.speech.break_off()


def _error_response(error: StudioError) -> JSONResponse:
    """The response to an error as ElevenLabs' clients read it; a busy server says when to try again."""
    status = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    body = {"detail": {"status": error.code, "message": without_folders(str(error))}}
    return private_json(body, status, **retry_header(error))
