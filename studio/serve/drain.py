"""The end of a server that speaks: what is committed is said, the rest is broken off, and every client is told."""

import asyncio
from collections.abc import Collection
from typing import Protocol

from studio.core.errors import Closing, StudioError
from studio.core.ports import Engine

_LAST_WORDS_S = 0.5  # for what was broken off to say how far it was heard
_LOOK_S = 0.02


class Speaking(Protocol):
    """What is known here of a socket's session."""

    def idle_s(self) -> float:
        """For how long nothing was spoken there; 0 while something is."""
        ...

    async def warn(self, error: StudioError) -> None:
        """Tell the client something about its socket."""
        ...

    async def hush(self) -> None:
        """Break off what speaks there."""
        ...


class Drain:
    """What a server does between the signal to stop and the end of its sockets.

    Args:
        within_s: so long may go on what is committed.
    """

    def __init__(self, engine: Engine, within_s: float) -> None:
        self._engine, self._within_s = engine, within_s
        self._sockets: list[Collection[Speaking]] = []

    def watch(self, sockets: Collection[Speaking]) -> None:
        """Drain these, too: whoever is among them then."""
        self._sockets.append(sockets)

    async def run(self) -> None:
        """Refuse what is new, wait for what is spoken, break off what is left."""
        self._engine.drain()
        sessions = [one for sockets in self._sockets for one in [*sockets]]
        told = Closing("the server is closing", "what is committed is still spoken; connect again in a moment")
        await asyncio.gather(*(one.warn(told) for one in sessions))
        await self._silence(sessions, self._within_s)
        await asyncio.gather(*(one.hush() for one in sessions))
        await self._silence(sessions, _LAST_WORDS_S)

    async def _silence(self, sessions: list[Speaking], within_s: float) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while loop.time() < until_s and any(one.idle_s() == 0.0 for one in sessions):
            await asyncio.sleep(_LOOK_S)
