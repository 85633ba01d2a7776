"""The routes of Gradio that our pages use. Every other one, also of a later Gradio, does not exist here.

Gradio brings some sixty routes: uploads, files by path and by URL, proxies, links that keep a page's fields. Each is a
way to the machine that no page of ours needs, so what is open is listed and the rest is 404. What our pages send is
strict, too: a call carries plain values, never a description of a file, which Gradio would fetch.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_CALL_BYTES = 64 * 1024
_MAX_VALUES = 64
_SESSION = "[A-Za-z0-9]{1,64}"
_NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"  # never .. and never longer than a file system takes
_FILE = f"(?:{_NAME}/){{0,5}}{_NAME}"
_CALL_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}


@dataclass(frozen=True)
class OpenRoute:
    """One route that answers.

    Attributes:
        methods: of HTTP.
        path: a regular expression for the whole path below the app's root.
        query: one for the whole query, where Gradio reads it; any other is not passed on (pages read their own).
        has_body: whether a body is passed on, after it was read whole and checked.
    """

    methods: frozenset[str]
    path: str
    query: str | None = None
    has_body: bool = False


_GET, _PAGE = frozenset({"GET"}), frozenset({"GET", "HEAD"})
STATIC_ROUTES = (
    OpenRoute(_GET, f"/assets/{_FILE}"),
    OpenRoute(_GET, f"/static/{_FILE}"),
    OpenRoute(_GET, "/theme.css"),
    OpenRoute(_GET, "/favicon.ico"),
)
CALL_ROUTES = (
    OpenRoute(frozenset({"POST"}), "/gradio_api/queue/join", has_body=True),
    OpenRoute(_GET, "/gradio_api/queue/data", query=f"session_hash={_SESSION}"),
    OpenRoute(_GET, f"/gradio_api/heartbeat/{_SESSION}"),
)


def open_routes(pages: Collection[str]) -> tuple[OpenRoute, ...]:
    """The routes of an app with these pages ("" is the first)."""
    return (*(OpenRoute(_PAGE, f"/{re.escape(page)}") for page in pages), *STATIC_ROUTES, *CALL_ROUTES)


class _Refused(Exception):
    """A body is not what our pages send."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class OpenRoutes:
    """ASGI: what is on the list goes to Gradio, everything else is answered here."""

    def __init__(self, app: ASGIApp, routes: Collection[OpenRoute]) -> None:
        self._app = app
        self._routes = [(route, re.compile(route.path, re.ASCII)) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there is nothing here"})
            return
        assert scope["type"] == "http", "a mounted app gets nothing else"
        route = self._route(scope)
        query = scope["query_string"].decode("latin-1")
        if route is None or (route.query is not None and not re.fullmatch(route.query, query, re.ASCII)):
            await _answer(send, 404, "there is nothing here")
            return
        kept = scope["query_string"] if route.query is not None else b""
        try:
            body = await _read_call(receive) if route.has_body else b""
        except _Refused as refused:
            await _answer(send, refused.status, str(refused))
            return
        await self._app({**scope, "query_string": kept}, _replayed(body, receive), send)

    def _route(self, scope: Scope) -> OpenRoute | None:
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        fits = (route for route, pattern in self._routes if pattern.fullmatch(path))
        return next((route for route in fits if scope["method"] in route.methods), None)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read, then whatever the client does (its leaving must be noticed)."""
    told = False

    async def replay() -> Message:
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass  # a body where none is expected is dropped, not kept
        return message

    return replay


async def _read_call(receive: Receive) -> bytes:
    """A bounded body, parsed, checked and written anew: Gradio reads just what was checked. Raises _Refused."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise _Refused(400, "the message was broken off")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_CALL_BYTES:
            raise _Refused(413, f"the message is too long; send at most {MAX_CALL_BYTES} bytes")
    try:
        call = json.loads(bytes(body))
        _check_call(call)
        return json.dumps(call, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number out of range, half a surrogate pair
        raise _Refused(422, "the message is not what this page sends; reload the page") from error


def _check_call(call: Any) -> None:
    """Raises ValueError unless this is a call of ours: plain values, lists of them, an event of plain values."""
    if not isinstance(call, dict) or not {"data", "fn_index", "session_hash"} <= call.keys() <= _CALL_KEYS:
        raise ValueError("no call")
    if not isinstance(call["session_hash"], str) or not re.fullmatch(_SESSION, call["session_hash"], re.ASCII):
        raise ValueError("no session")
    if not _is_small(call["fn_index"]) or not (call.get("trigger_id") is None or _is_small(call["trigger_id"])):
        raise ValueError("no function")
    data, event = call["data"], call.get("event_data")
    if not isinstance(data, list) or len(data) > _MAX_VALUES:
        raise ValueError("no data")
    for value in data:
        _check_plain(value if isinstance(value, list) else [value])
    if event is not None:
        if not isinstance(event, dict):
            raise ValueError("no event")
        _check_plain([*event.values()])


def _check_plain(values: list[Any]) -> None:
    """Raises ValueError unless all are text, numbers, truth values or nothing: a file is described by an object."""
    for value in values:
        if isinstance(value, int) and abs(value) > 2**53:
            raise ValueError("no number")
        if not isinstance(value, str | int | float | None):
            raise ValueError("no plain value")


def _is_small(value: Any) -> bool:
    return type(value) is int and 0 <= value < 100_000


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
