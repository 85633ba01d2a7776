"""The socket of ``/ws/speak``: one session carries several utterances and sends everything in order."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from studio.core import events as ev
from studio.core.errors import BadFile, BadMessage, Busy, Closed, Closing, StudioError
from studio.core.ports import Engine
from studio.core.via import HEADER, read_via
from studio.serve.live import protocol as wire
from studio.serve.live.backpressure import Inbox, SharedTimeout
from studio.serve.live.chat import Chat
from studio.serve.live.opening import open_stream
from studio.serve.live.stream import InternalError, Outgoing, StreamEnd, UtteranceStream
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.auth import KEY_PROTOCOLS
from studio.serve.middleware.connections import LINGER_S, close_socket, connection_of
from studio.serve.middleware.rates import TokenBucket
from studio.serve.settings import ServeSettings
from studio.serve.trace_store import TraceStore

RETRY_MS = 1000
POLICY_VIOLATION = 1008
IDLE = 4000  # close code of an idle socket; the page reconnects when it has something to send
IDLE_CLOSE_S = 1.0  # time for the client of an idle socket to read enough for a close frame to be sent
FRESH_S = 10.0  # a socket that spoke this recently is not closed to make room for another
NEW_S = 1.0  # nor is a socket that was opened this recently
REMEMBERED = 64  # ended utterances whose player may still report
_TRACES_S = 10.0  # longest wait for these traces
UNFINISHED = 4  # times the utterance limit: ended utterances whose traces may still be unwritten

log = logging.getLogger("studio.serve")


class TooFast(StudioError):
    """More messages than a socket may send."""

    code = "too_fast"


class SpeakSession:
    """One socket, from its hello to the end of its last utterance.

    Attributes:
        revises: whether edits of a keyboard revise text that was sent and not yet played.
        is_guest: whether its utterances leave one slot (of several) and half of the queue to others (live tests).
    """

    revises, is_guest = True, False

    def __init__(
        self,
        websocket: WebSocket,
        engine: Engine,
        trace_store: TraceStore,
        settings: ServeSettings,
        chat: Chat | None = None,
    ) -> None:
        self._websocket, self._engine, self._trace_store, self._settings = websocket, engine, trace_store, settings
        self._streams: dict[int, UtteranceStream] = {}
        self._ended: deque[int] = deque(maxlen=REMEMBERED)
        self._senders: set[asyncio.Task[None]] = set()
        self._send_lock = asyncio.Lock()
        self._send_timeout = SharedTimeout(settings.send_timeout_ms / 1000.0)
        # Set when either side has closed; also by the connection, since nothing is read while a message is handled.
        connection = connection_of(websocket.scope)
        self._closed = connection.lost if connection is not None else asyncio.Event()
        self._bucket = TokenBucket(settings.messages_per_s)
        self._used_s = time.monotonic()  # when the socket was opened or last spoke; messages alone do not count
        self._is_used = False  # an utterance was begun on this socket
        self._opening: dict[int, Inbox] = {}  # messages for utterances that the engine is still opening
        self._open_tasks: set[asyncio.Task[None]] = set()
        self._chat = chat
        self._answering: dict[int, asyncio.Task[None]] = {}  # replies of the language model, by utterance
        self.address = address_of(websocket)

    async def run(self) -> None:
        """Serve the socket until either side closes it, then free all of its slots."""
        offered = self._websocket.scope.get("subprotocols", ())
        await self._websocket.accept(next((one for one in offered if one in KEY_PROTOCOLS), None))
        await self._send_hello()
        reading = asyncio.create_task(self._read())
        closing = asyncio.create_task(self._closed.wait())
        idling = asyncio.create_task(self._close_when_idle())
        try:
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._closed.set()
            for task in (reading, closing, idling):
                task.cancel()
            await asyncio.gather(reading, idling, return_exceptions=True)
            for task in [*self._open_tasks]:
                task.cancel()
            await asyncio.gather(*self._open_tasks, return_exceptions=True)
            await self._clean_up()
        if not reading.cancelled() and (error := reading.exception()):
            raise error

    async def _send_hello(self) -> None:
        await self._send(wire.hello(self._engine.cards(), has_chat=self._chat is not None))

    def idle_s(self) -> float:
        """Seconds since an utterance was spoken; 0 while one is."""
        return 0.0 if self._streams or self._opening else time.monotonic() - self._used_s

    def is_heard(self) -> bool:
        """Whether audio has been sent for an utterance that has not ended."""
        return any(stream.sent_sample > 0 and not stream.is_over for stream in self._streams.values())

    def is_fresh(self) -> bool:
        """Whether the socket was opened or spoke too recently to be closed for another."""
        return self.idle_s() < (FRESH_S if self._is_used else NEW_S)

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error about its socket."""
        await self._send(wire.error_message(error))

    async def cancel_all(self) -> None:
        """Cancel the socket's utterances."""
        await asyncio.gather(*(asyncio.to_thread(stream.cancel) for stream in list(self._streams.values())))

    async def close_idle(self) -> None:
        """Close an idle socket; the client reconnects."""
        await self._close(IDLE, "idle", IDLE_CLOSE_S)

    async def _close(self, code: int, reason: str, timeout_s: float = LINGER_S) -> None:
        if not self._closed.is_set():
            await close_socket(self._websocket, code, reason, timeout_s)
            self._closed.set()

    def _idle_limit_s(self) -> float:
        return self._settings.idle_socket_ms / 1000.0

    async def _close_when_idle(self) -> None:
        while (left_s := self._idle_limit_s() - self.idle_s()) > 0.0:
            await asyncio.sleep(left_s)
        await self.close_idle()

    async def _clean_up(self) -> None:
        """Cancel the utterances and wait until their outboxes are empty."""
        await self.cancel_all()
        if self._senders:
            await asyncio.wait(self._senders)

    # --- from the client -----------------------------------------------------------------------------

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            if not self._bucket.take():
                limit = self._settings.messages_per_s
                error = TooFast(f"more than {limit} messages a second", "send several characters in one message")
                await self.send_error(error)
                await self._close(POLICY_VIOLATION, "too many messages")
                return
            await self._receive(message)

    async def _receive(self, message: Any) -> None:
        """Handle one message; an error in it is sent to the client and affects no other utterance."""
        try:
            if message.get("text") is None:
                raise BadMessage("a client sends no binary messages", "send JSON text")
            data = wire.decode(message["text"])
        except StudioError as error:
            await self.send_error(error)
        else:
            await self._report_errors(self._handle(data), wire.utterance_in(data))

    async def _report_errors(self, work: Coroutine[Any, Any, None], utterance: int | None) -> None:
        """Await the work of a message about an utterance and send its error to the client."""
        try:
            await work
        except StudioError as error:
            may_retry = isinstance(error, Busy) and not isinstance(error, Closing)
            await self._send(wire.error_message(error, utterance, RETRY_MS if may_retry else None))
        except Exception:
            log.exception("a client message failed")
            if stream := self._streams.get(utterance) if utterance is not None else None:
                await asyncio.to_thread(stream.cancel)
            error = InternalError(
                "this message could not be processed", "the server's log says why; open a new utterance"
            )
            await self._send(wire.error_message(error, utterance))

    async def _handle(self, data: dict[str, Any]) -> None:
        await self._dispatch(wire.parse(data))

    async def _dispatch(self, message: wire.Message) -> None:
        if isinstance(message, wire.Open):
            self._check_capacity(message.utterance)
            self._opening[message.utterance] = inbox = Inbox()
            task = asyncio.create_task(self._open_and_deliver(message, inbox))
            self._open_tasks.add(task)
            task.add_done_callback(self._open_tasks.discard)
        elif message.utterance in self._opening:
            await self._put_while_opening(message)
        else:
            await self._deliver(message)

    async def _deliver(self, message: wire.Message) -> None:
        stream = self._streams.get(message.utterance)
        if stream is None:
            self._check_ended(message)
        elif isinstance(message, wire.Ask):
            self._ask(message, stream)
        elif isinstance(message, wire.Cancel):
            self._stop_answering(stream.number)
            await asyncio.to_thread(stream.cancel, message.played_sample)
        else:
            await stream.put(message)

    def _ask(self, message: wire.Ask, stream: UtteranceStream) -> None:
        """Raises BadMessage, Closed."""
        if self._chat is None:
            raise BadMessage("this server has no language model", "its owner can set one: studio app --llm")
        if stream.number in self._answering:
            raise Closed(f"utterance {stream.number} already has a question", "open a new one")
        self._chat.check(message, stream)
        self._answering[stream.number] = asyncio.create_task(self._chat.answer(message, stream, self.address))

    def _stop_answering(self, number: int) -> None:
        if (task := self._answering.get(number)) is not None:
            task.cancel()

    def _check_ended(self, message: wire.Message) -> None:
        """Raises BadMessage, Closed, except for a player's reports and cancels after the end."""
        if message.utterance not in self._ended:
            raise BadMessage(f"there is no utterance {message.utterance} on this socket", "send 'open' first")
        if not isinstance(message, wire.PlayedReport | wire.Cancel):
            raise Closed(f"utterance {message.utterance} has ended", "open a new one")

    async def _wait_for_traces(self) -> None:
        """Wait while the traces of many ended utterances are still being written. Raises Busy: the disk is too slow."""
        most, until_s = UNFINISHED * self._settings.max_utterances_per_socket, time.monotonic() + _TRACES_S
        while len(self._streams) >= most:
            if (left_s := until_s - time.monotonic()) <= 0.0:
                raise Busy("traces of ended utterances are still being written", "try again in a moment")
            await asyncio.wait(self._senders, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)

    def _check_capacity(self, number: int) -> None:
        """Raises BadMessage, Busy: an utterance of this number cannot be opened now."""
        limit, count = self._settings.max_utterances_per_socket, len(self._opening.keys() | self._streams.keys())
        if number in self._streams or number in self._opening:
            raise BadMessage(f"utterance {number} is open already", "choose another number")
        if count - sum(stream.is_over for stream in self._streams.values()) >= limit:
            raise Busy(
                f"a socket carries at most {limit} utterances, each until its last event has been read",
                "end one, or read the pending messages of this socket",
            )

    async def _open_and_deliver(self, message: wire.Open, inbox: Inbox) -> None:
        """Open an utterance in the background, then deliver the messages that arrived meanwhile."""
        try:
            await self._report_errors(self._open(message), message.utterance)
            while inbox:
                await self._report_errors(self._deliver(inbox.take()), message.utterance)
        finally:
            del self._opening[message.utterance]

    async def _put_while_opening(self, message: wire.Message) -> None:
        """Queue a message for an utterance that is being opened; the client waits while the queue is full."""
        while (inbox := self._opening.get(message.utterance)) is not None:
            if not inbox.is_full:
                inbox.put(message)
                return
            await asyncio.sleep(0.005)
        await self._deliver(message)

    async def _open(self, message: wire.Open) -> None:
        await self._wait_for_traces()
        stream = await open_stream(
            message,
            self._engine,
            self._trace_store,
            self._settings,
            client=self.address,
            is_guest=self.is_guest,
            revises=self.revises,
            via=read_via(self._websocket.headers.get(HEADER, "")),
        )
        try:
            self._begin(stream)
        except BaseException:
            stream.utterance.cancel()
            raise

    def _begin(self, stream: UtteranceStream) -> None:
        self._streams[stream.number] = stream
        self._is_used = True
        if stream.number in self._ended:
            self._ended.remove(stream.number)
        sender = asyncio.create_task(self._send_outbox(stream))
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)
        stream.start()

    # --- to the client -------------------------------------------------------------------------------

    async def _send_outbox(self, stream: UtteranceStream) -> None:
        """Send an utterance's events in order; after the socket was closed, only empty the outbox."""
        while not isinstance(item := await stream.outbox.get(), StreamEnd):
            stream.sent(item, await self._send_item(stream, item))
            if stream.outbox.qsize():
                await asyncio.sleep(0)  # a socket that never blocks must not block the event loop
        # Before the last message: the client may reuse the number immediately.
        del self._streams[stream.number]
        self._stop_answering(stream.number)
        self._answering.pop(stream.number, None)
        self._used_s = time.monotonic()
        self._ended.append(stream.number)
        await self._send_last(stream, item.token)

    async def _send_item(self, stream: UtteranceStream, item: Outgoing) -> float:
        """Send one item; returns how long the socket blocked, in ms. An error ends only this utterance."""
        if self._closed.is_set():
            return 0.0
        try:
            return sum([await self._send(data) for data in self._encoded(stream, item)])
        except Exception:
            log.exception("an event could not be sent")
            await asyncio.to_thread(stream.cancel)
            return 0.0

    async def _send_last(self, stream: UtteranceStream, token: str | None) -> None:
        """Send the last message of an utterance; its number is free again."""
        await self._send(await self._last_message(stream, token))

    async def _last_message(self, stream: UtteranceStream, token: str | None) -> str:
        """The last message of an utterance: where its trace is."""
        if token is None:
            error = BadFile("the trace of this utterance could not be stored", "the server's log says why")
            return wire.error_message(error, stream.number)
        return wire.trace_message(stream.number, token)

    def _encoded(self, stream: UtteranceStream, item: Outgoing) -> Sequence[str | bytes]:
        match item:
            case ev.Audio():
                return (stream.packet(item),)
            case ev.Event():
                return (wire.event_message(item, stream.number),)
            case StudioError():
                return (wire.error_message(item, stream.number),)
        raise AssertionError(item)

    async def _send(self, data: str | bytes) -> float:
        """Send one message; returns how long the socket blocked, in ms. After the time limit it counts as closed."""
        if self._closed.is_set():
            return 0.0
        began_s = time.monotonic()
        try:
            with self._send_timeout:
                async with self._send_lock:
                    if isinstance(data, bytes):
                        await self._websocket.send_bytes(data)
                    else:
                        await self._websocket.send_text(data)
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            # starlette and uvicorn raise RuntimeError where the socket was closed in the meantime.
            self._closed.set()
        return (time.monotonic() - began_s) * 1000.0
