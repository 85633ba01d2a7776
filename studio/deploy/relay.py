"""A socket of ``/ws/speak`` between a client and the replicas: it stays with one, and survives its end.

An ``open`` on a socket without a running utterance is offered to a replica with room, which answers ``busy`` instead
of queueing it; then the next one is asked, and the client sees the answer of the one that accepts. Only if all are
full does the utterance wait in a queue. An ``open`` beside a running utterance goes to the same replica, which may
queue it. All other messages of a client, and most of a replica, are forwarded unchanged.
"""

import asyncio
import json
import logging
from contextlib import suppress
from typing import Any

from starlette.types import Message
from starlette.websockets import WebSocket, WebSocketDisconnect

from studio.core.errors import BadFile, Closing, StudioError
from studio.core.events import Failed
from studio.deploy.client_socket import ClientSocket, Decision
from studio.deploy.forwarding import connect, refuse, send_up
from studio.deploy.frames import Refused, ReplicaSocket, server_frame
from studio.deploy.members import Member, Members
from studio.serve.live import protocol as wire
from studio.serve.middleware.connections import close_socket

REFUSALS = frozenset(("busy", "closing", "stuck"))
_HELLO_S = 10.0
_CLIENT_CODES = frozenset((1007, 1008, 1009, 4000))  # close codes caused by the client; others are the replica's
_MARKS = (b'"ready"', b'"queued"', b'"error"', b'"ended"', b'"failed"', b'"trace"')  # in the messages to parse
_log = logging.getLogger("studio.deploy")
_OPENING, _SPEAKING, _ENDED = "opening", "speaking", "ended"


class ReplicaLost(StudioError, code="replica_lost"):
    """The process that spoke an utterance has ended."""


class _Link:
    """A connection to a replica."""

    def __init__(self, member: Member, socket: ReplicaSocket, hello: str) -> None:
        self.member, self.socket, self.hello = member, socket, hello


class SpeakRelay:
    """One client's socket."""

    def __init__(self, websocket: WebSocket, members: Members) -> None:
        self._websocket, self._members = websocket, members
        self._client: ClientSocket | None = None  # None until it is accepted
        self._link: _Link | None = None
        self._states = dict[int, str]()  # by utterance, until its last message
        self._lost = set[int]()  # utterances whose replica has ended; late messages about them are dropped
        self._answer: asyncio.Future[bool] | None = None  # whether the replica accepts the offered utterance
        self._closing: tuple[int, str] | None = None  # code and reason to close the socket with
        self._closed = asyncio.Event()

    def idle_s(self) -> float:
        """0 while an utterance is spoken; see ``studio.serve.server.DrainableSession``."""
        return 0.0 if self._states else 1.0

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error about its socket."""
        self._send(wire.error_message(error))

    async def cancel_all(self) -> None:
        """Cancel the socket's utterances."""
        for number in [*self._states]:
            await self._pass_on({"text": json.dumps({"type": "cancel", "utterance": number})})

    async def run(self) -> None:
        """Serve the socket until either side closes it."""
        status = 503
        for member in self._members.with_room() if self._members.by_name else ():
            member.sent -= 1  # only a socket so far, not an utterance
            try:
                self._link = await self._connected(member)
                break
            except Refused as error:
                status = error.status
            except (OSError, TimeoutError):
                continue
        if self._link is None and (member := self._members.shortest_queue()) is not None:
            with suppress(Refused, OSError, TimeoutError):
                self._link = await self._connected(member)
        if self._link is None:
            await refuse(self._websocket, status)
            return
        await self._websocket.accept()
        self._client = ClientSocket(self._websocket.scope, self._decide)
        self._send(self._link.hello)
        self._listen(self._link)
        reading, closing = asyncio.create_task(self._read()), asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reading, closing):
                task.cancel()
            await asyncio.gather(reading, closing, return_exceptions=True)
            self._drop_link()
            self._client.leave()
        if self._closing is not None:
            await close_socket(self._websocket, *self._closing)

    # --- from the client -----------------------------------------------------------------------------

    def _decide(self, text: bytes) -> Decision:
        """Decide about a message before the server's parser gets it."""
        if b'"open"' in text:
            return Decision.READ
        is_late = self._lost and wire.utterance_in(_object(text)) in self._lost
        return Decision.DROP if is_late else Decision.PASS

    async def _read(self) -> None:
        assert self._client is not None
        with suppress(WebSocketDisconnect):
            while (message := await self._websocket.receive())["type"] == "websocket.receive":
                text = message.get("text")
                data = _object(text) if text is not None and '"open"' in text else {}
                number = wire.utterance_in(data)
                if data.get("type") == "open" and number is not None:
                    self._lost.discard(number)
                    if self._states:  # the socket has to stay: its replica is speaking
                        self._states.setdefault(number, _OPENING)
                        await self._pass_on(message)
                    else:
                        await self._open(number, data, message)
                elif text is None or not self._lost or wire.utterance_in(_object(text)) not in self._lost:
                    await self._pass_on(message)
                self._client.release()

    async def _open(self, number: int, data: dict[str, Any], message: Message) -> None:
        """Offer an utterance to the replicas until one accepts it."""
        self._states[number] = _OPENING
        offer = {"text": json.dumps(data | {"wait": False})}
        present = None if self._link is None else self._link.member
        for member in self._members.with_room(present):
            if await self._offer(member, offer):
                return
        # All are full. The client's original message may wait in a queue.
        member = self._members.shortest_queue()
        if member is not None and await self._use(member):
            self._states[number] = _OPENING
            await self._pass_on(message)
            return
        self._states.pop(number, None)
        error = ReplicaLost("no replica is running", "try again in a moment")
        self._send(wire.error_message(error, number, retry_ms=1000))

    async def _offer(self, member: Member, offer: Message) -> bool:
        if not await self._use(member):
            return False
        self._answer = asyncio.get_running_loop().create_future()
        await self._pass_on(offer)
        return await self._answer

    async def _use(self, member: Member) -> bool:
        """Move the socket to a replica, unless it is already there; False if that replica cannot be reached."""
        if self._link is not None and self._link.member is member:
            return True
        try:
            link = await self._connected(member)
        except (Refused, OSError, TimeoutError):
            return False
        self._drop_link()
        self._link = link
        self._listen(link)
        return True

    async def _connected(self, member: Member) -> _Link:
        """A new connection. Raises Refused, OSError, TimeoutError."""
        socket = await connect(self._websocket.scope, member, self._members.key)
        hello: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_text(text: bytes) -> bool:
            if not hello.done():
                hello.set_result(text.decode())
                socket.pause(True)
            return False

        def on_end(_: int, reason: str) -> None:
            if not hello.done():
                hello.set_exception(ConnectionError(reason))

        socket.listen(lambda frames: None, on_end, on_text)
        try:
            async with asyncio.timeout(_HELLO_S):
                return _Link(member, socket, await hello)
        except BaseException:
            socket.close()
            raise

    def _listen(self, link: _Link) -> None:
        assert self._client is not None
        self._client.attach(link.socket, lambda code, reason: self._on_end(link, code, reason), self._is_passed_on)

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.socket.close()

    async def _pass_on(self, message: Message) -> None:
        if (link := self._link) is not None:
            await send_up(link.socket, message)

    # --- from the replica ----------------------------------------------------------------------------

    def _is_passed_on(self, text: bytes) -> bool:
        """Update the state of a message's utterance; returns whether the client gets the message."""
        return not any(mark in text for mark in _MARKS) or self._keep_state(_object(text))

    def _keep_state(self, data: dict[str, Any]) -> bool:
        """``_is_passed_on`` for a parsed message."""
        kind, number = data.get("type"), data.get("utterance")
        if kind == "error" and number is None and data.get("code") == Closing.code:
            return False  # only the replica is closing, not the front
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
        """Resolve the pending offer; False if there is none."""
        answer, self._answer = self._answer, None
        if answer is None:
            return False
        answer.set_result(is_taken)
        return True

    def _on_end(self, link: _Link, code: int, reason: str) -> None:
        """The replica has closed the socket: end its utterances; the next ``open`` goes to another replica."""
        if link is not self._link:
            return
        self._link = None
        if self._states:
            _log.warning("replica %s ended %d utterances: %d %s", link.member.name, len(self._states), code, reason)
        is_offering = self._settle(is_taken=False)
        for number, state in [*self._states.items()]:
            if state == _OPENING and is_offering:
                continue
            del self._states[number]
            self._lost.add(number)
            error = ReplicaLost("the replica that spoke has ended", "speak the text again")
            if state != _ENDED:
                self._send(wire.event_message(Failed(code=error.code, message=str(error)), number))
            self._send(wire.error_message(BadFile("no trace was stored", str(error)), number))
        if code in _CLIENT_CODES:
            self._closing = code, reason
            self._closed.set()

    # --- to the client -------------------------------------------------------------------------------

    def _send(self, message: str) -> None:
        if self._client is not None:
            self._client.write(server_frame(message))


def _object(text: str | bytes) -> dict[str, Any]:
    """A message as an object; empty if it is invalid, which its receiver reports."""
    try:
        data = json.loads(text) if len(text) <= wire.MAX_MESSAGE_CHARS else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
