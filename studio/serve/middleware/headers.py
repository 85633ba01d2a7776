"""Middleware for headers: security headers of responses, and a filter of request headers."""

import re
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.settings import ServeSettings

POLICY = b"content-security-policy"
COOKIE_PREFIX = "studio-"  # of the names of our own cookies
_DEFAULT_POLICY = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'"
_OWN_COOKIE = re.compile(rf"{COOKIE_PREFIX}[A-Za-z0-9-]{{1,80}}=[A-Za-z0-9_-]{{1,200}}", re.ASCII)
_MAX_COOKIES = 20
# The server's own address comes from Host, ``root_path`` and the proxies of the settings.
_UNTRUSTED = re.compile(rb"x-forwarded-.*|forwarded|x-gradio-server|x-direct-url")


class SecurityHeadersMiddleware:
    """ASGI middleware: each response has a content policy, the allowed frame ancestors and a referrer policy.

    Raters' links and the link with the key are secrets in the address, so other sites get no referrer.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        self._app = app
        origins = " ".join(settings.allowed_origins)
        ancestors = f"frame-ancestors 'self' {origins}".strip() if origins else "frame-ancestors 'none'"
        self._ancestors = ancestors.encode()
        self._headers = [
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
        ]
        self._is_chat = bool(settings.llm_url)
        if not origins:  # X-Frame-Options takes no list; with allowed origins, frame-ancestors alone decides
            self._headers.append((b"x-frame-options", b"DENY"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        # A question to the language model may be spoken, and the owner records a speaker on the Library page.
        records = self._is_chat or scope["path"].endswith("/library")
        permissions = f"camera=(), microphone=({'self' * records}), geolocation=()".encode()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(b"permissions-policy", permissions), *self._add_to(message.get("headers", ()))]
                message = {**message, "headers": headers}
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _add_to(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        own_names = {name for name, _ in self._headers}
        headers = [(name, value) for name, value in headers if name.lower() not in own_names]
        policy = next((value for name, value in headers if name.lower() == POLICY), _DEFAULT_POLICY)
        headers = [(name, value) for name, value in headers if name.lower() != POLICY]
        is_page = any(value.startswith(b"text/html") for _, value in headers)
        if is_page and not any(name.lower() == b"cache-control" for name, _ in headers):
            headers.append((b"cache-control", b"private, no-cache"))
        return [*headers, *self._headers, (POLICY, policy + b"; " + self._ancestors)]


class RequestHeadersMiddleware:
    """ASGI middleware, the outermost: passes on only our own cookies, in one header, and no forwarding headers.

    Python before 3.11.10 takes quadratic time for a cookie of backslashes (CVE-2024-7592), so cookies are split here,
    and the app sees only valid ones of ours.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            scope = {**scope, "headers": _filter(scope["headers"])}
        await self._app(scope, receive, send)


def _filter(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    passed = [one for one in headers if one[0] != b"cookie" and not _UNTRUSTED.fullmatch(one[0])]
    cookies = own_cookies([value.decode("latin-1") for name, value in headers if name == b"cookie"])
    if cookies:
        passed.append((b"cookie", "; ".join(f"{name}={value}" for name, value in cookies.items()).encode("ascii")))
    return passed


def own_cookies(headers: list[str]) -> dict[str, str]:
    """Names and values of our own cookies, in time linear in the length of the headers."""
    pairs = (pair.strip(" \t") for header in headers for pair in header.split(";"))
    own = [pair for pair in pairs if _OWN_COOKIE.fullmatch(pair)][:_MAX_COOKIES]
    return dict(pair.split("=", 1) for pair in own)
