"""From results to a rated sound on the Inspect page with its ratings, for the owner."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from ui.owner_site import Site
from ui.site.test_axe import violations

SOUND = "test=kestrel&script=item1&system=osprey"


def ask(site: Site, part: str, query: str = "script=item1&system=osprey", token: str = "") -> int:
    """The status of a response."""
    address = f"{site.url}mos/owner/campaigns/kestrel/sound/{part}?{query}"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("part", ["view", "prosody", "attention", "ratings"])
def test_only_the_owner_gets_the_ratings(site: Site, part: str) -> None:
    assert ask(site, part) == ask(site, part, token="guessed") == 403
    if part != "attention":  # this clip is a recording and has no synthesis data
        assert ask(site, part, token=site.token) == 200
    assert ask(site, part, "script=nothing&system=osprey", site.token) == 422
    assert ask(site, part, f"script={'x' * 500}&system=osprey", site.token) == 422


def test_sound_opens_from_the_results_with_its_ratings(site: Site, enter: Callable[..., Any]) -> None:
    page = enter("results?campaign=kestrel")
    page.locator("#owner-sounds summary").click()
    page.get_by_role("link", name="Inspect item1 by osprey").click()
    page.wait_for_selector(".inspect[data-state=open] .ratings:not([hidden])")
    assert SOUND in page.url
    ratings = json.loads(
        site.get(f"mos/owner/campaigns/kestrel/sound/ratings?{SOUND}", Authorization=f"Bearer {site.token}")
    )
    people, foreseen = (page.locator(f".inspect .ratings .{name}") for name in ("people", "foreseen"))
    figures = people.locator(".figure")
    assert figures.count() == len(ratings["questions"]) == 2
    for k, question in enumerate(ratings["questions"]):
        assert figures.nth(k).locator("strong").text_content() == f"{question['mean']['mean']:.2f}"
        heights = figures.nth(k).locator(".histogram b").all_text_contents()
        assert [int(one or 0) for one in heights] == [question["counts"].get(str(v), 0) for v in range(1, 6)]
    assert foreseen.locator("strong").text_content() == f"{ratings['predicted'][0]['mos']:.2f}"
    assert "redicted" not in people.text_content()
    assert page.locator(".inspect .view h1").text_content() == "The sentence of item1."
    assert page.evaluate("document.querySelector('.inspect').viewer.scene.pcm.length") > 0


def test_without_the_token_the_page_says_where_to_open_it(chromium: Any, site: Site) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{site.url}inspect?{SOUND}")
    page.wait_for_selector('.inspect .status[data-level="error"]')
    assert "Results page" in page.locator(".inspect .status").text_content()
    assert page.locator(".inspect .ratings").is_hidden()
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_panel_fits(enter: Callable[..., Any], width: int, scheme: str) -> None:
    page = enter("results", viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page.goto(page.url.partition("results")[0] + f"inspect?{SOUND}")
    page.wait_for_selector(".inspect[data-state=open] .ratings:not([hidden])")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
