"""The client for asyncio."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any, Self, Unpack

from studio.client.messages import How, Messages, Server, ServerGone, connection_errors
from studio.core.errors import needs
from studio.core.events import Event


class AsyncUtterance(Messages[Awaitable[None]]):
    """``Utterance`` for asyncio; every call is awaited."""

    async def put(self, kind: str, **fields: Any) -> None:
        with connection_errors():
            await self._socket.send(self.encode(kind, fields))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while self.needs_more():
            try:
                with connection_errors():
                    message = await self._socket.recv()
            except ServerGone:
                self.on_gone()
                continue
            if report := self.receive(message):
                with suppress(ServerGone), connection_errors():
                    await self._socket.send(report)
        if not self._events:
            raise StopAsyncIteration
        return self._events.popleft()


class _Begun:
    """An utterance that ``await`` or ``async with`` begins."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, AsyncUtterance]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, AsyncUtterance]:
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncUtterance:
        self._utterance = await self
        return self._utterance

    async def __aexit__(self, *raised: object) -> None:
        await self._utterance.__aexit__(*raised)


class AsyncClient(Server):
    """``Client`` for asyncio."""

    def utterance(self, voice: str = "", **how: Unpack[How]) -> _Begun:
        """Begin an utterance, like ``Client.utterance``; use it in an ``async with`` statement. Raises ServerGone."""
        return _Begun(lambda: self._utterance(voice, how))

    async def _utterance(self, voice: str, how: How) -> AsyncUtterance:
        with needs("the client needs the package websockets", "app"):
            from websockets.asyncio.client import connect
        with connection_errors():
            socket = await connect(**self._connection)
        utterance = AsyncUtterance(socket, plays=how.get("plays", False))
        await utterance.open(voice, how)
        return utterance

    async def speak(self, text: str | AsyncIterable[str], voice: str = "", **how: Unpack[How]) -> AsyncIterator[Event]:
        """Speak a text, or its pieces as they arrive, and yield the events, like ``Client.speak``."""
        async with self.utterance(voice, **how) as utterance:
            feeding = asyncio.ensure_future(_feed(utterance, text))
            try:
                async for event in utterance:
                    yield event
                await feeding
            finally:
                feeding.cancel()


async def _feed(utterance: AsyncUtterance, text: str | AsyncIterable[str]) -> None:
    try:
        if isinstance(text, str):
            await utterance.send(text)
        else:
            async for piece in text:
                await utterance.send(piece)
        await utterance.end()
    except ServerGone:
        pass  # the iteration raises it
    except Exception:
        await utterance.cancel()
        raise
