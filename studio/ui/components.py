"""The pages of Gradio components, as an app behind our middleware.

Importing Gradio takes 3 s and 180 MB, so nothing that the server needs to start imports this module.
"""

import os
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from fastapi import FastAPI
from gradio import themes
from gradio.routes import App as GradioApp
from starlette.routing import Mount

from studio.serve.settings import ServeSettings
from studio.ui.assets import STYLES, HasArena, Pages, asset_path
from studio.ui.documents import head_tags, masthead
from studio.ui.gradio_middleware import PageSessions, QueueCalls, limit_queue
from studio.ui.late_app import BuiltApp
from studio.ui.mcp import build_mcp
from studio.ui.page import TITLE, Page, PageContext


def build(context: PageContext, pages: Sequence[Page]) -> gr.Blocks:
    """The pages of Gradio components. Gradio's own first page stays empty: it is not among the open routes."""
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as blocks:
        limit_queue(blocks)
    for page in pages:
        if page.build is not None:
            with blocks.route(page.title, f"/{page.path}", show_in_navbar=False):
                gr.HTML(value="", html_template=masthead(page, pages), apply_default_css=False)
                page.build(context)
    return blocks


def build_app(
    context: PageContext, settings: ServeSettings, pages: Sequence[Page], has_arena: HasArena | None = None
) -> BuiltApp:
    """Gradio with the pages that have components, to be mounted at the root of the server.

    Args:
        pages: all pages, for the navigation.
        has_arena: whether an arena is open.
    """
    blocks = build(context, pages)
    font = [themes.Font("system-ui"), themes.Font("sans-serif")]
    mono = [themes.Font("ui-monospace"), themes.Font("monospace")]
    assets = f".{asset_path()}"
    # Not Gradio's own parameter: its script would add this after the first layout.
    head = f'<link rel="stylesheet" href="{assets}/{STYLES}"><script defer src="{assets}/page/boot.js"></script>'
    outer = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # logged although it is off
        gr.mount_gradio_app(
            outer,
            blocks,
            path="/",
            theme=themes.Base(font=font, font_mono=mono),
            footer_links=["api"],
            run_history=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            enable_monitoring=False,
            root_path=settings.root_path or None,
        )
    mounted = outer.routes[-1]
    assert isinstance(mounted, Mount) and isinstance(mounted.app, GradioApp), "the pages are mounted last"
    inner = mounted.app
    blocks.has_launched = True  # mounting does not set this, and Gradio checks readable files only with it
    input_counts = {number: len(fn.inputs) for number, fn in blocks.fns.items() if fn.fn}
    calls = QueueCalls(inner, PageSessions(blocks), input_counts)
    components = [page for page in pages if page.build is not None]
    paths = [f"/{page.path}" for page in components]
    mounted.app = Pages(calls, paths, lambda request: head + head_tags(request, components[0]), has_arena)
    if context.speech is None:
        return BuiltApp(outer, outer.router.lifespan_context, inner.stop_event.set)
    mcp = build_mcp(context.speech)
    outer.routes[:0] = mcp.routes

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
        async with outer.router.lifespan_context(app), mcp.router.lifespan_context(mcp):
            yield

    return BuiltApp(outer, lifespan, inner.stop_event.set)
