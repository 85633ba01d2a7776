"""Requests and sockets as a front passes them on."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

import aiohttp
from multidict import CIMultiDict
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from yarl import URL

from studio.deploy.members import KEY_HEADER, Member
from studio.serve.middleware.bodies import BODY_S

MAX_KEPT_BYTES = 65_536  # of a request that can be sent to another replica; a longer one is passed on as it comes

SERVICE_RESTART = 1012  # close code of a socket whose replica is gone; the client may connect again at once
_HEARTBEAT_S = 20.0  # a replica whose machine is gone does not answer pings
MAX_MESSAGE_BYTES = 4 * 2**20
_OF_ONE_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
_REPLACED = frozenset(b"forwarded x-forwarded-for x-forwarded-proto x-studio-key".split())
_NO_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
LOST = JSONResponse(
    {"code": "replica_lost", "message": "the replica that answered has ended; try again"}, 502, {"Retry-After": "1"}
)
NOBODY = JSONResponse(
    {"code": "unavailable", "message": "no replica is running; try again in a moment"}, 503, {"Retry-After": "5"}
)


def address(scope: Scope, member: Member) -> URL:
    """Where a replica has what a request asks for."""
    path = scope["raw_path"].decode("latin-1").removeprefix(scope.get("root_path", ""))
    query = scope["query_string"].decode("latin-1")
    return URL(f"{member.url}{path}{'?' if query else ''}{query}", encoded=True)


def headers_for(scope: Scope, key: str) -> "CIMultiDict[str]":
    """A request's headers as a replica gets them: who asks, and the key of the replicas."""
    found = CIMultiDict[str]()
    for name, value in scope["headers"]:
        if name not in _OF_ONE_HOP | _REPLACED and not name.startswith(b"sec-websocket-"):
            found.add(name.decode("latin-1"), value.decode("latin-1"))
    found["X-Forwarded-For"] = str(scope["client"][0]) if scope["client"] else ""
    found["X-Forwarded-Proto"] = "https" if scope["scheme"] in ("https", "wss") else "http"
    found[KEY_HEADER] = key
    return found


class Gone(Exception):
    """The client has left."""


class Body:
    """The body of a request: all of it where it is short, so that it can be sent again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._start, self._is_whole, self._is_used = b"", False, False
        self.is_read = asyncio.Event()

    async def begin(self) -> None:
        """Read the start of it."""
        while not self._is_whole and len(self._start) < MAX_KEPT_BYTES:
            self._start += await self._next()

    @property
    def can_be_sent(self) -> bool:
        """Whether all of it is here, or nothing was passed on yet."""
        return self._is_whole or not self._is_used

    def data(self) -> "bytes | AsyncGenerator[bytes] | None":
        """For aiohttp."""
        return (self._start or None) if self._is_whole else self._parts()

    async def _parts(self) -> AsyncGenerator[bytes]:
        self._is_used = True
        yield self._start
        while not self.is_read.is_set():
            yield await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] != "http.request":
            raise Gone
        if not message.get("more_body", False):
            self.is_read.set()
            self._is_whole = not self._is_used
        return message.get("body", b"")

    async def until_gone(self) -> None:
        """Returns when the client has left."""
        await self.is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def forward(
    scope: Scope, receive: Receive, send: Send, members: Iterable[Member], session: aiohttp.ClientSession, key: str
) -> None:
    """Answer a request by the first replica that can; one that says 503 is followed by the next.

    A request that changes something is not sent again once a replica may have read it.
    """
    body, headers = Body(receive), headers_for(scope, key)
    try:
        async with asyncio.timeout(BODY_S):
            await body.begin()
        refusal: Response = NOBODY
        for member in members:
            if not body.can_be_sent:
                break
            answering = asyncio.create_task(_answer(scope, send, member, body, headers, session))
            leaving = asyncio.create_task(body.until_gone())
            try:
                await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    return
                outcome = answering.result()
            finally:
                answering.cancel()
                leaving.cancel()
                await asyncio.gather(answering, leaving, return_exceptions=True)
            if outcome is None:
                return
            refusal = outcome
            if outcome is LOST and scope["method"] not in ("GET", "HEAD"):
                break
        await refusal(scope, receive, send)
    except TimeoutError:
        await Response(status_code=408)(scope, receive, send)
    except Gone:
        return


async def _answer(
    scope: Scope, send: Send, member: Member, body: Body, headers: "CIMultiDict[str]", session: aiohttp.ClientSession
) -> Response | None:
    """Pass a replica's answer on. Its refusal, or why there is none, before anything was passed on."""
    is_begun = False
    try:
        async with session.request(
            scope["method"],
            address(scope, member),
            headers=headers,
            data=body.data(),
            allow_redirects=False,
            skip_auto_headers=_NO_AUTO_HEADERS,
        ) as response:
            fields = [(name, value) for name, value in response.raw_headers if name.lower() not in _OF_ONE_HOP]
            if response.status == 503:
                content = await response.read()
                refusal = Response(content, 503)
                refusal.raw_headers = [(name.lower(), value) for name, value in fields]
                return refusal
            is_begun = True
            await send({"type": "http.response.start", "status": response.status, "headers": fields})
            async for part in response.content.iter_any():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return None
    except aiohttp.ClientConnectorError:
        return NOBODY
    except aiohttp.ClientError:
        return None if is_begun else LOST


async def connect(
    scope: Scope, member: Member, session: aiohttp.ClientSession, key: str
) -> aiohttp.ClientWebSocketResponse:
    """The same socket at a replica. Raises aiohttp.ClientError: WSServerHandshakeError for a refusal."""
    return await session.ws_connect(
        address(scope, member),
        headers=headers_for(scope, key),
        protocols=scope.get("subprotocols", ()),
        max_msg_size=MAX_MESSAGE_BYTES,
        autoclose=False,
        heartbeat=_HEARTBEAT_S,
        compress=0,
    )


async def refuse(websocket: WebSocket, status: int) -> None:
    """Answer a handshake as a replica did, which has no body that a client could read."""
    error = {"code": "busy" if status == 503 else "refused", "message": "try again in a moment"}
    retry = {"Retry-After": "1"} if status == 503 else {}
    await websocket.send_denial_response(JSONResponse(error, status, retry))


async def tunnel(websocket: WebSocket, members: Iterable[Member], session: aiohttp.ClientSession, key: str) -> None:
    """Pass a socket to the first replica that accepts it, and keep it there."""
    status = 503
    for member in members:
        try:
            socket = await connect(websocket.scope, member, session, key)
        except aiohttp.WSServerHandshakeError as error:
            status = error.status
            if status != 503:
                break
        except (aiohttp.ClientError, OSError):
            continue
        else:
            async with socket:
                await websocket.accept(socket.protocol)
                up, down = asyncio.create_task(_up(websocket, socket)), asyncio.create_task(_down(websocket, socket))
                await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
                up.cancel()
                down.cancel()
                await asyncio.gather(up, down, return_exceptions=True)
            return
    await refuse(websocket, status)


async def _up(websocket: WebSocket, socket: aiohttp.ClientWebSocketResponse) -> None:
    while (message := await websocket.receive())["type"] == "websocket.receive":
        await send_up(socket, message)


async def send_up(socket: aiohttp.ClientWebSocketResponse, message: Message) -> None:
    """Pass a client's message on."""
    if (text := message.get("text")) is not None:
        await socket.send_str(text)
    else:
        await socket.send_bytes(message["bytes"])


async def _down(websocket: WebSocket, socket: aiohttp.ClientWebSocketResponse) -> None:
    while (message := await socket.receive()).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
        if message.type is aiohttp.WSMsgType.TEXT:
            await websocket.send_text(message.data)
        else:
            await websocket.send_bytes(message.data)
    await websocket.close(*close_code(message))


def close_code(message: aiohttp.WSMessage) -> tuple[int, str]:
    """Code and reason with which a replica closed its socket; those of a lost replica otherwise."""
    if message.type is aiohttp.WSMsgType.CLOSE and message.data not in (None, 1005, 1006):
        return message.data, message.extra or ""
    return SERVICE_RESTART, "the replica has ended; connect again"
