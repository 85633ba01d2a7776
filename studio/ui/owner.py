"""Shared parts of the owner's pages: the token, which every call checks, and HTML escaping."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any, TypeVar

import gradio as gr
from gradio.context import Context as Building

from studio.core.errors import StudioError
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.middleware.addresses import network_of

T = TypeVar("T")
_ASK = (
    "Give the owner's token. It was printed when the studio first started; <code>studio campaign token</code> makes "
    "a new one. It is kept in this browser tab only."
)
# The token is in sessionStorage: it is gone with the tab, and never in an address or cookie.
_KEEP = "const kept = 'studio-owner';"
RECALL_JS = f"() => {{ {_KEEP} return sessionStorage.getItem(kept) || ''; }}"
STORE_JS = (
    f"(token, ...rest) => {{ {_KEEP} token ? sessionStorage.setItem(kept, token) : sessionStorage.removeItem(kept); "
    "return [token, ...rest]; }"
)
# Hands the token to the page's script, which sends it with every request, without Gradio's queue.
_HAND_OVER_JS = """(token) => {
  token ? sessionStorage.setItem('studio-owner', token) : sessionStorage.removeItem('studio-owner');
  dispatchEvent(new Event('studio-owner'));
}"""
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


@dataclass(frozen=True)
class Owner:
    """The data of the owner's pages."""

    listening: ListeningTests
    snapshots: ResultsCache

    def call(self, token: object, request: gr.Request, work: Callable[[], T]) -> tuple[str, T | None]:
        """Run ``work`` if the token is the owner's: an error as HTML (else empty), and the result.

        ``request``: wrong tokens are counted by its network address.
        """
        if not isinstance(token, str) or not token.strip():
            return notice(_ASK, "info"), None
        try:
            access = self.listening.access
            with access.limit_forgeries(network_of(request.client.host if request.client else "")):
                access.check_owner(token.strip())
            return "", work()
        except StudioError as error:
            return notice(_sentence(str(error)), "error"), None


def plain(text: object) -> str:
    """Escape text for HTML and for Gradio's templates."""
    return escape(str(text)).translate({ord(c): f"&#{ord(c)};" for c in "`${}"})


def _sentence(message: str) -> str:
    """An error's message as HTML: capitalized, with its `commands` as code."""
    return re.sub("&#96;(.+?)&#96;", r"<code>\1</code>", plain(message[:1].upper() + message[1:]))


def notice(html: str, level: str) -> str:
    """A message above the page's content."""
    return f'<p class="owner-notice" data-level="{level}" role="status">{html}</p>'


def token_field() -> tuple[gr.Textbox, gr.Button]:
    """The field for the token and the button that sends it."""
    with gr.Row(elem_classes="owner-door", equal_height=True):
        token = gr.Textbox(
            label="Owner's token", type="password", max_lines=1, elem_id="owner-token", scale=4, max_length=200
        )
        show = gr.Button("Show", variant="primary", elem_id="owner-show", scale=0, min_width=110)
    return token, show


def on_open(js: str, outputs: list[Any]) -> Any:
    """Run a script when the page is opened; returns the dependency, for ``then``."""
    assert Building.root_block is not None, "pages are built inside Blocks"
    return Building.root_block.load(None, None, outputs, js=js, **QUIET)


def owner_script_page(component: Callable[[], gr.HTML]) -> gr.HTML:
    """A page of the token field and one component, whose script makes every request."""
    with gr.Column(elem_classes="owner"):
        token, show = token_field()
        script = component()
    on_open(RECALL_JS, [token])
    gr.on([show.click, token.submit], None, [token], None, js=_HAND_OVER_JS, **QUIET)
    return script
