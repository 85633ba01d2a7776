"""The key of a studio that others can reach: pages, routes and sockets want it, but for what raters' links need.

The link with the key (``/?key=...``) is answered with a cookie and the same address without the key, so that the key
stays out of the browser's history and of every page's address. Programs send it in a header.
"""

import hmac
import html
import ipaddress
import json
import re
import secrets
from urllib.parse import parse_qsl, quote, urlencode

from starlette.types import ASGIApp, Receive, Scope, Send

from studio.mos.store.access import Limit
from studio.serve.door.addresses import network_of
from studio.serve.door.request_headers import COOKIES, own_cookies

HEADER = "x-studio-key"
WRONG_BURST, WRONG_PER_S = 10, 10 / 60  # of one network address
# What a rater's or an annotator's browser fetches: it brings a signed link, then a token of its own.
OF_RATERS = re.compile(
    r"/rate|/annotate|/annotation/.*|/arena|/mos/(?!owner/).*|/assets/.*|/static/.*|/theme\.css|/favicon\.ico|/studio-assets/.*",
    re.ASCII,
)
_ASK = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Streaming-TTS Studio</title>
<style>
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 32rem; margin: 18vh auto; padding: 0 1.25rem }
h1 { font-size: 1.6rem; line-height: 1.2 }
form, label { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center }
input, button { font: inherit; padding: .45rem .7rem }
input { inline-size: 13rem }
</style>
<h1>This studio wants its key</h1>
<p>WHY</p>
<form method="get" action=""><label>Key <input name="key" type="password" required autocomplete="off"></label>
<button>Open</button></form>
"""
_OPEN_THE_LINK = "Open the link that it printed when it started, or give the key of that link."


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_key() -> str:
    """A key that nobody guesses."""
    return secrets.token_urlsafe(16)


class Keyed:
    """ASGI middleware: who has not shown the key gets no further, except to what raters need.

    Args:
        port: names the cookie, which a browser sends to every port of a host.
    """

    def __init__(self, app: ASGIApp, key: str, port: int) -> None:
        self._app = app
        self._key = key.encode()
        self._cookie = f"{COOKIES}key-{port}"
        # Not the key nor made from it: who could guess the key cannot guess this, and tries of it need not be counted.
        self._shown = secrets.token_urlsafe(32)
        self._wrong = Limit(burst=WRONG_BURST, per_second=WRONG_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._may_pass(scope):
            await self._app(scope, receive, send)
            return
        given = self._given(scope)
        client = network_of(scope["client"][0]) if scope.get("client") else ""
        if given is None:
            await _refuse(scope, send, 403, _OPEN_THE_LINK)
        elif self._wrong.is_over(client):
            await _refuse(scope, send, 429, "Too many wrong keys came from here; wait a minute, then try again.")
        elif not hmac.compare_digest(given.encode("utf-8", "replace"), self._key):
            self._wrong.take(client)
            await _refuse(scope, send, 403, "This is not the key. " + _OPEN_THE_LINK)
        elif _header(scope, HEADER) or scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._let_in(scope, send)

    def _may_pass(self, scope: Scope) -> bool:
        if OF_RATERS.fullmatch(scope["path"].removeprefix(scope.get("root_path", ""))):
            return True
        cookie = own_cookies([_header(scope, "cookie")]).get(self._cookie, "")
        return hmac.compare_digest(cookie.encode(), self._shown.encode())

    def _given(self, scope: Scope) -> str | None:
        """The key in the header or in the address, right or wrong."""
        if found := _header(scope, HEADER):
            return found
        return dict(_query(scope)).get("key")

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """The same address without the key, and a cookie instead of it."""
        rest = urlencode([(name, value) for name, value in _query(scope) if name != "key"])
        path = "/" + quote(scope["path"].lstrip("/"))  # never //: that would lead to another host
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        below = scope.get("root_path") or "/"
        cookie = f"{self._cookie}={self._shown}; Path={below}; HttpOnly; SameSite=Lax{secure}"
        headers = [
            (b"location", (f"{path}?{rest}" if rest else path).encode("ascii")),
            (b"set-cookie", cookie.encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _header(scope: Scope, name: str) -> str:
    wanted = name.encode("ascii")
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == wanted), "")


def _query(scope: Scope) -> list[tuple[str, str]]:
    try:
        return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    except ValueError:  # more fields than any page has
        return []


async def _refuse(scope: Scope, send: Send, status: int, why: str) -> None:
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    if kind != "http.response" and kind not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": why[:100]})
        return
    if scope["type"] == "http" and "text/html" in _header(scope, "accept"):
        media_type, body = b"text/html; charset=utf-8", _ASK.replace("WHY", html.escape(why))
    else:
        code = "no_key" if status == 403 else "too_many"
        media_type, body = b"application/json", json.dumps({"code": code, "message": why})
    headers = [(b"content-type", media_type), (b"cache-control", b"no-store")]
    if status == 429:
        headers.append((b"retry-after", str(round(1 / WRONG_PER_S)).encode()))
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body.encode()})
