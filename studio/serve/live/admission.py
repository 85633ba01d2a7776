"""Admission of sockets: how many are open, and which is closed for a new one."""

from collections import Counter
from typing import TypeVar

from starlette.responses import Response
from starlette.websockets import WebSocket

from studio.serve.live.socket import RETRY_MS, SpeakSession
from studio.serve.settings import ServeSettings

AnySession = TypeVar("AnySession", bound=SpeakSession)


async def admit(websocket: WebSocket, sockets: set[AnySession], settings: ServeSettings, session: AnySession) -> None:
    """Serve a socket to its end; 503 where ``max_sockets`` are open and none of them can be closed."""
    if len(sockets) >= settings.max_sockets:
        idle = _least_used(sockets, session.address)
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
