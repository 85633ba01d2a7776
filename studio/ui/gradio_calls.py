"""Middleware for calls to Gradio's queue: strictly validated, and bounded in memory.

A call has plain values only: Gradio would fetch the file that an object describes. Gradio's state of a page (pending
results, a copy of every component) is dropped when no client listens.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from studio.serve.middleware.bodies import read_body_bytes, replay_body
from studio.ui.gradio_routes import DATA, HEARTBEAT, JOIN, SESSION, answer, path_of
from studio.ui.gradio_sessions import PageSessions

MAX_HEARTBEATS = 1000  # each open page has one
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_BUSY = "too many pages are open; try again in a minute"


@dataclass(frozen=True)
class QueueCall:
    """A validated call; ``body`` is serialised again, so that Gradio reads exactly what was validated."""

    session: str
    body: bytes


class QueueCalls:
    """ASGI middleware: passes only calls that our pages make to Gradio's queue.

    Args:
        functions: the number of values of each function, by its index.
    """

    def __init__(self, app: ASGIApp, sessions: PageSessions, functions: Mapping[int, int]) -> None:
        self._app = app
        self._sessions = sessions
        self._functions = functions
        self._heartbeats = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path == JOIN:
            await self._join(scope, receive, send)
        elif path == DATA:
            await self._listen(scope, receive, send)
        elif path.startswith(HEARTBEAT):
            await self._beat(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _join(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            call = self._parse(await read_body_bytes(receive) or b"")
        except (ValueError, RecursionError):  # not JSON, not UTF-8, a number out of range, a lone surrogate
            await answer(send, 422, "the message is not what this page sends; reload the page")
            return
        if not await self._sessions.admit(call.session):
            await answer(send, 503, _BUSY)
            return
        await self._app(scope, replay_body(call.body, receive), send)

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = scope["query_string"].decode("latin-1").partition("=")[2]
        is_awaited = await self._sessions.is_awaited(session)
        with self._sessions.listening(session) as is_known:
            if not (is_known and is_awaited):
                await answer(send, 404, "this page has no pending call; reload the page")
                return
            await self._app(scope, receive, send)

    async def _beat(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._heartbeats >= MAX_HEARTBEATS:
            await answer(send, 503, _BUSY)
            return
        self._heartbeats += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._heartbeats -= 1

    def _parse(self, body: bytes) -> QueueCall:
        """Parse a call. Raises ValueError, RecursionError."""
        call = json.loads(body)
        if not isinstance(call, dict) or not {"data", "fn_index", "session_hash"} <= call.keys() <= _KEYS:
            raise ValueError("no call")
        session = call["session_hash"]
        if not isinstance(session, str) or not re.fullmatch(SESSION, session, re.ASCII):
            raise ValueError("no session")
        number, trigger = call["fn_index"], call.get("trigger_id")
        if type(number) is not int or number not in self._functions:
            raise ValueError("no function of a page")
        if trigger is not None and (type(trigger) is not int or not 0 <= trigger < 100_000):
            raise ValueError("no component")
        _check_data(call["data"], self._functions[number])
        if (event := call.get("event_data")) is not None:
            if not isinstance(event, dict):
                raise ValueError("no event")
            _check_plain([*event.values()])
        return QueueCall(session, json.dumps(call, ensure_ascii=False, allow_nan=False).encode())


def _check_data(data: Any, count: int) -> None:
    """Raises ValueError unless there are ``count`` plain values or lists of them."""
    if not isinstance(data, list) or len(data) != count:
        raise ValueError("no data")
    for value in data:
        _check_plain(value if isinstance(value, list) else [value])


def _check_plain(values: list[Any]) -> None:
    """Raises ValueError unless all are strings, numbers, booleans or null; a file would be an object."""
    for value in values:
        if isinstance(value, int) and abs(value) > 2**53:
            raise ValueError("no number")
        if not isinstance(value, str | int | float | None):
            raise ValueError("no plain value")
