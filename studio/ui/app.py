"""The Gradio app: one navigation, one page each, mounted beside the server's own routes."""

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from fastapi import FastAPI
from gradio import themes
from gradio.routes import App as GradioApp
from starlette.routing import Mount

from studio.core.load import TellsLoad
from studio.core.ports import Engine
from studio.mos.analysis.snapshots import Snapshots
from studio.mos.service import Listening
from studio.settings import ServeSettings
from studio.ui.assets import add_assets, styles
from studio.ui.gradio_calls import Calls
from studio.ui.gradio_routes import OpenRoutes, open_routes
from studio.ui.gradio_sessions import Sessions, bound
from studio.ui.owner import Owner
from studio.ui.page_head import described
from studio.ui.page_policy import PagePolicy
from studio.ui.pages import annotate, campaigns, compare, edit, engine, inspect, library, live, rate, results

TITLE = "Streaming-TTS Studio"
_FIRST = "Live"
_RATERS = "Listening test"  # its test gives the raters' page a better name
_ANNOTATORS = "Annotation"
_MARK = (
    '<svg viewBox="0 0 26 26" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" '
    'aria-hidden="true"><path d="M3 13h1M8 8v10M13 3v20M18 9v8M23 12v2"/></svg>'
)
_MOON = (
    '<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6" aria-hidden="true">'
    '<circle cx="10" cy="10" r="6.5"/><path d="M10 3.5v13a6.5 6.5 0 0 0 0-13z" fill="currentColor"/></svg>'
)
# The choice is kept in the browser; without one the system's preference holds, as Gradio sets it.
_THEME_JS = """
const kept = localStorage.getItem('studio-theme');
const isAsked = new URLSearchParams(location.search).has('__theme');
if (kept && !isAsked) document.body.classList.toggle('dark', kept === 'dark');
element.querySelector('.theme').addEventListener('click', () => {
  localStorage.setItem('studio-theme', document.body.classList.toggle('dark') ? 'dark' : 'light');
});
"""
# Gradio writes the whole app's title on every page, some time after this has run; a listening test's own title stays.
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
class Context:
    """What pages are built from; without ``owner`` there are no listening tests to show."""

    engine: Engine
    settings: ServeSettings
    owner: Owner | None = None


@dataclass(frozen=True)
class Page:
    """One entry of the navigation; ``path`` is empty for the first page.

    A page ``within`` another is none: that one leads to it.
    """

    title: str
    path: str
    build: Callable[[], Any]
    within: str = ""


def pages(context: Context) -> list[Page]:
    """The navigation: a new page is one line here and one file in pages/."""
    found = [
        Page(_FIRST, "", lambda: live.build(live.LiveContext())),
        Page("Inspect", "inspect", inspect.build),
        Page("Compare", "compare", compare.build),
    ]
    if (owner := context.owner) is not None:
        found.append(Page("Library", "library", library.build))
        found.append(Page("Listening tests", "campaigns", lambda: campaigns.build(owner)))
        found.append(Page("Edit a test", "edit", edit.build, within="campaigns"))
        found.append(Page("Results", "results", lambda: results.build(owner)))
    if isinstance(told := context.engine, TellsLoad):
        found.append(Page("Engine", "engine", lambda: engine.build(told)))
    return found


def _masthead(current: Page, among: list[Page]) -> gr.HTML:
    """Name, navigation and the light-dark switch."""
    here = current.within or current.path
    links = "".join(
        f'<a href="./{page.path}"{" aria-current=page" if page.path == here else ""}>{escape(page.title)}</a>'
        for page in among
        if not page.within
    )
    switch = f'<button type="button" class="theme" aria-label="Switch between light and dark">{_MOON}</button>'
    brand = f'<a class="brand" href="./">{_MARK}{TITLE}</a>'
    html = f'<header class="masthead">{brand}<nav aria-label="Pages">{links}</nav>{switch}</header>'
    return gr.HTML(value="", html_template=html, js_on_load=_THEME_JS, apply_default_css=False)


def _titles(blocks: gr.Blocks) -> str:
    """The script that gives each page of the app a title of its own."""
    names = {path: name for path, name, *_ in blocks.pages} | {"": _FIRST}
    return _TITLE_JS.replace("NAMES", json.dumps(names))


def build(speaker: Engine, settings: ServeSettings, listening: Listening | None = None) -> gr.Blocks:
    """The whole app; pages after the first have an address of their own."""
    owner = None if listening is None else Owner(listening, Snapshots(listening.store))
    first, *others = every = pages(Context(speaker, settings, owner))
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as blocks:
        bound(blocks)
        _masthead(first, every)
        first.build()
    for page in others:
        with blocks.route(page.title, f"/{page.path}", show_in_navbar=False):
            _masthead(page, every)
            page.build()
    with blocks.route(_RATERS, "/rate", show_in_navbar=False):
        rate.build()  # no masthead: raters are not led to the rest of the studio
    with blocks.route(_ANNOTATORS, "/annotate", show_in_navbar=False):
        annotate.build()
    return blocks


def mount(app: FastAPI, engine: Engine, settings: ServeSettings, listening: Listening | None = None) -> FastAPI:
    """Put the page at the root of a server made by ``studio.serve``, whose routes keep their place.

    Args:
        listening: the listening tests; without them the navigation has no pages for their owner.
    """
    add_assets(app)
    font = [themes.Font("system-ui"), themes.Font("sans-serif")]
    mono = [themes.Font("ui-monospace"), themes.Font("monospace")]
    blocks = build(engine, settings, listening)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # said although it is off
        gr.mount_gradio_app(
            app,
            blocks,
            path="/",
            theme=themes.Base(font=font, font_mono=mono),
            head=f'<style>{styles()}</style><script type="module">{_titles(blocks)}</script>',
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
    blocks.has_launched = True  # Gradio checks which files may be read only once this is set, and mounting does not
    calls = Calls(inner, Sessions(blocks), {number: len(fn.inputs) for number, fn in blocks.fns.items() if fn.fn})
    whole = PagePolicy(calls, [_titles(blocks)], partial(described, title=TITLE))
    mounted.app = OpenRoutes(whole, open_routes([path for path, *_ in blocks.pages]))
    app.state.closing = [inner.stop_event.set]  # each open page holds a heartbeat that would not end by itself
    return app
