"""Each page's tab says which page it is."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ui.conftest import Server
from ui.rate_page import RatePage
from ui.waits import comes_to

PAGES = {
    "": "Live",
    "inspect": "Inspect",
    "compare": "Compare",
    "library": "Library",
    "campaigns": "Listening tests",
    "edit": "Edit a test",
    "results": "Results",
    "engine": "Engine",
    "rate": "Listening test",
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("titles")
    server = Server(folder, str(folder), script="ui/demo_server.py")
    yield server.url
    server.stop()


@pytest.mark.parametrize("path", PAGES)
def test_each_page_has_a_title_of_its_own(chromium: Any, url: str, path: str) -> None:
    page = chromium.new_page()
    page.goto(url + path)
    page.locator(".rate:not([data-stage=loading])" if path == "rate" else ".masthead").wait_for()
    page.wait_for_timeout(500)  # Gradio writes a title of its own when its page is up
    comes_to(page.title, f"{PAGES[path]} · Streaming-TTS Studio")
    page.close()


def test_a_listening_test_has_the_title_that_raters_see(rate: Callable[..., RatePage]) -> None:
    page = rate("mos").page
    page.wait_for_selector('.rate[data-stage="welcome"]')
    title = page.locator(".rate-title").text_content()
    assert title
    comes_to(page.title, title)
