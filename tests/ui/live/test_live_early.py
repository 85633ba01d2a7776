"""What the Live page offers while it speaks: WAV, Save and Inspect, and a hint for a word without a space."""

from collections.abc import Callable
from pathlib import Path

import pytest
from ui.live_page import LivePage


def below_the_field(live: LivePage, height: int) -> None:
    """Assert that the whole picture is within a window's height, under or beside the field."""
    field, picture = (live.page.locator(one).bounding_box() for one in ("#live-text", ".live .scope"))
    assert field["y"] < picture["y"] + picture["height"] <= height


def test_inspect_and_wav_are_offered_from_the_first_sound_on(live: LivePage) -> None:
    early = live.page.locator("[data-early]:visible")
    assert early.count() == 0
    live.type("one two three four five ")
    live.wait_lit(1)
    live.page.wait_for_selector('[data-early="wav"]:not([hidden])')
    assert early.all_inner_texts() == ["Inspect", "WAV"], "without a library there is nothing to save to"
    assert live.page.locator('[data-get="wav"]').is_hidden(), "the text has not ended"
    live.page.evaluate(
        """() => document.querySelector('[data-get="wav"]').addEventListener('click', (event) => {
          event.preventDefault(); // a download starts the process that reads traces
          window.followed = event.currentTarget.href;
        })"""
    )
    early.get_by_text("WAV").click()
    live.page.wait_for_function("() => window.followed?.endsWith('.wav')")
    live.wait_phase("idle")
    assert early.count() == 0 and live.page.locator('[data-get="wav"]').is_visible()


def test_captions_are_offered_with_the_sound(live: LivePage) -> None:
    links = live.page.locator('.files a:is([data-get="srt"], [data-get="vtt"])')
    assert links.filter(visible=True).count() == 0
    live.type("one two. three")
    live.finish(spoken=1)
    live.page.wait_for_selector('[data-get="wav"]:not([hidden])')
    assert links.all_inner_texts() == ["SRT", "WebVTT"]
    for link, begin in zip(links.all(), ("1\n00:00:", "WEBVTT\n\n00:00:"), strict=True):
        with live.page.expect_download() as download:
            link.click()
        text = Path(download.value.path()).read_text()
        assert text.startswith(begin) and "one two.\n" in text and "three\n" in text


def test_inspect_opens_what_was_spoken_so_far(live: LivePage) -> None:
    live.type("one two three four five ")
    live.wait_lit(1)
    live.page.locator('[data-early="inspect"]').click()
    live.page.wait_for_url("**/inspect?trace=*")


def test_pause_at_a_word_without_a_space_says_what_to_press(live: LivePage) -> None:
    hint, usual = live.page.locator(".last-word"), live.page.locator("#live-hint")
    live.type("one two three four")
    assert usual.is_visible() and not hint.is_visible()
    live.page.wait_for_selector(".live[data-last-word]")
    assert hint.is_visible() and not usual.is_visible()
    assert hint.inner_text() == "Press Space to hear the last word, or Finish."
    live.page.keyboard.press("Space")
    assert usual.is_visible() and not hint.is_visible()
    live.finish(spoken=1)
    assert [event["word"] for event in live.events("committed")] == ["one", "two", "three", "four"]


@pytest.mark.parametrize("width", [1280, 1920])
def test_picture_of_the_speech_is_above_the_fold(visit: Callable[..., LivePage], width: int) -> None:
    live = visit(viewport={"width": width, "height": 900})
    below_the_field(live, 900)
    live.type("one two three four five ")
    live.wait_lit(1)
    below_the_field(live, 900)


def test_phone_page_is_two_screens(visit: Callable[..., LivePage]) -> None:
    live = visit(viewport={"width": 390, "height": 844})
    assert live.page.evaluate("document.documentElement.scrollHeight") <= 2 * 844
