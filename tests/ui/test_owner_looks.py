"""How the owner's pages look, on a telephone too."""

import io
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off_at_the_side(enter: Callable[..., Any], width: int) -> None:
    page = enter("campaigns", viewport={"width": width, "height": 844})
    page.wait_for_selector(".campaign")
    script = "s => Math.max(...[...document.querySelectorAll(s)].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(script, ".masthead *, .campaign, .owner-door") <= width
    page.goto(page.url.replace("campaigns", "results?campaign=merlin"))
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.evaluate(script, ".owner-card, .owner-plot, .owner-choose, .owner-files button") <= width


def edge_of(wide: Any) -> float:
    """How bright the last three columns of a table's place are, 0 to 255, its words and lines left out."""
    picture = Image.open(io.BytesIO(wide.screenshot())).convert("L")
    width, height = picture.size
    return statistics.median(picture.crop((width - 3, 0, width, height)).tobytes())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_tables_on_a_telephone_fit_or_show_that_there_is_more(enter: Callable[..., Any], scheme: str) -> None:
    """Gates are seen whole; what scrolls has a shadow where it goes on, and none at its end."""
    page = enter("results?campaign=merlin", viewport={"width": 390, "height": 844}, color_scheme=scheme)
    page.wait_for_selector("#owner-tables table")
    sizes = {
        wide.locator("th").first.text_content(): wide.evaluate("e => [e.clientWidth, e.scrollWidth]")
        for wide in page.locator("#owner-tables .owner-card > .wide").all()
    }
    assert sizes["Gate"][1] <= sizes["Gate"][0]
    wide = page.locator("#owner-tables .wide").first  # eight columns of preferences
    assert wide.evaluate("e => e.scrollWidth - e.clientWidth") > 100
    paper = 255 if scheme == "light" else 26

    def shadow_comes_to(low: float, high: float, scrolled: str) -> bool:
        until_s = time.monotonic() + 20
        while time.monotonic() < until_s:
            wide.evaluate(f"e => {{ e.scrollLeft = {scrolled}; }}")  # each time, for a table may be drawn anew
            if low <= abs(edge_of(wide) - paper) <= high:
                return True
            page.wait_for_timeout(200)
        return False

    assert shadow_comes_to(15, 255, "0")
    assert shadow_comes_to(0, 2, "e.scrollWidth")
