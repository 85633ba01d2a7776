"""OpenAI's speech API: ``POST /v1/audio/speech`` (bytes, SSE, or one JSON with the times of the words)."""

import base64
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadMessage, BadVoice, StudioError
from studio.core.folders import without_folders
from studio.core.traces.trace import sent_text
from studio.markup import Markup
from studio.serve.adapters.alignment import Alignment
from studio.serve.adapters.encoding import MAX_SPEED, MIN_SPEED, AudioFormat, Encoder, open_encoder
from studio.serve.adapters.pieces import word_time
from studio.serve.adapters.speech import (
    MAX_INPUT_CHARS,
    MAX_WHOLE_BYTES,
    Speech,
    SpeechRequests,
    SpeechResponse,
    encoded,
    error_status,
    json_with_sound,
    retry_header,
    sse_event,
)
from studio.serve.adapters.voices import BadModel, find_voice
from studio.serve.live.protocol import Text
from studio.serve.responses import private_json

PCM_RATE_HZ = 24_000  # of ``pcm``, whose rate clients cannot see
_MP3_RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)


class VoiceId(BaseModel):
    """A voice as an object."""

    id: Annotated[str, Field(max_length=200)]


class SpeechBody(BaseModel):
    """The body of ``/v1/audio/speech``; fields that are not listed are ignored."""

    model_config = ConfigDict(strict=True)
    input: Annotated[Text, Field(max_length=MAX_INPUT_CHARS)]
    voice: Annotated[str, Field(max_length=200)] | VoiceId = ""
    model: Annotated[str, Field(max_length=200)] = ""
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Field(ge=MIN_SPEED, le=MAX_SPEED)] = 1.0
    stream_format: Literal["audio", "sse", "json"] = "audio"  # json: ours
    markup: Markup = "markdown"  # ours: what the input is written in


class BadField(BadMessage):
    """A field of the body is missing or not allowed."""

    def __init__(self, field: str, what: str, do: str = "") -> None:
        super().__init__(what, do)
        self.field = field


def add_openai(app: FastAPI, requests: SpeechRequests) -> None:
    """Add the route."""

    @app.post("/v1/audio/speech")
    async def speech(request: Request) -> Response:
        try:
            return await _speak(request, requests)
        except StudioError as error:
            return error_response(error)


async def _speak(request: Request, requests: SpeechRequests) -> Response:
    body = _parsed(await request.body())
    voice = body.voice if isinstance(body.voice, str) else body.voice.id
    card, address = find_voice(voice, body.model, requests.engine.cards(), requests.aliases)
    wanted = _format(body.response_format, card)
    encoder = await open_encoder(wanted, card.sample_rate_hz, body.speed)
    speech = await requests.open(request, address, body.input, body.markup)
    if body.stream_format == "json":
        return await _whole(requests, speech, encoder, wanted, body.speed)
    if body.stream_format == "sse":
        return SpeechResponse(requests, speech, _sse(speech, encoder), "text/event-stream")
    return SpeechResponse(requests, speech, encoded(speech, encoder), wanted.media_type)


def _parsed(raw: bytes) -> SpeechBody:
    """Raises BadField."""
    try:
        return SpeechBody.model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    field = str(first["loc"][0]) if first["loc"] else ""
    raise BadField(field, f"{field or 'the body'}: {first['msg'][:200]}", "see docs/clients.md for the fields")


def _format(name: str, card: Card) -> AudioFormat:
    """A format at the voice's rate, where the format has that rate and states it."""
    match name:
        case "pcm":
            return AudioFormat(name, PCM_RATE_HZ)
        case "opus":
            return AudioFormat(name, 48_000)
        case "mp3" if card.sample_rate_hz not in _MP3_RATES_HZ:
            return AudioFormat(name, 44_100)
    return AudioFormat(name, card.sample_rate_hz)


async def _sse(speech: Speech, encoder: Encoder) -> AsyncIterator[bytes]:
    """``speech.audio.delta`` events, then ``speech.audio.done``; an ``error`` where the voice fails.

    In its usage, input tokens are spoken words and output tokens are the voice's frames.
    """
    words = samples = 0
    try:
        async for event in speech.events():
            words += isinstance(event, ev.Committed)
            if isinstance(event, ev.Audio):
                samples += len(event.pcm)
                if data := await encoder.encode(event.pcm):
                    with speech.sending():
                        yield _delta(data)
        yield _delta(await encoder.finish())
    except StudioError as error:
        yield sse_event({"type": "error", **error_body(error)})
        return
    frames = samples // speech.card.frame_samples
    usage = {"input_tokens": words, "output_tokens": frames, "total_tokens": words + frames}
    yield sse_event({"type": "speech.audio.done", "usage": usage})


async def _whole(
    requests: SpeechRequests, speech: Speech, encoder: Encoder, wanted: AudioFormat, speed: float
) -> StreamingResponse:
    """The sound, the text that was spoken, and its words with their times and places in it.

    Raises StudioError: as ``Speech.events``.
    """
    alignment, texts, samples_per_s = Alignment(), list[ev.Event](), speech.card.sample_rate_hz * speed
    sound, samples, words = bytearray(), 0, list[dict[str, Any]]()
    try:
        async for event in speech.events():
            texts += [event] if isinstance(event, ev.TextReceived) else []
            if isinstance(event, ev.Audio):
                samples += len(event.pcm)
                sound += await encoder.encode(event.pcm)
                if len(sound) > MAX_WHOLE_BYTES:
                    raise BadField("stream_format", "the sound is too long for one JSON", "ask for sse, or for mp3")
            for token in alignment.add(event):
                place = {"char_start": token.char_start, "char_end": token.char_start + token.chars}
                words.append({**word_time(token, samples_per_s), **place})
        sound += await encoder.finish()
    finally:
        requests.close(speech)
    answer = {
        "content_type": wanted.media_type,
        "duration_s": round(samples / samples_per_s, 3),
        "text": sent_text(texts),
        "words": words,
    }
    return json_with_sound("audio", sound, answer, speech.headers)


def _delta(data: bytes) -> bytes:
    return sse_event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode("ascii")})


def error_body(error: StudioError) -> dict[str, Any]:
    """An error as OpenAI's clients read it."""
    kind = "invalid_request_error" if _status(error) < 500 else "server_error"
    param = error.field if isinstance(error, BadField) else "voice" if isinstance(error, BadVoice) else None
    message = without_folders(str(error))
    return {"error": {"message": message, "type": kind, "param": param, "code": error.code}}


def error_response(error: StudioError) -> JSONResponse:
    """The response to an error; a busy server says when to try again."""
    return private_json(error_body(error), _status(error), **retry_header(error))


def _status(error: StudioError) -> int:
    return 404 if isinstance(error, BadModel) else error_status(error)
