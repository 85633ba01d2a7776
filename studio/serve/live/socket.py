"""The socket of ``/ws/speak``: one session carries several utterances and sends everything in order."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from studio.core import events as ev
from studio.core.cards import Card, parse_voice
from studio.core.errors import BadFile, BadMessage, Busy, Closed, Closing, StudioError
from studio.core.ports import Engine, SpeakRequest, Utterance
from studio.serve.door.addresses import address_of
from studio.serve.door.connections import LOST
from studio.serve.door.rates import Bucket
from studio.serve.live import protocol as wire
from studio.serve.live.inbox import Inbox
from studio.serve.live.opening import opened
from studio.serve.live.patience import Patience
from studio.serve.live.stream import Broken, Outgoing, Over, Stream
from studio.serve.traces.shelf import TraceShelf
from studio.settings import ServeSettings

RETRY_MS = 1000
POLICY_VIOLATION = 1008
IDLE = 4000  # a close code of ours: nobody spoke here for long; a page comes back when it has something to say
FRESH_S = 10.0  # a socket that has just spoken is not closed to make room for another
NEW_S = 1.0  # nor is one that has just come: by then it has asked for something, if it wants anything
REMEMBERED = 64  # utterances that have ended, whose player may still report
UNFINISHED = 4  # times as many as may be carried at a time may be there whose traces are still being written

log = logging.getLogger("studio.serve")


class TooFast(StudioError):
    """More messages than a socket may send."""

    code = "too_fast"


def _abandon(opening: asyncio.Future[Utterance]) -> None:
    """Give back a place that nobody waits for any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().cancel()


class Session:
    """One socket, from its hello to its last utterance's end.

    Attributes:
        revises: whether what a keyboard sent and nobody has heard follows its edits.
        is_guest: whether its utterances leave room for others'.
    """

    revises, is_guest = True, False

    def __init__(self, websocket: WebSocket, engine: Engine, shelf: TraceShelf, settings: ServeSettings) -> None:
        self._websocket, self._engine, self._shelf, self._settings = websocket, engine, shelf, settings
        self._streams: dict[int, Stream] = {}
        self._ended: deque[int] = deque(maxlen=REMEMBERED)
        self._pumps: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()
        self._patience = Patience(settings.send_timeout_ms / 1000.0)
        # Set when either side has left; the connection tells, too, for nobody reads while a message is being obeyed.
        self._gone: asyncio.Event = websocket.scope.get(LOST) or asyncio.Event()
        self._bucket = Bucket(settings.messages_per_s)
        self._used_s = time.monotonic()  # when the socket came, or last spoke; messages alone are no use of it
        self._is_used = False  # something was spoken here
        self._openings: dict[int, Inbox] = {}  # utterances that the engine has not answered yet, what was sent for each
        self._opening: set[asyncio.Task[None]] = set()
        self.address = address_of(websocket)

    async def run(self) -> None:
        """Serve the socket until either side leaves; then every place of it is free."""
        await self._websocket.accept()
        await self._greet()
        reading = asyncio.create_task(self._read())
        leaving = asyncio.create_task(self._gone.wait())
        idling = asyncio.create_task(self._close_when_idle())
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gone.set()
            for task in (reading, leaving, idling):
                task.cancel()
            await asyncio.gather(reading, idling, return_exceptions=True)
            for task in [*self._opening]:
                task.cancel()
            await asyncio.gather(*self._opening, return_exceptions=True)
            await self._leave()
        if not reading.cancelled() and (error := reading.exception()):
            raise error

    async def _greet(self) -> None:
        await self._send(wire.hello(self._engine.cards()))

    def idle_s(self) -> float:
        """For how long nothing was spoken here; 0 while something is."""
        return 0.0 if self._streams or self._openings else time.monotonic() - self._used_s

    def is_fresh(self) -> bool:
        """Whether it stays where another one wants its place."""
        return self.idle_s() < (FRESH_S if self._is_used else NEW_S)

    async def warn(self, error: StudioError) -> None:
        """Tell the client something about its socket."""
        await self._send(wire.error_message(error))

    async def hush(self) -> None:
        """Break off what speaks here."""
        await asyncio.gather(*(asyncio.to_thread(stream.cancel) for stream in list(self._streams.values())))

    async def retire(self) -> None:
        """Close the socket, of which nobody makes use; its page comes back unseen."""
        await self._close(IDLE, "idle")

    async def _close(self, code: int, why: str) -> None:
        if not self._gone.is_set():
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # it was closed in the meantime
                await self._websocket.close(code, why)
            self._gone.set()

    def _may_idle_s(self) -> float:
        return self._settings.idle_socket_ms / 1000.0

    async def _close_when_idle(self) -> None:
        while (left_s := self._may_idle_s() - self.idle_s()) > 0.0:
            await asyncio.sleep(left_s)
        await self.retire()

    async def _leave(self) -> None:
        """Cancel what still speaks and let the pumps run dry."""
        await self.hush()
        if self._pumps:
            await asyncio.wait(self._pumps)

    # --- from the client -----------------------------------------------------------------------------

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            if not self._bucket.take():
                limit = self._settings.messages_per_s
                error = TooFast(f"more than {limit} messages a second", "send several characters in one message")
                await self._send(wire.error_message(error))
                await self._close(POLICY_VIOLATION, "too many messages")
                return
            await self._receive(message)

    async def _receive(self, message: Any) -> None:
        """Answer one message; a mistake of the client's is told to it and harms nobody else."""
        try:
            if message.get("text") is None:
                raise BadMessage("a client sends no binary messages", "send JSON text")
            data = wire.decode(message["text"])
        except StudioError as error:
            await self._send(wire.error_message(error))
        else:
            await self._attempt(self._obey(data), wire.utterance_in(data))

    async def _attempt(self, work: Coroutine[Any, Any, None], utterance: int | None) -> None:
        """Do what a message about an utterance asks, and tell what went wrong."""
        try:
            await work
        except StudioError as error:
            is_for_now = isinstance(error, Busy) and not isinstance(error, Closing)
            await self._send(wire.error_message(error, utterance, RETRY_MS if is_for_now else None))
        except Exception:
            log.exception("a message could not be obeyed")
            if stream := self._streams.get(utterance) if utterance is not None else None:
                await asyncio.to_thread(stream.cancel)
            error = Broken("this message could not be obeyed", "the server's log says why; open a new utterance")
            await self._send(wire.error_message(error, utterance))

    async def _obey(self, data: dict[str, Any]) -> None:
        await self._dispatch(wire.parse(data))

    async def _dispatch(self, message: wire.Message) -> None:
        if isinstance(message, wire.Open):
            self._check_room(message.utterance)
            self._openings[message.utterance] = kept = Inbox()
            opening = asyncio.create_task(self._open_apart(message, kept))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)
        elif message.utterance in self._openings:
            await self._keep(message)
        else:
            await self._give(message)

    async def _give(self, message: wire.Message) -> None:
        stream = self._streams.get(message.utterance)
        if stream is None:
            self._late(message)
        elif isinstance(message, wire.Cancel):
            await asyncio.to_thread(stream.cancel, message.played_sample)
        else:
            await stream.offer(message)

    def _late(self, message: wire.Message) -> None:
        """A player goes on reporting after the last sample was made; anything else came too late."""
        if message.utterance not in self._ended:
            raise BadMessage(f"there is no utterance {message.utterance} on this socket", "send 'open' first")
        if not isinstance(message, wire.PlayedReport | wire.Cancel):
            raise Closed(f"utterance {message.utterance} has ended", "open a new one")

    def _check_room(self, number: int) -> None:
        """Raises BadMessage, Busy where an utterance of this number cannot be opened now."""
        most, there = self._settings.max_utterances_per_socket, len(self._openings.keys() | self._streams.keys())
        if number in self._streams or number in self._openings:
            raise BadMessage(f"utterance {number} is open already", "choose another number")
        if there - sum(stream.is_over for stream in self._streams.values()) >= most or there >= UNFINISHED * most:
            raise Busy(
                f"a socket carries at most {most} utterances, each until its last event was taken",
                "end one, or read what waits on this socket",
            )

    async def _open_apart(self, message: wire.Open, kept: Inbox) -> None:
        """Open an utterance while the socket goes on with others, then obey what was sent for it meanwhile."""
        try:
            await self._attempt(self._open(message), message.utterance)
            while kept:
                await self._attempt(self._give(kept.take()), message.utterance)
        finally:
            del self._openings[message.utterance]

    async def _keep(self, message: wire.Message) -> None:
        """Keep what is about an utterance that is being opened; with so much that it is full, the client waits."""
        while (kept := self._openings.get(message.utterance)) is not None:
            if not kept.is_full:
                kept.put(message)
                return
            await asyncio.sleep(0.005)
        await self._give(message)

    async def _open(self, message: wire.Open) -> None:
        card, _ = parse_voice(message.voice, {card.name: card for card in self._engine.cards()})
        credit_samples = self._credit_samples(message, card)
        request = SpeakRequest(
            voice=message.voice,
            seed=message.seed,
            temperature=message.temperature,
            options=message.options,
            credit_samples=credit_samples,
            is_guest=self.is_guest,
            client=self.address,
        )
        utterance = await self._opened(card.name, request)
        try:
            kept = {"shelf": self._shelf, "settings": self._settings, "owner": self.address}
            self._begin(Stream(message, utterance, credit_samples, revises=self.revises, **kept))
        except BaseException:
            utterance.cancel()
            raise

    async def _opened(self, voice: str, request: SpeakRequest) -> Utterance:
        opening = opened(self._engine, voice, request)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_abandon)  # the socket went while the engine was at it
            raise

    def _begin(self, stream: Stream) -> None:
        self._streams[stream.number] = stream
        self._is_used = True
        if stream.number in self._ended:
            self._ended.remove(stream.number)
        pump = asyncio.create_task(self._pump(stream))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        stream.start()

    def _credit_samples(self, message: wire.Open, card: Card) -> int:
        credit_ms = self._settings.credit_ms if message.credit_ms is None else message.credit_ms
        if credit_ms > self._settings.credit_cap_ms:
            raise BadMessage(f"'credit_ms' of 'open' is {credit_ms:g}", f"ask for 50 to {self._settings.credit_cap_ms}")
        return max(card.frame_samples, round(credit_ms * card.sample_rate_hz / 1000))

    # --- to the client -------------------------------------------------------------------------------

    async def _pump(self, stream: Stream) -> None:
        """Send what an utterance says, in order; when nobody listens any more, take it all the same."""
        while not isinstance(item := await stream.outbox.get(), Over):
            stream.sent(item, await self._tell(stream, item))
            if stream.outbox.qsize():
                await asyncio.sleep(0)  # a socket that takes all at once makes nobody wait, and others want a turn
        # Before the client hears that it is over: it may use the number again at once.
        del self._streams[stream.number]
        self._used_s = time.monotonic()
        self._ended.append(stream.number)
        await self._send(await self._farewell(stream, item.token))

    async def _tell(self, stream: Stream, item: Outgoing) -> float:
        """Send one thing; answers for how many ms the socket blocked. What cannot be sent ends this utterance alone."""
        if self._gone.is_set():
            return 0.0
        try:
            return sum([await self._send(data) for data in self._encoded(stream, item)])
        except Exception:
            log.exception("something of an utterance could not be sent")
            await asyncio.to_thread(stream.cancel)
            return 0.0

    async def _farewell(self, stream: Stream, token: str | None) -> str:
        """The last word about an utterance, whose trace is on the shelf under ``token``."""
        if token is None:
            error = BadFile("no trace of this utterance could be kept", "the server's log says why")
            return wire.error_message(error, stream.number)
        return wire.trace_message(stream.number, token)

    def _encoded(self, stream: Stream, item: Outgoing) -> Sequence[str | bytes]:
        match item:
            case ev.Audio():
                return (stream.packet(item),)
            case ev.Event():
                return (wire.event_message(item, stream.number),)
            case StudioError():
                return (wire.error_message(item, stream.number),)
        raise AssertionError(item)

    async def _send(self, data: str | bytes) -> float:
        """Send one message and tell for how many ms the socket blocked; a client that takes nothing is dropped."""
        if self._gone.is_set():
            return 0.0
        began_s = time.monotonic()
        try:
            with self._patience:
                async with self._sending:
                    if isinstance(data, bytes):
                        await self._websocket.send_bytes(data)
                    else:
                        await self._websocket.send_text(data)
        except (WebSocketDisconnect, RuntimeError, TimeoutError):
            # RuntimeError is how starlette and uvicorn say that the socket was closed in the meantime.
            self._gone.set()
        return (time.monotonic() - began_s) * 1000.0
