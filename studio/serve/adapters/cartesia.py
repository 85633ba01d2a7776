"""Cartesia's socket, ``/tts/websocket``, whose contexts take text as it comes; ``POST /tts/bytes`` and ``/tts/sse``.

A context is an utterance: transcripts with ``continue`` append to it, the first one without ends it. Each packet of the
voice is a chunk; with ``add_timestamps`` a word's times in the context follow when the word has ended.
"""

import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadMessage, BadText, StudioError
from studio.core.folders import without_folders
from studio.core.ports import Engine
from studio.markup import Markup
from studio.serve.adapters.alignment import Alignment
from studio.serve.adapters.contexts import Context, ContextSession
from studio.serve.adapters.encoding import AudioFormat, Encoder, open_encoder
from studio.serve.adapters.speech import (
    MAX_INPUT_CHARS,
    Speech,
    SpeechRequests,
    SpeechResponse,
    error_status,
    retry_header,
    speech_response,
    sse_event,
)
from studio.serve.adapters.validation import validated
from studio.serve.adapters.voices import find_voice
from studio.serve.live import protocol as wire
from studio.serve.responses import private_json
from studio.serve.server import Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

_CODECS = {"pcm_s16le": "pcm", "pcm_f32le": "pcm", "pcm_mulaw": "ulaw", "pcm_alaw": "alaw"}
Rate = Literal[8000, 16000, 22050, 24000, 44100, 48000]
MAX_NAME_CHARS = 200
Short = Annotated[str, Field(max_length=MAX_NAME_CHARS)]


class VoiceId(BaseModel):
    """A voice as an object; its ``mode`` is ignored."""

    id: Short


class OutputFormat(BaseModel):
    """What the audio is sent as; sockets send ``raw`` only."""

    container: Literal["raw", "wav", "mp3"] = "raw"
    encoding: Literal["pcm_s16le", "pcm_f32le", "pcm_mulaw", "pcm_alaw"] = "pcm_s16le"
    sample_rate: Rate = 24000


class Generation(BaseModel):
    """A transcript; fields that are not listed, such as buffers, are ignored."""

    model_config = ConfigDict(populate_by_name=True)
    transcript: Annotated[wire.Text, Field(strict=True)] = ""
    voice: Short | VoiceId = ""
    model_id: Short = ""
    language: Short | None = None
    output_format: OutputFormat = OutputFormat()
    context_id: Short | None = None
    continues: Annotated[bool | None, Field(alias="continue")] = None
    flush: bool | None = None
    add_timestamps: bool | None = None
    cancel: bool | None = None
    markup: Markup | None = None  # ours: what the transcript is written in

    @property
    def written_in(self) -> Markup:
        """Word times refer to the transcript as the client wrote it; without them, models' Markdown is left out."""
        return self.markup or ("plain" if self.add_timestamps else "markdown")

    @property
    def voice_name(self) -> str:
        """The voice's name."""
        return self.voice if isinstance(self.voice, str) else self.voice.id


class CartesiaContext(Context):
    """One utterance of the socket."""

    def __init__(self, name: str, number: int, encoder: Encoder, rate_hz: int, wanted: Generation) -> None:
        super().__init__(name, number, encoder)
        self._rate_hz = rate_hz
        self._has_times = bool(wanted.add_timestamps)
        self._alignment = Alignment()
        self._flushes: deque[int] = deque()  # how many words each flush waits for, oldest first
        self._flushed = self._ended = 0
        self._last_ms = 0.0

    async def messages(self, event: ev.Event) -> AsyncIterator[dict[str, Any]]:
        """Chunks, word times, finished flushes, and ``done`` at the end."""
        if isinstance(event, ev.Audio) and (data := await self.encoder.encode(event.pcm)):
            yield self._chunk(data, event.t_ms)
        for token in self._alignment.add(event):
            if self._has_times:
                seconds = {"start": [token.start / self._rate_hz], "end": [token.end / self._rate_hz]}
                yield self.labelled("timestamps", word_timestamps={"words": [token.token], **seconds})
        if isinstance(event, ev.Flushed):
            self._flushes.append(event.words)
        if isinstance(event, ev.WordEnd):
            self._ended = event.i + 1
        if isinstance(event, ev.Ended):
            if not self.is_cut and (data := await self.encoder.finish()):
                yield self._chunk(data, event.t_ms)
            self._ended = max(self._flushes, default=0)
        while self._flushes and self._flushes[0] <= self._ended:
            self._flushes.popleft()
            self._flushed += 1
            yield self.labelled("flush_done", flush_done=True, flush_id=self._flushed)
        if isinstance(event, ev.Ended):
            yield self.labelled("done", status_code=200, done=True)

    def _chunk(self, data: bytes, t_ms: float) -> dict[str, Any]:
        step_ms, self._last_ms = t_ms - self._last_ms, t_ms
        return self.labelled("chunk", data=base64.b64encode(data).decode("ascii"), step_time=round(step_ms, 3))

    def labelled(self, kind: str, *, done: bool = False, status_code: int = 206, **fields: Any) -> dict[str, Any]:
        """A message of this context."""
        return _labelled(self.name, kind, done=done, status_code=status_code, **fields)


class CartesiaSession(ContextSession[CartesiaContext]):
    """One socket."""

    async def _send_hello(self) -> None:
        """Send nothing."""

    async def _handle(self, data: dict[str, Any]) -> None:
        try:
            await self._take(data)
        except StudioError as error:  # clients wait for it at the context that the message names
            name = data.get("context_id")
            named = {"context_id": name} if isinstance(name, str) and len(name) <= MAX_NAME_CHARS else {}
            await self._send(json.dumps(self._error(error, None) | named))

    async def _take(self, data: dict[str, Any]) -> None:
        message = validated(Generation, data)
        context = self._current.get(message.context_id)
        if message.cancel:  # also of a context whose text has ended
            for one in [one for one in self._contexts.values() if one.name == message.context_id]:
                await self._cancel(one)
            return
        if context is None:
            if not message.transcript.strip():
                if message.context_id is None and not message.continues:
                    raise BadText("the transcript is empty", "give some text")
                is_spoken = any(one.name == message.context_id for one in self._contexts.values())
                if not message.continues and not is_spoken:  # the end of a context without text
                    await self._send(json.dumps(_labelled(message.context_id, "done", status_code=200, done=True)))
                return
            context = await self._new_context(message)
        if message.transcript:
            await self._pass(context, wire.TextIn(utterance=context.number, text=message.transcript))
        if message.flush:
            await self._pass(context, wire.Flush(utterance=context.number))
        if not message.continues:
            await self._end(context)

    async def _new_context(self, message: Generation) -> CartesiaContext:
        cards, aliases = self._engine.cards(), self._settings.voice_aliases
        card, address = find_voice(message.voice_name, message.model_id, cards, aliases, message.language)
        wanted = _raw(_without_container(message.output_format, "a socket"))
        encoder = await open_encoder(wanted, card.sample_rate_hz)
        number = next(self._numbers)
        name = f"context-{number}" if message.context_id is None else message.context_id
        context = CartesiaContext(name, number, encoder, card.sample_rate_hz, message)
        await self._begin_context(context, address, message.written_in)
        return context

    def _error(self, error: StudioError, context: CartesiaContext | None) -> dict[str, Any]:
        named = {} if context is None else {"context_id": context.name}
        return {"type": "error", "done": True, **_error_body(error), **named}

    def _close_code(self, error: StudioError, context: CartesiaContext | None) -> int | None:
        return None  # other contexts go on


def _labelled(
    context: str | None, kind: str, *, done: bool = False, status_code: int = 206, **fields: Any
) -> dict[str, Any]:
    return {"type": kind, "context_id": context, "done": done, "status_code": status_code, **fields}


def _raw(wanted: OutputFormat) -> AudioFormat:
    return AudioFormat(_CODECS[wanted.encoding], wanted.sample_rate, is_float=wanted.encoding == "pcm_f32le")


def _error_body(error: StudioError) -> dict[str, Any]:
    message = without_folders(str(error))
    status = error_status(error, busy=429)
    return {"status_code": status, "error_code": error.code, "title": error.code, "message": message}


def add_cartesia(
    app: FastAPI,
    engine: Engine,
    requests: SpeechRequests,
    trace_store: TraceStore,
    settings: ServeSettings,
    drain: Drain,
) -> None:
    """Add the socket and the routes."""
    sockets: set[CartesiaSession] = set()
    drain.watch(sockets)

    @app.websocket("/tts/websocket")
    async def speak(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, CartesiaSession(websocket, engine, trace_store, settings))

    async def respond(response: Awaitable[Response]) -> Response:
        try:
            return await response
        except StudioError as error:
            return private_json(_error_body(error), error_status(error, busy=429), **retry_header(error))

    @app.post("/tts/bytes")
    async def speech(request: Request) -> Response:
        return await respond(_speech(request, requests))

    @app.post("/tts/sse")
    async def events(request: Request) -> Response:
        return await respond(_events(request, requests))


async def _wanted(request: Request, requests: SpeechRequests) -> tuple[Generation, tuple[Card, str]]:
    """The body of a request for a whole speech, and its voice. Raises StudioError."""
    body = validated(Generation, wire.decode((await request.body()).decode("utf-8", "replace")))
    if not body.transcript.strip() or len(body.transcript) > MAX_INPUT_CHARS:
        raise BadText("the transcript is empty or too long", f"give 1 to {MAX_INPUT_CHARS} characters")
    cards = requests.engine.cards()
    return body, find_voice(body.voice_name, body.model_id, cards, requests.aliases, body.language)


async def _speech(request: Request, requests: SpeechRequests) -> Response:
    body, voice = await _wanted(request, requests)
    return await speech_response(
        requests, request, voice, (body.transcript, body.written_in), _file(body.output_format)
    )


async def _events(request: Request, requests: SpeechRequests) -> Response:
    body, (card, address) = await _wanted(request, requests)
    encoder = await open_encoder(
        _raw(_without_container(body.output_format, "a stream of events")), card.sample_rate_hz
    )
    context = CartesiaContext(body.context_id or str(uuid4()), 0, encoder, card.sample_rate_hz, body)
    speech = await requests.open(request, address, body.transcript, body.written_in)
    return SpeechResponse(requests, speech, _sse(speech, context), "text/event-stream")


async def _sse(speech: Speech, context: CartesiaContext) -> AsyncIterator[bytes]:
    """What a socket sends of a context, as server-sent events."""
    try:
        async for event in speech.events():
            async for message in context.messages(event):
                with speech.sending():
                    yield sse_event(message)
    except StudioError as error:
        yield sse_event(context.labelled("error") | {"done": True, **_error_body(error), "request_id": str(uuid4())})


def _without_container(wanted: OutputFormat, what: str) -> OutputFormat:
    if wanted.container != "raw":
        raise BadMessage(f"{what} sends no {wanted.container}", "set the container to raw")
    return wanted


def _file(wanted: OutputFormat) -> AudioFormat:
    if wanted.container == "wav":
        return AudioFormat("wav", wanted.sample_rate, is_float=wanted.encoding == "pcm_f32le")
    return AudioFormat("mp3", wanted.sample_rate) if wanted.container == "mp3" else _raw(wanted)
