"""The app's pages: plain HTML, and Gradio components where a page uses them, beside the server's own routes.

Three pages consist of Gradio components: the list of listening tests, their results and the engine. All others are
documents with one script, and load nothing of Gradio.
"""

import json
import os
import secrets
import warnings
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
from fastapi import FastAPI, Request
from gradio import themes
from gradio.routes import App as GradioApp
from starlette.concurrency import run_in_threadpool
from starlette.routing import Mount

from studio.core.folders import TEXTS
from studio.core.ports import Engine, SupportsLoad
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.auth import is_signed_in, session_cookie
from studio.serve.settings import ServeSettings
from studio.ui.assets import STYLES, Pages, add_assets, asset_path
from studio.ui.documents import add_documents, head_tags, masthead
from studio.ui.gradio_middleware import OpenRoutes, PageLimits, PageSessions, QueueCalls, limit_queue, open_routes
from studio.ui.owner import Owner
from studio.ui.page import TITLE, Page, PageContext
from studio.ui.pages import campaigns, engine, results

EXAMPLES = TEXTS / "examples.json"
RACE_TEXT = "You hear this sentence begin while I am still typing its end."


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


PAGES = (
    Page("", "Live", folder="live", props=live_props),
    Page("inspect", "Inspect", folder="inspect"),
    Page("compare", "Compare", folder="compare"),
    Page("library", "Library", access="owner", folder="library"),
    Page("campaigns", "Listening tests", access="owner", build=_build_campaigns),
    Page("edit", "Edit a test", access="owner", parent="campaigns", folder="edit"),
    Page("results", "Results", access="owner", build=_build_results),
    Page("engine", "Engine", build=_build_engine, is_available=lambda c: isinstance(c.engine, SupportsLoad)),
    Page("sign-in", "Sign in", parent="campaigns", folder="signin", is_available=lambda c: c.owner is not None),
    # A test gives the raters' page its own title.
    Page("rate", "Listening test", access="link", folder="rate"),
    Page("annotate", "Annotation", access="link", folder="annotate", markup=("annotate", "inspect")),
)


def available_pages(context: PageContext) -> list[Page]:
    """The pages of this server: the owner's only where there is an owner."""
    return [p for p in PAGES if p.is_available(context) and (p.access != "owner" or context.owner is not None)]


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


def mount(
    app: FastAPI,
    engine: Engine,
    settings: ServeSettings,
    listening: ListeningTests | None = None,
    owner_code: str = "",
) -> FastAPI:
    """Mount the pages at the root of the server, whose routes take precedence.

    Args:
        listening: the listening tests; without them there are no pages of the owner.
        owner_code: a secret; ``/?owner=CODE`` signs a browser in as the owner. Empty for no such link.
    """
    owner = None if listening is None else Owner(listening, ResultsCache(listening.store))
    context = PageContext(engine, owner)
    pages = available_pages(context)

    async def is_owner(request: Request) -> bool:
        return listening is not None and await is_signed_in(listening, request)

    async def sign_in(request: Request) -> str | None:
        code = request.query_params.get("owner", "")
        if listening is None or not owner_code or not secrets.compare_digest(code.encode(), owner_code.encode()):
            return None
        return session_cookie(request, await run_in_threadpool(listening.access.owner_session))

    add_assets(app)
    add_documents(app, pages, is_owner, sign_in)
    components = [page for page in pages if page.build is not None]
    if components:
        _mount_components(app, settings, build(context, pages), components)
    return app


def _mount_components(app: FastAPI, settings: ServeSettings, blocks: gr.Blocks, pages: list[Page]) -> None:
    """Mount Gradio behind our middleware."""
    font = [themes.Font("system-ui"), themes.Font("sans-serif")]
    mono = [themes.Font("ui-monospace"), themes.Font("monospace")]
    assets = f".{asset_path()}"
    # Not Gradio's own parameter: its script would add this after the first layout.
    head = f'<link rel="stylesheet" href="{assets}/{STYLES}"><script defer src="{assets}/page/boot.js"></script>'
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="SSR mode is not supported")  # logged although it is off
        gr.mount_gradio_app(
            app,
            blocks,
            path="/",
            theme=themes.Base(font=font, font_mono=mono),
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
    paths = [f"/{page.path}" for page in pages]
    rendered = Pages(calls, paths, lambda request: head + head_tags(request, pages[0]))
    mounted.app = PageLimits(OpenRoutes(rendered, open_routes([page.path for page in pages])), paths)
    app.state.closing = [inner.stop_event.set]
