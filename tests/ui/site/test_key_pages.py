"""A studio with an access key: one link opens every page, and raters never need the key."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ui.conftest import Server
from ui.live_page import LivePage
from ui.rate.test_rate_live import Live
from ui.rate_page import RatePage, Ratings

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ratings]:
    """Listening tests on a server that requires a key."""
    folder = tmp_path_factory.mktemp("keyed")
    server = Server(folder, str(folder), "--key", KEY, "--idle-socket-ms", "1000", script="ui/rate_server.py")
    yield Ratings(server.url, folder)
    server.stop()


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[[], Any]]:
    """Opens a page in a fresh browser."""
    contexts: list[Any] = []

    def make() -> Any:
        contexts.append(chromium.new_context(viewport={"width": 1280, "height": 800}))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


def test_one_link_opens_every_page(keyed: Ratings, new_page: Callable[[], Any]) -> None:
    page = new_page()
    page.goto(keyed.url)
    assert "This studio needs a key" in page.content()
    live = LivePage(page, keyed.url)
    page.goto(f"{keyed.url}?key={KEY}&tap=1")
    assert page.url == f"{keyed.url}?tap=1"
    page.wait_for_selector(".live .options input", state="attached")
    live.type("one two three ")
    live.finish(spoken=1)
    for path, shown in (("campaigns", ".owner-notice"), ("results", ".owner-notice"), ("library", "form.signin")):
        page.goto(keyed.url + path)
        page.wait_for_selector(shown)
    assert (live.errors, live.foreign) == ([], [])


def test_key_can_be_typed(keyed: Ratings, new_page: Callable[[], Any]) -> None:
    page = new_page()
    page.goto(keyed.url + "campaigns")
    page.get_by_label("Key").fill("not this one")
    page.get_by_role("button", name="Open").click()
    page.get_by_text("This is not the key").wait_for()
    page.get_by_label("Key").fill(KEY)
    page.get_by_role("button", name="Open").click()
    page.wait_for_selector(".owner-notice")
    assert page.url == keyed.url + "campaigns"


def test_raters_need_no_key(keyed: Ratings, new_page: Callable[[], Any]) -> None:
    page = new_page()
    rating = RatePage(page, keyed, "mos", "panel", "P1")
    rating.open()
    rating.begin()
    rating.page.wait_for_timeout(500)
    assert [one.url for one in rating.responses if one.status >= 400] == []
    assert (rating.errors, rating.foreign) == ([], [])


def test_raters_of_live_tests_need_no_key(keyed: Ratings, new_page: Callable[[], Any]) -> None:
    rating = RatePage(new_page(), keyed, "live", "panel", "P2")
    rating.open()
    live = Live(rating)
    rating.page.wait_for_timeout(2000)  # the socket is idle and closed meanwhile; it reconnects at the first key
    live.type()
    rating.page.wait_for_timeout(2000)
    live.hear()
    assert (rating.errors, rating.foreign) == ([], [])
