"""uvicorn's protocols with limits: slow request heads, readers that stopped, floods of frames and of connections."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence

import h11
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from studio.mos.store.access import RateLimit, TooMany
from studio.serve.middleware.limits import TokenBucket, is_loopback, network_of

HEAD_S = 10.0  # time limit of a request's head
SEND_BUFFER_BYTES = 131_072  # of the kernel, per socket: seconds of audio; Linux doubles it
CONNECTION_LOST = "studio.lost"  # in a socket's scope: an event that is set when its connection is lost
STALL_S = 30.0  # a response of which the client reads nothing for so long is aborted
LINGER_S = 5.0
UPGRADES_BURST, UPGRADES_PER_S = 100, 20  # sockets that one network address opens
CONTROLS_PER_S = 20  # control frames of one socket; a browser only answers our pings
_SLICE_BYTES = 2048  # parsed at once, before the frames in it are counted
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 38\r\nRetry-After: 5\r\n"
    b"Connection: close\r\n\r\ntoo many connections; try again later\n"
)


class _Timer:
    """Calls a function once after a delay, unless stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float, call: Callable[[], None]) -> None:
        self._loop, self._delay_s, self._call = loop, delay_s, call
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start, unless it is running."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._delay_s, self._call)

    def stop(self) -> None:
        """Stop; it may be started again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class LimitedHttpProtocol(H11Protocol):
    """uvicorn's HTTP, with time limits for request heads and for readers.

    Limits the connections in total and, except for this machine and the proxies, per network address; and the rate of
    WebSocket upgrades per address.
    """

    max_connections = 1000
    max_per_address = 500
    upgrades = RateLimit(burst=UPGRADES_BURST, per_second=UPGRADES_PER_S)
    proxies: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = _Timer(self.loop, HEAD_S, self._on_head_timeout)
        self._stall_timer, self._unsent_bytes = _Timer(self.loop, STALL_S, self._on_stall_timeout), 0
        self._is_websocket = False
        self.network = network_of(self.client[0]) if self.client else ""
        if self._is_over_limit():
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._head_timer.start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.stop()
        self._stall_timer.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._update_head_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_head_timer()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_websocket = True
        self._head_timer.stop()
        try:
            self.upgrades.take(self.network)
        except TooMany:
            self.transport.write(_TOO_MANY)
            self.transport.close()
            return
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._stall_timer.start()

    def _on_stall_timeout(self) -> None:
        """Abort where the client has read nothing since the timer started; a slow reader is kept."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes >= self._unsent_bytes:
            self.transport.abort()
            return
        self._unsent_bytes = unsent_bytes
        self._stall_timer.stop()
        self._stall_timer.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer.stop()

    def _update_head_timer(self) -> None:
        """The timer runs before the first head, and while a part of a head is there."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        has_part = self.cycle is None or bool(self.conn.trailing_data[0])
        if is_busy or not has_part or self._is_websocket or self.transport.is_closing():
            self._head_timer.stop()
        else:
            self._head_timer.start()

    def _on_head_timeout(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self.transport.close()

    def _is_proxy(self) -> bool:
        if not self.proxies or not self.client:
            return False
        try:
            address = ipaddress.ip_address(self.client[0])
        except ValueError:  # a Unix socket
            return False
        return any(address in network for network in self.proxies)

    def _is_over_limit(self) -> bool:
        if len(self.connections) > self.max_connections:
            return True
        if is_loopback(self.network) or self._is_proxy():
            return False
        return sum(getattr(one, "network", "") == self.network for one in self.connections) > self.max_per_address


class LimitedWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol, with these differences:

    * A client that reads nothing is aborted. A slow one is kept: it sees our ping only behind everything sent before,
      so the kernel's send buffer is small.
    * A denied handshake (403, 503) is not logged as an error.
    * Frames are parsed in slices and counted, so that a flood neither blocks the event loop nor is answered.
    """

    frames_per_s = 1000

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.network = network_of(self.client[0]) if self.client else ""
        self._frames, self._controls = TokenBucket(self.frames_per_s), TokenBucket(CONTROLS_PER_S)
        self._is_flood, self._lost = False, asyncio.Event()
        self._has_read = False  # since the last ping the client has read some of what was buffered
        if kernel_socket := transport.get_extra_info("socket"):
            kernel_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()  # for an app that is not receiving just now
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self._has_read = True
        super().resume_writing()

    def send_keepalive_ping(self) -> None:
        self._has_read = False
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        if self._has_read and self.ping_timeout is not None:
            self._has_read = False
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)
            return
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():  # a close would wait until the client reads it
            self.transport.abort()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            self.scope[CONNECTION_LOST] = self._lost  # type: ignore[typeddict-unknown-key]

    def data_received(self, data: bytes) -> None:
        if not self.handshake_initiated:  # a request's head cannot be sliced
            super().data_received(data)
            if self.conn.handshake_exc is not None and not self.handshake_initiated:  # uvicorn does not answer this
                self.transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                self.transport.close()
            return
        for at in range(0, len(data), _SLICE_BYTES):
            if self.transport.is_closing():
                return
            super().data_received(data[at : at + _SLICE_BYTES])
            if self._is_flood:
                self._close_with_error(1008, "too many frames")
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
        """Close the socket where a text message is not UTF-8; uvicorn would log a traceback."""
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._close_with_error(1007, "text messages are UTF-8")
                return
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = self.handshake_complete or self.close_sent

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(LINGER_S, self._abort_if_open)

    def _abort_if_open(self) -> None:
        if not self.disconnected:  # asyncio cannot abort a lost connection
            self.transport.abort()

    def _count(self, bucket: TokenBucket) -> None:
        self._is_flood = not bucket.take() or self._is_flood

    def _close_with_error(self, code: int, reason: str) -> None:
        if self.close_sent:
            return
        self.conn.fail(code, reason)
        self.handle_parser_exception()
