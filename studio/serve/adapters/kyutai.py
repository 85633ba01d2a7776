"""Kyutai's socket (moshi-server, delayed-streams-modeling): msgpack messages, a word at a time, one utterance."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from typing import Annotated, Any, Literal

import msgpack
import numpy as np
from fastapi import FastAPI, WebSocket
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from studio.core import events as ev
from studio.core.errors import BadMessage, BadOption, Busy, StudioError
from studio.core.folders import without_folders
from studio.core.ports import Engine
from studio.serve.adapters.alignment import Alignment
from studio.serve.adapters.encoding import AudioFormat, open_encoder
from studio.serve.adapters.validation import markup_of
from studio.serve.adapters.voices import find_voice
from studio.serve.live import protocol as wire
from studio.serve.live.socket import POLICY_VIOLATION, SpeakSession
from studio.serve.live.stream import InternalError, Outgoing, UtteranceStream
from studio.serve.server import Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

PATH = "/api/tts_streaming"
RATE_HZ = 24_000  # of the audio, which clients cannot see
FORMAT = "PcmMessagePack"
_UTTERANCE = 0
_NORMAL, _TRY_AGAIN = 1000, 1013  # close codes

log = logging.getLogger("studio.serve")


class TextMessage(BaseModel):
    """A word or several; a message ends its last word."""

    type: Literal["Text"]
    text: Annotated[wire.Text, Field(strict=True)]


class EosMessage(BaseModel):
    """The end of the text."""

    type: Literal["Eos"]


_MESSAGES: TypeAdapter[TextMessage | EosMessage] = TypeAdapter(
    Annotated[TextMessage | EosMessage, Field(discriminator="type")]
)


class KyutaiSession(SpeakSession):
    """One socket, which closes after its utterance."""

    async def _send_hello(self) -> None:
        """Open the utterance of the address; ``Ready`` follows when it has a slot."""
        query = self._websocket.query_params
        self._alignment, self._is_ended = Alignment(), False
        try:
            card, address = find_voice(query.get("voice", ""), "", self._engine.cards(), self._settings.voice_aliases)
            if (name := query.get("format", FORMAT)) != FORMAT:
                raise BadOption(f"there is no format {name[:40]!r}", f"there is {FORMAT}")
            markup = markup_of(query)
            self._encoder = await open_encoder(AudioFormat("pcm", RATE_HZ), card.sample_rate_hz)
        except StudioError as error:
            await self.send_error(error)
            return
        self._rate_hz = card.sample_rate_hz
        await self._dispatch(wire.Open(utterance=_UTTERANCE, voice=address, markup=markup))

    # --- from the client -----------------------------------------------------------------------------

    async def _receive(self, message: Any) -> None:
        if not self._closed.is_set():
            await self._report_errors(self._take(message.get("bytes")), _UTTERANCE)

    async def _take(self, packed: bytes | None) -> None:
        """Pass one message on. Raises BadMessage."""
        message = _unpacked(packed)
        if self._is_ended:
            return
        if isinstance(message, EosMessage):
            self._is_ended = True
            await self._dispatch(wire.End(utterance=_UTTERANCE))
        elif message.text.strip():
            await self._dispatch(wire.TextIn(utterance=_UTTERANCE, text=message.text.strip() + " "))

    async def _report_errors(self, work: Coroutine[Any, Any, None], utterance: int | None) -> None:
        """Await the work of a message; its error ends the socket."""
        try:
            await work
        except StudioError as error:
            await self.send_error(error)
        except Exception:
            log.exception("a client message failed")
            await self.send_error(InternalError("this message could not be processed", "the server's log says why"))

    # --- to the client -------------------------------------------------------------------------------

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error, and close."""
        await self._send(_packed({"type": "Error", "message": without_folders(str(error))}))
        await self._close(_TRY_AGAIN if isinstance(error, Busy) else POLICY_VIOLATION, error.code)

    async def _send_item(self, stream: UtteranceStream, item: Outgoing) -> float:
        if self._closed.is_set():
            return 0.0
        if isinstance(item, StudioError | ev.Failed):
            await self.send_error(item if isinstance(item, StudioError) else InternalError(item.message))
            await asyncio.to_thread(stream.cancel)
        if not isinstance(item, ev.Event):
            return 0.0
        blocked_ms = sum([await self._send(_packed(one)) async for one in self._messages(item)])
        stream.grant_ahead()
        return blocked_ms

    async def _messages(self, event: ev.Event) -> AsyncIterator[dict[str, Any]]:
        """What the client is sent for an event: audio at once, a word when it has ended."""
        if isinstance(event, ev.Ready):
            yield {"type": "Ready"}
        if isinstance(event, ev.Audio):
            yield _audio(await self._encoder.encode(event.pcm))
        for token in self._alignment.add(event):
            start_s, stop_s = token.start / self._rate_hz, token.end / self._rate_hz
            yield {"type": "Text", "text": token.token, "start_s": start_s, "stop_s": stop_s}
        if isinstance(event, ev.Ended) and (rest := await self._encoder.finish()):
            yield _audio(rest)

    async def _send_last(self, stream: UtteranceStream, token: str | None) -> None:
        await self._close(_NORMAL, "")


def _unpacked(packed: bytes | None) -> TextMessage | EosMessage:
    """Raises BadMessage."""
    try:
        return _MESSAGES.validate_python(msgpack.unpackb(packed or b"", max_array_len=16, max_map_len=16))
    except (ValueError, TypeError, ValidationError, msgpack.UnpackException, RecursionError):
        do = 'send msgpack of {"type": "Text", "text": "..."} or {"type": "Eos"}; voice embeddings are not supported'
        raise BadMessage("this is no message of the protocol", do) from None


def _packed(message: dict[str, Any]) -> bytes:
    packed: bytes | None = msgpack.packb(message, use_single_float=True)
    assert packed is not None, "without a packer's autoreset"
    return packed


def _audio(data: bytes) -> dict[str, Any]:
    """Samples of int16 bytes as floats in [-1, 1)."""
    return {"type": "Audio", "pcm": (np.frombuffer(data, "<i2") / np.float32(32768.0)).tolist()}


def add_kyutai(app: FastAPI, engine: Engine, trace_store: TraceStore, settings: ServeSettings, drain: Drain) -> None:
    """Add the socket."""
    sockets: set[KyutaiSession] = set()
    drain.watch(sockets)

    @app.websocket(PATH)
    async def tts_streaming(websocket: WebSocket) -> None:
        await admit(websocket, sockets, settings, KyutaiSession(websocket, engine, trace_store, settings))
