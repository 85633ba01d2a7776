"""The pages' scripts and styles, served at an address that changes with their content, and the head of each page."""

import hashlib
import re
from functools import lru_cache
from html import escape
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import Scope

from studio.ui.page_policy import host_of, script_policy

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
