"""Stage mode, phones with an open keyboard, slow typing."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage


@pytest.fixture
def stage(visit: Callable[..., LivePage]) -> LivePage:
    live = visit(color_scheme="light")
    live.page.goto(f"{live.url}?tap=1&stage")
    live.page.wait_for_selector("body[data-stage] .live .options input", state="attached")
    return live


def test_stage_mode_shows_field_words_and_one_figure_large_and_dark(stage: LivePage) -> None:
    page = stage.page
    assert page.evaluate("document.body.classList.contains('dark')")
    for shown in ("#live-text", ".lead-value", ".talk"):
        assert page.locator(shown).is_visible()
    for gone in (".masthead", ".race", ".stage", ".settings", ".llm", ".examples"):
        assert page.locator(gone).is_hidden(), gone
    assert float(page.locator("#live-text").evaluate("(n) => parseFloat(getComputedStyle(n).fontSize)")) >= 40
    page.get_by_text("Prepared texts", exact=True).click()
    page.get_by_label("Prepared texts, one a line").fill("alpha beta gamma delta\nsecond text to say")
    page.keyboard.press("Control+2")
    stage.wait_lit(1)
    page.keyboard.press("Escape")
    stage.wait_phase("idle")
    assert page.locator("#live-text").input_value() in "second text to say"
    page.reload()
    page.wait_for_selector(".live .options input", state="attached")
    assert [text[2:] for text in page.locator(".talk-texts button").all_text_contents()] == [
        "alpha beta gamma delta",
        "second text to say",
    ]


def test_stage_is_entered_from_the_page_and_left_by_escape(visit: Callable[..., LivePage]) -> None:
    live = visit(color_scheme="light")
    live.paste("constantinople and alexandria were wonderful cities ")
    live.page.get_by_role("button", name="Stage view").click()
    assert live.page.locator("body[data-stage]").count() == 1
    assert "stage" in live.page.url and live.page.evaluate("document.body.classList.contains('dark')")
    live.wait_lit(1)
    live.page.keyboard.press("Escape")  # stops the speech first
    live.wait_phase("idle")
    assert live.page.locator("body[data-stage]").count() == 1
    live.page.keyboard.press("Escape")
    assert live.page.locator("body[data-stage]").count() == 0
    assert "stage" not in live.page.url and live.page.locator(".masthead").is_visible()
    assert not live.page.evaluate("document.body.classList.contains('dark')")
    assert live.page.locator("#live-text").input_value().startswith("constantinople")
    assert live.page.evaluate("document.activeElement.dataset.talk") == "enter"


def test_stage_mode_checks_the_sound_and_has_a_volume(stage: LivePage) -> None:
    stage.page.get_by_label("Volume").fill("40")
    gain = stage.page.evaluate("document.querySelector('.live').tap.page.player.volume")
    assert gain == 0.4
    stage.page.get_by_role("button", name="Check the sound").click()
    stage.page.wait_for_function(
        "() => document.querySelector('.talk output').textContent.includes('Sound is working')"
    )


def test_phone_with_open_keyboard_shows_field_words_and_figure(visit: Callable[..., LivePage]) -> None:
    live = visit(viewport={"width": 390, "height": 430}, has_touch=True, is_mobile=True)
    live.type("Speech flows from words as they arrive on a telephone ", delay_ms=20)
    live.wait_lit(2)
    live.page.wait_for_function("() => document.querySelector('.lead-value').textContent.includes('s')")
    for name in ("#live-text", ".lead-value", '[data-do="stop"]'):
        box = live.page.locator(name).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 430, name
    assert live.page.evaluate("CSS.highlights.get('live-heard').size + CSS.highlights.get('live-now').size") >= 1
    assert live.page.evaluate("document.documentElement.scrollWidth") <= 390


def _gaps(live: LivePage) -> int:
    return len(live.resumes(int(live.turns[-1]["play"])))


def test_smooth_mode_speaks_slow_typing_in_phrases(live: LivePage) -> None:
    text = "one two three four, five six seven eight "
    live.type(text, delay_ms=110)  # about a word per half second; the fake voice needs less
    live.finish(spoken=1)
    torn = _gaps(live)
    live.press("clear")
    live.page.get_by_role("checkbox", name="Speak by phrase").check()
    for take in range(2, 6):  # other load adds pauses and removes none
        live.type(text, delay_ms=110)
        live.finish(spoken=take)
        if _gaps(live) <= torn / 2:
            break
        live.press("clear")
    assert _gaps(live) <= torn / 2, "fewer pauses"
    pace = live.page.locator(".pace").text_content()
    assert pace.startswith("You type ") and "the voice speaks" in pace
    play = live.turns[-1]["play"]
    turns = [turn for turn in live.turns if turn["play"] == play and turn["playing"]]
    assert min(turn["rate"] for turn in turns) < 1.0, "it keeps up with the typing"
    assert live.turns[-1]["sample"] == live.events("ended")[-1]["samples"], "everything was heard"
    assert [word["i"] for word in live.lit][-8:] == [*range(8)]


def test_spoken_text_can_be_copied(visit: Callable[..., LivePage]) -> None:
    live = visit(permissions=["clipboard-read", "clipboard-write"])
    live.type('say "so" ')
    live.finish(spoken=1)
    live.page.wait_for_selector('[data-get="heard"]:not([hidden])')

    def copied(name: str, what: str) -> Any:
        live.press(name)
        live.wait_status(f"{what} copied")
        return live.page.evaluate("navigator.clipboard.readText()")

    link = copied("link", "Link")
    assert "text=say+%22so%22+" in link and "tap" not in link
    python = copied("python", "Python code")
    compile(python, "copied", "exec")
    assert '"say \\"so\\" "' in python and 'voice="tone:low"' in python and "m=3" in python
    html = copied("html", "HTML")
    assert html.startswith('<figure><audio controls src="data:audio/wav;base64,UklGR') and "say &quot;so&quot;<" in html
    curl = copied("curl", "Command")
    assert curl.startswith("curl -o speech.wav 'http://") and curl.endswith(".wav?as_heard=1'")
