"""An arena in a browser: battles, names after the vote, the cap, the public ladder."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from ui.rate.test_rate_live import Live
from ui.rate_page import RatePage
from ui.rate_server import SYSTEMS
from ui.site.test_axe import violations

Rate = Callable[..., RatePage]
NAMED = (*SYSTEMS, '"tone"', '"low"', '"high"')


def received(page: RatePage) -> str:
    """Everything that the browser stored or received from the listening tests."""
    said = page.page.content() + page.page.evaluate(
        "() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }])"
    )
    for response in page.responses:
        if "/mos/" in response.url:
            said += response.url + json.dumps(response.all_headers()) + response.text()
    return said


def fight(live: Live, trial: str, key: str) -> None:
    live.trial = trial
    live.type()
    live.hear()
    assert not [name for name in NAMED if name in received(live.page)], "nothing identifies the systems before the vote"
    live.page.key(key)
    live.page.wait("revealed")


def test_two_battles_their_names_the_cap_and_the_ladder(rate: Rate) -> None:
    live = Live(rate("arena"))
    page = live.page
    assert page.text(".count") == "Battle 1" and not page.page.locator(".rate-progress").is_visible()
    assert live.field(0).get_attribute("maxlength") == "300"
    fight(live, live.trial, "a")
    assert page.ratings.outcome(live.trial) == "a"
    spoke = page.ratings.ask(
        "select system.name from slot join stimulus on stimulus.id = stimulus_id join system on system.id = system_id "
        "where trial_id = ? order by slot",
        live.trial,
    )
    named = page.page.locator(".voices dd").all()
    assert [one.get_attribute("title") for one in named] == [name for (name,) in spoke]
    titles = [one.inner_text() for one in named]
    assert sorted(titles) == ["High", "Low"], "visitors see the speaker, not the owner's system name"
    assert "You chose: A is better" in page.text() and "Your code is" in page.text()
    assert violations(page.page) == []
    page.responses.clear()
    page.press("Next battle")
    fight(live, page.trial(after=live.trial), "t")
    page.press("Next battle")
    page.wait("rest")
    assert "daily limit" in page.text() and "24 h" in page.text()
    page.open()
    page.wait("rest")
    page.page.get_by_role("link", name="See the ladder").click()
    page.page.wait_for_selector("h1")
    assert page.page.url == f"{page.ratings.url}arena" and page.text("h1") == "The arena"
    shown = page.text("main")
    assert all(name in shown for name in titles) and not [name for name in SYSTEMS if name in shown]
    exact = page.page.locator("[title]").evaluate_all("all => all.map((one) => one.title)")
    assert set(exact) == {name for (name,) in spoke}
    assert "Take part" in shown and not page.errors
    assert violations(page.page) == []


def test_menu_leads_to_the_first_battle_over_one_screen(rate: Rate) -> None:
    arena = rate("arena", who="")
    page = arena.page
    for path in ("campaigns", ""):  # of Gradio components, and a document
        page.goto(arena.ratings.url + path)
        page.get_by_role("link", name="Arena", exact=True).wait_for()
    page.get_by_role("link", name="Arena", exact=True).click()
    arena.wait("consent")
    texts = page.locator(".rate .card").inner_text()
    assert texts.index("What to do") < texts.index("Taking part") and "I have a code" in texts
    assert violations(page) == []
    arena.press("I agree: begin with voice A")
    arena.trial()
    page.locator(".voice textarea:not([readonly])").wait_for()
    page.reload()
    arena.trial()
    assert not arena.errors


@pytest.mark.parametrize("width", [390, 1280])
def test_ladder_fits(rate: Rate, width: int) -> None:
    page: Any = rate("arena", who=f"wide {width}").page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(page.url.split("rate?")[0] + "arena")
    page.get_by_role("link", name="Take part").wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth <= document.documentElement.clientWidth")
