"""Run an app on uvicorn with the limits that the socket needs."""

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from studio.serve.protocol import MAX_MESSAGE_BYTES
from studio.settings import ServeSettings

LINGER_S = 5.0


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's socket, which would keep a connection for ever whose client takes nothing: ours is aborted."""

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self.loop.call_later(LINGER_S, self.transport.abort)


def server(app: ASGIApp, settings: ServeSettings) -> uvicorn.Server:
    """A server that has not been started.

    Messages are bounded before they are parsed; nothing is compressed, since deflating PCM costs latency and
    gains nothing; there is no access log. A client that has silently gone is found out by pings.
    """
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        root_path=settings.root_path,
        log_level=settings.log_level,
        access_log=False,
        ws=Socket,
        ws_max_size=MAX_MESSAGE_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=10.0,
        ws_ping_timeout=10.0,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)


def run(app: ASGIApp, settings: ServeSettings) -> None:
    """Serve until interrupted."""
    server(app, settings).run()
