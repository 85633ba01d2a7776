"""The head of a page: our title, description and picture in place of Gradio's, and an early request of Inspect."""

import re
from html import escape

from starlette.types import Scope

from studio.ui.assets import asset_path
from studio.ui.page_policy import host_of

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
