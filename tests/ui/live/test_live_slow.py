"""A server that makes speech more slowly than it is heard: the page says so, and no word is torn."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ui.live_page import RATE_HZ, LivePage, without_fades

SOUND = 0.01  # s: what a gap may be off a word's edge


def test_pauses_fall_between_words_and_the_page_says_why(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    server = start_server("--speed", "0.5")
    live = visit(url=server.url)
    live.paste("alpha beta gamma delta epsilon zeta eta ")
    live.finish()
    assert "between words" in live.wait_status("slower than real time")
    live.wait_said()
    made, heard, resumes = live.sent(), live.rendered(), live.resumes()
    np.testing.assert_array_equal(without_fades(heard, resumes), without_fades(made, resumes))
    starts = np.array([one["sample"] for one in live.events("word_start")])
    torn = [sample for sample in resumes if np.abs(starts - sample).min() > SOUND * RATE_HZ]
    judged = [sample for sample in torn if sample > 2 * RATE_HZ]
    assert len(resumes) > len(torn) and judged == [], "once it is known to be slow, only between words"
