"""How the owner's pages look, on a telephone too."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_off_at_the_side(enter: Callable[..., Any], width: int) -> None:
    page = enter("campaigns", viewport={"width": width, "height": 844})
    page.wait_for_selector(".campaign")
    script = "s => Math.max(...[...document.querySelectorAll(s)].map((e) => e.getBoundingClientRect().right))"
    assert page.evaluate(script, ".masthead *, .campaign, .owner-door") <= width
    page.goto(page.url.replace("campaigns", "results?campaign=merlin"))
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert page.evaluate(script, ".owner-card, .owner-plot, .owner-choose, .owner-files button") <= width


def test_tables_on_a_telephone_fit_or_show_that_there_is_more(enter: Callable[..., Any]) -> None:
    """Gates are seen whole; what scrolls has a shadow where it goes on, and none at its end."""
    page = enter("results?campaign=merlin", viewport={"width": 390, "height": 844})
    page.wait_for_selector("#owner-tables table")
    sizes = {
        wide.locator("th").first.text_content(): wide.evaluate("e => [e.clientWidth, e.scrollWidth]")
        for wide in page.locator("#owner-tables .owner-card > .wide").all()
    }
    assert sizes["Gate"][1] <= sizes["Gate"][0]
    wide = page.locator("#owner-tables .wide").first  # eight columns of preferences
    assert wide.evaluate("e => e.scrollWidth - e.clientWidth") > 100
    # Two covers go along with what scrolls and two shadows stay, so a shadow is seen where there is more. The style is
    # looked at and not its pixels: a browser without a screen does not always paint it.
    assert wide.evaluate("e => getComputedStyle(e).backgroundAttachment") == "local, local, scroll, scroll"
    assert wide.evaluate("e => getComputedStyle(e).backgroundImage.split('linear-gradient').length - 1") == 4
