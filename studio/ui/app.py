"""The Gradio app: the pages of the table with one navigation, mounted beside the server's own routes."""

import json
import os
import warnings
from collections.abc import Sequence
from functools import partial
from html import escape

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from fastapi import FastAPI
from gradio import themes
from gradio.routes import App as GradioApp
from starlette.routing import Mount

from studio.core.ports import Engine
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.settings import ServeSettings
from studio.ui.assets import add_assets, add_description, styles
from studio.ui.gradio_queue import PageSessions, QueueCalls, limit_queue
from studio.ui.gradio_routes import OpenRoutes, open_routes
from studio.ui.owner import Owner
from studio.ui.page_policy import PagePolicy
from studio.ui.pages.table import Page, PageContext, available_pages, build_page

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
