"""Run an app on uvicorn with the limits of the sockets, admit sockets, and shut down gracefully."""

import asyncio
import ctypes
import gc
import ipaddress
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from types import FrameType
from typing import Literal, Protocol, TypeVar

import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from studio.core.errors import BadOption, Closing, StudioError
from studio.serve.live.protocol import MAX_MESSAGE_BYTES
from studio.serve.live.socket import RETRY_MS, SpeakSession
from studio.serve.middleware.connections import PING_S, Connection, ConnectionLimits, ConnectionMiddleware
from studio.serve.middleware.turns import MAX_RUN_S
from studio.serve.settings import ServeSettings

MAX_CONNECTIONS, OWN_DESCRIPTORS = 2000, 300
BACKLOG, ACCEPT_BATCH = 2048, 32  # new connections: queued in the kernel, and accepted in one pass of the event loop
GRACE_S, SLACK_S = 3.0, 0.5  # for requests in progress; between the end of that and the end of the process
# A step of the engine gives the interpreter's lock away a hundred times. While requests keep the event loop busy, it
# waits this long to get it back; by Python's default, 5 ms, a step would last half a second.
SWITCH_S = 0.0002
MAX_HEAP_BLOCK_BYTES = 4 * 2**20  # larger blocks are mapped, and unmapped when they are freed
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MAX_SHUTDOWN_S = 4.5  # from the signal to the end of the process, whatever a request is doing
_LAST_EVENTS_S = 0.5  # for cancelled utterances to report how far they were played
_POLL_S = 0.02
log = logging.getLogger("studio.serve")
CLOSING = "closing"  # attribute of the app's state: functions that end endless responses
EventLoop = Literal["asyncio", "auto"]
DRAIN = "drain"  # attribute of the app's state: finishes the speech
AnySession = TypeVar("AnySession", bound=SpeakSession)


class SupportsDrain(Protocol):
    """What ``Drain`` needs of an engine."""

    def drain(self) -> None:
        """Refuse new utterances."""
        ...


class DrainableSession(Protocol):
    """What ``Drain`` needs of a socket's session."""

    def idle_s(self) -> float:
        """Seconds since an utterance was spoken; 0 while one is."""
        ...

    async def send_error(self, error: StudioError) -> None:
        """Send the client an error about its socket."""
        ...

    async def cancel_all(self) -> None:
        """Cancel the session's utterances."""
        ...


class Drain:
    """Finish the committed text, cancel the rest, and notify every client.

    ``timeout_s``: limit for the committed text.

    Attributes:
        is_announced: whether ``/health`` says ``draining``: whoever sends utterances here sends no more of them.
    """

    def __init__(self, engine: SupportsDrain, timeout_s: float) -> None:
        self._engine, self._timeout_s, self.is_announced = engine, timeout_s, False
        self._sockets: list[Collection[DrainableSession]] = []

    def watch(self, sockets: Collection[DrainableSession]) -> None:
        """Also drain the sessions that this collection holds at that time."""
        self._sockets.append(sockets)

    def is_speaking(self) -> bool:
        """Whether an utterance is being opened or spoken."""
        return any(session.idle_s() == 0.0 for sockets in self._sockets for session in [*sockets])

    async def run(self) -> None:
        """Refuse new utterances, wait for the running ones, cancel what is left."""
        self._engine.drain()
        sessions = [session for sockets in self._sockets for session in [*sockets]]
        closing = Closing("the server is closing", "what is committed is still spoken; connect again in a moment")
        await asyncio.gather(*(session.send_error(closing) for session in sessions))
        await self._wait_idle(sessions, self._timeout_s)
        await asyncio.gather(*(session.cancel_all() for session in sessions))
        await self._wait_idle(sessions, _LAST_EVENTS_S)

    async def _wait_idle(self, sessions: list[DrainableSession], timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while loop.time() < until_s and any(session.idle_s() == 0.0 for session in sessions):
            await asyncio.sleep(_POLL_S)


class Server(uvicorn.Server):
    """uvicorn's server, with an end to endless responses and a bounded shutdown.

    Attributes:
        limits: those of the connections, and which are open.
        app_state: the app's state, if it has one.
        on_ready: called when the port answers.
        on_stopped: called after the last response, before uvicorn raises the signal again: SIGTERM ends the process
            there, and a hung request ends it after ``MAX_SHUTDOWN_S``.
    """

    on_ready: Callable[[], None] = staticmethod(lambda: None)
    on_stopped: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, app_state: object) -> None:
        super().__init__(config)
        self.limits, self.app_state = limits, app_state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        timer = threading.Timer(MAX_SHUTDOWN_S, _force_exit)
        timer.daemon = True
        timer.start()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # asyncio accepts ``backlog`` connections in one pass, so the Config has a small one
        if self.started:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        began_s = time.monotonic()
        await self._drain()
        left_s = MAX_SHUTDOWN_S - (time.monotonic() - began_s) - SLACK_S
        self.config.timeout_graceful_shutdown = max(1, round(min(GRACE_S, left_s)))
        for end in getattr(self.app_state, CLOSING, ()):
            end()
        for connection in [*self.limits.connections]:
            if connection.is_closing_socket:  # uvicorn would fail to close it once more
                connection.abort()
        await asyncio.sleep(0)
        await super().shutdown(sockets)
        await asyncio.to_thread(self.on_stopped)

    async def _drain(self) -> None:
        """Finish the speech; a second signal interrupts that."""
        drain = getattr(self.app_state, DRAIN, None)
        if drain is None:
            return
        running = asyncio.create_task(drain.run())
        while not self.force_exit and not running.done():
            await asyncio.wait((running,), timeout=0.1)
        if not running.cancel() and (error := running.exception()):
            log.error("draining failed", exc_info=error)


def _force_exit() -> None:
    """End the process: Python would wait for every worker thread. Acknowledged data are on disk."""
    log.error("a request or an utterance did not end within %.1f s of the stop signal: exiting", MAX_SHUTDOWN_S)
    logging.shutdown()
    os._exit(1)


def build_server(
    app: ASGIApp, settings: ServeSettings, *, loop: EventLoop = "asyncio", is_front: bool = False
) -> Server:
    """A server, not started. ``loop``: "auto" is uvloop where it is installed (Ray asks for it).

    ``is_front``: requests only wait for replicas, which pace those that they get, so that none waits for another here.
    Messages are bounded before they are parsed. Nothing is compressed: deflating PCM costs latency and gains nothing.
    There is no access log. Connections are limited, so that file descriptors are left for files and for the database.
    """
    limit = max_connections()
    state = getattr(app, "state", None)
    drain: Drain | None = getattr(state, DRAIN, None)
    limits = ConnectionLimits(
        max_connections=limit,
        max_per_address=limit // 2,
        proxies=[ipaddress.ip_network(proxy) for proxy in settings.proxies],
        frames_per_s=max(1000.0, 2.0 * settings.messages_per_s),
        is_speaking=(lambda: False) if drain is None or is_front else drain.is_speaking,
        max_run_s=0.0 if is_front else MAX_RUN_S,
    )
    config = uvicorn.Config(
        ConnectionMiddleware(app, limits),
        host=settings.host,
        port=settings.port,
        root_path=settings.root_path,
        log_level=settings.log_level,
        loop=loop,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        http=type("LimitedConnection", (Connection,), {"limits": limits}),
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_S,
        ws_ping_timeout=None,  # a pong may come late; Connection detects clients that neither send nor read
        timeout_graceful_shutdown=round(GRACE_S),
        backlog=ACCEPT_BATCH,
    )
    return Server(config, limits, state)


def max_connections() -> int:
    """How many connections may be open: the process's file descriptor limit, less some for its own files."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    needed = MAX_CONNECTIONS + OWN_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(16, min(MAX_CONNECTIONS, soft - OWN_DESCRIPTORS))


def bind_port(settings: ServeSettings) -> socket.socket:
    """A socket bound to the settings' address, not yet listening; port 0 binds any free one. Raises BadOption."""
    # asyncio turns Nagle's algorithm off only where the protocol is named. Otherwise a body after its head, or audio
    # after a word's event, waits 40 ms for a delayed acknowledgement.
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # allows the port of a server that has just ended
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((settings.host, settings.port))
    except OSError as error:
        bound.close()
        raise BadOption(
            f"port {settings.port} of {settings.host} cannot be taken: {error.strerror or error}",
            "is a studio running there already? --port takes another one, and 0 any that is free",
        ) from error
    return bound


def run(
    app: ASGIApp,
    settings: ServeSettings,
    bound: socket.socket | None = None,
    on_ready: Callable[[], None] = lambda: None,
    on_stopped: Callable[[], None] = lambda: None,
    *,
    loop: EventLoop = "asyncio",
) -> None:
    """Serve until interrupted. The process ends at most ``MAX_SHUTDOWN_S`` after the signal.

    Args:
        bound: the socket to listen on; that of the settings by default.
        on_ready: called when the port answers.
        on_stopped: called after the last response, before the process ends by the signal: closes the databases.
    """
    prepare_process()
    server = build_server(app, settings, loop=loop)
    server.on_ready, server.on_stopped = on_ready, on_stopped
    server.run(sockets=[bound or bind_port(settings)])


def prepare_process() -> None:
    """Settings of a process whose engine and server were loaded."""
    # Exclude everything loaded so far (models, page, modules) from garbage collection, which otherwise stops all
    # speech for a third of a second.
    gc.collect()
    gc.freeze()
    gc.enable()  # ``paused_collections`` of the start ends here
    sys.setswitchinterval(SWITCH_S)
    return_freed_blocks()


def return_freed_blocks() -> None:
    """Give large blocks back to the system once they are freed, where the allocator is glibc's.

    By default it raises its limit to the largest block that was freed, up to 32 MiB, and keeps twice that: after a few
    uploads of 30 MB the process held 80 MB of unused memory.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_THRESHOLD, MAX_HEAP_BLOCK_BYTES)
            libc.mallopt(_M_TRIM_THRESHOLD, MAX_HEAP_BLOCK_BYTES)


async def admit(websocket: WebSocket, sockets: set[AnySession], settings: ServeSettings, session: AnySession) -> None:
    """Serve a socket to its end; 503 where ``max_sockets`` are open and none of them can be closed."""
    if len(sockets) >= settings.max_sockets:
        idle = _least_used(sockets, session.address) or _silent(sockets, session.address)
        if idle is None:
            busy = Response(f"full: try again in {RETRY_MS} ms", 503, {"Retry-After": str(-(-RETRY_MS // 1000))})
            await websocket.send_denial_response(busy)
            return
        sockets.discard(idle)
        await idle.close_idle()
    sockets.add(session)
    try:
        await session.run()
    finally:
        sockets.discard(session)


def _silent(sockets: set[AnySession], address: str) -> AnySession | None:
    """A socket without sound of the address with the most, where the new one's would have fewer.

    Nobody hears that an utterance is opened, waits or is rejected: 64 such sockets of one address shut out nobody else.
    """
    counts = Counter(session.address for session in sockets)
    silent = (session for session in sockets if not session.is_heard())
    best = max(silent, key=lambda session: counts[session.address], default=None)
    return best if best is not None and counts[best.address] > counts[address] + 1 else None


def _least_used(sockets: set[AnySession], address: str) -> AnySession | None:
    """The socket to close for a new one from ``address``: idle, and of the address with the most sockets.

    A fresh socket is closed only where its address has more sockets than the new one's would have.
    """
    counts = Counter(session.address for session in sockets)
    idle = [session for session in sockets if session.idle_s() > 0.0]
    best = max(idle, key=lambda session: (counts[session.address], session.idle_s()), default=None)
    if best is None or counts[best.address] > counts[address] + 1 or not best.is_fresh():
        return best
    return next((session for session in idle if not session.is_fresh()), None)
