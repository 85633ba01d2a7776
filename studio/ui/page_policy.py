"""What the pages' scripts may do: run where the server wrote them, and talk to this server alone.

Gradio writes its configuration into inline scripts, which are marked by a number that changes with every answer, and
makes functions of text (each component's ``js_on_load``), which only 'unsafe-eval' allows. What others typed can be
neither: an element that somebody smuggled in runs nothing.
"""

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.door.headers import POLICY

Described = Callable[[bytes, Scope], bytes]
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
_SCRIPT = re.compile(rb"<script(?=[\s>])(.*?</script>)", re.DOTALL | re.IGNORECASE)


class PagePolicy:
    """ASGI: the HTML of the app inside gets a content security policy; everything else passes.

    Args:
        scripts: inline scripts that the page makes itself, known by their text.
        described: gives the HTML of a page its description.
    """

    def __init__(self, app: ASGIApp, scripts: Collection[str], described: Described = lambda html, _: html) -> None:
        self._app, self._described = app, described
        digests = (b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
        self._hashes = " ".join(f"'sha256-{digest}'" for digest in digests)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        body = bytearray()

        async def told(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_html(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await self._send_page(scope, start, bytes(body), send)

        await self._app(scope, receive, told)

    async def _send_page(self, scope: Scope, start: Message, html: bytes, send: Send) -> None:
        nonce = secrets.token_urlsafe(16)
        html = marked(self._described(html, scope), nonce)
        own = (b"content-length", POLICY)
        headers = [(name, value) for name, value in start["headers"] if name.lower() not in own]
        headers += [(b"content-length", str(len(html)).encode()), (POLICY, self.policy(scope, nonce).encode())]
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else html})

    def policy(self, scope: Scope, nonce: str) -> str:
        """What a page may do whose scripts bear this number."""
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


def marked(html: bytes, nonce: str) -> bytes:
    """A page whose every script bears the number; what only looks like a script inside one stays."""
    return _SCRIPT.sub(rb'<script nonce="' + nonce.encode() + rb'"\1', html)


def script_policy(scope: Scope) -> str:
    """Of a script of ours, which may be a Worker's: it takes no policy from the page that starts it."""
    return f"default-src 'none'; script-src 'self'; connect-src {_connections(scope)}"


def _connections(scope: Scope) -> str:
    """This server; some browsers do not count a socket of the same host as 'self'."""
    host = host_of(scope)
    return f"'self' ws://{host} wss://{host}" if host else "'self'"


def host_of(scope: Scope) -> str:
    """The name that the caller gave this server; empty where it is not plainly one."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host if _HOST.fullmatch(host) else ""


def _is_html(message: Message) -> bool:
    return any(name.lower() == b"content-type" and b"text/html" in value for name, value in message["headers"])
