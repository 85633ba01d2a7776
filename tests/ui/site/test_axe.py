"""axe-core finds no violation in states of pages beside those in which `test_every_page.py` opens each."""

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


def test_campaign_that_is_edited(enter: Callable[..., Any]) -> None:
    page = enter("edit?campaign=kestrel")
    page.locator(".edit-columns").first.wait_for()
    page.evaluate("document.querySelectorAll('.edit details').forEach((one) => (one.open = true))")
    assert violations(page) == []
