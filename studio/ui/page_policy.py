"""The content security policy of the pages: only the server's scripts run, and they connect to this server alone.

Gradio's inline scripts get a nonce. Its functions from text (each component's ``js_on_load``) need 'unsafe-eval'. A
script in injected markup has no nonce and does not run.
"""

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.middleware.headers import POLICY

EditPage = Callable[[bytes, Scope], bytes]
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
_SCRIPT = re.compile(rb"<script(?=[\s>])(.*?</script>)", re.DOTALL | re.IGNORECASE)


class PagePolicy:
    """ASGI middleware: adds a content security policy to HTML; other responses pass unchanged.

    Args:
        scripts: the text of inline scripts without a nonce.
        edit_page: changes the HTML of a page.
    """

    def __init__(self, app: ASGIApp, scripts: Collection[str], edit_page: EditPage = lambda html, _: html) -> None:
        self._app, self._edit_page = app, edit_page
        digests = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
        self._hashes = " ".join(f"'sha256-{digest}'" for digest in digests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        body = bytearray()

        async def collect(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_html(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await self._send_page(scope, start, bytes(body), send)

        await self._app(scope, receive, collect)

    async def _send_page(self, scope: Scope, start: Message, html: bytes, send: Send) -> None:
        nonce = secrets.token_urlsafe(16)
        html = add_nonce(self._edit_page(html, scope), nonce)
        replaced = (b"content-length", POLICY)
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in replaced]
        headers += [(b"content-length", str(len(html)).encode()), (POLICY, self.policy(scope, nonce).encode())]
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else html})

    def policy(self, scope: Scope, nonce: str) -> str:
        """The policy of a page whose scripts have this nonce."""
        parts = {
            "default-src": "'none'",
            "script-src": f"'self' 'unsafe-eval' 'nonce-{nonce}' {self._hashes}".strip(),
            "worker-src": "'self'",
            "style-src": "'self' 'unsafe-inline'",
            "img-src": "'self' data: blob:",
            "font-src": "'self'",
            "media-src": "'self' blob:",
            "connect-src": _connections(scope),
            "base-uri": "'self'",
            "form-action": "'self'",
        }
        return "; ".join(f"{name} {sources}" for name, sources in parts.items())


def add_nonce(html: bytes, nonce: str) -> bytes:
    """A page with a nonce in every script tag; text inside scripts is unchanged."""
    return _SCRIPT.sub(rb'<script nonce="' + nonce.encode() + rb'"\1', html)


def script_policy(scope: Scope) -> str:
    """The policy of a script, for Workers: they do not inherit the page's policy."""
    return f"default-src 'none'; script-src 'self'; connect-src {_connections(scope)}"


def _connections(scope: Scope) -> str:
    """This server; in some browsers 'self' does not include sockets."""
    host = host_of(scope)
    return f"'self' ws://{host} wss://{host}" if host else "'self'"


def host_of(scope: Scope) -> str:
    """The Host header; empty where it is malformed."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host if _HOST.fullmatch(host) else ""


def _is_html(message: Message) -> bool:
    return any(name.lower() == b"content-type" and b"text/html" in value for name, value in message["headers"])
