"""Who waits for the response to a request: usually its connection."""

import asyncio
from contextlib import suppress
from typing import Protocol

from starlette.types import Scope

CALLER = "studio.caller"  # in the state of an ASGI scope


class Caller(Protocol):
    """What the work for a request needs of its connection.

    Attributes:
        lost: set when nobody waits for the response any more.
    """

    lost: asyncio.Event

    def abort(self) -> None:
        """Close without sending what is left."""
        ...


class LateCaller:
    """A caller who gets the result of a request in the response to another one."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def abort(self) -> None:
        """Do nothing: the other response says how the work ended."""


def caller_of(scope: Scope) -> Caller | None:
    """Who waits for the response to a request; None where another server made the scope."""
    return scope.get("state", {}).get(CALLER)


async def leaves_within(scope: Scope, wait_s: float) -> bool:
    """Wait; True, and at once, where the caller of a request leaves meanwhile."""
    if (caller := caller_of(scope)) is None:
        await asyncio.sleep(wait_s)
        return False
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await caller.lost.wait()
    return caller.lost.is_set()


def with_caller(scope: Scope, caller: Caller) -> Scope:
    """The scope of a request whose result another caller gets."""
    return {**scope, "state": {**scope.get("state", {}), CALLER: caller}}
