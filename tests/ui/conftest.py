"""A real Chromium on the real app with the tone engine (tests/fakes.py)."""

import contextlib
import itertools
import os
import secrets
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ui.live_page import LivePage
from ui.rate_page import RatePage, Ratings
from ui.serving import Serving

TESTS = Path(__file__).resolve().parents[1]
START_S = 180.0
_PORTS = itertools.count(20_000 + 500 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))


class Server:
    """The app on the fake engine in its own process."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0, script: str = "fakes.py") -> None:
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self._process = Serving(TESTS / script, "--port", str(self.port), *arguments, home=folder)
        self._wait()

    def _wait(self) -> None:
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            assert self._process.is_alive, f"the server ended at once: {self._process.said.read_text()}"
            try:
                with urllib.request.urlopen(self.url + "health", timeout=1.0):
                    return
            except urllib.error.HTTPError:
                return  # a key is required
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def stop(self) -> None:
        """End the process, as a power loss would."""
        self._process.kill()
        self._process.wait(10.0)


def _free_port() -> int:
    """A port of this worker's range, below the ephemeral ports, so that no other process takes it."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(*arguments: str, port: int = 0) -> Server:
        servers.append(Server(tmp_path_factory.mktemp("home"), *arguments, port=port))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Server]) -> Server:
    return start_server()


@pytest.fixture
def opening(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens a browser's context that is closed after the test, whatever its outcome."""
    contexts: list[Any] = []

    def open_context(**options: Any) -> Any:
        contexts.append(chromium.new_context(**options))
        return contexts[-1]

    yield open_context
    for context in contexts:
        context.close()


@pytest.fixture
def visit(chromium: Any, server: Server) -> Iterator[Callable[..., LivePage]]:
    """Opens the Live page in its own context; no page may log an error or call another host."""
    pages: list[LivePage] = []

    def open_page(*, url: str = server.url, script: str = "", **context: Any) -> LivePage:
        page = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, **context}).new_page()
        if script:
            page.add_init_script(script)
        pages.append(LivePage(page, url))
        pages[-1].open()
        return pages[-1]

    yield open_page
    for live in pages:
        live.page.context.close()
        assert live.errors == []
        assert live.foreign == []


@pytest.fixture
def live(visit: Callable[..., LivePage]) -> LivePage:
    return visit()


@pytest.fixture(scope="session")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ratings]:
    """A server with listening tests of short tones."""
    folder = tmp_path_factory.mktemp("ratings")
    server = Server(folder, str(folder), script="ui/rate_server.py")
    yield Ratings(server.url, folder)
    server.stop()


@pytest.fixture
def rate(chromium: Any, ratings: Ratings) -> Iterator[Callable[..., RatePage]]:
    """Opens a campaign's link in its own context, or in ``browser``; no page may log an error or call another host."""
    pages: list[RatePage] = []
    once = secrets.token_hex(3)  # a rerun test needs new raters

    def open_page(
        campaign: str, *, browser: Any = None, role: str = "panel", who: str = "", **context: Any
    ) -> RatePage:
        wanted = {"viewport": {"width": 1280, "height": 800}, **context}
        page = (browser or chromium).new_context(**wanted).new_page()
        pages.append(RatePage(page, ratings, campaign, role, f"{who}-{once}" if who else ""))
        pages[-1].open()
        return pages[-1]

    yield open_page
    for rating in pages:
        if rating.page.context.browser.is_connected():
            rating.page.context.close()
        assert rating.errors == []
        assert rating.foreign == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with rated listening tests, and its owner's token."""
    from ui.owner_site import Site

    found = Site(tmp_path_factory.mktemp("owner"))
    yield found
    found.process.kill()
    found.process.wait(10.0)


@pytest.fixture
def enter(chromium: Any, site: Any) -> Iterator[Callable[..., Any]]:
    """Opens an owner's page in a browser that signs in first; no page may log an error or call another host."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_page(path: str, token: str = site.token, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        context.request.post(f"{site.url}mos/owner/session", data={"token": token})
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((site.url, "data:", "blob:")) else wrong.append(r.url))
        page.goto(site.url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Rerun browser tests once after a timeout on a busy machine, never after a wrong result."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun="TimeoutError"))
