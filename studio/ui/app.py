"""The app's pages: plain HTML, and Gradio components where a page uses them, beside the server's own routes.

Three pages consist of Gradio components: the list of listening tests, their results and the engine. All others are
documents with one script, and load nothing of Gradio. The server imports Gradio when the owner signs in, or when one
of the three pages is opened.
"""

import json
import secrets
from typing import Any

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from studio.core.folders import TEXTS
from studio.core.ports import Engine, SupportsLoad
from studio.core.text.reasons import REASONS
from studio.mos.analysis.results import ResultsCache
from studio.mos.service import ListeningTests
from studio.serve.adapters.speech import SPEECH
from studio.serve.auth import is_signed_in, session_cookie
from studio.serve.mos.arena import NewestArena
from studio.serve.server import DRAIN
from studio.serve.settings import ServeSettings
from studio.ui.assets import HasArena, add_assets
from studio.ui.bundle import WIDGETS
from studio.ui.documents import add_documents
from studio.ui.gradio_middleware import DESCRIPTIONS, OpenRoutes, PageLimits, open_routes
from studio.ui.late_app import BuiltApp, LateApp
from studio.ui.owner import Owner
from studio.ui.page import Page, PageContext

EXAMPLES = TEXTS / "examples.json"
RACE_TEXT = "You hear this sentence begin while I am still typing its end."


def glossary_props() -> dict[str, Any]:
    """The glossary: each term with its explanation and the voice options that it mentions."""
    return {"terms": json.loads((WIDGETS / "glossary" / "terms.json").read_text(encoding="utf-8"))}


def live_props() -> dict[str, Any]:
    """The terms, the example texts (none if the file is absent), the race's text, and the reasons for omitted text."""
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8")) if EXAMPLES.is_file() else []
    texts = [{"title": one["title"], "text": one["text"]} for one in examples]
    return {"examples": texts, "race": RACE_TEXT, "reasons": REASONS, **glossary_props()}


def _build_campaigns(context: PageContext) -> None:
    from studio.ui.pages import campaigns

    assert context.owner is not None, "pages of the owner are left out without one"
    campaigns.build(context.owner)


def _build_results(context: PageContext) -> None:
    from studio.ui.pages import results

    assert context.owner is not None, "pages of the owner are left out without one"
    results.build(context.owner)


def _build_engine(context: PageContext) -> None:
    from studio.ui.pages import engine

    assert isinstance(context.engine, SupportsLoad), "the page is left out without a load"
    engine.build(context.engine)


def _build_speak(context: PageContext) -> None:
    from studio.ui.pages import speak

    assert context.speech is not None, "the page is left out without it"
    speak.build(context.speech)


PAGES = (
    Page("", "Live", folder="live", words="live/words", props=live_props),
    Page("inspect", "Inspect", folder="inspect"),
    Page("compare", "Compare", folder="compare", props=glossary_props),
    Page("arena/vote", "Arena", is_available=lambda c: c.owner is not None),  # redirects to an open arena's rating page
    Page("library", "Library", access="owner", folder="library"),
    Page("lexicon", "Lexicon", access="owner", parent="library", folder="lexicon"),
    Page("campaigns", "Listening tests", access="owner", build=_build_campaigns),
    Page("edit", "Edit a test", access="owner", parent="campaigns", folder="edit", props=glossary_props),
    Page("results", "Results", access="owner", build=_build_results),
    Page("engine", "Engine", build=_build_engine, is_available=lambda c: isinstance(c.engine, SupportsLoad)),
    Page("api", "API", parent="api", build=_build_speak, is_available=lambda c: c.speech is not None),
    Page("sign-in", "Sign in", parent="sign-in", folder="signin", is_available=lambda c: c.owner is not None),
    Page("glossary", "Glossary", parent="glossary", folder="glossary", props=glossary_props),  # tips lead to it
    Page(
        "design",
        "Design",
        parent="design",
        folder="design",
        props=glossary_props,
        is_available=lambda c: c.has_design_page,
    ),
    # The rating page gets the test's title.
    Page("rate", "Listening test", access="link", folder="rate"),
    Page("annotate", "Annotation", access="link", folder="annotate", markup=("annotate", "inspect")),
)


def available_pages(context: PageContext) -> list[Page]:
    """The pages of this server; the owner's only if it has an owner."""
    return [p for p in PAGES if p.is_available(context) and (p.access != "owner" or context.owner is not None)]


def mount(
    app: FastAPI,
    engine: Engine,
    settings: ServeSettings,
    listening: ListeningTests | None = None,
    owner_code: str = "",
) -> FastAPI:
    """Mount the pages at the root of the server, whose routes take precedence.

    Args:
        listening: the listening tests; without them the server has no owner pages.
        owner_code: a secret; ``/?owner=CODE`` signs a browser in as the owner. Empty for no such link.
    """
    owner = None if listening is None else Owner(listening, ResultsCache(listening.store))
    context = PageContext(engine, owner, settings.design_page, getattr(app.state, SPEECH, None))
    pages = available_pages(context)

    newest_arena = None if listening is None else NewestArena(listening)

    async def has_arena() -> bool:
        return newest_arena is not None and await newest_arena.path() is not None

    late = _components(app, context, settings, pages, has_arena)

    async def is_owner(request: Request) -> bool:
        return listening is not None and await is_signed_in(listening, request)

    async def sign_in(request: Request) -> str | None:
        code = request.query_params.get("owner", "")
        if listening is None or not owner_code or not secrets.compare_digest(code.encode(), owner_code.encode()):
            return None
        if late is not None:
            late.begin()  # it has owner pages
        return session_cookie(request, await run_in_threadpool(listening.access.owner_session))

    add_assets(app)
    add_documents(app, pages, is_owner, sign_in, has_arena)
    if late is not None:
        paths = [page.path for page in pages if page.build is not None]
        allowed = OpenRoutes(late, open_routes(paths))  # other routes do not wait for Gradio
        app.mount("/", PageLimits(allowed, [*(f"/{path}" for path in paths), *DESCRIPTIONS]))
    return app


def _components(
    app: FastAPI, context: PageContext, settings: ServeSettings, pages: list[Page], has_arena: HasArena
) -> LateApp | None:
    """The pages of Gradio components, or None; the caller mounts them last."""
    if all(page.build is None for page in pages):
        return None

    def build() -> BuiltApp:
        from studio.ui.components import build_app

        return build_app(context, settings, pages, has_arena)

    drain = getattr(app.state, DRAIN, None)
    late = LateApp(build) if drain is None else LateApp(build, drain.is_speaking)
    late.attach(app)
    app.state.closing = [late.end]
    return late
