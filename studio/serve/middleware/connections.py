"""Limits of connections: slow request heads, readers that stopped, floods of frames and of connections.

uvicorn's protocols run unchanged inside ``Connection``, an ``asyncio.Protocol`` that passes bytes on and counts them.
"""

import asyncio
import ipaddress
import logging
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, cast

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from studio.core.addresses import is_loopback
from studio.mos.store.access import RateLimit, TooMany
from studio.serve.middleware.addresses import network_of
from studio.serve.middleware.callers import CALLER, caller_of
from studio.serve.middleware.rates import FrameCounter
from studio.serve.middleware.turns import MAX_RUN_S, RequestPacer

HEAD_S = 10.0  # time limit of a request's head
SEND_BUFFER_BYTES = 131_072  # the kernel's buffer of a socket: seconds of audio; Linux doubles it
STALL_S = 30.0  # a response is aborted if the client reads nothing of it for this long
PING_S = 5.0  # interval of pings on a socket
SILENCE_S = PING_S + 10.0  # a socket is aborted if its client neither sends (not even a pong) nor reads for this long
LINGER_S = 5.0  # time for the client of an ended socket to read the remaining data
HEALTH = "/health"
_POLICY_VIOLATION = 1008
_TOO_MANY = "too many connections; try again later\n"
_RETRY = {"Retry-After": "5", "Connection": "close"}
_EXPECTED = ("ASGI callable returned without completing handshake.", "Invalid UTF-8 sequence received from client.")


def _is_logged(record: logging.LogRecord) -> bool:
    """Whether a record of uvicorn is logged. A denied handshake and text that is not UTF-8 are the client's errors.

    Lines about accepted and denied sockets contain the URL, which may contain a key.
    """
    return record.msg not in _EXPECTED and not str(record.msg).startswith('%s - "WebSocket ')


logging.getLogger("uvicorn.error").addFilter(_is_logged)


@dataclass
class ConnectionLimits:
    """The limits of one server, and its open connections.

    The limit per network address does not count this machine and the proxies.
    """

    max_connections: int = 1000
    max_per_address: int = 500
    proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()
    frames_per_s: float = 1000.0  # data frames of one socket
    is_speaking: Callable[[], bool] = lambda: False  # whether an utterance is spoken, beside which requests are paced
    max_run_s: float = MAX_RUN_S  # longest time that a request delays the next one
    upgrades: RateLimit = field(default_factory=lambda: RateLimit(burst=100, per_second=20))  # sockets of one address
    connections: "set[Connection]" = field(default_factory=set)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, connection: "Connection") -> bool:
        """Count a connection; returns False if a limit is exceeded."""
        network = connection.network
        is_limited = not is_loopback(network) and not self._is_proxy(connection.host)
        if len(self.connections) >= self.max_connections:
            return False
        if is_limited and self._counts[network] >= self.max_per_address:
            return False
        self.connections.add(connection)
        self._counts[network] += 1
        return True

    def discard(self, connection: "Connection") -> None:
        """Remove a connection from the counts."""
        self.connections.discard(connection)
        self._counts -= Counter((connection.network,))

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:  # a Unix socket
            return False
        return any(address in network for network in self.proxies)


class _Timer:
    """Calls a function once after a delay, unless stopped."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def start(self, delay_s: float) -> None:
        """Start, or restart."""
        self.stop()
        self._handle = asyncio.get_running_loop().call_later(delay_s, self._call)

    def stop(self) -> None:
        """Stop; the timer may be started again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Tap(Protocol):
    """Receives the bytes of a socket before uvicorn's parser."""

    def take(self, data: bytes) -> bytes:
        """Process received bytes; returns those for the parser."""
        ...

    def on_writable(self, is_writable: bool) -> None:
        """Called when the write buffer is full, and when the client has read enough of it."""
        ...


class _Transport:
    """A transport whose ``set_protocol`` changes the protocol inside a connection, not the connection itself.

    Writes to a client that has just left are dropped; asyncio would log a warning for each.
    """

    def __init__(self, transport: asyncio.Transport, upgrade: Callable[[asyncio.Protocol], None]) -> None:
        self._transport, self.set_protocol = transport, upgrade
        self._write, self.is_closing = transport.write, transport.is_closing

    def write(self, data: bytes) -> None:
        if not self.is_closing():
            self._write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(asyncio.Protocol):
    """A client's connection, around uvicorn's HTTP protocol and, after an upgrade, its WebSocket protocol.

    * A request's head must come within ``HEAD_S``.
    * A client that reads nothing is aborted; a slow one is kept. On a socket, a pong proves that the client has read
      everything sent before the ping, so reading counts as activity, and the kernel's send buffer is small.
    * Frames are counted before they are parsed, so that a flood neither blocks the event loop nor is answered.

    ``ConnectionMiddleware`` reports which requests run.

    Attributes:
        lost: set when the connection is lost or about to be, also for an app that is not receiving at the moment.
        tap: of a socket whose messages are forwarded as they arrive.
    """

    limits: ClassVar[ConnectionLimits]

    def __init__(self, *, app_state: dict[str, Any], **kwargs: Any) -> None:
        self._protocol: asyncio.Protocol = H11Protocol(app_state=app_state | {CALLER: self}, **kwargs)
        self.loop = asyncio.get_running_loop()
        self._head_timer, self._stall_timer = _Timer(self._on_head_timeout), _Timer(self._on_stall_timeout)
        self._linger_timer = _Timer(self.abort)
        self._running, self._unsent_bytes, self._active_s = 0, 0, 0.0
        self._is_lost, self._is_accepted = False, False  # accepted: uvicorn's parser has accepted a handshake
        self._counter: FrameCounter | None = None  # of a socket
        self._waiting: asyncio.Timeout | None = None  # while a request waits for its turn
        self.lost = asyncio.Event()
        self.tap: Tap | None = None

    # --- called by asyncio ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        self.network = network_of(self.host)
        if not self.limits.add(self):
            self._refuse("503 Service Unavailable", _TOO_MANY, _RETRY)
            return
        self._protocol.connection_made(cast(asyncio.Transport, _Transport(self.transport, self._upgrade)))
        self._head_timer.start(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self.lost.set()
        for timer in (self._head_timer, self._stall_timer, self._linger_timer):
            timer.stop()  # a running one keeps the connection alive, and thousands of them slow garbage collection down
        if self._waiting is not None:
            self._waiting.reschedule(0.0)
        if self in self.limits.connections:
            self.limits.discard(self)
            self._protocol.connection_lost(None)  # after an error, uvicorn keeps its keep-alive timer

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._counter is not None:
            self._active_s = self.loop.time()
            if not self._counter.is_within(data):
                self._close_flood()
                return
        self.feed(data)

    def feed(self, data: bytes) -> None:
        """Handle received bytes."""
        rest = data if self.tap is None else self.tap.take(data)
        if rest:
            self._protocol.data_received(rest)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()
        if self.tap is not None:
            self.tap.on_writable(False)
        if self._counter is None:
            self._watch_unsent()
        else:
            self._unsent_bytes = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
        if self.tap is not None:
            self.tap.on_writable(True)
        self._active_s = self.loop.time()
        if self._counter is None and not self.transport.is_closing():
            self._stall_timer.stop()

    # --- called by the middleware --------------------------------------------------------------------

    def begin(self, *, is_socket: bool) -> None:
        """A request runs, so its head is complete."""
        self._running += 1
        self._is_accepted |= is_socket
        self._head_timer.stop()

    def end(self, *, is_socket: bool) -> None:
        """A request has ended; uvicorn closes a connection without another one before ``HEAD_S``, once all is read."""
        self._running -= 1
        if is_socket:
            self._stall_timer.stop()
            if not self._is_lost:
                self._linger_timer.start(LINGER_S)
        elif not self._running and not self._is_lost and self._counter is None:
            self._head_timer.start(HEAD_S)

    async def wait(self, turn: Awaitable[None]) -> bool:
        """Wait for the turn of a request; if the client leaves, the wait is cancelled, and the result is False.

        uvicorn would let the request wait and run without a client, and no limit of connections would count it.
        """
        try:
            async with asyncio.timeout_at(0.0 if self._is_lost else None) as self._waiting:
                await turn
        except TimeoutError:
            return False
        finally:
            self._waiting = None
        return not self._is_lost

    def abort(self) -> None:
        """Close without sending the remaining data; asyncio cannot abort a connection that is lost."""
        if not self._is_lost:
            self.transport.abort()

    @property
    def is_closing_socket(self) -> bool:
        """Whether this is a socket that has been closed and still has data to send."""
        return self._counter is not None and self.transport.is_closing()

    # --- limits --------------------------------------------------------------------------------------

    def _upgrade(self, protocol: asyncio.Protocol) -> None:
        self._protocol, self._counter = protocol, FrameCounter(self.limits.frames_per_s)
        self._head_timer.stop()
        self._active_s = self.loop.time()
        self._stall_timer.start(SILENCE_S)
        if kernel_socket := self.transport.get_extra_info("socket"):
            kernel_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.loop.call_soon(self._check_upgraded)

    def _check_upgraded(self) -> None:
        """Refuse a handshake that uvicorn's parser has neither accepted nor answered."""
        if not self._is_accepted and not self.transport.is_closing():
            self._refuse("400 Bad Request")

    def _on_head_timeout(self) -> None:
        if not self.transport.is_closing():
            self._refuse("408 Request Timeout")
        self._watch_unsent()  # a closing connection stays until the client has read the remaining data

    def _watch_unsent(self) -> None:
        self._unsent_bytes, self._active_s = self.transport.get_write_buffer_size(), self.loop.time()
        self._stall_timer.start(STALL_S)

    def _on_stall_timeout(self) -> None:
        """Abort if the client has read nothing since the timer started and, on a socket, sent nothing."""
        now_s, unsent_bytes = self.loop.time(), self.transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self._active_s = now_s
        self._unsent_bytes = unsent_bytes
        left_s = self._active_s + (STALL_S if self._counter is None else SILENCE_S) - now_s
        if left_s <= 0.0:
            self.abort()
        else:
            self._stall_timer.start(left_s)

    def _close_flood(self) -> None:
        payload = struct.pack("!H", _POLICY_VIOLATION) + b"too many frames"
        self.transport.write(bytes((0x88, len(payload))) + payload)
        self.transport.close()
        self.lost.set()
        self._linger_timer.start(LINGER_S)

    def _refuse(self, status: str, text: str = "", headers: dict[str, str] | None = None) -> None:
        fields = {"Content-Length": str(len(text)), "Connection": "close"} | (headers or {})
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.transport.write(f"HTTP/1.1 {status}\r\n{lines}\r\n{text}".encode("ascii"))
        self.transport.close()


class ConnectionMiddleware:
    """ASGI middleware, the outermost: reports running requests to their connection and limits new sockets (503).

    Requests are paced; those for ``/health`` separately, so that a flood of others does not delay them.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app, self._limits = app, limits
        self._pacer, self._health_pacer = RequestPacer(limits.max_run_s), RequestPacer(limits.max_run_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        if connection is None:
            await self._app(scope, receive, send)
            return
        is_socket = scope["type"] == "websocket"
        connection.begin(is_socket=is_socket)
        try:
            if is_socket and not self._takes_socket(scope):
                refusal = PlainTextResponse(_TOO_MANY, 503, _RETRY)
                await WebSocket(scope, receive, send).send_denial_response(refusal)
                return
            if is_socket:
                await self._app(scope, receive, send)
                return
            is_health = scope["path"].removeprefix(scope.get("root_path", "")) == HEALTH
            pacer = self._health_pacer if is_health else self._pacer
            async with AsyncExitStack() as stack:
                turn = stack.enter_async_context(pacer.run(_address_in(scope), self._limits.is_speaking))
                if await connection.wait(turn):
                    await self._app(scope, receive, send)
        finally:
            connection.end(is_socket=is_socket)

    def _takes_socket(self, scope: Scope) -> bool:
        try:
            self._limits.upgrades.take(_address_in(scope))
        except TooMany:
            return False
        return True


def _address_in(scope: Scope) -> str:
    return network_of(scope["client"][0] if scope["client"] else "")


def connection_of(scope: Scope) -> Connection | None:
    """The connection of an ASGI scope; None if another server made the scope."""
    connection = caller_of(scope)
    return connection if isinstance(connection, Connection) else None


async def close_socket(websocket: WebSocket, code: int, reason: str, timeout_s: float = LINGER_S) -> None:
    """Close a socket; abort it if its client does not read, so that no close frame can be sent in time."""
    try:
        with suppress(RuntimeError, WebSocketDisconnect):  # closed in the meantime
            async with asyncio.timeout(timeout_s):
                await websocket.close(code, reason)
    except TimeoutError:
        if (connection := connection_of(websocket.scope)) is not None:
            connection.abort()
