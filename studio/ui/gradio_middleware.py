"""Middleware for Gradio: an allow-list of its routes, the rate of pages, and limits on calls to its queue.

Gradio has some sixty routes, such as uploads, files by path and by URL, and proxies. Our pages need few of them; the
others answer 404. A call of the queue has plain values only: Gradio would fetch the file that an object describes.
Gradio keeps the state of a page (pending results, a copy of every component) for ever; here it is dropped once the
page has had no listener for a while.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.mos.store.access import RateLimit, TooMany
from studio.serve.middleware.addresses import address_of
from studio.serve.middleware.bodies import read_body_bytes, replay_body
from studio.serve.middleware.callers import LateCaller, leaves_within, with_caller

if TYPE_CHECKING:
    import gradio as gr

PAGE_BURST, PAGES_PER_S = 100, 20  # of one network address, which a class may share
MAX_TURN_S = 60.0  # the longest wait for a page
MAX_SESSIONS = 200  # pages with recent calls: 130 KiB each
MAX_WAITING = 16  # pending calls of one page
IDLE_S = 0.02  # Gradio polls every 1 ms: 6% of a core while idle
MAX_QUEUED = 128  # pending calls of all pages
FORGOTTEN_S = 30.0  # without a listener, until a page is dropped
LISTEN_S = 5.0  # after a call without a listener, until its caller counts as lost
_LEAVING_S, _POLL_S = 2.0, 0.02  # time for a page's previous listener to disconnect
_KEYS = {"data", "event_data", "fn_index", "trigger_id", "session_hash"}
_CANCEL_KEYS = {"fn_index", "session_hash", "event_id"}
_CLOSE = b'"close_stream"'  # the last message of a stream without pending calls
_BUSY = "too many pages are open; try again in a minute"
SESSION = "[A-Za-z0-9-]{1,64}"
JOIN, DATA, CANCEL = "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/cancel"
MCP = "/gradio_api/mcp"
DESCRIPTIONS = ("/config", "/gradio_api/info")  # of the functions, for Gradio's clients
# Gradio's pages keep this request open, and browsers allow six per host: so it ends at once.
HEARTBEAT = "/gradio_api/heartbeat/"
_NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"  # neither .. nor too long for a file system
_FILE = f"(?:{_NAME}/){{0,5}}{_NAME}"


def limit_queue(blocks: "gr.Blocks") -> None:
    """Set Gradio's own limits, before the app is mounted."""
    blocks.queue(max_size=MAX_QUEUED)
    blocks._queue.ANALYTICS_MAX_EVENTS = 100  # each call builds a table of this length
    blocks._queue.sleep_when_free = IDLE_S
    blocks.state_session_capacity = 2 * MAX_SESSIONS


@dataclass
class _PageState:
    seen_s: float = 0.0
    listeners: int = 0
    caller: LateCaller = field(default_factory=LateCaller)  # of the calls since a listener left


class PageSessions:
    """Tracks the pages with calls and their listeners, and drops Gradio's state of pages without a listener."""

    def __init__(self, blocks: "gr.Blocks", clock: Callable[[], float] = time.monotonic) -> None:
        self._blocks = blocks
        self._clock = clock
        self._pages: OrderedDict[str, _PageState] = OrderedDict()  # least recently used first
        self._sweeper: asyncio.Task[None] | None = None

    async def admit(self, session: str) -> bool:
        """Whether a page may make a call now."""
        await self.sweep()
        if len(self._blocks._queue.pending_event_ids_session.get(session, ())) >= MAX_WAITING:
            return False
        if session not in self._pages and len(self._pages) >= MAX_SESSIONS:
            silent = next((name for name, page in self._pages.items() if not page.listeners), None)
            if silent is None:
                return False
            await self._forget(silent)
        page = self._pages.setdefault(session, _PageState())
        self._see(session, page)
        asyncio.get_running_loop().call_later(LISTEN_S, self._check_listened, page, page.caller)
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep_till_empty())
        return True

    def caller(self, session: str) -> LateCaller:
        """The caller, lost when the page's listener disconnects or none connects."""
        return self._pages[session].caller

    def leave(self, session: str) -> None:
        """A listener has disconnected before its calls ended."""
        page = self._pages.get(session)
        if page is not None and page.listeners <= 1:
            self._lose_caller(page)

    def _check_listened(self, page: _PageState, caller: LateCaller) -> None:
        if not page.listeners and page.caller is caller:
            self._lose_caller(page)

    def _lose_caller(self, page: _PageState) -> None:
        page.caller.lost.set()
        page.caller = LateCaller()

    async def is_awaited(self, session: str) -> bool:
        """Whether a page has pending results and no listener; waits for a previous listener to disconnect.

        For other pages, Gradio would start a response and fail with a traceback.
        """
        for _ in range(round(_LEAVING_S / _POLL_S)):
            if (page := self._pages.get(session)) is None or not page.listeners:
                break
            await asyncio.sleep(_POLL_S)
        page = self._pages.get(session)
        has_results = session in self._blocks._queue.pending_messages_per_session
        return has_results and page is not None and not page.listeners

    @contextmanager
    def listening(self, session: str) -> Iterator[bool]:
        """Count a listener of a page's results; yields whether the page has made a call."""
        page = self._pages.get(session)
        if page is None:
            yield False
            return
        page.listeners += 1
        try:
            yield True
        finally:
            page.listeners -= 1
            if self._pages.get(session) is page:
                self._see(session, page)

    async def sweep(self) -> None:
        """Drop the pages without a listener for ``FORGOTTEN_S``."""
        before_s = self._clock() - FORGOTTEN_S
        for name in [name for name, page in self._pages.items() if not page.listeners and page.seen_s < before_s]:
            await self._forget(name)

    def _see(self, session: str, page: _PageState) -> None:
        page.seen_s = self._clock()
        self._pages.move_to_end(session)

    async def _sweep_till_empty(self) -> None:
        while self._pages:
            await asyncio.sleep(FORGOTTEN_S / 4)
            await self.sweep()

    async def _forget(self, session: str) -> None:
        if (page := self._pages.pop(session, None)) is not None:
            self._lose_caller(page)
        queue, states = self._blocks._queue, self._blocks.state_holder
        await queue.clean_events(session_hash=session)
        queue.pending_messages_per_session.pop(session, None)
        queue.pending_event_ids_session.pop(session, None)
        states.session_data.pop(session, None)
        states.time_last_used.pop(session, None)
        self._blocks.pending_streams.pop(session, None)
        self._blocks.pending_diff_streams.pop(session, None)


@dataclass(frozen=True)
class QueueCall:
    """A validated call; ``body`` is serialised again, so that Gradio reads exactly what was validated."""

    session: str
    body: bytes


class QueueCalls:
    """ASGI middleware: passes only calls that our pages make to Gradio's queue.

    ``functions``: the number of values of each function, by its index.
    """

    def __init__(self, app: ASGIApp, sessions: PageSessions, functions: Mapping[int, int]) -> None:
        self._app = app
        self._sessions = sessions
        self._functions = functions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path == JOIN:
            await self._join(scope, receive, send)
        elif path == DATA:
            await self._listen(scope, receive, send)
        elif path == CANCEL:
            await self._cancel(scope, receive, send)
        elif path.startswith(HEARTBEAT):
            await answer(send, 204, "")
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
        # The call outlives this request; its caller is the listener.
        scope = with_caller(scope, self._sessions.caller(call.session))
        await self._app(scope, replay_body(call.body, receive), send)

    async def _cancel(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A Gradio client cancels one of its calls."""
        try:
            body = self._parse_cancel(await read_body_bytes(receive) or b"")
        except (ValueError, RecursionError):
            await answer(send, 422, "the message is not what Gradio's clients send")
            return
        await self._app(scope, replay_body(body, receive), send)

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = scope["query_string"].decode("latin-1").partition("=")[2]
        is_awaited = await self._sessions.is_awaited(session)
        with self._sessions.listening(session) as is_known:
            if not (is_known and is_awaited):
                await answer(send, 404, "this page has no pending call; reload the page")
                return
            is_over = False

            async def send_seen(message: Message) -> None:
                nonlocal is_over
                is_over = is_over or _CLOSE in message.get("body", b"")  # no call is pending; the next has a new stream
                await send(message)

            try:
                await self._app(scope, receive, send_seen)
            finally:
                if not is_over:
                    self._sessions.leave(session)

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

    def _parse_cancel(self, body: bytes) -> bytes:
        """A message that cancels a call, serialised again. Raises ValueError, RecursionError."""
        call = json.loads(body)
        if not isinstance(call, dict) or call.keys() != _CANCEL_KEYS:
            raise ValueError("no call")
        if type(call["fn_index"]) is not int or call["fn_index"] not in self._functions:
            raise ValueError("no function of a page")
        call["event_id"] = call["event_id"] or "unknown"  # the client has not had the answer to its call
        for name in (call["session_hash"], call["event_id"]):
            if not isinstance(name, str) or not re.fullmatch(SESSION, name, re.ASCII):
                raise ValueError("no session")
        return json.dumps(call).encode()


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


@dataclass(frozen=True)
class OpenRoute:
    """One allowed route."""

    methods: frozenset[str]  # of HTTP
    path: str  # regular expression of the whole path below the app's root
    query: str | None = None  # regular expression of the whole query; None drops the query (pages read their own)


_GET = frozenset({"GET"})

STATIC_ROUTES = (
    OpenRoute(_GET, f"/assets/{_FILE}"),
    OpenRoute(_GET, f"/static/{_FILE}"),
    OpenRoute(_GET, "/theme.css"),
    OpenRoute(_GET, "/favicon.ico"),
)

CALL_ROUTES = (
    OpenRoute(frozenset({"POST"}), JOIN),
    OpenRoute(frozenset({"POST"}), CANCEL),
    OpenRoute(_GET, DATA, query=f"session_hash={SESSION}"),
    OpenRoute(_GET, f"{HEARTBEAT}{SESSION}"),
    *(OpenRoute(_GET, path) for path in DESCRIPTIONS),
    OpenRoute(frozenset({"POST"}), f"{MCP}/?"),
)


def open_routes(pages: Collection[str]) -> tuple[OpenRoute, ...]:
    """The allowed routes of an app with these pages."""
    return (*(OpenRoute(_GET, f"/{re.escape(page)}") for page in pages), *STATIC_ROUTES, *CALL_ROUTES)


class OpenRoutes:
    """ASGI middleware: passes allowed routes to Gradio and answers 404 to all others."""

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
            await answer(send, 404, "there is nothing here")
            return
        query_string = scope["query_string"] if route.query is not None else b""
        await self._app({**scope, "query_string": query_string}, receive, send)

    def _route(self, scope: Scope) -> OpenRoute | None:
        path = path_of(scope)
        fits = (route for route, pattern in self._routes if pattern.fullmatch(path))
        return next((route for route in fits if scope["method"] in route.methods), None)


def path_of(scope: Scope) -> str:
    """The path below the app's root."""
    return scope["path"].removeprefix(scope.get("root_path", "")) or "/"


class PageLimits:
    """ASGI middleware: requests for pages are delayed above a rate per network address.

    A delay costs nothing. A refusal would cost as much as a page, and the client would ask again.
    """

    def __init__(self, app: ASGIApp, pages: Collection[str]) -> None:
        self._app, self._pages = app, frozenset(pages)
        self._rate = RateLimit(burst=PAGE_BURST, per_second=PAGES_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and path_of(scope) in self._pages:
            try:
                wait_s = self._rate.reserve(address_of(HTTPConnection(scope)), MAX_TURN_S)
            except TooMany:
                await answer(send, 503, _BUSY)
                return
            if await leaves_within(scope, wait_s):
                return
        await self._app(scope, receive, send)


async def answer(send: Send, status: int, text: str) -> None:
    """Respond with a line of text."""
    body = f"{text}\n".encode() if text else b""
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
