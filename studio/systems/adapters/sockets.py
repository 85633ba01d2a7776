"""WebSockets of systems with incremental text."""

import asyncio
import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from studio.core.errors import needs
from studio.core.via import via_headers
from studio.systems.base import MAX_MESSAGE_BYTES, CharTimes, LiveAdapter, is_here, refusal
from studio.systems.settings import secret
from studio.systems.sound import SystemFailed


def socket_url(url: str) -> str:
    """The WebSocket form of an address: http becomes ws."""
    return url.replace("http", "ws", 1) if url.startswith("http") else url


@asynccontextmanager
async def connected(
    url: str, headers: Mapping[str, str], timeout_s: float, key_env: str, subprotocol: str = ""
) -> AsyncGenerator[Any]:
    """An open socket, closed at the end. Raises SystemFailed, also for errors inside the block."""
    with needs("systems with a socket need the package websockets", "app"):
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

    class Connect(connect):
        def process_redirect(self, exc: Exception) -> Exception:
            """Follow no redirect: a custom header with the key would be sent to another host."""
            return exc

    where = url.partition("?")[0]
    protocols: Any = [subprotocol] if subprotocol else None
    try:
        async with Connect(
            url,
            additional_headers={**headers, **via_headers()},
            subprotocols=protocols,
            open_timeout=timeout_s,
            close_timeout=0.5,
            max_size=MAX_MESSAGE_BYTES,
            max_queue=16,
            proxy=None if is_here(url) else True,
        ) as socket:
            yield socket
    except InvalidStatus as error:
        raise refusal(where, error.response.status_code, bytes(error.response.body or b""), key_env) from error
    except ConnectionClosed as error:
        why = f"{error.rcvd.code} {error.rcvd.reason}".strip() if error.rcvd else "without a reason"
        raise SystemFailed(f"{where} closed the connection: {why:.200}", "its own log may say why") from error
    except (OSError, TimeoutError, InvalidHandshake) as error:
        why = str(error) or type(error).__name__
        raise SystemFailed(f"{where} cannot be used: {why:.200}", "see whether it runs there") from error


async def while_sending(sending: Coroutine[Any, Any, None], received: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield the received items while a coroutine sends; its errors are raised here."""
    sender = asyncio.ensure_future(sending)
    try:
        async for one in received:
            if sender.done():
                sender.result()
            yield one
    finally:
        sender.cancel()
        await asyncio.wait((sender,), timeout=1.0)
        if not sender.cancelled():
            sender.exception()  # mark it as retrieved: it was raised above, or the socket's error says more


class SocketAdapter(LiveAdapter):
    """A system with one socket for each utterance."""

    subprotocol = ""

    def __init__(self, system: Any) -> None:
        self._system = system

    async def converse(self, texts: AsyncIterator[str], speaker: str) -> AsyncIterator[np.ndarray | CharTimes]:
        path, headers = self.address(secret(self._system.key_env), speaker)
        url, timeout_s, key_env = socket_url(self._system.url) + path, self._system.timeout_s, self._system.key_env
        async with connected(url, headers, timeout_s, key_env, self.subprotocol) as socket:
            async for piece in while_sending(*self.talk(socket, texts, speaker)):
                yield piece

    @abstractmethod
    def address(self, key: str, speaker: str) -> tuple[str, dict[str, str]]:
        """What follows the system's URL, and the headers; ``key`` may be empty."""

    @abstractmethod
    def talk(
        self, socket: Any, texts: AsyncIterator[str], speaker: str
    ) -> tuple[Coroutine[Any, Any, None], AsyncIterator[np.ndarray | CharTimes]]:
        """A coroutine that sends the texts, and the sound and times that are received meanwhile."""


def json_object(message: str | bytes) -> dict[str, Any]:
    """A message as a JSON object. Raises SystemFailed."""
    try:
        decoded = json.loads(message)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict):
        raise SystemFailed("the system sent a message that is no JSON object", "see whether its address is right")
    return decoded


def broke_off() -> SystemFailed:
    """The error for a socket that was closed normally before the speech had ended."""
    return SystemFailed("the system closed its socket before the speech had ended", "its own log may say why")
