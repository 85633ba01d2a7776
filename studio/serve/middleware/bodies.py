"""Middleware that bounds request bodies by size and time on every route, and uploads by number as well.

Uploads are read into memory, so few are read at once. The owner's have slots of their own, and a caller without the
owner's token is answered before the body is read. All other uploads must keep a minimum rate, and one network address
never has all slots.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.middleware.addresses import address_of

MAX_BODY_BYTES = 64 * 1024
BODY_S = 20.0  # time limit of a body
FILE_S = 120.0  # time limit of an upload
MIN_BYTES_PER_S, RATE_WINDOW_S = 32 * 1024, 5.0  # minimum rate of an upload, in each window
Group = Literal["anybody", "owner"]
UPLOAD_SLOTS: Mapping[Group, int] = {"anybody": 3, "owner": 2}  # uploads in memory at once
SLOTS_PER_ADDRESS = 2  # in the group "anybody"
# After a rejection the rest of the body is read for a while, so that the client gets to read the response.
_LINGER_S, _LINGER_BYTES = 1.0, 1024 * 1024


@dataclass(frozen=True)
class FileRoute:
    """A path that takes an upload, its maximum size, and who may send it."""

    max_bytes: int
    group: Group = "anybody"


@dataclass
class _UploadSlots:
    """Uploads in progress of one group, by network address."""

    limit: int
    limit_per_address: int
    in_use: Counter[str] = field(default_factory=Counter[str])

    def acquire(self, address: str) -> bool:
        """Take a slot; returns whether one was free."""
        if self.in_use.total() >= self.limit or self.in_use[address] >= self.limit_per_address:
            return False
        self.in_use[address] += 1
        return True

    def release(self, address: str) -> None:
        """Release a slot."""
        self.in_use -= Counter((address,))


class BodyLimitMiddleware:
    """ASGI middleware: reads each body whole and passes it on in one piece, or rejects the request (413, 408, 503).

    Args:
        timeout_s: limit for a body that is not an upload.
        files: paths that take an upload.
        is_owner: whether a request has the owner's token; checked before the body of an owner's upload is read. None
            rejects all of these.
        rate_window_s: an upload must keep ``MIN_BYTES_PER_S`` in each window of this length.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int = MAX_BODY_BYTES,
        timeout_s: float = BODY_S,
        files: Mapping[str, FileRoute] | None = None,
        is_owner: Callable[[Request], Awaitable[bool]] | None = None,
        rate_window_s: float = RATE_WINDOW_S,
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._files = dict(files or {})
        self._is_owner = is_owner
        self._rate_window_s = rate_window_s
        self._slots = {
            group: _UploadSlots(limit, SLOTS_PER_ADDRESS if group == "anybody" else limit)
            for group, limit in UPLOAD_SLOTS.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await self._call(scope, receive, send)
            return
        file = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if file is None:
            await self._pass_body(scope, receive, receive, send, self._max_bytes, self._timeout_s)
            return
        request = Request(scope)
        if file.group == "owner" and not (self._is_owner and await self._is_owner(request)):
            await self._answer_without_body(scope, receive, send)
            return
        slots, address = self._slots[file.group], address_of(request)
        if not slots.acquire(address):
            await _reject(receive, send, 503, "busy", "other files are being opened; send it again in a moment")
            return
        try:
            rated = _rate_limited(receive, self._rate_window_s)
            await self._pass_body(scope, rated, receive, send, file.max_bytes, FILE_S)
        finally:
            slots.release(address)

    async def _pass_body(
        self, scope: Scope, read: Receive, receive: Receive, send: Send, max_bytes: int, timeout_s: float
    ) -> None:
        """Read the body with ``read`` and call the app, unless it is rejected or the client has disconnected."""
        if _declared_bytes(scope) > max_bytes:
            await _reject_length(receive, send, max_bytes)
            return
        try:
            async with asyncio.timeout(timeout_s):
                body = await read_body_bytes(read, max_bytes)
        except TimeoutError:
            await _reject(receive, send, 408, "too_slow", "the message did not come in time; send it again")
            return
        if body is not None and len(body) > max_bytes:
            await _reject_length(receive, send, max_bytes)
        elif body is not None:
            await self._call(scope, replay_body(body, receive), send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app; ignores that it reads from a client that has disconnected."""
        with contextlib.suppress(ClientDisconnect):
            await self._app(scope, receive, send)

    async def _answer_without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the route with an empty body; it rejects this caller with its own message."""

        async def send_and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            elif not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _linger(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, replay_body(b"", receive), send_and_close)


def _rate_limited(receive: Receive, window_s: float) -> Receive:
    """A ``receive`` that raises TimeoutError if the rate in a window is below ``MIN_BYTES_PER_S``."""
    window_began_s, received_bytes = time.monotonic(), 0

    async def rated() -> Message:
        nonlocal window_began_s, received_bytes
        async with asyncio.timeout(max(0.0, window_began_s + window_s - time.monotonic())):
            message = await receive()
        received_bytes += len(message.get("body", b""))
        now_s = time.monotonic()
        if received_bytes >= MIN_BYTES_PER_S * window_s:
            window_began_s, received_bytes = now_s, 0
        return message

    return rated


def replay_body(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that yields a body already read, then the client's further messages, such as its disconnect."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # drop an unexpected body
        return message

    return replay


async def read_body_bytes(receive: Receive, max_bytes: int = MAX_BODY_BYTES) -> bytes | None:
    """A request's body; reading stops once it exceeds ``max_bytes``. None if the client has disconnected."""
    body, more = bytearray(), True
    while more and len(body) <= max_bytes:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _declared_bytes(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() and len(value) < 20 else 0


async def _reject_length(receive: Receive, send: Send, max_bytes: int) -> None:
    await _reject(receive, send, 413, "too_long", f"the message is too long; send at most {max_bytes} bytes")


async def _reject(receive: Receive, send: Send, status: int, code: str, message: str) -> None:
    body = json.dumps({"code": code, "message": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    await _linger(receive)
    await send({"type": "http.response.body", "body": b""})


async def _linger(receive: Receive) -> None:
    """Read and drop what the client is still sending, for a while."""
    dropped, more = 0, True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while more and dropped < _LINGER_BYTES:
                message = await receive()
                dropped += len(message.get("body", b""))
                more = message.get("more_body", False)
