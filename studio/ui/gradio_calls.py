"""Calls that pages make through Gradio's queue: strict in what they carry, bounded in what is kept of them.

A call carries plain values, never a description of a file, which Gradio would fetch. What Gradio keeps of a page (its
answers until they are fetched, a copy of every component) is forgotten when nobody listens.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from studio.serve.door.bodies import replayed, whole_body
from studio.ui.gradio_routes import DATA, HEARTBEAT, JOIN, SESSION, answer, path_of
from studio.ui.gradio_sessions import Sessions

MAX_HEARTBEATS = 1000  # each open page of anybody's holds one
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_BUSY = "too many pages are open; try again in a minute"


@dataclass(frozen=True)
class Call:
    """What a page asks for, checked; ``body`` is written anew, so that Gradio reads just what was checked."""

    session: str
    body: bytes


class Calls:
    """ASGI: Gradio's app, whose queue takes only calls that a page of ours makes.

    Args:
        functions: how many values each function takes, by its number.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions, functions: Mapping[int, int]) -> None:
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
            call = self._read(await whole_body(receive) or b"")
        except (ValueError, RecursionError):  # no JSON, no UTF-8, a number out of range, half a surrogate pair
            await answer(send, 422, "the message is not what this page sends; reload the page")
            return
        if not await self._sessions.admit(call.session):
            await answer(send, 503, _BUSY)
            return
        await self._app(scope, replayed(call.body, receive), send)

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = scope["query_string"].decode("latin-1").partition("=")[2]
        is_awaited = await self._sessions.is_awaited(session)
        with self._sessions.listening(session) as is_known:
            if not (is_known and is_awaited):
                await answer(send, 404, "nothing was asked here; reload the page")
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

    def _read(self, body: bytes) -> Call:
        """Raises ValueError, RecursionError unless this is a call of ours."""
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
        return Call(session, json.dumps(call, ensure_ascii=False, allow_nan=False).encode())


def _check_data(data: Any, wanted: int) -> None:
    """Raises ValueError unless there are as many values as wanted: plain ones, or lists of them."""
    if not isinstance(data, list) or len(data) != wanted:
        raise ValueError("no data")
    for value in data:
        _check_plain(value if isinstance(value, list) else [value])


def _check_plain(values: list[Any]) -> None:
    """Raises ValueError unless all are text, numbers, truth values or nothing: a file is described by an object."""
    for value in values:
        if isinstance(value, int) and abs(value) > 2**53:
            raise ValueError("no number")
        if not isinstance(value, str | int | float | None):
            raise ValueError("no plain value")
