"""What a page costs to open: connections, weight, and shifts of its layout."""

import time
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from ui.owner_site import Site

Opening = Callable[..., Any]
TABS_S = 60.0  # on a machine that is busy with other tests; `studio bench page` measures the time on an idle one
DOCUMENTS = ("", "inspect", "compare", "library", "lexicon", "edit", "sign-in", "glossary", "rate")
COMPONENTS = ("campaigns", "results", "engine")  # Gradio's pages
SHIFTS = """window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifts.push(one.value);
}).observe({ type: 'layout-shift', buffered: true });"""
DRAWN = """() => {
  const figures = [...document.querySelectorAll('.owner-plot')].filter((one) => one.checkVisibility());
  return figures.length && figures.every((one) => one.querySelector('.main-svg'));
}"""
CLIPPED = """() => [...document.querySelectorAll('.voice-card, .actions, .actions > button, .lead')]
  .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"""
SIZES = ("responseBodySize", "responseHeadersSize")
READY = {
    "": ".live .options input",
    "campaigns": ".campaign",
    "results": ".owner-card",
    "engine": ".owner-card",
    "api": "#api-page textarea",
}


def watched(page: Any) -> Any:
    """A new page that keeps its requests, and the shifts of its layout."""
    page.finished = []

    def keep(request: Any) -> None:
        page.finished.append(request)

    page.on("requestfinished", keep)
    page.add_init_script(SHIFTS)
    return page


def check_weight(page: Any) -> None:
    sizes = [sum(request.sizes()[k] for k in SIZES) for request in page.finished]
    assert len(sizes) <= 25
    assert sum(sizes) <= 200_000


def check_shifts(page: Any) -> None:
    assert sum(page.evaluate("window.shifts")) < 0.05


def settled(page: Any, path: str) -> None:
    """Wait until a page has its content."""
    page.locator(READY.get(path, "main")).first.wait_for(state="attached")
    page.wait_for_load_state("networkidle")


def test_ten_tabs_are_open_at_once(site: Site, opening: Opening) -> None:
    """Browsers allow six HTTP/1.1 connections per host, so no page may hold one."""
    context = opening()
    site.sign_in(context)
    tabs = [context.new_page() for _ in range(10)]
    began_s = time.monotonic()
    for tab, path in zip(tabs, (*COMPONENTS, *COMPONENTS, "", "library", "inspect", "campaigns"), strict=True):
        tab.goto(site.url + path)
        settled(tab, path)
    for tab in tabs:
        assert tab.evaluate("async () => (await fetch('./health')).status") == 200
    assert time.monotonic() - began_s < TABS_S


def test_plain_page_of_another_language_is_light(site: Site, opening: Opening) -> None:
    page = watched(opening(viewport={"width": 1280, "height": 900}, locale="ja").new_page())
    page.goto(site.url)
    settled(page, "")
    check_weight(page)


@pytest.mark.parametrize("path", ["inspect", "compare"])
def test_timelines_use_the_whole_width(site: Site, opening: Opening, path: str) -> None:
    context = opening(viewport={"width": 2560, "height": 900})
    page = context.new_page()
    page.goto(site.url + path)
    settled(page, path)
    assert page.locator("main").bounding_box()["width"] > 2500


PAGES = (*DOCUMENTS, *COMPONENTS, "api", "?stage", "edit?campaign=kestrel")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "width"),  # 1280: test_every_page.py
    [*product(PAGES, [390, 1920]), ("edit?campaign=kestrel", 1280)],
)
def test_layout_does_not_shift(site: Site, opening: Opening, path: str, width: int) -> None:
    context = opening(viewport={"width": width, "height": 900})
    site.sign_in(context)
    page = watched(context.new_page())
    page.goto(site.url + path)
    settled(page, path)
    if path == "results":  # plotly draws late, in the room that is reserved for its figures
        page.wait_for_function(DRAWN)
    check_shifts(page)


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("locale", ["en", "de", "fr", "es", "ja"])
def test_live_page_does_not_shift_over_a_slow_network(site: Site, opening: Opening, locale: str, width: int) -> None:
    context = opening(viewport={"width": width, "height": 900}, locale=locale)
    page = watched(context.new_page())
    network = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 200_000}
    context.new_cdp_session(page).send("Network.emulateNetworkConditions", network)
    page.goto(site.url)
    settled(page, "")
    check_shifts(page)
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator('[data-do="speak"] svg').bounding_box()["width"] >= 10


@pytest.mark.parametrize("path", COMPONENTS)
def test_page_of_components_has_no_footer_of_the_framework(site: Site, opening: Opening, path: str) -> None:
    context = opening()
    site.sign_in(context)
    page = context.new_page()
    page.goto(site.url + path)
    settled(page, path)
    page.locator("footer[aria-label]").wait_for(state="attached")
    assert page.locator("footer[aria-label]").is_hidden()


def test_api_page_is_visible_at_once(site: Site, opening: Opening) -> None:
    page = opening().new_page()
    page.goto(site.url + "api")
    page.locator("#api-page:has(h1) button").first.wait_for(state="attached")
    hidden = "getComputedStyle(document.querySelector('#api-page h1')).visibility"
    assert page.evaluate(hidden) == "visible"
