"""Parsing of the chunks, whole completions and errors of chat servers, which deviate from the protocol."""

import json
import math
import re
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

from studio.core.errors import StudioError

MAX_EVENT_BYTES = 1_000_000  # of one chunk with its fields, and of an error response
_EVENT_END = re.compile(rb"\n\r?\n|\r\r")
_DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")
_DONE_BYTES = 16  # longer than what either pattern matches
_MAX_RETRY_S = 3600


class ChatFailed(StudioError, code="chat_failed"):
    """The endpoint cannot be used, or its reply broke off."""


def bounded(stream: Any, url: str, *, has_events: bool) -> Any:
    """A stream of bytes that fails if an event, or a body without events, is too long.

    Its ``is_done`` is whether ``[DONE]`` was received, which the client does not report.
    """

    class Bounded(type(stream)):  # httpx's or its successor's class, as the client requires
        def __init__(self) -> None:
            """Not the base class's: its other methods are not called."""
            self.is_done = False  # whether the protocol's end mark was received

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            event_bytes, before = 0, b"\n"
            async for block in stream:
                window = before + block  # a block may end within the end of an event or a line
                before = window[-_DONE_BYTES:]
                self.is_done = self.is_done or _DONE.search(window) is not None
                ends = [found.end() for found in _EVENT_END.finditer(window)] if has_events else []
                event_bytes = len(window) - ends[-1] if ends else event_bytes + len(block)
                if event_bytes > MAX_EVENT_BYTES:
                    raise ChatFailed(f"{url} sends a piece without an end", "see whether it is a chat endpoint")
                yield block

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


def whole_completion(body: bytes) -> Any:
    """An unstreamed completion, as one chunk. Raises ValueError, RecursionError: it is no JSON."""
    completion = json.loads(body, object_hook=lambda fields: SimpleNamespace(**fields))
    choice = choice_of(completion)
    if isinstance(choice, SimpleNamespace):
        choice.delta = getattr(choice, "message", None)
    return completion


def reported_error(chunk: Any) -> str | None:
    """The message of an error that a server sent instead of a chunk; None for a chunk."""
    error = getattr(chunk, "error", None)
    if not error and (getattr(chunk, "choices", None) is not None or not hasattr(chunk, "message")):
        return None
    return text_of(error) or text_of(_field(error, "message")) or text_of(getattr(chunk, "message", None))


def choice_of(chunk: Any) -> Any:
    """The first choice; None in a chunk with only the usage."""
    choices = getattr(chunk, "choices", None)
    return choices[0] if isinstance(choices, list) and choices else None


def text_of(value: object) -> str:
    """A text, or the joined text parts of a content; reasoning is another type of part."""
    if isinstance(value, list):
        return "".join(text_of(_field(part, "text")) for part in value if _field(part, "type") == "text")
    return value if isinstance(value, str) else ""


def _field(part: object, name: str) -> object:
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)


def tool_of(delta: Any) -> str:
    """The name of the first tool called by a delta."""
    calls = getattr(delta, "tool_calls", None)
    call = calls[0] if isinstance(calls, list) and calls else None
    return text_of(getattr(getattr(call, "function", None), "name", None))


def retry_after(header: str) -> str:
    """When to ask again, from a response's ``Retry-After``."""
    try:
        wait_s = float(header)
    except ValueError:  # none, or a date
        return "later"
    return f"in {math.ceil(wait_s)} s" if 0 < wait_s <= _MAX_RETRY_S else "later"
