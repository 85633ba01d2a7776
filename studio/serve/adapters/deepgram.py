"""Deepgram's ``/v1/speak``: a socket that speaks text as it comes and is flushed, and a route for a whole text.

On the socket, the text up to a flush is one utterance. It is spoken as it comes; text after the flush waits until the
utterance has ended, so that the sound is in order.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid4, uuid5

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadMessage, BadText, Busy, StudioError
from studio.core.folders import without_folders
from studio.core.ports import Engine
from studio.markup import Markup
from studio.serve.adapters.contexts import Context, ContextSession
from studio.serve.adapters.encoding import AudioFormat, Encoder, open_encoder
from studio.serve.adapters.speech import MAX_INPUT_CHARS, SpeechRequests, error_status, retry_header, speech_response
from studio.serve.adapters.validation import validated
from studio.serve.adapters.voices import find_voice
from studio.serve.live import protocol as wire
from studio.serve.live.stream import InternalError
from studio.serve.responses import private_json
from studio.serve.server import Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

PATH = "/v1/speak"
VENDOR_MODELS = "aura"  # the beginning of their voices' names, which stand for the first voice
MAX_WAITING_CHARS = 100_000  # of flushed text that waits for the utterance before it
_NORMAL = 1000  # close code
# The name of an encoding's format, and its default rate in Hz.
_FORMATS = {
    "linear16": ("pcm", 24_000),
    "mulaw": ("ulaw", 8_000),
    "alaw": ("alaw", 8_000),
    "mp3": ("mp3", 22_050),
    "opus": ("opus", 48_000),
    "flac": ("flac", 24_000),
    "aac": ("aac", 24_000),
}


def _whole(value: Any) -> Any:
    """A number of an address: ``24000`` or ``24000.0``."""
    is_number = isinstance(value, str) and value.replace(".", "", 1).isdecimal()
    return int(value.partition(".")[0]) if is_number else value  # pydantic reports a ValueError: too many digits


Rate = Annotated[Literal[8000, 16000, 22050, 24000, 32000, 44100, 48000], BeforeValidator(_whole)]


class Query(BaseModel):
    """The address's query; other fields are ignored."""

    model: Annotated[str, Field(max_length=200)] = ""
    encoding: Literal["linear16", "mulaw", "alaw", "mp3", "opus", "flac", "aac"] | None = None
    container: Literal["wav", "ogg", "none"] | None = None
    sample_rate: Rate | None = None
    markup: Markup = "markdown"  # ours: what the text is written in

    def audio_format(self, default: str) -> AudioFormat:
        """What the sound is sent as."""
        encoding = self.encoding or default
        name, rate_hz = _FORMATS[encoding]
        is_wav = encoding == "linear16" and self.container == "wav"
        return AudioFormat("wav" if is_wav else name, self.sample_rate or rate_hz)


class ClientMessage(BaseModel):
    """A message of the socket."""

    type: Literal["Speak", "Flush", "Clear", "Close"]
    text: Annotated[wire.Text, Field(strict=True)] = ""


class _Utterance(Context):
    """Sends its sound as binary messages."""

    def __init__(self, number: int, encoder: Encoder) -> None:
        super().__init__(None, number, encoder)

    async def messages(self, event: ev.Event) -> AsyncIterator[bytes]:
        """The sound that an event completes."""
        if isinstance(event, ev.Audio) and (data := await self.encoder.encode(event.pcm)):
            yield data
        if isinstance(event, ev.Ended) and (data := await self.encoder.finish()):
            yield data


@dataclass
class _Part:
    """Text up to a flush; ``context`` once it is being spoken."""

    waiting: list[str] = field(default_factory=list)
    is_flushed: bool = False
    context: _Utterance | None = None


class DeepgramSession(ContextSession[_Utterance]):
    """One socket of a voice."""

    async def _send_hello(self) -> None:
        """Send the metadata, or what is wrong with the address."""
        self._parts: deque[_Part] = deque()  # the first one is being spoken
        self._flushes, self._is_ending = 0, False
        try:
            query = validated(Query, dict(self._websocket.query_params))
            self._card, self._address = _voice(query.model, self._engine, self._settings.voice_aliases)
            self._format = query.audio_format("linear16")
            self._markup: Markup = query.markup
            if query.container not in (None, "none"):
                raise BadMessage("a socket sends no container", "leave it out")
        except StudioError as error:
            await self.send_error(error)
            await self._close(1008, error.code)
            return
        await self._send(json.dumps({"type": "Metadata", "request_id": str(uuid4()), **_names(self._card)}))

    async def _handle(self, data: dict[str, Any]) -> None:
        if self._closed.is_set() or self._is_ending:
            return
        message = validated(ClientMessage, data)
        match message.type:
            case "Speak" if message.text:
                await self._speak(message.text)
            case "Flush":
                await self._flush()
            case "Clear":
                await self._clear()
            case "Close":
                self._is_ending = True
                if self._parts and not self._parts[-1].is_flushed:
                    await self._flush()
                await self._close_when_over()
            case _:
                pass

    async def _speak(self, text: str) -> None:
        if sum(len(one) for part in self._parts for one in part.waiting) + len(text) > MAX_WAITING_CHARS:
            raise Busy(f"more than {MAX_WAITING_CHARS} characters wait", "send them when what was flushed is spoken")
        if not self._parts or self._parts[-1].is_flushed:
            if not text.strip():
                return
            self._parts.append(_Part())
        self._parts[-1].waiting.append(text)
        await self._go_on()

    async def _flush(self) -> None:
        if not self._parts or self._parts[-1].is_flushed:
            await self._report_flushed()
            return
        self._parts[-1].is_flushed = True
        await self._go_on()

    async def _clear(self) -> None:
        contexts = [part.context for part in self._parts if part.context is not None]
        self._parts.clear()
        for context in contexts:
            await self._cancel(context)
            self._drop(context)  # nothing more of it is sent
        await self._send(json.dumps({"type": "Cleared", "sequence_id": self._flushes}))

    async def _go_on(self) -> None:
        """Pass the text of the first part on."""
        if not self._parts:
            return
        part = self._parts[0]
        if part.context is None:
            encoder = await open_encoder(self._format, self._card.sample_rate_hz)
            part.context = _Utterance(next(self._numbers), encoder)
            await self._begin_context(part.context, self._address, self._markup)
        for text in part.waiting:
            await self._pass(part.context, wire.TextIn(utterance=part.context.number, text=text))
        part.waiting.clear()
        if part.is_flushed:
            await self._end(part.context)

    async def _on_context_end(self, context: _Utterance | None) -> None:
        if self._parts and context is not None and self._parts[0].context is context:
            if self._parts.popleft().is_flushed:
                await self._report_flushed()
            await self._go_on()
        await self._close_when_over()

    async def _report_flushed(self) -> None:
        await self._send(json.dumps({"type": "Flushed", "sequence_id": self._flushes}))
        self._flushes += 1

    async def _close_when_over(self) -> None:
        if self._is_ending and not self._parts:
            await self._close(_NORMAL, "")

    async def _fail(self, error: StudioError, context: _Utterance | None = None) -> None:
        if context is not None and context.number not in self._streams:  # it was never opened
            self._parts = deque(part for part in self._parts if part.context is not context)
        await super()._fail(error, context)

    def _error(self, error: StudioError, context: _Utterance | None) -> dict[str, Any]:
        kind = "Error" if isinstance(error, InternalError) else "Warning"
        return {"type": kind, "description": without_folders(str(error)), "code": error.code.upper()}

    def _close_code(self, error: StudioError, context: _Utterance | None) -> int | None:
        return None


def _names(card: Card) -> dict[str, str]:
    """The voice, in the fields of a Deepgram model."""
    return {"model_name": card.name, "model_version": "1", "model_uuid": str(uuid5(NAMESPACE_URL, card.name))}


def _voice(model: str, engine: Engine, aliases: Sequence[str]) -> tuple[Card, str]:
    is_vendors = model.startswith(VENDOR_MODELS) and not any(one.startswith(f"{model}=") for one in aliases)
    return find_voice("" if is_vendors else model, "", engine.cards(), aliases)


def add_deepgram(
    app: FastAPI,
    engine: Engine,
    requests: SpeechRequests,
    trace_store: TraceStore,
    settings: ServeSettings,
    drain: Drain,
) -> None:
    """Add the socket and the route."""
    sockets: set[DeepgramSession] = set()
    drain.watch(sockets)

    @app.websocket(PATH)
    async def speak(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, DeepgramSession(websocket, engine, trace_store, settings))

    @app.post(PATH)
    async def speech(request: Request) -> Response:
        try:
            return await _speech(request, requests)
        except StudioError as error:
            body = {"err_code": error.code.upper(), "err_msg": without_folders(str(error)), "request_id": str(uuid4())}
            return private_json(body, error_status(error, busy=429), **retry_header(error))


async def _speech(request: Request, requests: SpeechRequests) -> Response:
    query = validated(Query, dict(request.query_params))
    text = wire.decode((await request.body()).decode("utf-8", "replace")).get("text")
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_INPUT_CHARS:
        raise BadText("the text is missing, empty or too long", f"give 1 to {MAX_INPUT_CHARS} characters")
    voice, wanted = _voice(query.model, requests.engine, requests.aliases), query.audio_format("mp3")
    response = await speech_response(requests, request, voice, (text, query.markup), wanted)
    facts = {**_names(voice[0]), "request_id": str(uuid4()), "char_count": str(len(text))}
    # A voice's name may have characters that no header has.
    response.headers.update({f"dg-{name.replace('_', '-')}": quote(value, safe=" ") for name, value in facts.items()})
    return response
