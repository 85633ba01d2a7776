"""Every page of the product, for tests of what all pages share; the fixtures are imported by tests."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inspection.spoken import story
from ui.conftest import Server
from ui.owner_site import Site
from ui.site.test_page_load import COMPONENTS, DOCUMENTS, READY, Opening

from studio.core.traces.trace_writer import TraceWriter
from studio.library.library import Library
from studio.ui.assets import asset_path

SHARED = f"?heard={'a' * 22}&text=hello"  # a link whose recording is gone
NAVIGATED = (*(path for path in DOCUMENTS if path != "rate"), SHARED, *COMPONENTS, "api")
ALONE = ("?stage", "rate", "annotate", "arena", "offline", "nothing-here")  # without navigation
EVERY_PAGE = (*NAVIGATED, *ALONE)
_SHOWN = {
    SHARED: '.shared button[aria-label="Speak it again"]',
    "?stage": ".talk-texts button",
    "annotate": ".assigned[data-stage=open] ~ .inspect[data-state=open]",
    "arena": "a[href]",
    "offline": "h1",
}


@pytest.fixture(scope="module")
def raters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Listening tests without a vote."""
    folder = tmp_path_factory.mktemp("raters")
    server = Server(folder, str(folder), script="ui/rate_server.py")
    yield server
    server.stop()


@pytest.fixture
def assignment(site: Site, tmp_path: Path) -> Iterator[str]:
    """An annotator's link; the library is empty again afterwards."""
    library = Library(site.folder / "library")
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    entry = library.add(writer.close().read_bytes(), title="typed")
    layers = [{"name": "faults", "kind": "regions", "labels": ["click"]}]
    body = {"title": "Find faults", "layers": layers, "utterances": [entry.name], "annotators": ["Di"]}
    made = json.loads(site.post("library/assignments", body, token=site.token))
    yield site.url + made["people"][0]["link"]
    site.post("library/assignments/remove", {"id": made["id"]}, token=site.token)
    library.remove(entry)
    library.close()


@pytest.fixture
def open_every(site: Site, opening: Opening, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens a page of ``EVERY_PAGE`` in a browser's context of its own, which is signed in as the owner."""

    def open_page(name: str, **options: Any) -> Any:
        context = opening(**options)
        site.sign_in(context)
        page = context.new_page()
        match name:
            case "annotate":
                page.goto(request.getfixturevalue("assignment"))
            case "arena":
                page.goto(request.getfixturevalue("raters").url + "arena")
            case "offline":
                page.goto(f"{site.url[:-1]}{asset_path()}/page/offline/en.html")
            case _:
                page.goto(site.url + name)
        page.locator({**READY, **_SHOWN}.get(name, "main")).first.wait_for(state="attached")
        if name != SHARED:  # nobody reads the 404 of its recording, so the network never counts as idle
            page.wait_for_load_state("networkidle")
        return page

    return open_page
