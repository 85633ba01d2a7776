"""One utterance of an HTTP request: its text is sent whole, its events are read, and it ends when the client leaves."""

import asyncio
import base64
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.errors import BadText, Busy, Closing, Stuck, StudioError
from studio.core.ports import Engine
from studio.core.speakers import consent_date
from studio.core.text.reasons import nothing_spoken
from studio.core.via import HEADER, read_via
from studio.markup import Markup
from studio.serve.adapters.encoding import AudioFormat, Encoder, open_encoder
from studio.serve.live import protocol as wire
from studio.serve.live.opening import open_stream
from studio.serve.live.stream import InternalError, Outgoing, StreamEnd, UtteranceStream
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.callers import caller_of
from studio.serve.responses import PRIVATE
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

MAX_INPUT_CHARS = 4096
MAX_WHOLE_BYTES = 32_000_000  # of encoded sound in one JSON: a text of that length as PCM at 48 kHz
_BASE64_BYTES = 3 * 32_768  # of sound that are encoded at once
NO_QUEUE = "X-Studio-No-Queue"  # header of a front's request: busy where no slot is free, another replica may have one
SPEECH = "speech"  # attribute of the app's state: its ``SpeechRequests``
_FEW = 8  # part of the requests that an address may have in a full server
RETRY_S = 1  # when a client that found the server full may try again
_FAILURES: dict[str, type[StudioError]] = {kind.code: kind for kind in (BadText, Busy, Closing, Stuck)}


class CallerLeft(StudioError):
    """Nobody waits for the sound any more."""

    code = "left"


class SpeechFailed(StudioError):
    """The voice failed."""

    code = "failed"


def error_status(error: StudioError, busy: int = 503) -> int:
    """The HTTP status of an error; ``busy`` is that of a full server."""
    if isinstance(error, Busy):
        return busy
    return 500 if isinstance(error, SpeechFailed | InternalError) else 400


def retry_header(error: StudioError) -> dict[str, str]:
    """When a client that found the server full may try again."""
    return {"Retry-After": str(RETRY_S)} if isinstance(error, Busy) else {}


def sse_event(data: Mapping[str, Any]) -> bytes:
    """A server-sent event, named by its ``type``."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def json_with_sound(
    name: str, sound: bytes | bytearray, rest: Mapping[str, Any], headers: Mapping[str, str] = PRIVATE
) -> StreamingResponse:
    """An object whose field ``name`` is sound in base64, before other fields.

    It is written in pieces: whole, it would hold up the sound of others, and lie in memory several times.
    """
    begin, end = f'{{{json.dumps(name)}: "'.encode(), f'", {json.dumps(rest)[1:]}'.encode()
    length = len(begin) + 4 * math.ceil(len(sound) / 3) + len(end)

    async def pieces() -> AsyncIterator[bytes]:
        yield begin
        for at in range(0, len(sound), _BASE64_BYTES):
            yield base64.b64encode(sound[at : at + _BASE64_BYTES])
        yield end

    return StreamingResponse(
        pieces(), headers={**headers, "Content-Length": str(length)}, media_type="application/json"
    )


class Speech:
    """One utterance that a request speaks, until ``close``. For ``Drain`` it is a session."""

    def __init__(self, stream: UtteranceStream, request: HTTPConnection, *, has_pauses: bool = False) -> None:
        self._stream, self._has_pauses = stream, has_pauses
        self._caller, self.address = caller_of(request.scope), address_of(request)
        self._blocked_ms = 0.0
        self._coming = self._events()
        self._begun: list[ev.Event] = []
        self._watching = asyncio.create_task(self._cancel_when_lost())

    @property
    def card(self) -> Card:
        """The voice's."""
        return self._stream.utterance.card

    @property
    def trace_token(self) -> str:
        """The token of the trace, which exists when ``SpeechRequests.close`` is done; empty where none is written."""
        return self._stream.trace_token

    @property
    def provenance(self) -> Mapping[str, Any]:
        """The utterance's."""
        return self._stream.utterance.provenance

    @property
    def headers(self) -> dict[str, str]:
        """Response headers: no caching, no buffering by proxies, that the speech is synthetic, the trace's path."""
        trace = {"X-Studio-Trace": f"traces/{self.trace_token}.trace"} if self.trace_token else {}
        cloned = consent_date(self.provenance)
        speech = f"synthetic; speaker cloned with consent given on {cloned}" if cloned else "synthetic"
        return PRIVATE | {"X-Accel-Buffering": "no", "X-Studio-Speech": speech} | trace

    async def until_audio(self) -> None:
        """Wait for the first sound or the end: until then a response can have the status of a failure.

        Raises:
            BadText: nothing of the text can be spoken.
            StudioError: as ``events``.
        """
        async for event in self._coming:
            self._begun.append(event)
            if isinstance(event, ev.Audio) and (not self._has_pauses or event.pcm.any()):
                return
        raise nothing_spoken(event.why for event in self._begun if isinstance(event, ev.Unsupported))

    async def events(self) -> AsyncIterator[ev.Event]:
        """Every event in order, as it comes, up to ``ended``; to be read once.

        Raises StudioError: the utterance failed, or its text was rejected.
        """
        for event in self._begun:
            yield event
        async for event in self._coming:
            yield event

    async def _events(self) -> AsyncGenerator[ev.Event]:
        while True:
            item = await self._stream.outbox.get()
            assert not isinstance(item, StreamEnd), "the last event comes before it"
            if isinstance(item, StudioError):
                raise item
            if isinstance(item, ev.Failed):
                self._account(item)
                raise _FAILURES.get(item.code, SpeechFailed)(item.message)
            yield item
            self._account(item)
            if isinstance(item, ev.Ended):
                return

    def _account(self, item: Outgoing) -> None:
        blocked_ms, self._blocked_ms = self._blocked_ms, 0.0
        self._stream.sent(item, blocked_ms)
        if isinstance(item, ev.Audio):
            self._stream.grant_ahead()

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Measure for how long the client's network blocks what the block sends."""
        began_s = time.monotonic()
        yield
        self._blocked_ms += (time.monotonic() - began_s) * 1000.0

    def break_off(self) -> None:
        """Close the connection in the middle of a response, so that the client does not take it for a whole one."""
        if self._caller is not None:
            self._caller.abort()

    async def finish(self) -> None:
        """Cancel the utterance unless it is over, and wait until its trace is stored."""
        self._watching.cancel()
        if not self._stream.is_over:
            await self.cancel_all()
        while not isinstance(item := await self._stream.outbox.get(), StreamEnd):
            self._account(item)

    async def _cancel_when_lost(self) -> None:
        if self._caller is not None:
            await self._caller.lost.wait()
            await self.cancel_all()

    # --- for Drain -----------------------------------------------------------------------------------

    def idle_s(self) -> float:
        """0: it exists only while it speaks."""
        return 0.0

    async def send_error(self, error: StudioError) -> None:
        """Send nothing: a response has no place for it."""

    async def cancel_all(self) -> None:
        """Cancel the utterance; how much of it was played is not known."""
        await asyncio.to_thread(self._stream.cancel, 0)


class SpeechRequests:
    """Opens the utterances of HTTP requests, as many at once as there may be sockets.

    Attributes:
        running: what ``Drain`` watches.
        aliases: of voices; see ``find_voice``.
    """

    def __init__(self, engine: Engine, trace_store: TraceStore, settings: ServeSettings) -> None:
        self.engine, self._trace_store, self._settings = engine, trace_store, settings
        self.running: set[Speech] = set()
        self.aliases = settings.voice_aliases
        self._opening: Counter[str] = Counter()
        self._ends: set[asyncio.Task[None]] = set()

    async def open(self, request: HTTPConnection, voice: str, text: str, markup: Markup = "plain") -> Speech:
        """Speak a text for a request, and wait for its first sound; ``close`` it.

        What the text is written in is read as on a socket, by other threads than the one that sends sound.

        It is cancelled at once when the client leaves.

        Raises:
            Busy: as many requests are being spoken as may be, or as ``Engine.open``.
            BadVoice, BadOption: as ``Engine.open``.
            BadText: nothing of the text can be spoken, or the markup is wrong.
            CallerLeft: the client has left.
            StudioError: the utterance failed before its first sound.
        """
        if (caller := caller_of(request.scope)) is not None and caller.lost.is_set():
            raise CallerLeft("the client has left")
        address = address_of(request)
        self._check_room(address)
        if not text.strip():
            raise BadText("the text holds nothing to speak", "give some text")
        message = wire.Open(utterance=0, voice=voice, markup=markup, wait=NO_QUEUE not in request.headers)
        self._opening[address] += 1
        try:
            origin: Any = {"client": address, "via": read_via(request.headers.get(HEADER, ""))}
            stream = await open_stream(message, self.engine, self._trace_store, self._settings, **origin)
        finally:
            self._opening[address] -= 1
        speech = Speech(stream, request, has_pauses=markup in ("ssml", "breaks"))
        self.running.add(speech)
        stream.start()
        await stream.put(wire.TextIn(utterance=0, text=text))
        await stream.put(wire.End(utterance=0))
        try:
            await speech.until_audio()
        except BaseException:
            self.close(speech)
            raise
        return speech

    def _check_room(self, address: str) -> None:
        """Raises Busy. An address with few requests enters a full server up to twice: others cannot keep it out."""
        limit, count = self._settings.max_sockets, len(self.running) + self._opening.total()
        own = self._opening[address] + sum(speech.address == address for speech in self.running)
        if count >= limit and (own >= limit // _FEW or count >= 2 * limit):
            raise Busy(f"{limit} requests are being spoken", "try again in a moment")

    def close(self, speech: Speech) -> "asyncio.Task[None]":
        """Let a speech go: free its slot, and store its trace in the background; done when it is stored."""
        self.running.discard(speech)
        end = asyncio.create_task(speech.finish())
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return end


async def speech_response(
    requests: "SpeechRequests",
    request: HTTPConnection,
    voice: tuple[Card, str],
    text: tuple[str, Markup],
    wanted: AudioFormat,
) -> "SpeechResponse":
    """A whole text as sound, from ``find_voice``. Raises as ``SpeechRequests.open``."""
    card, address = voice
    encoder = await open_encoder(wanted, card.sample_rate_hz)
    speech = await requests.open(request, address, *text)
    return SpeechResponse(requests, speech, encoded(speech, encoder), wanted.media_type)


async def encoded(speech: Speech, encoder: Encoder) -> AsyncIterator[bytes]:
    """The bytes of a speech as they come; the connection breaks off where the voice fails."""
    try:
        async for event in speech.events():
            if isinstance(event, ev.Audio) and (data := await encoder.encode(event.pcm)):
                with speech.sending():
                    yield data
        yield await encoder.finish()
    except StudioError:
        speech.break_off()


class SpeechResponse(StreamingResponse):
    """A response whose speech is closed with it, also where its first byte was never sent."""

    def __init__(
        self, requests: SpeechRequests, speech: Speech, content: AsyncIterable[bytes], media_type: str, **headers: Any
    ) -> None:
        super().__init__(content, media_type=media_type, headers=speech.headers | headers)
        self._requests, self._speech = requests, speech

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._requests.close(self._speech)
