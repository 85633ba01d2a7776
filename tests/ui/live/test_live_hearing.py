"""Playback of typed text: every sample in order; words light up when they are heard."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ui.live_page import RATE_HZ, LivePage, without_fades

from studio.bench.page.live import ear_script, lateness_ms

TEXT = "Speech flows from words as they arrive. "
WORDS = 7


def test_pasted_text_is_rendered_bit_exactly(live: LivePage) -> None:
    live.paste(TEXT)
    live.finish(spoken=1)
    made, heard = live.sent(), live.rendered()
    assert len(made) > RATE_HZ
    assert np.abs(made).max() > 1000
    resumes = live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))


def test_typed_words_light_in_order_and_not_early(visit: Callable[..., LivePage]) -> None:
    live = visit(script=ear_script(0.0))
    live.type(TEXT, delay_ms=95)
    live.finish(spoken=1)
    live.wait_lit(WORDS)
    assert [word["i"] for word in live.lit] == list(range(WORDS))
    late_ms = lateness_ms(live.page)
    assert min(late_ms) >= -6.0  # one block of samples
    assert min(late_ms) <= 40.0  # the fastest: a busy machine draws late, but never early
    heard, made, resumes = live.rendered(), live.sent(), live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))
    figures = live.figures
    assert figures["text"]["count"] > 0  # the voice was ahead of the typing
    assert figures["text"]["count"] + figures["stalls"]["count"] == len(resumes)
    server_ms = figures["server_ms"]
    assert server_ms is None or 1.0 <= server_ms < figures["first_audio_ms"]


def test_words_light_later_with_output_latency(visit: Callable[..., LivePage]) -> None:
    live = visit(script=ear_script(300.0))
    live.paste(TEXT * 2)
    live.finish()
    live.wait_lit(2 * WORDS)
    late_ms = lateness_ms(live.page)
    # No word is early and the fastest is on time: a busy machine draws others late.
    assert min(late_ms) == pytest.approx(300.0, abs=40.0)


def test_highlight_stops_when_the_context_is_suspended(live: LivePage) -> None:
    live.paste(TEXT + TEXT)
    live.finish()
    live.wait_lit(3)
    live.page.evaluate("document.querySelector('.live').tap.page.player.context.suspend()")
    live.page.wait_for_timeout(100)
    lit = len(live.lit)
    live.page.wait_for_timeout(700)
    assert len(live.lit) == lit < 2 * WORDS
    live.page.evaluate("document.querySelector('.live').tap.page.player.context.resume()")
    live.wait_lit(2 * WORDS)


def test_pause_and_resume_lose_nothing(live: LivePage) -> None:
    live.paste(TEXT)
    live.finish()
    live.wait_lit(2)
    live.press("speak")
    assert live.page.locator(".chip").text_content() == "Paused"
    live.page.wait_for_timeout(300)
    live.press("speak")
    live.wait_spoken()
    made, resumes = live.sent(), live.resumes()
    np.testing.assert_array_equal(without_fades(live.rendered(), resumes), without_fades(made, resumes))


def test_screen_readers_get_the_heard_text_on_request(live: LivePage) -> None:
    assert live.page.locator(".heard").get_attribute("aria-live") is None
    live.page.get_by_label("Announce spoken words").check()
    live.paste(TEXT)
    live.finish(spoken=1)
    live.page.wait_for_function("() => document.querySelector('.heard').textContent.includes('arrive')")
    assert live.page.locator(".heard").get_attribute("aria-live") == "polite"


SOUND = 0.01  # s: tolerated distance of a gap from a word boundary


def test_pauses_fall_between_words_and_are_explained(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    server = start_server("--speed", "0.5")
    live = visit(url=server.url)
    live.paste("alpha beta gamma delta epsilon zeta eta ")
    live.finish()
    assert "between words" in live.wait_status("can't keep up")
    live.wait_spoken()
    made, heard, resumes = live.sent(), live.rendered(), live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))
    starts = np.array([one["sample"] for one in live.events("word_start")])
    torn = [sample for sample in resumes if np.abs(starts - sample).min() > SOUND * RATE_HZ]
    judged = [sample for sample in torn if sample > 2 * RATE_HZ]
    assert len(resumes) > len(torn) and judged == [], "only between words once it is known to be slow"


# Playwright's evaluate and locators count as gestures, so only mouse and keyboard are used until the end.
WATCH = """
window.made = [];
const Real = window.AudioContext;
window.AudioContext = class extends Real {
  constructor(options) {
    super(options);
    window.made.push(this);
  }
};
"""


def test_first_gesture_is_a_key_in_the_focused_field(launch: Callable[..., Any], server: Any) -> None:
    page = launch(any_time=False).new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.add_init_script(WATCH)
    page.goto(f"{server.url}?tap=1")
    page.wait_for_timeout(3000)
    page.keyboard.type("The first words that anyone hears. ", delay=50)
    page.wait_for_timeout(2500)
    live = LivePage(page, server.url)
    assert page.evaluate("window.made.map((one) => one.state)") == ["running"], "one, created before"
    assert [word["i"] for word in live.lit] == list(range(6))
    assert np.abs(live.rendered()).max() > 1000
    page.context.close()
