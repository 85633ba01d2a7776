"""Bodies of requests: short, whole and in time on every route, whatever stands behind it; a few routes take files."""

import asyncio
import contextlib
import json
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024
BODY_S = 20.0  # until a body must be there, whole
FILE_S = 120.0  # until a file must be
FILES_AT_ONCE = 2  # that are read into memory
# What a client still sends when it is refused is read for a while, so that it hears why.
_LINGER_S, _LINGER_BYTES = 1.0, 1024 * 1024


class BoundedBodies:
    """ASGI middleware: reads each request's body whole, then hands it on in one piece, or refuses it (413, 408, 503).

    Args:
        files: paths that take a file, and how many bytes of it; two are read at once, a third may come again.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: int = MAX_BODY_BYTES,
        within_s: float = BODY_S,
        files: Mapping[str, int] | None = None,
    ) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._within_s = within_s
        self._files = dict(files or {})
        self._reading = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _brings_body(scope):
            await self._app(scope, receive, send)
            return
        file_bytes = self._files.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if file_bytes is None:
            await self._bounded(scope, receive, send, self._most_bytes, self._within_s)
            return
        if self._reading >= FILES_AT_ONCE:
            await _refuse(receive, send, 503, "busy", "other files are being opened; send it again in a moment")
            return
        self._reading += 1
        try:
            await self._bounded(scope, receive, send, file_bytes, FILE_S)
        finally:
            self._reading -= 1

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, most_bytes: int, within_s: float) -> None:
        if _declared_bytes(scope) > most_bytes:
            await _refuse_length(receive, send, most_bytes)
            return
        try:
            async with asyncio.timeout(within_s):
                body = await whole_body(receive, most_bytes)
        except TimeoutError:
            await _refuse(receive, send, 408, "too_slow", "the message did not come in time; send it again")
            return
        if body is None:
            return  # the client has left in the middle
        if len(body) > most_bytes:
            await _refuse_length(receive, send, most_bytes)
            return
        await self._app(scope, replayed(body, receive), send)


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
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            await _drop(receive)
    await send({"type": "http.response.body", "body": b""})


async def _drop(receive: Receive) -> None:
    dropped, more = 0, True
    while more and dropped < _LINGER_BYTES:
        message = await receive()
        dropped += len(message.get("body", b""))
        more = message.get("more_body", False)
