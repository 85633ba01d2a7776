"""Shared links: they play what the sender heard; without its recording they offer to speak the text."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ui.live_page import LivePage, without_fades
from ui.site.test_page_load import SHIFTS

TEXT = "so it goes on and on "
TRACE_MS = 120_000  # the server's trace process starts with the first request, on a busy machine in a minute
MISSING = "a" * 22  # a token of no trace


@pytest.fixture
def go(visit: Callable[..., LivePage]) -> Callable[[str], LivePage]:
    """Opens a link in a browser of its own."""

    def open_link(link: str) -> LivePage:
        live = visit(script=SHIFTS)
        live.page.goto(f"{link}&tap=1")
        live.page.wait_for_selector(".live .options input", state="attached")
        return live

    return open_link


def _note(live: LivePage, part: str) -> None:
    script = "part => document.querySelector('.shared .sub').textContent.includes(part)"
    live.page.wait_for_function(script, arg=part, timeout=TRACE_MS)


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_shared_link_plays_what_was_heard(visit: Callable[..., Any], go: Callable[[str], LivePage], key: str) -> None:
    sender = visit(permissions=["clipboard-read", "clipboard-write"])
    sender.type(TEXT, delay_ms=60)
    sender.finish(spoken=1)
    sender.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    sender.press("link")
    sender.wait_status("It plays this speech")
    link = sender.page.evaluate("navigator.clipboard.readText()")
    live = go(link)
    _note(live, "plays as it was heard")
    assert live.page.locator("#live-text").input_value() == TEXT
    assert sum(live.page.evaluate("window.shifts")) < 0.05
    play = live.page.get_by_role("button", name="Play", exact=True).first
    assert play.bounding_box()["width"] >= 70
    assert play.evaluate("one => one === document.activeElement"), "a key plays it"
    live.page.keyboard.press(key)
    live.wait_lit(6)
    live.wait_phase("idle")
    assert live.events("ready") == [], "the server did not speak"
    resumes = live.resumes()
    assert np.array_equal(without_fades(live.rendered(), resumes), without_fades(sender.sent(), resumes))
    live.page.get_by_role("button", name="Play", exact=True).first.click()
    live.wait_lit(12)
    live.wait_phase("idle")
    live.type("now mine ")
    live.finish(spoken=4)
    assert live.page.locator(".shared").count() == 0 and "heard=" not in live.page.url


def test_opening_a_comparison_moves_nothing(live: LivePage) -> None:
    live.type(TEXT)
    live.finish(spoken=1)
    live.page.wait_for_selector('[data-get="compare"]:not([hidden])')
    address = live.page.locator('[data-get="compare"]').get_attribute("href")
    live.page.add_init_script(SHIFTS)
    live.page.goto(address)
    live.page.locator('.compare[data-state="open"] .ways button').first.wait_for(timeout=TRACE_MS)
    assert sum(live.page.evaluate("window.shifts")) < 0.05


def test_link_without_its_recording_offers_to_speak_again(go: Callable[..., Any], server: Any) -> None:
    live = go(f"{server.url}?text=so+it+is+&heard={MISSING}")
    _note(live, "no longer has this recording")
    live.page.get_by_role("button", name="Speak it again").click()
    live.wait_spoken()
    assert [event["word"] for event in live.events("committed")] == ["so", "it", "is"]
    assert live.page.locator(".shared").count() == 0


def test_link_without_recording_and_text_says_so(go: Callable[..., Any], server: Any) -> None:
    live = go(f"{server.url}?heard={MISSING}")
    _note(live, "cannot be spoken again")
    assert live.page.locator(".shared-play").is_hidden()
    live.page.locator(".shared").get_by_role("button", name="Close").click()
    assert live.page.locator(".shared").count() == 0
    live = go(f"{server.url}?heard=../../x")
    assert live.page.locator(".shared").count() == 0


def test_last_utterance_is_saved_as_a_clip(live: LivePage) -> None:
    live.type(TEXT)
    live.finish(spoken=1)
    button = live.page.locator('[data-do="clip"]:not([disabled])')
    with live.page.expect_download(timeout=TRACE_MS) as clip:
        button.click()
    assert clip.value.suggested_filename.split(".") == ["so-it-goes-on-and-on", clip_ending(live)]
    assert clip.value.path().stat().st_size > 10_000
    assert button.text_content() == "Save a clip"


def clip_ending(live: LivePage) -> str:
    """MP4 where the browser can record it."""
    script = "MediaRecorder.isTypeSupported('video/mp4;codecs=vp9,opus')"
    return "mp4" if live.page.evaluate(script) else "webm"
