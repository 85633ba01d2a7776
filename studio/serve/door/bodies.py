"""Bodies of requests: short, whole and in time on every route, whatever stands behind it."""

import asyncio
import contextlib
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 64 * 1024
BODY_S = 20.0  # until a body must be there, whole
# What a client still sends when it is refused is read for a while, so that it hears why.
_LINGER_S, _LINGER_BYTES = 1.0, 1024 * 1024


class BoundedBodies:
    """ASGI middleware: reads each request's body whole, then hands it on in one piece, or refuses it (413, 408)."""

    def __init__(self, app: ASGIApp, most_bytes: int = MAX_BODY_BYTES, within_s: float = BODY_S) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._within_s = within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _brings_body(scope):
            await self._app(scope, receive, send)
            return
        if _declared_bytes(scope) > self._most_bytes:
            await self._refuse_length(receive, send)
            return
        try:
            async with asyncio.timeout(self._within_s):
                body = await whole_body(receive, self._most_bytes)
        except TimeoutError:
            await _refuse(receive, send, 408, "too_slow", "the message did not come in time; send it again")
            return
        if body is None:
            return  # the client has left in the middle
        if len(body) > self._most_bytes:
            await self._refuse_length(receive, send)
            return
        await self._app(scope, replayed(body, receive), send)

    async def _refuse_length(self, receive: Receive, send: Send) -> None:
        message = f"the message is too long; send at most {self._most_bytes} bytes"
        await _refuse(receive, send, 413, "too_long", message)


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
