"""Run an app on uvicorn with the limits that the socket needs."""

import asyncio
import gc
import ipaddress
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from studio.core.errors import BadOption
from studio.mos.store.access import Limit
from studio.serve.door.connections import UPGRADES_BURST, UPGRADES_PER_S, Http, Socket
from studio.serve.live.protocol import MAX_MESSAGE_BYTES
from studio.settings import ServeSettings

MAX_CONNECTIONS, OWN_DESCRIPTORS = 2000, 300
WAITING, ACCEPTED_AT_ONCE = 2048, 32  # new connections: in the kernel's queue, and before anybody else has a turn
GRACE_S, SLACK_S = 3.0, 0.5  # for answers under way; between the end of that and the end of all
END_S = 4.5  # from the signal to stop to the end of the process, whatever a request is still at
log = logging.getLogger("studio.serve")

CLOSING = "closing"  # of an app's state: functions that end the answers which would go on for ever
DRAIN = "drain"  # of an app's state: finishes what is spoken


class Server(uvicorn.Server):
    """uvicorn's server, which would wait at its end for answers that never end, and log how it broke them off.

    Attributes:
        listening: called when the port answers.
        stopped: called after the last answer, before uvicorn raises the signal again that stopped it: SIGTERM ends the
            process there, and a request that hangs does so at ``END_S``.
    """

    listening: Callable[[], None] = staticmethod(lambda: None)
    stopped: Callable[[], None] = staticmethod(lambda: None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        last_resort = threading.Timer(END_S, _end_now)
        last_resort.daemon = True
        last_resort.start()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(WAITING)  # asyncio takes as many at once as it was told to let wait: so it was told few
        if self.started:
            self.listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        began_s = time.monotonic()
        await self._drain()
        left_s = END_S - (time.monotonic() - began_s) - SLACK_S
        self.config.timeout_graceful_shutdown = max(1, round(min(GRACE_S, left_s)))
        for end in getattr(getattr(self.config.app, "state", None), CLOSING, ()):
            end()
        await super().shutdown(sockets)
        await asyncio.to_thread(self.stopped)

    async def _drain(self) -> None:
        """Let what is spoken come to its end; a second signal breaks that off."""
        drain = getattr(getattr(self.config.app, "state", None), DRAIN, None)
        if drain is None:
            return
        running = asyncio.create_task(drain.run())
        while not self.force_exit and not running.done():
            await asyncio.wait((running,), timeout=0.1)
        if not running.cancel() and (error := running.exception()):
            log.error("what was spoken could not be finished", exc_info=error)


def _end_now() -> None:
    """Python waits for every worker thread, and one request may hold one for ever. What was acknowledged is on disk."""
    log.error("a request or an utterance did not end within %.1f s of the signal to stop: the process ends", END_S)
    logging.shutdown()
    os._exit(1)


def server(app: ASGIApp, settings: ServeSettings) -> Server:
    """A server that has not been started.

    Messages are bounded before they are parsed; nothing is compressed, since deflating PCM costs latency and
    gains nothing; there is no access log. A client that has silently gone is found out by pings. Connections are
    counted, so that descriptors are left for files and for the database.
    """
    most = max_connections()
    proxies = [ipaddress.ip_network(proxy) for proxy in settings.proxies]
    own = {"max_connections": most, "max_of_one_address": most // 2, "proxies": proxies}
    upgrades = Limit(burst=UPGRADES_BURST, per_second=UPGRADES_PER_S)
    http = type("Http", (Http,), own | {"upgrades": upgrades})
    ws = type("Socket", (Socket,), {"frames_per_s": max(Socket.frames_per_s, 2 * settings.messages_per_s)})
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        root_path=settings.root_path,
        log_level=settings.log_level,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        http=http,
        ws=ws,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=10.0,
        ws_ping_timeout=10.0,
        timeout_graceful_shutdown=round(GRACE_S),
        backlog=ACCEPTED_AT_ONCE,
    )
    return Server(config)


def max_connections() -> int:
    """How many connections there may be at once: as many as the process may open files, but for some of its own."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1000
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    wanted = MAX_CONNECTIONS + OWN_DESCRIPTORS
    if allowed < wanted:
        allowed = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    return max(16, min(MAX_CONNECTIONS, allowed - OWN_DESCRIPTORS))


def take_port(settings: ServeSettings) -> socket.socket:
    """The address of the settings, taken but not answered yet; port 0 takes any free one. Raises BadOption."""
    # asyncio turns Nagle's algorithm off only where the protocol is named: else whatever follows within a delayed
    # acknowledgement (the body after the head, sound after a word's event) waits 40 ms for it.
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # a server that has just ended leaves its port in a state that only this may take
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((settings.host, settings.port))
    except OSError as error:
        taken.close()
        raise BadOption(
            f"port {settings.port} of {settings.host} cannot be taken: {error.strerror or error}",
            "is a studio running there already? --port takes another one, and 0 any that is free",
        ) from error
    return taken


def run(
    app: ASGIApp,
    settings: ServeSettings,
    taken: socket.socket | None = None,
    listening: Callable[[], None] = lambda: None,
    stopped: Callable[[], None] = lambda: None,
) -> None:
    """Serve until interrupted, on a port that was taken before or on that of the settings.

    The process itself ends at the latest ``END_S`` after the signal.

    Args:
        listening: called when the port answers.
        stopped: called after the last answer, before the process ends by the signal: closes the databases.
    """
    # What is here now stays: else Python looks through all of it (nets, page, modules) now and then for what may go,
    # and nobody speaks in that third of a second.
    gc.collect()
    gc.freeze()
    made = server(app, settings)
    made.listening, made.stopped = listening, stopped
    made.run(sockets=[taken or take_port(settings)])
