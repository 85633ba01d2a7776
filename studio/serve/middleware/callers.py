"""Who waits for the response to a request: usually its connection."""

import asyncio
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


def with_caller(scope: Scope, caller: Caller) -> Scope:
    """The scope of a request whose result another caller gets."""
    return {**scope, "state": {**scope.get("state", {}), CALLER: caller}}
