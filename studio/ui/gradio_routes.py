"""Allow-list of the Gradio routes that our pages use; every other one is 404.

Gradio has some sixty routes, such as uploads, files by path and by URL, and proxies. Our pages need none of them.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

SESSION = "[A-Za-z0-9]{1,64}"
JOIN, DATA, HEARTBEAT = "/gradio_api/queue/join", "/gradio_api/queue/data", "/gradio_api/heartbeat/"
_NAME = "[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"  # never .. and never longer than a file system takes
_FILE = f"(?:{_NAME}/){{0,5}}{_NAME}"


@dataclass(frozen=True)
class OpenRoute:
    """One allowed route.

    Attributes:
        methods: of HTTP.
        path: regular expression of the whole path below the app's root.
        query: regular expression of the whole query; None drops the query (pages read their own).
    """

    methods: frozenset[str]
    path: str
    query: str | None = None


_GET, _PAGE = frozenset({"GET"}), frozenset({"GET", "HEAD"})
STATIC_ROUTES = (
    OpenRoute(_GET, f"/assets/{_FILE}"),
    OpenRoute(_GET, f"/static/{_FILE}"),
    OpenRoute(_GET, "/theme.css"),
    OpenRoute(_GET, "/favicon.ico"),
)
CALL_ROUTES = (
    OpenRoute(frozenset({"POST"}), JOIN),
    OpenRoute(_GET, DATA, query=f"session_hash={SESSION}"),
    OpenRoute(_GET, f"{HEARTBEAT}{SESSION}"),
)


def open_routes(pages: Collection[str]) -> tuple[OpenRoute, ...]:
    """The allowed routes of an app with these pages ("" is the first)."""
    answered = ((page, _GET if page else _PAGE) for page in pages)  # Gradio answers HEAD for its first page alone
    return (*(OpenRoute(methods, f"/{re.escape(page)}") for page, methods in answered), *STATIC_ROUTES, *CALL_ROUTES)


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


async def answer(send: Send, status: int, text: str) -> None:
    """Respond with a line of text."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
