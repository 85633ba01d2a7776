"""Connections as uvicorn serves them, bounded: half a request, a reader that stands still and a flood of frames end."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

import h11
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from studio.mos.store.access import Limit, TooMany
from studio.serve.door.addresses import network_of
from studio.serve.door.key import is_loopback
from studio.serve.door.rates import Bucket

HEAD_S = 10.0  # until a request's head must be there, whole
KERNEL_BYTES = 131_072  # sent on a socket and not yet taken, seconds of sound; Linux makes it twice as many
LOST = "studio.lost"  # in a socket's scope: an event that is set when its connection is gone
STALL_S = 30.0  # an answer that nobody takes further for so long is given up
LINGER_S = 5.0
UPGRADES_BURST, UPGRADES_PER_S = 100, 20  # sockets that one network address opens
CONTROLS_PER_S = 20  # of one socket; a browser sends no control frame but answers to ours
_SLICE_BYTES = 2048  # parsed at once, before the frames in it are counted
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 38\r\nRetry-After: 5\r\n"
    b"Connection: close\r\n\r\ntoo many connections; try again later\n"
)


class _Alarm:
    """Calls once, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_s: float, call: Any) -> None:
        self._loop, self._after_s, self._call = loop, after_s, call
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to count, where it does not yet."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._after_s, self._call)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Http(H11Protocol):
    """uvicorn's HTTP, which waits for ever for the rest of a head, and for a reader who takes nothing.

    Connections are counted: of all, and of one network address, unless it is this machine's own. So are sockets that an
    address opens in a short time, before anything is made for them.
    """

    max_connections = 1000
    max_of_one_address = 500
    upgrades = Limit(burst=UPGRADES_BURST, per_second=UPGRADES_PER_S)
    proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = _Alarm(self.loop, HEAD_S, self._too_slow)
        self._stall, self._unsent_bytes = _Alarm(self.loop, STALL_S, self._stalled), 0
        self._is_socket = False
        self.network = network_of(self.client[0]) if self.client else ""
        if self._is_one_too_many():
            transport.write(_FULL)
            transport.close()
            return
        self._head.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._stall.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_socket = True
        self._head.stop()
        try:
            self.upgrades.take(self.network)
        except TooMany:
            self.transport.write(_FULL)
            self.transport.close()
            return
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._stall.start()

    def _stalled(self) -> None:
        """A slow reader may take its time; one that took nothing since the last look is given up."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes >= self._unsent_bytes:
            self.transport.abort()
            return
        self._unsent_bytes = unsent_bytes
        self._stall.stop()
        self._stall.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.stop()

    def _watch_head(self) -> None:
        """The time runs while a part of a head is there, and before the first one."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        has_part = self.cycle is None or bool(self.conn.trailing_data[0])
        if is_busy or not has_part or self._is_socket or self.transport.is_closing():
            self._head.stop()
        else:
            self._head.start()

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()

    def _is_proxy(self) -> bool:
        if not self.proxies or not self.client:
            return False
        try:
            address = ipaddress.ip_address(self.client[0])
        except ValueError:  # a socket of this machine
            return False
        return any(address in network for network in self.proxies)

    def _is_one_too_many(self) -> bool:
        if len(self.connections) > self.max_connections:
            return True
        if is_loopback(self.network) or self._is_proxy():
            return False
        return sum(getattr(one, "network", "") == self.network for one in self.connections) > self.max_of_one_address


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's socket, which would keep a connection for ever whose client takes nothing: ours is aborted.

    One that takes slowly is not: it sees our ping only behind all that was sent before, of which the kernel would keep
    megabytes.

    uvicorn's also takes a refusal (403, 503) for a handshake that was forgotten, and logs an error; and it answers as
    many control frames as come, parsing all that has arrived before anybody else has a turn.
    """

    frames_per_s = 1000

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        self._frames, self._controls = Bucket(self.frames_per_s), Bucket(CONTROLS_PER_S)
        self._is_flood, self._lost = False, asyncio.Event()
        self._has_taken = False  # something of what waited, since the last ping
        if kernel := transport.get_extra_info("socket"):
            kernel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()  # who does not read just now hears of it, too
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._has_taken = True
        super().resume_writing()

    def send_keepalive_ping(self) -> None:
        self._has_taken = False
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        if self._has_taken and self.ping_timeout is not None:
            self._has_taken = False
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():  # which nobody takes: a close would wait for that
            self.transport.abort()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope[LOST] = self._lost  # type: ignore[typeddict-unknown-key]

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # a request's head, of which only the whole makes sense
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:  # uvicorn has no answer to that
                self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                self.transport.close()
            return
        for at in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[at : at + _SLICE_BYTES])
            if self._is_flood:
                self._fail(1008, "too many frames")
                self.transport.close()
                return

    def shutdown(self) -> None:
        if self.transport.is_closing():
            return
        super().shutdown()

    def handle_cont(self, event: Frame) -> None:
        self._count(self._frames)
        super().handle_cont(event)

    def handle_text(self, event: Frame) -> None:
        self._count(self._frames)
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._count(self._frames)
        super().handle_bytes(event)

    def handle_ping(self) -> None:
        self._count(self._controls)
        super().handle_ping()

    def handle_pong(self, event: Frame) -> None:
        self._count(self._controls)
        super().handle_pong(event)

    def send_receive_event_to_app(self) -> None:
        """Bytes that are no UTF-8 close the socket; uvicorn would write a traceback for each."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._fail(1007, "text messages are UTF-8")
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = self.handshake_complete or self.close_sent

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(LINGER_S, self._leave)

    def _leave(self) -> None:
        if not self.disconnected:  # asyncio cannot abort what is gone
            self.transport.abort()

    def _count(self, bucket: Bucket) -> None:
        self._is_flood = not bucket.take() or self._is_flood

    def _fail(self, code: int, why: str) -> None:
        if self.close_sent:
            return
        self.conn.fail(code, why)
        self.handle_parser_exception()
