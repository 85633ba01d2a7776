"""Forwarding of requests and sockets by a front."""

import asyncio
from collections.abc import AsyncGenerator, Iterable

import aiohttp
from multidict import CIMultiDict
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket
from yarl import URL

from studio.deploy.client_socket import ClientSocket
from studio.deploy.frames import Refused, ReplicaSocket
from studio.deploy.members import KEY_HEADER, Member
from studio.serve.adapters.speech import NO_QUEUE
from studio.serve.middleware.bodies import BODY_S
from studio.serve.middleware.connections import close_socket

MAX_KEPT_BYTES = 65_536  # of a request that can be sent again to another replica; a longer one is streamed
_OF_ONE_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
_REPLACED = frozenset(b"forwarded x-forwarded-for x-forwarded-proto x-studio-key x-studio-no-queue".split())
_NO_AUTO_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
LOST = JSONResponse(
    {"code": "replica_lost", "message": "the replica that answered has ended; try again"}, 502, {"Retry-After": "1"}
)
BAD_TARGET = JSONResponse({"code": "bad_request", "message": "a request names a path that begins with '/'"}, 400)
NOBODY = JSONResponse(
    {"code": "unavailable", "message": "no replica is running; try again in a moment"}, 503, {"Retry-After": "5"}
)


def path_of(scope: Scope) -> str:
    """The unchanged path of a request.

    It may be invalid: after the address of a replica, ``@host`` or ``%2F@host`` would name another host.
    """
    return scope["raw_path"].decode("latin-1").removeprefix(scope.get("root_path", ""))


def address(scope: Scope, member: Member) -> URL:
    """The URL of a request at a replica. ``path_of`` the request must begin with a slash."""
    path = path_of(scope)
    query = scope["query_string"].decode("latin-1")
    return URL(f"{member.url}{path}{'?' if query else ''}{query}", encoded=True)


def headers_for(scope: Scope, key: str) -> "CIMultiDict[str]":
    """A request's headers for a replica, with the client's address and the replicas' key."""
    found = CIMultiDict[str]()
    for name, value in scope["headers"]:
        if name not in _OF_ONE_HOP | _REPLACED and not name.startswith(b"sec-websocket-"):
            found.add(name.decode("latin-1"), value.decode("latin-1"))
    found["X-Forwarded-For"] = str(scope["client"][0]) if scope["client"] else ""
    found["X-Forwarded-Proto"] = "https" if scope["scheme"] in ("https", "wss") else "http"
    found[KEY_HEADER] = key
    return found


class Gone(Exception):
    """The client has disconnected."""


class Body:
    """The body of a request; a short one is read completely, so that it can be sent again."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._start, self._is_whole, self._is_used = b"", False, False
        self.is_read = asyncio.Event()

    async def begin(self) -> None:
        """Read its beginning."""
        while not self._is_whole and len(self._start) < MAX_KEPT_BYTES:
            self._start += await self._next()

    @property
    def can_be_sent(self) -> bool:
        """Whether it has been read completely, or nothing has been forwarded yet."""
        return self._is_whole or not self._is_used

    def data(self) -> "bytes | AsyncGenerator[bytes] | None":
        """The body in aiohttp's form."""
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
        """Return when the client has disconnected."""
        await self.is_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def forward(
    scope: Scope,
    receive: Receive,
    send: Send,
    members: Iterable[tuple[Member, bool]],
    session: aiohttp.ClientSession,
    key: str,
) -> None:
    """Answer a request by the first replica that can; after a 503, the next one is asked.

    ``members``: each with whether an utterance may wait in its queue.

    A request with side effects is not sent again once a replica may have read it.
    """
    body, headers = Body(receive), headers_for(scope, key)
    try:
        async with asyncio.timeout(BODY_S):
            await body.begin()
        refusal: Response = NOBODY
        for member, may_wait in members:
            if not body.can_be_sent:
                break
            answering = asyncio.create_task(_answer(scope, send, member, may_wait, body, headers, session))
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
    scope: Scope,
    send: Send,
    member: Member,
    may_wait: bool,
    body: Body,
    headers: "CIMultiDict[str]",
    session: aiohttp.ClientSession,
) -> Response | None:
    """Forward a replica's answer; returns a refusal or an error response instead if nothing was forwarded."""
    is_begun = False
    try:
        async with session.request(
            scope["method"],
            address(scope, member),
            headers=headers if may_wait else CIMultiDict(headers, **{NO_QUEUE: "1"}),
            data=body.data(),
            allow_redirects=False,
            skip_auto_headers=_NO_AUTO_HEADERS,
        ) as response:
            fields = [(name, value) for name, value in response.raw_headers if name.lower() not in _OF_ONE_HOP]
            if response.status == 503 or (response.status == 429 and not may_wait):  # 429: Cartesia, Deepgram
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


async def connect(scope: Scope, member: Member, key: str) -> ReplicaSocket:
    """Open a client's socket at a replica. Raises Refused, OSError, TimeoutError."""
    url = str(address(scope, member)).replace("http", "ws", 1)
    socket = await ReplicaSocket.connect(url, headers_for(scope, key), scope.get("subprotocols", ()))
    member.sockets.add(socket)
    return socket


async def refuse(websocket: WebSocket, status: int) -> None:
    """Refuse a handshake with a replica's status; the replica's response has no body for the client."""
    error = {"code": "busy" if status == 503 else "refused", "message": "try again in a moment"}
    retry = {"Retry-After": "1"} if status == 503 else {}
    await websocket.send_denial_response(JSONResponse(error, status, retry))


async def tunnel(websocket: WebSocket, members: Iterable[Member], key: str) -> None:
    """Connect a socket to the first replica that accepts it, until either side closes it."""
    status = 503
    for member in members:
        try:
            socket = await connect(websocket.scope, member, key)
        except Refused as error:
            status = error.status
            if status != 503:
                break
        except (OSError, TimeoutError):
            continue
        else:
            await _stay(websocket, socket)
            return
    await refuse(websocket, status)


async def _stay(websocket: WebSocket, socket: ReplicaSocket) -> None:
    ended: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
    await websocket.accept(socket.subprotocol)
    client = ClientSocket(websocket.scope)
    client.attach(socket, lambda code, reason: ended.set_result((code, reason)))
    reading = asyncio.create_task(_read(websocket, socket))
    try:
        await asyncio.wait((ended, reading), return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not reading.done():
            client.leave()
            await close_socket(websocket, *ended.result())
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        client.leave()
        socket.close()


async def _read(websocket: WebSocket, socket: ReplicaSocket) -> None:
    """Forward the messages from the server's parser."""
    while (message := await websocket.receive())["type"] == "websocket.receive":
        await send_up(socket, message)


async def send_up(socket: ReplicaSocket, message: Message) -> None:
    """Forward a client's message to a replica."""
    text = message.get("text")
    await socket.send(message["bytes"] if text is None else text)
