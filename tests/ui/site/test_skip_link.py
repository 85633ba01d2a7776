"""The first Tab on a page leads to a link that skips the navigation."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.every_page import ALONE, NAVIGATED, assignment, open_every, raters

__all__ = ["assignment", "open_every", "raters"]
# The Live page has the field in focus at its start; this is where Tab begins on a page without that.
TO_START = """() => {
  const first = document.createElement('i');
  first.tabIndex = -1;
  document.body.prepend(first);
  first.focus();
  first.remove();
}"""
FOCUSED = "document.activeElement"


@pytest.mark.parametrize("path", NAVIGATED)
def test_first_tab_skips_the_navigation(open_every: Callable[..., Any], path: str) -> None:
    page = open_every(path, viewport={"width": 1280, "height": 900})
    address = page.url
    if page.evaluate(f"{FOCUSED} !== document.body"):
        assert page.evaluate(f"{FOCUSED}.closest('main') !== null"), "the content has the focus already"
        page.evaluate(TO_START)
    link = page.get_by_role("link", name="Skip to the page")
    assert not page.evaluate("(one) => one.getBoundingClientRect().right > 0", link.element_handle())
    page.keyboard.press("Tab")
    assert link.evaluate(f"(one) => one === {FOCUSED}")
    box = link.bounding_box()
    assert box["x"] >= 0 and box["y"] >= 0, "it is visible while it has the focus"
    page.keyboard.press("Enter")
    assert page.evaluate(f"{FOCUSED}.matches('main, main .owner')")
    assert page.url == address, "pages read the fragment of their address"
    page.keyboard.press("Tab")
    assert not page.evaluate(f"{FOCUSED}.closest('.masthead')"), "the next Tab is in the content"


@pytest.mark.parametrize("path", ALONE)
def test_page_without_navigation_needs_none(open_every: Callable[..., Any], path: str) -> None:
    page = open_every(path, viewport={"width": 1280, "height": 900})
    assert page.get_by_role("navigation").count() == 0
    assert page.locator(".skip:visible").count() == 0
