"""Detection of loops: the systems through which an utterance came; one may lead back to the studio that declares it.

Each system has an id while its studio runs. The ids are passed on in a header, or to a program in a variable.
"""

import os
import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar

from studio.core.errors import StudioError

HEADER, VARIABLE = "X-Studio-Via", "STUDIO_VIA"
MAX_SYSTEMS = 4  # one after another; replicas and programs have new ids
_ID_BYTES = 6
_IDS = re.compile(rf"[0-9a-f]{{{2 * _ID_BYTES}}}(?:,[0-9a-f]{{{2 * _ID_BYTES}}}){{0,{MAX_SYSTEMS}}}")
_current: ContextVar[tuple[str, ...]] = ContextVar("via", default=())  # of the utterance that a system speaks


class LeadsBack(StudioError, code="leads_back"):
    """A system leads to itself."""


def new_id() -> str:
    """The id of a system."""
    return secrets.token_hex(_ID_BYTES)


def read_via(value: str) -> tuple[str, ...]:
    """The ids of a header or of a variable; none if it is malformed."""
    return tuple(value.split(",")) if _IDS.fullmatch(value) else ()


def through(name: str, system: str, via: tuple[str, ...]) -> tuple[str, ...]:
    """The ids after one more system. Raises LeadsBack.

    Args:
        name, system: name and id of that system.
        via: ids of the systems before it.
    """
    via = via or read_via(os.environ.get(VARIABLE, ""))
    if system in via:
        what = f"the system {name} leads back to the studio that declares it, and would call itself"
        raise LeadsBack(what, "give it the address and the voice of another system")
    if len(via) >= MAX_SYSTEMS:
        what = f"an utterance passes through at most {MAX_SYSTEMS} systems, and {name} would be one more"
        raise LeadsBack(what, "see whether they lead back to each other")
    return (*via, system)


def set_current(via: tuple[str, ...]) -> None:
    """Set the ids of ``via_headers`` and ``via_variables`` for this task and those that it starts."""
    _current.set(via)


def via_headers() -> Mapping[str, str]:
    """The header of a request to a system; none outside of an utterance."""
    return {HEADER: ",".join(_current.get())} if _current.get() else {}


def via_variables() -> Mapping[str, str]:
    """The environment variable for a program that is a system."""
    return {VARIABLE: ",".join(_current.get())} if _current.get() else {}
