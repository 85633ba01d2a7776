"""The Gradio app: the table of pages (address, title, template folder, start script, who may open each), with one
navigation, mounted beside the server's own routes."""

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any, Literal

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from fastapi import FastAPI
from gradio import themes
from gradio.components import Navbar
from gradio.routes import App as GradioApp
from starlette.routing import Mount

from studio.core.folders import TEXTS
from studio.core.ports import Engine, SupportsLoad
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.settings import ServeSettings
from studio.ui.assets import WIDGETS, PagePolicy, add_assets, add_description, asset_path, styles
from studio.ui.gradio_middleware import OpenRoutes, PageSessions, QueueCalls, limit_queue, open_routes
from studio.ui.owner import Owner, owner_script_page
from studio.ui.pages import campaigns, engine, results

Access = Literal["anyone", "owner", "link"]
EXAMPLES = TEXTS / "examples.json"
RACE_TEXT = "You hear this sentence begin while I am still typing its end."
# Gradio's own root keeps the prefix of a proxy or a Space; without its origin, the port is the page's.
_LOAD_JS = """
const root = new URL(window.gradio_config?.root || '/', location.href).pathname.replace(/\\/$/, '');
const base = location.origin + root + props.assets;
const failed = () => {
  const line = element.querySelector('.status') ?? element;
  line.textContent = 'This page could not be loaded: the server was updated or is not running. Reload it.';
  line.dataset.level = 'error';
};
import(base + '/FOLDER/FOLDER.js').then((script) => START, failed);
"""
# Records Ctrl+Enter that is pressed before the scripts have loaded.
_LIVE_EARLY_JS = """
element.addEventListener('keydown', (e) => {
  const root = element.querySelector('.live');
  if (!root.live && e.key === 'Enter' && (e.ctrlKey || e.metaKey)) root.isFinished = true;
});
"""
_START_JS = "script.start(element, location.origin + root + '/')"
TITLE = "Streaming-TTS Studio"

_MARK = (
    '<svg viewBox="0 0 26 26" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" '
    'aria-hidden="true"><path d="M3 13h1M8 8v10M13 3v20M18 9v8M23 12v2"/></svg>'
)

_MOON = (
    '<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">'
    '<circle cx="10" cy="10" r="6.5"/><path d="M10 3.5v13a6.5 6.5 0 0 0 0-13z" fill="currentColor"/></svg>'
)

# The choice is stored in the browser; Gradio applies the system's preference without one.
_THEME_JS = """
const kept = localStorage.getItem('studio-theme');
const isAsked = new URLSearchParams(location.search).has('__theme');
if (kept && !isAsked) document.body.classList.toggle('dark', kept === 'dark');
element.querySelector('.theme').addEventListener('click', () => {
  localStorage.setItem('studio-theme', document.body.classList.toggle('dark') ? 'dark' : 'light');
});
"""

# Gradio sets the app's title on every page, after this has run; a listening test's own title stays.
_TITLE_JS = """
const whole = window.gradio_config.title;
const name = NAMES[window.gradio_config.current_page];
const rename = () => {
  if (name && ['', whole].includes(document.title)) document.title = `${name} · ${whole}`;
};
new MutationObserver(rename).observe(document.head, { childList: true, subtree: true, characterData: true });
rename();
"""


@dataclass(frozen=True)
class PageContext:
    """What pages are built from; without ``owner`` there are no pages for the owner."""

    engine: Engine
    owner: Owner | None = None


@dataclass(frozen=True)
class Page:
    """One page."""

    path: str  # below the server's root; empty for the first page
    title: str
    # anyone; the owner, by token; or the holder of a signed link. Only the first two are in the navigation
    access: Access = "anyone"
    parent: str = ""  # the page of the navigation that leads here; a page with a parent is not in the navigation itself
    folder: str = ""  # the folder of ``widgets`` with the page's HTML and script; empty for a page that ``build`` makes
    markup: tuple[str, ...] = ()  # folders whose HTML the page consists of; ``folder`` alone by default
    # starts the script, as ``script``; ``element``, ``props``, ``base`` and ``root`` are defined
    start_js: str = _START_JS
    early_js: str = ""  # runs before the script has loaded
    props: Callable[[], Mapping[str, Any]] = dict  # values for the script
    # makes the page of Gradio components; None for a page of one script
    build: Callable[[PageContext], Any] | None = None
    is_available: Callable[[PageContext], bool] = lambda context: True  # whether the server has what the page shows

    @property
    def in_navigation(self) -> bool:
        """Whether the masthead links to the page."""
        return self.access != "link" and not self.parent


def live_props() -> dict[str, Any]:
    """The example texts (none where the file is absent) and the default text of the race."""
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8")) if EXAMPLES.is_file() else []
    return {"examples": [{"title": one["title"], "text": one["text"]} for one in examples], "race": RACE_TEXT}


def _build_campaigns(context: PageContext) -> None:
    assert context.owner is not None, "pages of the owner are left out without one"
    campaigns.build(context.owner)


def _build_results(context: PageContext) -> None:
    assert context.owner is not None, "pages of the owner are left out without one"
    results.build(context.owner)


def _build_engine(context: PageContext) -> None:
    assert isinstance(context.engine, SupportsLoad), "the page is left out without a load"
    engine.build(context.engine)


_WITH_BASE_JS = "script.start(element, base, location.origin + root + '/')"

PAGES = (
    Page(
        "",
        "Live",
        folder="live",
        start_js="script.start(element, props, base, location.origin + root + '/')",
        early_js=_LIVE_EARLY_JS,
        props=live_props,
    ),
    Page("inspect", "Inspect", folder="inspect"),
    Page("compare", "Compare", folder="compare"),
    Page("library", "Library", access="owner", folder="library"),
    Page("campaigns", "Listening tests", access="owner", build=_build_campaigns),
    Page("edit", "Edit a test", access="owner", parent="campaigns", folder="edit", start_js=_WITH_BASE_JS),
    Page("results", "Results", access="owner", build=_build_results),
    Page("engine", "Engine", build=_build_engine, is_available=lambda c: isinstance(c.engine, SupportsLoad)),
    # A test gives the raters' page its own title.
    Page("rate", "Listening test", access="link", folder="rate", start_js=_WITH_BASE_JS.replace("'/'", "'/mos/'")),
    Page("annotate", "Annotation", access="link", folder="annotate", markup=("annotate", "inspect")),
)


def available_pages(context: PageContext) -> list[Page]:
    """The pages of this server: the owner's only where there is an owner."""
    return [p for p in PAGES if p.is_available(context) and (p.access != "owner" or context.owner is not None)]


def build_page(page: Page, context: PageContext) -> None:
    """Put a page into the surrounding Blocks."""
    if page.build is not None:
        page.build(context)
    elif page.access == "owner":
        owner_script_page(lambda: _script_component(page))
    else:
        if page.access == "link":
            Navbar(main_page_name=False)  # Gradio's own would link to the first page
        _script_component(page)


def _script_component(page: Page) -> gr.HTML:
    """One ``gr.HTML`` with the page's markup and script; not a subclass, for which Gradio would write a stub file."""
    load_js = _LOAD_JS.replace("FOLDER", page.folder).replace("START", page.start_js)
    folders = page.markup or (page.folder,)
    return gr.HTML(
        value="",
        html_template="".join((WIDGETS / one / f"{one}.html").read_text(encoding="utf-8") for one in folders),
        js_on_load=page.early_js + load_js,
        apply_default_css=False,
        show_label=False,
        elem_id=page.folder,
        assets=asset_path(),
        **page.props(),
    )


def _masthead(current: Page, pages: Sequence[Page]) -> gr.HTML:
    """Name, navigation and the light-dark switch."""
    here = current.parent or current.path
    links = "".join(
        f'<a href="./{page.path}"{" aria-current=page" if page.path == here else ""}>{escape(page.title)}</a>'
        for page in pages
        if page.in_navigation
    )
    switch = f'<button type="button" class="theme" aria-label="Switch between light and dark">{_MOON}</button>'
    brand = f'<a class="brand" href="./">{_MARK}{TITLE}</a>'
    html = f'<header class="masthead">{brand}<nav aria-label="Pages">{links}</nav>{switch}</header>'
    return gr.HTML(value="", html_template=html, js_on_load=_THEME_JS, apply_default_css=False)


def _titles_js(pages: Sequence[Page]) -> str:
    """The script that gives each page its own title."""
    return _TITLE_JS.replace("NAMES", json.dumps({page.path: page.title for page in pages}))


def build(context: PageContext, pages: Sequence[Page]) -> gr.Blocks:
    """The whole app. Pages of a link have no masthead: raters and annotators do not see the rest of the studio."""
    first, *others = pages
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as blocks:
        limit_queue(blocks)
        _masthead(first, pages)
        build_page(first, context)
    for page in others:
        with blocks.route(page.title, f"/{page.path}", show_in_navbar=False):
            if page.access != "link":
                _masthead(page, pages)
            build_page(page, context)
    return blocks


def mount(app: FastAPI, engine: Engine, settings: ServeSettings, listening: ListeningTests | None = None) -> FastAPI:
    """Mount the pages at the root of the server, whose routes take precedence.

    Args:
        listening: the listening tests; without them there are no pages of the owner.
    """
    add_assets(app)
    font = [themes.Font("system-ui"), themes.Font("sans-serif")]
    mono = [themes.Font("ui-monospace"), themes.Font("monospace")]
    owner = None if listening is None else Owner(listening, ResultsCache(listening.store))
    context = PageContext(engine, owner)
    pages = available_pages(context)
    blocks, titles_js = build(context, pages), _titles_js(pages)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # logged although it is off
        gr.mount_gradio_app(
            app,
            blocks,
            path="/",
            theme=themes.Base(font=font, font_mono=mono),
            head=f'<style>{styles()}</style><script type="module">{titles_js}</script>',
            footer_links=[],
            run_history=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            enable_monitoring=False,
            root_path=settings.root_path or None,
        )
    mounted = app.routes[-1]
    assert isinstance(mounted, Mount) and isinstance(mounted.app, GradioApp), "the pages are mounted last"
    inner = mounted.app
    blocks.has_launched = True  # mounting does not set this, and Gradio checks readable files only with it
    input_counts = {number: len(fn.inputs) for number, fn in blocks.fns.items() if fn.fn}
    calls = QueueCalls(inner, PageSessions(blocks), input_counts)
    with_policy = PagePolicy(calls, [titles_js], partial(add_description, title=TITLE))
    mounted.app = OpenRoutes(with_policy, open_routes([path for path, *_ in blocks.pages]))
    app.state.closing = [inner.stop_event.set]  # the heartbeat of an open page never ends by itself
    return app
