"""The voices as cards: figures, speakers, a sample of each, keyboard, phones."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage

CARD = '.voice-card:has(input[value="{}"])'


@pytest.fixture(scope="module")
def two_voices(start_server: Callable[..., Any]) -> Any:
    return start_server("--voices", "2")


@pytest.fixture
def two(visit: Callable[..., LivePage], two_voices: Any) -> LivePage:
    return visit(url=two_voices.url)


def test_card_says_what_the_voice_is_and_how_it_measured(two: LivePage) -> None:
    card = two.page.locator(CARD.format("tone2"))
    assert card.locator(".voice-name").inner_text().split("\n") == ["Tone 2", "Sines"]
    assert card.locator(".voice-about").text_content() == "Plays one tone a word."
    figures = card.locator(".voice-figures > div")
    assert [one.split("\n") for one in figures.all_inner_texts()] == [
        ["First sound", "20 ms"],
        ["Naturalness", "1.5 of 5"],
        ["Right words", "75%"],
    ]
    widths = "(bars) => bars.map((bar) => bar.getBoundingClientRect().width)"
    parts, wholes = (figures.locator(f".{name}").evaluate_all(widths) for name in ("part", "whole"))
    shares = [part / whole for part, whole in zip(parts, wholes, strict=True)]
    assert shares == pytest.approx([0.9, 0.125, 0.75], abs=0.01)


def test_arrow_keys_select_a_voice_and_its_card_has_the_speakers(two: LivePage) -> None:
    first, second = (two.page.get_by_role("radio", name=name) for name in ("Tone (no model)", "Tone 2"))
    speaker = two.page.locator('[data-set="speaker"]')
    assert two.page.locator(CARD.format("tone")).locator('[data-set="speaker"]').count() == 1
    speaker.select_option("high")
    first.focus()
    two.page.keyboard.press("ArrowDown")
    assert second.is_checked()
    assert second.evaluate("(input) => input === document.activeElement")
    assert two.page.locator(CARD.format("tone2")).locator('[data-set="speaker"]').count() == 1
    assert speaker.input_value() == "low", "the new voice's first speaker"
    two.page.wait_for_function("() => new URLSearchParams(location.search).get('voice') === 'tone2'")
    two.type("hello ")
    two.finish(spoken=1)
    assert [event["voice"] for event in two.events("ready")] == ["tone2"]


def test_one_click_selects_a_voice_and_lets_it_speak(two: LivePage) -> None:
    two.page.get_by_role("button", name="Hear Tone 2").click()
    two.wait_spoken(1)
    assert [event["voice"] for event in two.events("ready")] == ["tone2"]
    assert two.page.get_by_role("radio", name="Tone 2").is_checked()
    assert two.page.locator("#live-text").input_value() == "", "the sample is not the user's text"


def test_voice_changes_to_any_other_while_it_speaks(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    """Voices have different options: none of a voice's is sent to another one, which would refuse it."""
    live = visit(url=start_server("--shipped").url)
    names = live.page.locator('[name="live-voice"]').evaluate_all("(all) => all.map((one) => one.value)")
    changes = list(itertools.permutations(names, 2))
    assert len(changes) >= 30
    for spoken, (first, second) in enumerate(changes, 1):
        live.page.locator(f'[name="live-voice"][value="{first}"]').check(force=True)
        live.type("one two three four ")
        live.page.wait_for_selector('.chip[data-state="speaking"]')
        live.page.locator(f'[name="live-voice"][value="{second}"]').check(force=True)
        assert live.page.locator('[name="live-voice"]:checked').get_attribute("value") == second
        live.type("five six ")
        live.finish(spoken=spoken)
        live.press("clear")
        assert live.page.locator('.status[data-level="error"]').count() == 0, (first, second)
    assert live.events("failed") == []


def test_phone_shows_the_voices_on_its_first_screen(visit: Callable[..., LivePage], two_voices: Any) -> None:
    live = visit(url=two_voices.url, viewport={"width": 390, "height": 844})
    card = live.page.locator(CARD.format("tone")).bounding_box()
    assert card["y"] + card["height"] <= 844
    other = live.page.get_by_role("radio", name="Tone 2")
    other.focus()
    live.page.keyboard.press("Space")
    box = live.page.locator(CARD.format("tone2")).bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390, "the selected card is in sight"
    assert live.page.evaluate("document.documentElement.scrollWidth") <= 390
