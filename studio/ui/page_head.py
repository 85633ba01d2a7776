"""What stands in a page's head: its title, description and picture, ours alone, Gradio's own go; and what the Inspect
page needs first."""

import re
from html import escape

from starlette.types import Scope

from studio.ui.assets import asset_path
from studio.ui.page_policy import host_of

CLAIM = "It speaks while you are still typing."
PICTURE = "live/race/card.png"  # a race of the voice wren, saved from the page
_THEIRS = re.compile(
    rb'<meta\s+(?:property|name)="(?:og:|twitter:|description")[^>]*>\s*|<link\s+rel="manifest"[^>]*>\s*', re.IGNORECASE
)
_CHARSET = re.compile(rb'<meta charset="[^"]*"\s*/?>')
# What the Inspect page's address names is asked for before the page's own scripts have come, which take half a second.
_EARLY = """<script>{
const trace = new URLSearchParams(location.search).get('trace');
if (trace) (window.earlyView = fetch(`ROOT/traces/${encodeURIComponent(trace)}.view`)).catch(() => {});
}</script>"""
_BY_LINK = ("/rate", "/annotate")


def described(html: bytes, scope: Scope, title: str) -> bytes:
    """A page whose description is its own, without Gradio's link to a manifest that nobody serves.

    Raters' and annotators' pages keep only a plain title: their links show nothing of the studio behind them.
    """
    html = _THEIRS.sub(b"", html)
    is_by_link = scope["path"].rstrip("/").endswith(_BY_LINK)
    ours = b'<meta name="robots" content="noindex">' if is_by_link else (_tags(scope, title) + _early(scope)).encode()
    return _CHARSET.sub(lambda found: found.group(0) + ours, html, count=1)


def _tags(scope: Scope, title: str) -> str:
    said = {"og:type": "website", "og:title": title, "og:description": CLAIM}
    named = {"description": CLAIM, "twitter:card": "summary_large_image", "twitter:title": title}
    if address := _address(scope):
        said |= {"og:image": address, "og:image:width": "1200", "og:image:height": "630"}
        named |= {"twitter:image": address}
    tags = [f'<meta property="{name}" content="{escape(value)}">' for name, value in said.items()]
    return "".join(tags + [f'<meta name="{name}" content="{escape(value)}">' for name, value in named.items()])


def _early(scope: Scope) -> str:
    """The script that asks for the trace of the page's address; ``inspect.js`` takes the answer."""
    if not scope["path"].rstrip("/").endswith("/inspect"):
        return ""
    return _EARLY.replace("ROOT", escape(scope.get("root_path", "").rstrip("/")))


def _address(scope: Scope) -> str:
    """Where the picture is, whole as those who show links want it; empty where the host is not named."""
    host = host_of(scope)
    if not host:
        return ""
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme", "http"), scope.get("scheme", "http"))
    return f"{scheme}://{host}{scope.get('root_path', '').rstrip('/')}{asset_path()}/{PICTURE}"
