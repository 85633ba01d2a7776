"""The table of pages: address, title, template folder, start script, and who may open each."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gradio as gr
from gradio.components import Navbar

from studio.core.folders import TEXTS
from studio.core.ports import Engine, SupportsLoad
from studio.ui.assets import WIDGETS, asset_path
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


@dataclass(frozen=True)
class PageContext:
    """What pages are built from; without ``owner`` there are no pages for the owner."""

    engine: Engine
    owner: Owner | None = None


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        path: below the server's root; empty for the first page.
        access: anyone; the owner, by token; or the holder of a signed link. Only the first two are in the navigation.
        parent: the page of the navigation that leads here; a page with a parent is not in the navigation itself.
        folder: the folder of ``widgets`` with the page's HTML and script; empty for a page that ``build`` makes.
        markup: folders whose HTML the page consists of; ``folder`` alone by default.
        start_js: starts the script, as ``script``; ``element``, ``props``, ``base`` and ``root`` are defined.
        early_js: runs before the script has loaded.
        props: values for the script.
        build: makes the page of Gradio components; None for a page of one script.
        is_available: whether the server has what the page shows.
    """

    path: str
    title: str
    access: Access = "anyone"
    parent: str = ""
    folder: str = ""
    markup: tuple[str, ...] = ()
    start_js: str = _START_JS
    early_js: str = ""
    props: Callable[[], Mapping[str, Any]] = dict
    build: Callable[[PageContext], Any] | None = None
    is_available: Callable[[PageContext], bool] = lambda context: True

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
