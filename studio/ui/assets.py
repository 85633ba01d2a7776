"""The pages' scripts and styles, and the content security policy of pages of Gradio components.

Files are served at an address that changes with their content. Only the server's scripts run, and they connect to this
server alone: Gradio's inline scripts get a nonce, so a script in injected markup does not run. Gradio's functions from
text (each component's ``js_on_load``) need 'unsafe-eval'; plain pages need neither (``documents.py``).
"""

import asyncio
import gzip
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from studio.core.folders import SAMPLE
from studio.serve.middleware.bodies import replay_body
from studio.serve.middleware.headers import POLICY
from studio.ui.bundle import WIDGETS, bundle
from studio.ui.gradio_middleware import path_of
from studio.ui.translation import read_catalogues, translated

STYLES = "styles.css"
HasArena = Callable[[], Awaitable[bool]]
SERVICE_WORKER = "page/service_worker.js"
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".trace": "application/zip",
}
_STYLE_FILES = (
    "tokens.css", "page/page.css", "controls.css", "options/options.css", "live/live.css", "live/settings.css",
    "live/voices/voices.css", "live/race/race.css", "live/stage.css", "live/chat/chat.css", "live/history/history.css",
    "live/talk/talk.css", "live/sizes.css", "glossary/glossary.css", "design/design.css", "rate/rate.css",
    "inspect/inspect.css", "annotate/annotate.css", "compare/compare.css", "share/share.css", "owner/fields.css",
    "edit/edit.css", "library/library.css", "lexicon/lexicon.css", "../owner.css",
)  # fmt: skip
# Separate scripts: of Workers and of the audio thread, and the classic script of every page.
_SCRIPTS = (
    "live/worker/worker.js",
    "rate/live.worker.js",
    "sound/player.worklet.js",
    "sound/recorder.worklet.js",
    "page/boot.js",
    SERVICE_WORKER,
)
_DATA = (
    "rate/words.json",
    "live/race/card.png",
    "page/icon.svg",
    "page/manifest.json",
    *(f"page/icons/{name}.png" for name in ("icon-192", "icon-512", "maskable-512")),
)
_GRADIO_TAGS = re.compile(
    rb'<meta\s+(?:property|name)="(?:og:|twitter:|description")[^>]*>\s*|<link\s+rel="manifest"[^>]*>\s*', re.IGNORECASE
)
_CHARSET = re.compile(rb'<meta charset="[^"]*"\s*/?>')
_HOST = re.compile(r"[A-Za-z0-9._:\[\]-]+", re.ASCII)
# Placeholders of the server's origin and the nonce in a rendered page.
_ORIGIN, _NONCE = b"http://origin.studio.invalid", b"NONCE-OF-THE-RESPONSE"
_STAMPS = re.compile(b"(" + re.escape(_ORIGIN) + b"|" + _NONCE + b")")
_SCRIPT = re.compile(rb"<script(?=[\s>])(.*?</script>)", re.DOTALL | re.IGNORECASE)
# The call that starts each page's script, with the addresses of the scripts and of the server.
_START = """
start(document.querySelector("main"), {
  base: new URL("..", import.meta.url).href.slice(0, -1),
  server: new URL("./", location.href).href,
  props: JSON.parse(document.getElementById("props").textContent),
});
"""


@lru_cache
def _files() -> dict[str, bytes]:
    """Every file that may be fetched, by path: bundles of scripts, the styles, and data."""
    pages = (path.parent.name for path in WIDGETS.glob("*/*.html"))
    files = {f"{name}/{name}.js": (bundle(f"{name}/{name}.js") + _START).encode() for name in pages}
    files |= {path: bundle(path).encode() for path in _SCRIPTS}
    files |= {path: (WIDGETS / path).read_bytes() for path in _DATA}
    files |= {"inspect/sample.trace": SAMPLE.read_bytes()}
    offline = WIDGETS / "page" / "offline"
    page = (offline / "offline.html").read_text(encoding="utf-8")
    for language, texts in read_catalogues(offline / "words").items():
        files[f"page/offline/{language}.html"] = translated(page.replace("{language}", language), texts).encode()
    return files | {STYLES: "\n".join((WIDGETS / name).read_text(encoding="utf-8") for name in _STYLE_FILES).encode()}


@lru_cache
def _compressed(path: str) -> bytes:
    return gzip.compress(_files()[path], 9)


@lru_cache
def asset_path() -> str:
    """The path of the files; it changes with their content."""
    digest = hashlib.sha256(b"".join(_files().values())).hexdigest()[:12]
    return f"/studio-assets/{digest}"


def add_assets(app: FastAPI) -> None:
    """Serve the files; call this before Gradio is mounted at the root."""

    @app.get(asset_path() + "/{path:path}", include_in_schema=False)
    async def asset(request: Request, path: str) -> Response:
        content = _files().get(path)
        if content is None:
            return Response("there is no such file", status_code=404, media_type="text/plain")
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Content-Security-Policy": script_policy(request.scope),
            "Vary": "Accept-Encoding",
        }
        if path.endswith(".html"):
            headers["Content-Security-Policy"] = page_policy(request.scope, "'none'")
        if path == SERVICE_WORKER:  # of all pages, which are above it
            headers["Service-Worker-Allowed"] = f"{request.scope.get('root_path', '')}/"
        if "gzip" in request.headers.get("accept-encoding", "") and not path.endswith((".png", ".trace")):
            content, headers["Content-Encoding"] = _compressed(path), "gzip"
        return Response(content, media_type=_MEDIA_TYPES[Path(path).suffix], headers=headers)


@dataclass(frozen=True)
class _RenderedPage:
    """A rendered Gradio page, split at the placeholders.

    Attributes:
        parts: alternately text and a placeholder, ``_ORIGIN`` or ``_NONCE``.
    """

    start: Message
    parts: tuple[bytes, ...]

    def stamped(self, origin: bytes, nonce: bytes) -> bytes:
        """The HTML of a response, with its values in the placeholders."""
        values = {_ORIGIN: origin, _NONCE: nonce}
        return b"".join(values.get(part, part) for part in self.parts)


class Pages:
    """ASGI middleware: the app's pages, with a content security policy; other paths pass unchanged.

    Gradio copies its configuration and fills a template for each response, which takes some 10 ms of CPU time in a
    thread. A page differs only in the server's origin and the nonce, so each one is rendered once.

    Args:
        paths: of the pages, below the app's root.
        head: HTML to add to a page's head.
        has_arena: whether an arena is open, which the navigation shows.
    """

    def __init__(
        self,
        app: ASGIApp,
        paths: Collection[str],
        head: Callable[[Request], str] = lambda _: "",
        has_arena: HasArena | None = None,
    ) -> None:
        self._app, self._head, self._has_arena = app, head, has_arena
        self._paths = frozenset(paths)
        self._rendered: dict[str, _RenderedPage] = {}
        self._rendering = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path not in self._paths:
            await self._app(scope, receive, send)
            return
        async with self._rendering:
            if path not in self._rendered:
                self._rendered[path] = await self._render(scope)
        await self._send_page(self._rendered[path], scope, send)

    async def _render(self, scope: Scope) -> _RenderedPage:
        """The app's page with placeholders of the origin and the nonce."""
        own = {**scope, "method": "GET", "scheme": "http", "headers": [(b"host", _ORIGIN.removeprefix(b"http://"))]}
        start: Message = {}
        body = bytearray()

        async def collect(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            else:
                body.extend(message.get("body", b""))

        await self._app(own, replay_body(b"", _wait_forever), collect)
        if start["status"] != 200:
            raise RuntimeError(f"the page {path_of(scope)} could not be rendered: status {start['status']}")
        html = add_nonce(self._described(bytes(body), own), _NONCE.decode())
        return _RenderedPage(start, tuple(_STAMPS.split(html)))

    async def _send_page(self, page: _RenderedPage, scope: Scope, send: Send) -> None:
        nonce = secrets.token_urlsafe(16)
        html = page.stamped(origin_of(scope).encode(), nonce.encode())
        if self._has_arena is not None and await self._has_arena():
            html = html.replace(b"<body", b"<body data-arena", 1)
        replaced = (b"content-length", POLICY)
        headers = [(name, value) for name, value in page.start["headers"] if name.lower() not in replaced]
        policy = page_policy(scope, f"'self' 'unsafe-eval' 'nonce-{nonce}'")
        headers += [(b"content-length", str(len(html)).encode()), (POLICY, policy.encode())]
        await send({**page.start, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else html})

    def _described(self, html: bytes, scope: Scope) -> bytes:
        """A page with our head, without Gradio's description and its link to a missing manifest."""
        ours = self._head(Request(scope)).encode()
        return _CHARSET.sub(lambda match: match.group(0) + ours, _GRADIO_TAGS.sub(b"", html), count=1)


def page_policy(scope: Scope, scripts: str) -> str:
    """The content security policy of a page; ``scripts`` are its allowed script sources."""
    parts = {
        "default-src": "'none'",
        "script-src": scripts,
        "worker-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",  # scripts set style attributes
        "img-src": "'self' data: blob:",
        "font-src": "'self'",
        "media-src": "'self' blob:",
        "manifest-src": "'self'",
        "connect-src": _connections(scope),
        "base-uri": "'self'",
        "form-action": "'self'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in parts.items())


def add_nonce(html: bytes, nonce: str) -> bytes:
    """A page with a nonce in every script tag; text inside scripts is unchanged."""
    return _SCRIPT.sub(rb'<script nonce="' + nonce.encode() + rb'"\1', html)


def script_policy(scope: Scope) -> str:
    """The policy of a script; Workers do not inherit the page's policy."""
    return f"default-src 'none'; script-src 'self'; connect-src {_connections(scope)}"


def _connections(scope: Scope) -> str:
    """The sources for this server; in some browsers 'self' does not include sockets."""
    host = host_of(scope)
    return f"'self' ws://{host} wss://{host}" if host else "'self'"


def origin_of(scope: Scope) -> str:
    """Scheme and host of this server, from the request."""
    return f"{scope.get('scheme', 'http')}://{host_of(scope) or 'localhost'}"


def host_of(scope: Scope) -> str:
    """The Host header; empty where it is malformed."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return host if _HOST.fullmatch(host) else ""


async def _wait_forever() -> Message:
    """A ``receive`` that never returns: rendering has no client that could disconnect."""
    return await asyncio.get_running_loop().create_future()
