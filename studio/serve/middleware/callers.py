"""The caller of a request, which waits for its response: usually a connection."""

import asyncio
from contextlib import suppress
from typing import Protocol

from starlette.types import Scope

CALLER = "studio.caller"  # in the state of an ASGI scope


class Caller(Protocol):
    """Interface of a caller to the code that handles its request.

    Attributes:
        lost: set when the caller no longer waits for the response.
    """

    lost: asyncio.Event

    def abort(self) -> None:
        """Close without sending the remaining data."""
        ...


class LateCaller:
    """A caller that gets the result of a request in the response to another request."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def abort(self) -> None:
        """Do nothing: the other response reports how the request ended."""


def caller_of(scope: Scope) -> Caller | None:
    """The caller of a request; None if another server made the scope."""
    return scope.get("state", {}).get(CALLER)


async def leaves_within(scope: Scope, wait_s: float) -> bool:
    """Wait for ``wait_s``; returns True, immediately, if the caller of the request leaves meanwhile."""
    if (caller := caller_of(scope)) is None:
        await asyncio.sleep(wait_s)
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await caller.lost.wait()
    return caller.lost.is_set()


def with_caller(scope: Scope, caller: Caller) -> Scope:
    """The scope with another caller, which gets the result of the request."""
    return {**scope, "state": {**scope.get("state", {}), CALLER: caller}}
