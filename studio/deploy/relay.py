"""A socket of ``/ws/speak`` between a client and the replicas: stays with one, and outlives it.

An ``open`` on a socket without a running utterance goes to a replica with room, which answers ``busy`` rather than
queue it; then the next one gets it, and the client sees the answer of the one that took it. Only where none has room
does the utterance wait in a queue. Binary messages, most of them, are passed on unread.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any

import aiohttp
from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from studio.core.errors import BadFile, Closing, StudioError
from studio.core.events import Failed
from studio.deploy.forwarding import close_code, connect, refuse, send_up
from studio.deploy.members import Member, Members
from studio.serve.live import protocol as wire

REFUSALS = frozenset(("busy", "closing", "stuck"))
_HELLO_S = 10.0
_OURS = frozenset((1007, 1008, 1009, 4000))  # close codes about this client; the others are about the replica
_MARKS = ('"ready"', '"queued"', '"error"', '"ended"', '"failed"', '"trace"')  # of messages that are read here
_log = logging.getLogger("studio.deploy")
_OPENING, _SPEAKING, _ENDED = "opening", "speaking", "ended"


class ReplicaLost(StudioError, code="replica_lost"):
    """The process that spoke an utterance has ended."""


class _Link:
    """A connection to a replica."""

    def __init__(self, member: Member, socket: aiohttp.ClientWebSocketResponse, hello: str) -> None:
        self.member, self.socket, self.hello = member, socket, hello
        self.task: asyncio.Task[None] | None = None


class SpeakRelay:
    """One client's socket."""

    def __init__(self, websocket: WebSocket, members: Members, session: aiohttp.ClientSession) -> None:
        self._websocket, self._members, self._session = websocket, members, session
        self._link: _Link | None = None
        self._states = dict[int, str]()  # of the utterances, until their last message
        self._lost = set[int]()  # utterances whose replica has ended; late messages about them are dropped
        self._answer: asyncio.Future[bool] | None = None  # whether the replica takes the utterance that is offered
        self._sending = asyncio.Lock()
        self._closed = asyncio.Event()

    def idle_s(self) -> float:
        """0 while an utterance is spoken; see ``studio.serve.server.DrainableSession``."""
        return 0.0 if self._states else 1.0

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error about its socket."""
        await self._send(wire.error_message(error))

    async def cancel_all(self) -> None:
        """Cancel the socket's utterances."""
        for number in [*self._states]:
            await self._pass_on({"text": json.dumps({"type": "cancel", "utterance": number})})

    async def run(self) -> None:
        """Serve the socket until either side closes it."""
        status = 503
        for member in self._members.with_room() if self._members.by_name else ():
            member.sent -= 1  # it is a socket, no utterance yet
            try:
                self._link = await self._connected(member)
                break
            except aiohttp.WSServerHandshakeError as error:
                status = error.status
            except (aiohttp.ClientError, OSError, TimeoutError, TypeError):
                continue
        if self._link is None and (member := self._members.shortest_queue()) is not None:
            with suppress(aiohttp.ClientError, OSError, TimeoutError, TypeError):
                self._link = await self._connected(member)
        if self._link is None:
            await refuse(self._websocket, status)
            return
        await self._websocket.accept()
        await self._send(self._link.hello)
        self._listen(self._link)
        reading, closing = asyncio.create_task(self._read()), asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, closing):
                task.cancel()
            await asyncio.gather(reading, closing, return_exceptions=True)
            await self._drop_link()

    # --- from the client -----------------------------------------------------------------------------

    async def _read(self) -> None:
        with suppress(WebSocketDisconnect):
            while (message := await self._websocket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                data = _object(text) if text is not None and '"open"' in text else {}
                number = wire.utterance_in(data)
                if data.get("type") == "open" and number is not None and not self._states:
                    self._lost.discard(number)
                    await self._open(number, data, message)
                elif text is None or not self._lost or wire.utterance_in(_object(text)) not in self._lost:
                    await self._pass_on(message)

    async def _open(self, number: int, data: dict[str, Any], message: Message) -> None:
        """Offer an utterance to the replicas until one takes it."""
        self._states[number] = _OPENING
        offer = {"text": json.dumps(data | {"wait": False})}
        present = None if self._link is None else self._link.member
        for member in self._members.with_room(present):
            if await self._offer(member, offer):
                return
        # None has room. The client's own message may wait in a queue.
        member = self._members.shortest_queue()
        if member is not None and await self._use(member):
            self._states[number] = _OPENING
            await self._pass_on(message)
            return
        self._states.pop(number, None)
        error = ReplicaLost("no replica is running", "try again in a moment")
        await self._send(wire.error_message(error, number, retry_ms=1000))

    async def _offer(self, member: Member, offer: Message) -> bool:
        if not await self._use(member):
            return False
        self._answer = asyncio.get_running_loop().create_future()
        await self._pass_on(offer)
        return await self._answer

    async def _use(self, member: Member) -> bool:
        """Move the socket to a replica, unless it is there; False where that one cannot be reached."""
        if self._link is not None and self._link.member is member:
            return True
        try:
            link = await self._connected(member)
        except (aiohttp.ClientError, OSError, TimeoutError, TypeError):
            return False
        await self._drop_link()
        self._link = link
        self._listen(link)
        return True

    async def _connected(self, member: Member) -> _Link:
        socket = await connect(self._websocket.scope, member, self._session, self._members.key)
        try:
            return _Link(member, socket, await socket.receive_str(timeout=_HELLO_S))
        except BaseException:
            await socket.close()
            raise

    def _listen(self, link: _Link) -> None:
        link.task = asyncio.create_task(self._listen_to(link))

    async def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            if link.task is not None and link.task is not asyncio.current_task():
                link.task.cancel()
            await link.socket.close()

    async def _pass_on(self, message: Message) -> None:
        if (link := self._link) is not None:
            with suppress(aiohttp.ClientError, ConnectionError):  # the listening side says what was lost
                await send_up(link.socket, message)

    # --- from the replica ----------------------------------------------------------------------------

    async def _listen_to(self, link: _Link) -> None:
        while (message := await link.socket.receive()).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
            is_event = message.type is aiohttp.WSMsgType.TEXT and any(mark in message.data for mark in _MARKS)
            if not is_event or self._keep_state(_object(message.data)):
                await self._send(message.data)
        if link is self._link:
            self._link = None
            await link.socket.close()
            await self._on_end(link.member.name, *close_code(message))

    def _keep_state(self, data: dict[str, Any]) -> bool:
        """Note what a message says about its utterance; whether the client gets it."""
        kind, number = data.get("type"), data.get("utterance")
        if kind == "error" and number is None and data.get("code") == Closing.code:
            return False  # the replica ends, not the front
        state = self._states.get(number) if isinstance(number, int) else None
        if state is None or not isinstance(number, int):
            return True
        if state == _OPENING and kind in ("ready", "queued", "error"):
            is_refused = kind == "error" and data.get("code") in REFUSALS
            if kind == "error":
                if not (is_refused and self._answer is not None):
                    del self._states[number]
            else:
                self._states[number] = _SPEAKING
            return not (self._settle(is_taken=not is_refused) and is_refused)
        if kind in ("ended", "failed"):
            self._states[number] = _ENDED
        elif state == _ENDED and kind in ("trace", "error"):
            del self._states[number]
        return True

    def _settle(self, *, is_taken: bool) -> bool:
        """Answer an offer; False where none was made."""
        answer, self._answer = self._answer, None
        if answer is None:
            return False
        answer.set_result(is_taken)
        return True

    async def _on_end(self, name: str, code: int, reason: str) -> None:
        """The replica has closed the socket: end its utterances, and go on with another one at the next ``open``."""
        if self._states:
            _log.warning("replica %s ended %d utterances: %d %s", name, len(self._states), code, reason)
        is_offering = self._settle(is_taken=False)
        for number, state in [*self._states.items()]:
            if state == _OPENING and is_offering:
                continue
            del self._states[number]
            self._lost.add(number)
            error = ReplicaLost("the replica that spoke has ended", "speak the text again")
            if state != _ENDED:
                await self._send(wire.event_message(Failed(code=error.code, message=str(error)), number))
            await self._send(wire.error_message(BadFile("no trace was stored", str(error)), number))
        if code in _OURS:
            await self._close(code, reason)

    # --- to the client -------------------------------------------------------------------------------

    async def _send(self, data: str | bytes) -> None:
        if self._closed.is_set():
            return
        try:
            async with self._sending:
                if isinstance(data, bytes):
                    await self._websocket.send_bytes(data)
                else:
                    await self._websocket.send_text(data)
        except (WebSocketDisconnect, RuntimeError):
            self._closed.set()

    async def _close(self, code: int, reason: str) -> None:
        if not self._closed.is_set():
            with suppress(WebSocketDisconnect, RuntimeError):
                await self._websocket.close(code, reason)
            self._closed.set()


def _object(text: str) -> dict[str, Any]:
    """A message as an object; empty where it is none, which its receiver reports."""
    try:
        data = json.loads(text) if len(text) <= wire.MAX_MESSAGE_CHARS else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
