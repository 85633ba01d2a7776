"""ElevenLabs' sockets: ``stream-input`` speaks one text as it comes, ``multi-stream-input`` several contexts.

A message with audio is sent for each packet of the voice. The alignment of a word follows in a message of its own when
the word has ended. Its times count from the start of the context with ``sync_alignment=true``, and otherwise from the
end of the alignment before it, so that a client that adds them up is exact.
"""

import base64
import json
from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

from fastapi import FastAPI, WebSocket
from pydantic import BaseModel, Field

from studio.core import events as ev
from studio.core.errors import BadOption, Busy, StudioError
from studio.core.folders import without_folders
from studio.core.ports import Engine
from studio.markup import Markup
from studio.serve.adapters.alignment import AlignedToken, Alignment
from studio.serve.adapters.contexts import Context, ContextSession
from studio.serve.adapters.encoding import AudioFormat, Encoder, open_encoder
from studio.serve.adapters.validation import markup_of, validated
from studio.serve.adapters.voices import find_voice
from studio.serve.live import protocol as wire
from studio.serve.live.socket import POLICY_VIOLATION, RETRY_MS
from studio.serve.live.stream import InternalError
from studio.serve.server import Drain, admit
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

DEFAULT_FORMAT = "mp3_44100_128"
FORMATS = {
    **{f"pcm_{hz}": AudioFormat("pcm", hz) for hz in (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)},
    **{f"wav_{hz}": AudioFormat("wav", hz) for hz in (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)},
    **{f"mp3_44100_{kbps}": AudioFormat("mp3", 44_100, 1000 * kbps) for kbps in (32, 64, 96, 128, 192)},
    "mp3_22050_32": AudioFormat("mp3", 22_050, 32_000),
    "mp3_24000_48": AudioFormat("mp3", 24_000, 48_000),
    **{f"opus_48000_{kbps}": AudioFormat("opus", 48_000, 1000 * kbps) for kbps in (32, 64, 96, 128, 192)},
    "ulaw_8000": AudioFormat("ulaw", 8_000),
    "alaw_8000": AudioFormat("alaw", 8_000),
}
_NORMAL, _TRY_AGAIN, _INTERNAL = 1000, 1013, 1011  # close codes


class ClientMessage(BaseModel):
    """A message of either socket; other fields, such as settings of the voice and of buffers, are ignored."""

    text: Annotated[wire.Text | None, Field(strict=True)] = None
    flush: bool | None = None
    context_id: Annotated[str, Field(max_length=200)] | None = None
    contextId: Annotated[str, Field(max_length=200)] | None = None  # noqa: N815 - as the clients send it
    close_context: bool | None = None
    close_socket: bool | None = None


class _Context(Context):
    """One utterance of a socket.

    Attributes:
        is_flushed: no text came after the last flush.
    """

    def __init__(self, name: str | None, number: int, encoder: Encoder, rate_hz: int, *, is_absolute: bool) -> None:
        super().__init__(name, number, encoder)
        self.is_flushed = False
        self._rate_hz, self._is_absolute = rate_hz, is_absolute
        self._alignment = Alignment()
        self._aligned_ms = 0

    async def messages(self, event: ev.Event) -> AsyncIterator[dict[str, Any]]:
        """What the client is sent for an event."""
        if isinstance(event, ev.Audio) and (data := await self.encoder.encode(event.pcm)):
            yield self._message(data)
        for token in self._alignment.add(event):
            yield self._message(b"", token)
        if isinstance(event, ev.Ended) and not self.is_cut and (data := await self.encoder.finish()):
            yield self._message(data)
        if (rest := self._alignment.rest(event)) is not None:
            yield self._message(b"", rest)
        if isinstance(event, ev.Ended):
            yield self.labelled({"isFinal": True})

    def labelled(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message with the context's name, if it has one."""
        return message if self.name is None else {**message, **_context_names(self.name)}

    def _message(self, data: bytes, token: AlignedToken | None = None) -> dict[str, Any]:
        message: dict[str, Any] = {"audio": base64.b64encode(data).decode("ascii"), "isFinal": None}
        message |= {"alignment": None, "normalizedAlignment": None}
        if token is not None:
            origin_ms = 0 if self._is_absolute else self._aligned_ms
            message["alignment"] = self._times(token.characters(), origin_ms)
            message["normalizedAlignment"] = self._times(token.spoken_characters(), origin_ms)
            self._aligned_ms = self._ms(token.end)
        return self.labelled(message)

    def _times(self, characters: Iterable[tuple[str, int, int]], origin_ms: int) -> dict[str, list[Any]] | None:
        if not (characters := [*characters]):
            return None
        chars, starts, ends = zip(*((char, self._ms(a), self._ms(b)) for char, a, b in characters), strict=True)
        durations = [end - start for start, end in zip(starts, ends, strict=True)]
        return {
            "chars": [*chars],
            "charStartTimesMs": [start - origin_ms for start in starts],
            "charDurationsMs": durations,
        }

    def _ms(self, sample: int) -> int:
        return round(1000 * sample / self._rate_hz)


class ElevenLabsSession(ContextSession[_Context]):
    """One socket of a voice.

    Args:
        has_contexts: ``multi-stream-input``; otherwise the socket closes after its only utterance.
    """

    def __init__(
        self,
        websocket: WebSocket,
        engine: Engine,
        trace_store: TraceStore,
        settings: ServeSettings,
        *,
        voice: str,
        has_contexts: bool,
    ) -> None:
        super().__init__(websocket, engine, trace_store, settings)
        self._voice, self.has_contexts = voice, has_contexts
        self._is_ending = False

    async def _send_hello(self) -> None:
        """Send nothing. An error in the address is reported on the first message, when clients listen."""
        self._wrong: StudioError | None = None
        query, aliases = self._websocket.query_params, self._settings.voice_aliases
        try:
            self._card, self._address = find_voice(
                self._voice, query.get("model_id", ""), self._engine.cards(), aliases, query.get("language_code")
            )
            name = query.get("output_format", DEFAULT_FORMAT)
            if name not in FORMATS:
                raise BadOption(f"there is no output_format {name[:40]!r}", f"there are {', '.join(FORMATS)}")
            self._markup: Markup = markup_of(query, "breaks")
        except StudioError as error:
            self._wrong = error
            return
        self._format, self._is_absolute = FORMATS[name], query.get("sync_alignment", "").lower() == "true"

    # --- from the client -----------------------------------------------------------------------------

    async def _handle(self, data: dict[str, Any]) -> None:
        if self._closed.is_set():
            return
        message = validated(ClientMessage, data)
        name = (message.context_id or message.contextId or "default") if self.has_contexts else None
        if self._wrong is not None:
            named = {} if name is None else _context_names(name)
            await self._send(json.dumps(_error(self._wrong) | named))
            await self._close(POLICY_VIOLATION, self._wrong.code)
            return
        if message.close_socket:
            self._is_ending = True
            for context in [*self._current.values()]:
                await self._end(context)
            await self._close_when_over()
        elif message.close_context:
            if context := self._current.get(name):
                await (self._end(context) if context.is_flushed else self._cancel(context))
            else:  # closed once more while it speaks: an interruption
                for ending in [one for one in self._contexts.values() if one.name == name]:
                    await self._cancel(ending)
        elif not self._is_ending:
            await self._take_text(name, message)

    async def _take_text(self, name: str | None, message: ClientMessage) -> None:
        text = message.text
        context = self._current.get(name)
        if context is None:
            if text is None or not (text or not self.has_contexts):  # a flush or keepalive of no context
                return
            context = await self._new_context(name)
            text = text.lstrip()  # the first message is a space
            if not text and message.text:
                return
        if text:
            context.is_flushed = False
            await self._pass(context, wire.TextIn(utterance=context.number, text=text))
        if message.flush:
            context.is_flushed = True
            await self._pass(context, wire.Flush(utterance=context.number))
        if text == "" and not self.has_contexts:
            await self._end(context)

    async def _new_context(self, name: str | None) -> _Context:
        rate_hz = self._card.sample_rate_hz
        encoder = await open_encoder(self._format, rate_hz)
        context = _Context(name, next(self._numbers), encoder, rate_hz, is_absolute=self._is_absolute)
        await self._begin_context(context, self._address, self._markup)
        return context

    # --- to the client -------------------------------------------------------------------------------

    def _error(self, error: StudioError, context: _Context | None) -> dict[str, Any]:
        return _error(error) if context is None else context.labelled(_error(error))

    def _close_code(self, error: StudioError, context: _Context | None) -> int | None:
        return None if self.has_contexts and context is not None else _error(error)["code"]

    async def _on_context_end(self, context: _Context | None) -> None:
        if not self.has_contexts:
            await self._close(_NORMAL, "")
        await self._close_when_over()

    async def _close_when_over(self) -> None:
        if self._is_ending and not self._contexts:
            await self._close(_NORMAL, "")


def _context_names(name: str) -> dict[str, str]:
    """The vendor has sent both; some clients read one, some the other."""
    return {"contextId": name, "context_id": name}


def _error(error: StudioError) -> dict[str, Any]:
    """An error as ElevenLabs sends it; ``code`` is the close code."""
    if isinstance(error, Busy):
        return _named(error, _TRY_AGAIN) | {"retry_ms": RETRY_MS}
    return _named(error, _INTERNAL if isinstance(error, InternalError) else POLICY_VIOLATION)


def _named(error: StudioError, code: int) -> dict[str, Any]:
    return {"message": without_folders(str(error)), "error": error.code, "code": code}


def add_elevenlabs(
    app: FastAPI, engine: Engine, trace_store: TraceStore, settings: ServeSettings, drain: Drain
) -> None:
    """Add the sockets."""
    sockets: set[ElevenLabsSession] = set()
    drain.watch(sockets)

    async def speak(websocket: WebSocket, voice: str, has_contexts: bool) -> None:
        session = ElevenLabsSession(websocket, engine, trace_store, settings, voice=voice, has_contexts=has_contexts)
        await admit(websocket, sockets, settings, session)

    @app.websocket("/v1/text-to-speech/{voice}/stream-input")
    async def stream_input(websocket: WebSocket, voice: str) -> None:
        await speak(websocket, voice, has_contexts=False)

    @app.websocket("/v1/text-to-speech/{voice}/multi-stream-input")
    async def multi_stream_input(websocket: WebSocket, voice: str) -> None:
        await speak(websocket, voice, has_contexts=True)
