"""A studio with a key below a path, behind a real proxy with TLS."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ui.deployed.proxy import PATH, Proxy
from ui.owner_site import Site

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A studio below a path, with rated listening tests."""
    found = Site(tmp_path_factory.mktemp("below"), "--root-path", PATH, "--key", KEY)
    yield found
    found.process.kill()
    found.process.wait(10.0)


@pytest.fixture(scope="session")
def proxy(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    found = Proxy(tmp_path_factory.mktemp("caddy"), site.port)
    yield found
    found.stop()


@pytest.fixture
def visitor(opening: Callable[..., Any], proxy: Proxy) -> Any:
    """A browser's context that has the key; what failed or left the path is in ``wrong``."""
    context = opening(viewport={"width": 1280, "height": 900}, ignore_https_errors=True, service_workers="allow")
    context.request.get(f"{proxy.url}?key={KEY}")
    context.wrong = []

    def check(response: Any) -> None:
        if response.status >= 400 or not response.url.startswith((proxy.url, "data:", "blob:")):
            context.wrong.append((response.status, response.url))

    context.on("response", check)

    def check_failed(request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # by the page: Gradio ends its streams
            context.wrong.append((request.failure, request.url))

    context.on("requestfailed", check_failed)
    return context
