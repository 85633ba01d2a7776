"""What is typed is heard: every sample in order, and words light up when the ear hears them."""

from collections.abc import Callable

import numpy as np
import pytest
from ui.live_page import RATE_HZ, LivePage, without_fades

from studio.bench.page.highlight import ear_script, lateness_ms

TEXT = "Speech flows from words as they arrive. "
WORDS = 7


def test_pasted_text_is_rendered_bit_by_bit(live: LivePage) -> None:
    live.paste(TEXT)
    live.finish()
    live.wait_said()
    made, heard = live.sent(), live.rendered()
    assert len(made) > RATE_HZ
    assert np.abs(made).max() > 1000
    resumes = live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))


def test_typed_words_light_in_order_and_not_before_they_are_heard(visit: Callable[..., LivePage]) -> None:
    live = visit(script=ear_script(0.0))
    live.type(TEXT, delay_ms=95)
    live.finish()
    live.wait_said()
    live.wait_lit(WORDS)
    assert [word["i"] for word in live.lit] == list(range(WORDS))
    late_ms = lateness_ms(live.page)
    assert min(late_ms) >= -6.0  # a block of samples
    assert min(late_ms) <= 40.0  # the quickest: a busy machine draws late, but never early
    heard, made, resumes = live.rendered(), live.sent(), live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))
    figures = live.figures
    assert figures["text"]["count"] > 0  # the voice was ahead of the fingers
    assert figures["text"]["count"] + figures["stalls"]["count"] == len(resumes)
    assert 0.0 < figures["server_ms"] < figures["first_audio_ms"]


def test_words_light_later_where_the_sound_comes_later(visit: Callable[..., LivePage]) -> None:
    live = visit(script=ear_script(300.0))
    live.paste(TEXT * 2)
    live.finish()
    live.wait_lit(2 * WORDS)
    late_ms = lateness_ms(live.page)
    # No word is early, and the quickest is on time: a busy machine draws the others late.
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
    live.wait_said()
    made, resumes = live.sent(), live.resumes()
    np.testing.assert_array_equal(without_fades(live.rendered(), resumes), without_fades(made, resumes))


def test_screen_readers_are_told_what_was_heard_where_it_is_asked_for(live: LivePage) -> None:
    assert live.page.locator(".heard").get_attribute("aria-live") is None
    live.page.get_by_label("Announce spoken words").check()
    live.paste(TEXT)
    live.finish()
    live.wait_said()
    live.page.wait_for_function("document.querySelector('.heard').textContent.includes('arrive')")
    assert live.page.locator(".heard").get_attribute("aria-live") == "polite"
