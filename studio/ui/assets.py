"""The pages' scripts and styles, the head of each page, and the content security policy.

Scripts are served at an address that changes with their content. Only the server's scripts run, and they connect to
this server alone: Gradio's inline scripts get a nonce, so a script in injected markup does not run. Gradio's functions
from text (each component's ``js_on_load``) need 'unsafe-eval'.
"""

import hashlib
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Collection
from functools import lru_cache
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.serve.middleware.headers import POLICY

WIDGETS = Path(__file__).parent / "widgets"
_MEDIA_TYPES = {".js": "text/javascript; charset=utf-8", ".json": "application/json", ".png": "image/png"}
_STYLES = (
    "widgets/tokens.css",
    "widgets/options/options.css",
    *(f"widgets/live/{name}.css" for name in ("live", "settings", "race/race", "stage", "talk/talk", "sizes")),
    "widgets/rate/rate.css",
    "widgets/inspect/inspect.css",
    "widgets/annotate/annotate.css",
    "widgets/compare/compare.css",
    "widgets/owner/fields.css",
    "widgets/edit/edit.css",
    "widgets/library/library.css",
    "owner.css",
)
CLAIM = "It speaks while you are still typing."
PICTURE = "live/race/card.png"  # a race of the voice wren, saved from the Live page
_GRADIO_TAGS = re.compile(
    rb'<meta\s+(?:property|name)="(?:og:|twitter:|description")[^>]*>\s*|<link\s+rel="manifest"[^>]*>\s*', re.IGNORECASE
)
_CHARSET = re.compile(rb'<meta charset="[^"]*"\s*/?>')
# The trace in the address of the Inspect page is requested before the page's scripts have loaded, in half a second.
_EARLY = """<script>{
const trace = new URLSearchParams(location.search).get('trace');
if (trace) (window.earlyView = fetch(`ROOT/traces/${encodeURIComponent(trace)}.view`)).catch(() => {});
}</script>"""
_BY_LINK = ("/rate", "/annotate")
EditPage = Callable[[bytes, Scope], bytes]
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
_SCRIPT = re.compile(rb"<script(?=[\s>])(.*?</script>)", re.DOTALL | re.IGNORECASE)


@lru_cache
def _scripts() -> dict[str, bytes]:
    """Every file that may be fetched, by path; read once, since browsers cache them by digest."""
    paths = sorted(path for path in WIDGETS.rglob("*") if path.suffix in _MEDIA_TYPES)
    return {path.relative_to(WIDGETS).as_posix(): path.read_bytes() for path in paths}


@lru_cache
def asset_path() -> str:
    """The path of the scripts; it changes whenever one of them does."""
    digest = hashlib.sha256(b"".join(_scripts().values())).hexdigest()[:12]
    return f"/studio-assets/{digest}"


def styles() -> str:
    """The styles of all pages, for the head."""
    return "\n".join((WIDGETS.parent / name).read_text(encoding="utf-8") for name in _STYLES)


def add_assets(app: FastAPI) -> None:
    """Serve the scripts; call this before Gradio is mounted at the root."""

    @app.get(asset_path() + "/{path:path}", include_in_schema=False)
    def asset(request: Request, path: str) -> Response:
        content = _scripts().get(path)
        if content is None:
            return Response("there is no such script", status_code=404, media_type="text/plain")
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Content-Security-Policy": script_policy(request.scope),
        }
        return Response(content, media_type=_MEDIA_TYPES[Path(path).suffix], headers=headers)


def add_description(html: bytes, scope: Scope, title: str) -> bytes:
    """A page with our description, without Gradio's link to a missing manifest.

    Pages of raters and annotators have a title only, so that previews of their links do not reveal the studio.
    """
    html = _GRADIO_TAGS.sub(b"", html)
    is_by_link = scope["path"].rstrip("/").endswith(_BY_LINK)
    ours = b'<meta name="robots" content="noindex">' if is_by_link else (_tags(scope, title) + _early(scope)).encode()
    return _CHARSET.sub(lambda found: found.group(0) + ours, html, count=1)


def _tags(scope: Scope, title: str) -> str:
    properties = {"og:type": "website", "og:title": title, "og:description": CLAIM}
    names = {"description": CLAIM, "twitter:card": "summary_large_image", "twitter:title": title}
    if address := _address(scope):
        properties |= {"og:image": address, "og:image:width": "1200", "og:image:height": "630"}
        names |= {"twitter:image": address}
    tags = [f'<meta property="{name}" content="{escape(value)}">' for name, value in properties.items()]
    return "".join(tags + [f'<meta name="{name}" content="{escape(value)}">' for name, value in names.items()])


def _early(scope: Scope) -> str:
    """The script that requests the trace of the page's address; ``inspect.js`` uses the response."""
    if not scope["path"].rstrip("/").endswith("/inspect"):
        return ""
    return _EARLY.replace("ROOT", escape(scope.get("root_path", "").rstrip("/")))


def _address(scope: Scope) -> str:
    """The absolute address of the picture; empty without a host."""
    host = host_of(scope)
    if not host:
        return ""
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme", "http"))
    return f"{scheme}://{host}{scope.get('root_path', '').rstrip('/')}{asset_path()}/{PICTURE}"


class PagePolicy:
    """ASGI middleware: adds a content security policy to HTML; other responses pass unchanged.

    ``scripts``: the text of inline scripts without a nonce; ``edit_page``: changes the HTML of a page.
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
