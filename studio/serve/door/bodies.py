"""Bodies of requests: short, whole and in time on every route, whatever stands behind it; a few routes take files.

Files are read into memory, so few are read at once. The owner's have places of their own, which nobody else can hold:
who does not bring the owner's token is answered before any of the body is read. Anybody's have to come on at a
pace, and one network address never holds every place.
"""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.door.addresses import address_of

MAX_BODY_BYTES = 64 * 1024
BODY_S = 20.0  # until a body must be there, whole
FILE_S = 120.0  # until a file must be
# A file that comes slower than this, in any such stretch of time, is not waited for.
LEAST_BYTES_PER_S, PACE_S = 32 * 1024, 5.0
Group = Literal["anybody", "owner"]
PLACES: Mapping[Group, int] = {"anybody": 3, "owner": 2}  # files that are read into memory at once
OF_ONE_ADDRESS = 2  # of anybody's
# What a client still sends when it is refused is read for a while, so that it hears why.
_LINGER_S, _LINGER_BYTES = 1.0, 1024 * 1024


@dataclass(frozen=True)
class FileRoute:
    """A path that takes a file: how many bytes of it, and whose it is."""

    most_bytes: int
    group: Group = "anybody"


@dataclass
class _Places:
    """Files of one group that are being read, by network address."""

    most: int
    most_of_one: int
    reading: Counter[str] = field(default_factory=Counter[str])

    def take(self, address: str) -> bool:
        """Whether there was room; ``give`` it back."""
        if self.reading.total() >= self.most or self.reading[address] >= self.most_of_one:
            return False
        self.reading[address] += 1
        return True

    def give(self, address: str) -> None:
        """Forget one."""
        self.reading -= Counter((address,))


class BoundedBodies:
    """ASGI middleware: reads each request's body whole, then hands it on in one piece, or refuses it (413, 408, 503).

    Args:
        files: paths that take a file.
        pace_s: in each such stretch of time a file must get on by ``LEAST_BYTES_PER_S``.
        is_owner: whether a request brings the owner's token, asked before the body of an owner's file is read; nobody
            does where it is None.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: int = MAX_BODY_BYTES,
        within_s: float = BODY_S,
        files: Mapping[str, FileRoute] | None = None,
        is_owner: Callable[[Request], Awaitable[bool]] | None = None,
        pace_s: float = PACE_S,
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._within_s = within_s
        self._files = dict(files or {})
        self._is_owner = is_owner
        self._pace_s = pace_s
        self._places = {
            group: _Places(most, OF_ONE_ADDRESS if group == "anybody" else most) for group, most in PLACES.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _brings_body(scope):
            await self._app(scope, receive, send)
            return
        file = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if file is None:
            await self._bounded(scope, receive, send, self._most_bytes, self._within_s)
            return
        request = Request(scope)
        if file.group == "owner" and not (self._is_owner and await self._is_owner(request)):
            await self._without_body(scope, receive, send)
            return
        places, address = self._places[file.group], address_of(request)
        if not places.take(address):
            await _refuse(receive, send, 503, "busy", "other files are being opened; send it again in a moment")
            return
        try:
            body = await self._whole(scope, receive, send, file.most_bytes, FILE_S, self._pace_s)
            if body is not None:
                await self._app(scope, replayed(body, receive), send)
        finally:
            places.give(address)

    async def _without_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the route itself answer: it says in its own words why it takes nothing from this caller."""

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
            elif not message.get("more_body", False):
                await send({**message, "more_body": True})
                await _linger(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, replayed(b"", receive), answered)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, most_bytes: int, within_s: float) -> None:
        body = await self._whole(scope, receive, send, most_bytes, within_s)
        if body is not None:
            await self._app(scope, replayed(body, receive), send)

    async def _whole(
        self, scope: Scope, receive: Receive, send: Send, most_bytes: int, within_s: float, pace_s: float | None = None
    ) -> bytes | None:
        """The body; None where it was refused, or where the client has left."""
        if _declared_bytes(scope) > most_bytes:
            await _refuse_length(receive, send, most_bytes)
            return None
        try:
            async with asyncio.timeout(within_s):
                body = await whole_body(receive if pace_s is None else _paced(receive, pace_s), most_bytes)
        except TimeoutError:
            await _refuse(receive, send, 408, "too_slow", "the message did not come in time; send it again")
            return None
        if body is not None and len(body) > most_bytes:
            await _refuse_length(receive, send, most_bytes)
            return None
        return body


def _paced(receive: Receive, pace_s: float) -> Receive:
    """A body that must get on in every stretch of ``pace_s``. Raises TimeoutError."""
    since_s, got = time.monotonic(), 0

    async def paced() -> Message:
        nonlocal since_s, got
        async with asyncio.timeout(max(0.0, since_s + pace_s - time.monotonic())):
            message = await receive()
        got += len(message.get("body", b""))
        now_s = time.monotonic()
        if got >= LEAST_BYTES_PER_S * pace_s:
            since_s, got = now_s, 0
        return message

    return paced


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read, then whatever the client does (its leaving must be noticed)."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # a body where none is expected is dropped, not kept
        return message

    return replay


async def whole_body(receive: Receive, most_bytes: int = MAX_BODY_BYTES) -> bytes | None:
    """A request's body, cut off as soon as it is longer than allowed; None when the client has left."""
    body, more = bytearray(), True
    while more and len(body) <= most_bytes:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _brings_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _declared_bytes(scope: Scope) -> int:
    value = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(value) if value.isdigit() and len(value) < 20 else 0


async def _refuse_length(receive: Receive, send: Send, most_bytes: int) -> None:
    await _refuse(receive, send, 413, "too_long", f"the message is too long; send at most {most_bytes} bytes")


async def _refuse(receive: Receive, send: Send, status: int, code: str, message: str) -> None:
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
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            await _drop(receive)


async def _drop(receive: Receive) -> None:
    dropped, more = 0, True
    while more and dropped < _LINGER_BYTES:
        message = await receive()
        dropped += len(message.get("body", b""))
        more = message.get("more_body", False)
