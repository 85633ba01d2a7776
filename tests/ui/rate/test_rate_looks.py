"""Layout of the rating pages, narrow and wide, in five languages."""

import json
import re
from collections.abc import Callable

import pytest
from ui.rate_page import RatePage

from studio.ui.assets import WIDGETS

FARTHEST = """Math.max(
  ...Array.from(document.querySelectorAll('.rate button, .rate input, .tick'), (e) => e.getBoundingClientRect().right),
)"""
WORDS = json.loads((WIDGETS / "rate" / "words.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("campaign", ["mos", "ab", "scale", "ccr", "mushra", "p835"])
def test_phone_does_not_scroll_sideways(rate: Callable[..., RatePage], campaign: str) -> None:
    rating = rate(campaign, who=f"phone-{campaign}", viewport={"width": 390, "height": 844})
    rating.wait("consent")
    width = "document.documentElement.scrollWidth"
    assert rating.page.evaluate(width) <= 390
    rating.begin()
    rating.page.locator("blockquote").evaluate("quote => (quote.textContent = 'w'.repeat(200))")
    assert rating.page.evaluate(width) <= 390
    if campaign == "mushra":  # the reference stays visible while scrolling
        rating.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert rating.page.locator(".row.open").bounding_box()["y"] >= 0
        rating.page.evaluate("scrollTo(0, 0)")
    # Everything is inside its card and nothing is cut off.
    assert rating.page.evaluate(FARTHEST) <= 390


def test_campaign_sets_the_language(rate: Callable[..., RatePage]) -> None:
    rating = rate("japanese", who="tokyo")
    rating.wait("consent")
    assert rating.page.locator(".rate").get_attribute("lang") == "ja"
    assert WORDS["ja"]["agree"] in rating.text()


def test_every_used_translation_exists() -> None:
    scripts = "".join(path.read_text(encoding="utf-8") for path in (WIDGETS / "rate").glob("*.js"))
    asked = set(re.findall(r'\.text\(\s*(?:\w+(?:\.\w+)* \? )?"(\w+)"', scripts))
    assert len(asked) > 40
    assert asked <= set(WORDS["en"])
