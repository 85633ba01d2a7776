"""Middleware that checks Host, Origin and the key of each request.

Any page in a user's browser can send requests to a loopback server. Host must be a name of this server, which prevents
DNS rebinding; Origin, where a browser sends one, must be the page's own host or one that the settings allow.

The link with the key (``/?key=...``) sets a cookie and redirects to the same address without the key, which therefore
does not appear in the browser's history. Programs send the key in a header. Raters' links need no key.
"""

import hmac
import html
import ipaddress
import itertools
import json
import re
import secrets
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from studio.mos.store.access import RateLimit
from studio.serve.middleware.addresses import network_of
from studio.serve.middleware.error_pages import STYLE
from studio.serve.middleware.headers import COOKIE_PREFIX, own_cookies
from studio.serve.settings import ENV_PREFIX, ServeSettings

LOOPBACK_NAMES = ("localhost", "localhost.localdomain")
EVERY_ADDRESS = ("0.0.0.0", "::", "")
HEADER = "x-studio-key"
# Paths of the adapters; their clients send the key in vendors' headers, and expect 401.
ADAPTER_PATHS = ("/v1/", "/v2/voices", "/voices", "/api/tts_streaming", "/tts/", "/gradio_api/mcp")
KEY_PROTOCOLS = ("token", "bearer")  # a client that offers one of these subprotocols offers its key as the next one
_KEY_PARAMETERS = ("api_key", "access_token", "authorization", "single_use_token")  # query parameters of sockets
WRONG_BURST, WRONG_PER_S = 10, 10 / 60  # wrong keys of one network address
# Paths of raters and annotators, who have a signed link and then a token; the arena and static files.
PATHS_WITHOUT_KEY = re.compile(
    r"/rate|/annotate|/annotation/.*|/arena(?:/vote)?|/mos/(?!owner/).*|/assets/.*|/static/.*|/theme\.css|/favicon\.ico|/studio-assets/.*",
    re.ASCII,
)
_KEY_FORM = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Streaming-TTS Studio</title>
{STYLE}<main>
<h1>This studio needs a key</h1>
<p>REASON</p>
<form method="get" action=""><label>Key <input name="key" type="password" required autocomplete="off"></label>
<button>Open</button></form>
</main>
"""
_OPEN_THE_LINK = "Open the link that the server printed at its start, or enter the key of that link."


class HostOriginMiddleware:
    """ASGI middleware that answers 403 to a Host or Origin that is not allowed, on routes and sockets."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = _rejection(scope["headers"], self._settings) if scope["type"] in ("http", "websocket") else ""
        if reason:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await _respond(scope, send, 403, reason, reason, headers)
        else:
            await self._app(scope, receive, send)


def _rejection(headers: list[tuple[bytes, bytes]], settings: ServeSettings) -> str:
    """Why a request is rejected and which setting would allow it; empty when it may pass."""
    hosts = [value.decode("latin-1").lower() for name, value in headers if name == b"host"]
    if len(hosts) != 1 or not host_allowed(hosts[0], settings):
        return _rejection_text("Host", ", ".join(hosts), "allowed_hosts", "the name this server is called by")
    for origin in (value.decode("latin-1").lower() for name, value in headers if name == b"origin"):
        if not origin_allowed(origin, hosts[0], settings):
            return _rejection_text("Origin", origin, "allowed_origins", "the page's origin")
    return ""


def _rejection_text(header: str, value: str, setting: str, what: str) -> str:
    where = f"{setting} in [serve] of the settings file or in {ENV_PREFIX}{setting.upper()}"
    return f"{header} {value[:200] or '(none)'!r} is not allowed here. To allow it, add {what} to {where}.\n"


def host_allowed(host: str, settings: ServeSettings) -> bool:
    """Whether a Host header, including its port, names this server."""
    name = _name_of(host)
    if not name:
        return False
    allowed = tuple(one.lower() for one in settings.allowed_hosts)
    if name in (*LOOPBACK_NAMES, settings.host.lower()) or _matches(name, allowed):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    # Only names can be rebound, so a server that listens on every address accepts any address.
    return address.is_loopback or settings.host in EVERY_ADDRESS


def _matches(name: str, allowed: tuple[str, ...]) -> bool:
    return any(one in ("*", name) or (one.startswith("*.") and name.endswith(one[1:])) for one in allowed)


def _name_of(host: str) -> str:
    """The host of ``host[:port]``, without the brackets of IPv6; empty when it is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises ValueError unless it is a number
    except ValueError:
        return ""
    is_plain = parts.netloc == host and not parts.username and parts.path == ""
    return (parts.hostname or "") if is_plain else ""


def origin_allowed(origin: str, host: str, settings: ServeSettings) -> bool:
    """Whether a page of ``origin`` may call the server under the name ``host``."""
    allowed = tuple(one.lower().rstrip("/") for one in settings.allowed_origins)
    if "*" in allowed or origin in allowed:
        return True
    scheme, _, netloc = origin.partition("://")
    default_port = {"http": ":80", "https": ":443"}.get(scheme)
    return default_port is not None and netloc.removesuffix(default_port) == host.removesuffix(default_port)


def new_key() -> str:
    """A random key."""
    return secrets.token_urlsafe(16)


class KeyMiddleware:
    """ASGI middleware that requires the key, except on ``PATHS_WITHOUT_KEY``.

    Args:
        port: part of the cookie's name: a browser sends a cookie to every port of a host.
        cookie: its value, where several servers share it; random by default.
    """

    def __init__(self, app: ASGIApp, key: str, port: int, cookie: str = "") -> None:
        self._app = app
        self._key = key.encode()
        self._cookie_name = f"{COOKIE_PREFIX}key-{port}"
        # Has a secret of its own, also where the key can be guessed, so wrong cookies need no rate limit.
        self._cookie_value = cookie or secrets.token_urlsafe(32)
        self._wrong_keys = RateLimit(burst=WRONG_BURST, per_second=WRONG_PER_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._needs_no_key(scope):
            await self._app(scope, receive, send)
            return
        header_key = _header(scope, HEADER) or (_adapter_key(scope) if _is_adapter(scope) else "")
        key = header_key or dict(_query(scope)).get("key")
        client = network_of(scope["client"][0]) if scope.get("client") else ""
        if key is None:
            await _reject(scope, send, 403, _OPEN_THE_LINK)
        elif self._wrong_keys.is_over(client):
            await _reject(scope, send, 429, "Too many wrong keys came from here; wait a minute, then try again.")
        elif not hmac.compare_digest(key.encode("utf-8", "replace"), self._key):
            self._wrong_keys.take(client)
            await _reject(scope, send, 403, "This is not the key. " + _OPEN_THE_LINK)
        elif header_key or scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._set_cookie(scope, send)

    def _needs_no_key(self, scope: Scope) -> bool:
        if PATHS_WITHOUT_KEY.fullmatch(_path(scope)):
            return True
        cookie = own_cookies([_header(scope, "cookie")]).get(self._cookie_name, "")
        return hmac.compare_digest(cookie.encode(), self._cookie_value.encode())

    async def _set_cookie(self, scope: Scope, send: Send) -> None:
        """Redirect to the same address without the key, and set the cookie."""
        rest = urlencode([(name, value) for name, value in _query(scope) if name != "key"])
        path = "/" + quote(scope["path"].lstrip("/"))  # never //, which would lead to another host
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie_path = scope.get("root_path") or "/"
        cookie = f"{self._cookie_name}={self._cookie_value}; Path={cookie_path}; HttpOnly; SameSite=Lax{secure}"
        headers = [
            (b"location", (f"{path}?{rest}" if rest else path).encode("ascii")),
            (b"set-cookie", cookie.encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"content-length", b"0"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _path(scope: Scope) -> str:
    return scope["path"].removeprefix(scope.get("root_path", ""))


def _is_adapter(scope: Scope) -> bool:
    return _path(scope).startswith(ADAPTER_PATHS)


def _adapter_key(scope: Scope) -> str:
    """The key as an adapter's clients send it: in a header; for browsers' sockets in the address or a subprotocol."""
    scheme, _, token = _header(scope, "authorization").partition(" ")
    own = next(filter(None, (_header(scope, name) for name in ("xi-api-key", "kyutai-api-key", "x-api-key"))), "")
    if not own and scope["type"] == "websocket":
        query = dict(_query(scope))
        own = next((query[name] for name in _KEY_PARAMETERS if name in query), "") or _protocol_key(scope)
    return own or (token.strip() if scheme.lower() in ("bearer", "token") else "")


def _protocol_key(scope: Scope) -> str:
    """The key of Deepgram's clients in browsers: what follows ``token`` or ``bearer`` in the offered subprotocols."""
    offered = scope.get("subprotocols", [])
    return next((key for scheme, key in itertools.pairwise(offered) if scheme in KEY_PROTOCOLS), "")


def _header(scope: Scope, name: str) -> str:
    encoded_name = name.encode("ascii")
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == encoded_name), "")


def _query(scope: Scope) -> list[tuple[str, str]]:
    try:
        return parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=100)
    except ValueError:  # too many fields
        return []


async def _reject(scope: Scope, send: Send, status: int, reason: str) -> None:
    """Reject a request without a valid key: a form for a browser, JSON for a program."""
    if scope["type"] == "http" and "text/html" in _header(scope, "accept"):
        media_type, body = b"text/html; charset=utf-8", _KEY_FORM.replace("REASON", html.escape(reason))
    else:
        code = "no_key" if status == 403 else "too_many"
        error: dict[str, Any] = {"code": code, "message": reason}
        if _is_adapter(scope):  # as OpenAI's clients read it, and ElevenLabs'
            status = 401 if status == 403 else status
            error["error"] = {"message": reason, "type": "invalid_request_error", "param": None, "code": code}
            error["detail"] = {"status": code, "message": reason}
        media_type, body = b"application/json", json.dumps(error)
    headers = [(b"content-type", media_type), (b"cache-control", b"no-store")]
    if status == 429:
        headers.append((b"retry-after", str(round(1 / WRONG_PER_S)).encode()))
    await _respond(scope, send, status, body, reason, headers)


async def _respond(
    scope: Scope, send: Send, status: int, body: str, reason: str, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Answer a request or deny a handshake; a server without denial responses closes the socket with ``reason``."""
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    if kind != "http.response" and kind not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": reason[:100]})
        return
    await send({"type": f"{kind}.start", "status": status, "headers": [*headers]})
    await send({"type": f"{kind}.body", "body": body.encode()})
