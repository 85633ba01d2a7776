"""On stage, on a telephone with its keyboard open, and at a slow writer's pace."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage


@pytest.fixture
def stage(visit: Callable[..., LivePage]) -> LivePage:
    live = visit(color_scheme="light")
    live.page.goto(f"{live.url}?tap=1&stage")
    live.page.wait_for_selector(".live[data-talk] .options input", state="attached")
    return live


def test_on_stage_there_are_field_words_and_one_number_large_and_dark(stage: LivePage) -> None:
    page = stage.page
    assert page.evaluate("document.body.classList.contains('dark')")
    for shown in ("#live-text", '[data-figure="first"]', ".talk"):
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


def test_on_stage_the_sound_is_checked_and_has_a_volume(stage: LivePage) -> None:
    stage.page.get_by_label("Volume").fill("40")
    gain = stage.page.evaluate("document.querySelector('.live').tap.page.player.volume")
    assert gain == 0.4
    stage.page.get_by_role("button", name="Check the sound").click()
    stage.page.wait_for_function("document.querySelector('.talk output').textContent.includes('Sound is working')")


def test_a_telephone_with_its_keyboard_open_shows_field_words_and_number(visit: Callable[..., LivePage]) -> None:
    live = visit(viewport={"width": 390, "height": 430}, has_touch=True, is_mobile=True)
    live.type("Speech flows from words as they arrive on a telephone ", delay_ms=20)
    live.wait_lit(2)
    live.page.wait_for_function("document.querySelector('[data-figure=first]').textContent.includes('s')")
    for name in ("#live-text", '[data-figure="first"]', '[data-do="stop"]'):
        box = live.page.locator(name).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 430, name
    assert live.page.evaluate("CSS.highlights.get('live-heard').size + CSS.highlights.get('live-now').size") >= 1
    assert live.page.evaluate("document.documentElement.scrollWidth") <= 390


def _gaps(live: LivePage) -> int:
    return len(live.resumes(int(live.turns[-1]["play"])))


def test_smooth_mode_speaks_by_phrases_to_who_types_slowly(live: LivePage) -> None:
    text = "one two three four, five six seven eight "
    live.type(text, delay_ms=110)  # about a word in half a second; the fake voice needs less
    live.finish()
    live.wait_said()
    torn = _gaps(live)
    live.press("clear")
    live.page.get_by_label("Smooth: speak by phrase").check()
    for take in range(2, 6):  # what else a machine has to do adds pauses to a take, and takes none away
        live.type(text, delay_ms=110)
        live.finish()
        live.wait_said(take)
        if _gaps(live) <= torn / 2:
            break
        live.press("clear")
    assert _gaps(live) <= torn / 2, "fewer pauses"
    told = live.page.locator(".pace").text_content()
    assert told.startswith("You type ") and "the voice speaks" in told
    play = live.turns[-1]["play"]
    turns = [turn for turn in live.turns if turn["play"] == play and turn["playing"]]
    assert min(turn["rate"] for turn in turns) < 1.0, "it follows the typist"
    assert live.turns[-1]["sample"] == live.events("ended")[-1]["samples"], "all of it was heard"
    assert [word["i"] for word in live.lit][-8:] == [*range(8)]


def test_what_was_said_can_be_copied(visit: Callable[..., LivePage]) -> None:
    live = visit(permissions=["clipboard-read", "clipboard-write"])
    live.type('say "so" ')
    live.finish()
    live.wait_said()
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
    curl = copied("curl", "Command")
    assert curl.startswith("curl -o speech.wav 'http://") and curl.endswith(".wav?as_heard=1'")
