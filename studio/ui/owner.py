"""Shared parts of the owner's pages of Gradio components: every call checks the owner's cookie; HTML escaping."""

import re
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from studio.core.errors import StudioError
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.auth import owner_cookie

if TYPE_CHECKING:
    import gradio as gr

T = TypeVar("T")
ZONE_COOKIE = "studio-zone"
_MAX_ZONE_CHARS = 88  # 64 characters in base64
_ASK = 'This page is for the owner. <a href="./sign-in?next={page}">Sign in</a>.'
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True)
class Owner:
    """The data of the owner's pages."""

    listening: ListeningTests
    snapshots: ResultsCache

    def call(self, request: "gr.Request", work: Callable[[], T]) -> tuple[str, T | None]:
        """Run ``work`` if the browser is signed in as the owner: an error as HTML (else empty), and the result."""
        try:
            assert request.request is not None, "calls come from a browser"
            if not self.listening.access.is_owner_session(owner_cookie(request.request)):
                return notice(_ASK.format(page=_page_of(request)), "info"), None
            return "", work()
        except StudioError as error:
            return notice(_sentence(str(error)), "error"), None


def _page_of(request: "gr.Request") -> str:
    """The calling page with its query, quoted for an address."""
    page = urlsplit(request.headers.get("referer", ""))
    return quote(page.path.rpartition("/")[2] + (f"?{page.query}" if page.query else ""), safe="")


def viewer_zone(request: "gr.Request") -> tzinfo:
    """The browser's time zone, from the cookie of ``boot.js`` (base64); UTC where it is missing or unknown."""
    encoded = str(request.cookies.get(ZONE_COOKIE, ""))[:_MAX_ZONE_CHARS]
    try:
        return ZoneInfo(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii"))
    except (KeyError, ValueError, OSError):  # not base64, not ASCII, no zone
        return UTC


def plain(text: object) -> str:
    """Escape text for HTML and for Gradio's templates."""
    return escape(str(text)).translate({ord(c): f"&#{ord(c)};" for c in "`${}"})


def _sentence(message: str) -> str:
    """An error's message as HTML: capitalized, with its `commands` as code."""
    return re.sub("&#96;(.+?)&#96;", r"<code>\1</code>", plain(message[:1].upper() + message[1:]))


def notice(html: str, level: str) -> str:
    """A message above the page's content."""
    return f'<p class="owner-notice" data-level="{level}" role="status">{html}</p>'


def on_open(fn: Callable[..., Any], inputs: list[Any] | None, outputs: list[Any], js: str | None = None) -> Any:
    """Call a function when the page is opened, with ``js`` first; returns the dependency, for ``then``."""
    from gradio.context import Context as Building

    assert Building.root_block is not None, "pages are built inside Blocks"
    return Building.root_block.load(fn, inputs, outputs, js=js, **QUIET)
