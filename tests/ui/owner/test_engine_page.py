"""The Engine page in a browser: it moves while somebody speaks, and nothing is cut off."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_the_engine_page_follows_what_is_spoken(visit: Callable[..., LivePage], width: int, scheme: str) -> None:
    live = visit()
    tab = live.page.context.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page: Any = tab.new_page()
    page.goto(live.url + "engine")
    page.wait_for_selector("#engine-load .owner-card")
    fact = "what => [...document.querySelectorAll('#engine-load dt')].find((e) => e.textContent === what)"
    spoken_s = f"() => parseFloat(({fact})('of audio').previousElementSibling.textContent)"
    before = page.evaluate(spoken_s)
    live.type("Speech flows from words as they arrive. ")
    live.finish()
    live.wait_said()
    page.wait_for_function(f"before => ({spoken_s})() > before", arg=before)
    page.wait_for_selector("#engine-load table.runs")
    edges = "[...document.querySelectorAll('.owner-card')].map((e) => e.getBoundingClientRect().right)"
    assert page.evaluate(f"Math.max(...{edges})") <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    hidden = "[...document.querySelectorAll('#engine-load .wide')].map((e) => e.scrollWidth - e.clientWidth)"
    assert max(page.evaluate(hidden)) <= 0, "a table is seen whole"
    assert "a module is a part of a voice" in page.inner_text("#engine-load").lower()
    page.route("**/health", lambda route: route.abort())
    page.wait_for_selector("#engine-away p:has-text('does not answer')")
    page.unroute("**/health")
    page.wait_for_function("() => document.querySelector('#engine-away p').textContent === ''")
    tab.close()
