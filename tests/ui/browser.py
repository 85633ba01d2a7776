"""One Chromium for all tests of a process, whatever their folder: a second Playwright cannot be started beside it."""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from needs import needs

# The first is the same browser without windows, each of which costs a page's CPU time again.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ANY_TIME = "--autoplay-policy=no-user-gesture-required"
WAIT_MS = 90_000.0


def _patient(browser: Any) -> Any:
    """A browser whose contexts wait longer than Playwright's 30 s, for busy machines.

    Without service workers, whose requests Playwright cannot route; tests/ui/deployed has them.
    """
    new_context = browser.new_context

    def open_context(**options: Any) -> Any:
        context = new_context(**{"service_workers": "block", **options})
        context.set_default_timeout(WAIT_MS)
        return context

    browser.new_context = open_context
    return browser


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    needs(find_spec("playwright"), "the package playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


def browser_path(*names: str) -> str:
    """The first of these browsers that is installed."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    needs(found, "the system package chromium")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def launch(playwright: Any) -> Iterator[Callable[..., Any]]:
    """Starts Chromium; ``any_time`` allows sound without a gesture, ``more`` are further flags."""
    chromium = browser_path(*BROWSERS)
    browsers: list[Any] = []

    def start(*more: str, any_time: bool) -> Any:
        flags = [*FLAGS, ANY_TIME] if any_time else [*FLAGS, "--autoplay-policy=document-user-activation-required"]
        browsers.append(_patient(playwright.chromium.launch(executable_path=chromium, args=[*flags, *more])))
        return browsers[-1]

    yield start
    for browser in browsers:
        browser.close()


@pytest.fixture(scope="session")
def chromium(launch: Callable[..., Any]) -> Any:
    return launch(any_time=True)
