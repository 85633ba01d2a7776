"""Which sockets there may be at once, and which one goes when another comes."""

from collections import Counter
from typing import TypeVar

from starlette.responses import Response
from starlette.websockets import WebSocket

from studio.serve.live.socket import RETRY_MS, Session
from studio.settings import ServeSettings

AnySession = TypeVar("AnySession", bound=Session)


async def admit(websocket: WebSocket, sockets: set[AnySession], settings: ServeSettings, session: AnySession) -> None:
    """Serve a socket to its end, unless there are as many as there may be and none of them can go."""
    if len(sockets) >= settings.max_sockets:
        can_go = _least_used(sockets, session.address)
        if can_go is None:
            refusal = Response(f"full: try again in {RETRY_MS} ms", 503, {"Retry-After": str(-(-RETRY_MS // 1000))})
            await websocket.send_denial_response(refusal)
            return
        sockets.discard(can_go)
        await can_go.retire()
    sockets.add(session)
    try:
        await session.run()
    finally:
        sockets.discard(session)


def _least_used(sockets: set[AnySession], address: str) -> AnySession | None:
    """The socket that goes when another one comes: it speaks nothing, and its network address has the most of them.

    It goes at once where that address has more than the new one's would have, else only when it is not fresh.
    """
    of = Counter(one.address for one in sockets)
    silent = [one for one in sockets if one.idle_s() > 0.0]
    found = max(silent, key=lambda one: (of[one.address], one.idle_s()), default=None)
    if found is None or of[found.address] > of[address] + 1 or not found.is_fresh():
        return found
    return next((one for one in silent if not one.is_fresh()), None)
