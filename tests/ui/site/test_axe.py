"""axe-core finds no violation on any page."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage
from ui.rate_page import RatePage


def violations(page: Any) -> list[tuple[str, list[str]]]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [(one["id"], [" ".join(map(str, node["target"])) for node in one["nodes"]]) for one in found]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_live_page_after_an_utterance(visit: Callable[..., LivePage], theme: str) -> None:
    live = visit(color_scheme=theme)
    live.page.locator(".details summary").click()
    live.type("so \U0001f600 one two three ")
    live.finish(spoken=1)
    live.open_advanced()
    live.page.locator('[data-set="seed"]').fill("-1")
    live.page.locator('[data-set="seed"]').press("Tab")
    assert violations(live.page) == []


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("?stage&tap=1", ".talk-texts button"),
        ("engine", "#engine-load .owner-card"),
        ("inspect", ".inspect"),
        ("compare", ".compare .ways button"),
    ],
)
def test_stage_engine_and_inspect_pages(chromium: Any, server: Any, where: str, shown: str) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.goto(server.url + where)
    page.locator(shown).first.wait_for()
    assert violations(page) == []
    page.close()


def test_rater_pages(rate: Callable[..., RatePage]) -> None:
    page = rate("mos").page
    page.wait_for_selector('.rate[data-stage="welcome"]')
    assert violations(page) == []


def test_rating_screen(rate: Callable[..., RatePage]) -> None:
    rating = rate("p835", who="axe")
    rating.begin()
    assert violations(rating.page) == []


def test_environment_test(rate: Callable[..., RatePage]) -> None:
    rating = rate("environment", who="axe")
    rating.wait("consent")
    rating.press("I agree")
    rating.wait("instructions")
    rating.press("Continue")
    rating.wait("environment")
    rating.page.locator(".play").nth(1).wait_for()
    assert violations(rating.page) == []


@pytest.mark.parametrize("path", ["sign-in", "glossary", "nothing-here"])
def test_small_pages(enter: Callable[..., Any], path: str) -> None:
    page = enter(path, viewport={"width": 390, "height": 800})
    page.locator("main h1").first.wait_for()
    assert violations(page) == []


@pytest.mark.parametrize(
    ("path", "width"),
    [
        *((path, 1280) for path in ("campaigns", "results", "edit", "edit?campaign=kestrel", "library", "lexicon")),
        ("results", 640),  # its tables scroll
    ],
)
def test_owner_pages(enter: Callable[..., Any], path: str, width: int) -> None:
    page = enter(path, viewport={"width": width, "height": 900})
    if path.startswith("edit"):
        page.locator(".kind-card, .edit-columns").first.wait_for()
        page.evaluate("document.querySelectorAll('.edit details').forEach((one) => (one.open = true))")
    if path == "campaigns":
        page.locator(".campaign").first.wait_for()
    page.wait_for_timeout(1500)
    if path == "results":
        page.wait_for_selector(".owner-plot svg.main-svg")
    page.wait_for_function("() => !document.querySelector('.owner-plot .empty')")  # until every figure is drawn
    assert violations(page) == []
