"""Without the autoplay flag: the sound is prepared, and silent until a person does something."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ui.live_page import LivePage

# Playwright's evaluate and locators count as gestures, so until the end only the mouse and the keyboard are used.
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


def test_the_first_gesture_is_a_key_in_the_field_that_has_the_cursor(launch: Callable[..., Any], server: Any) -> None:
    page = launch(any_time=False).new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.add_init_script(WATCH)
    page.goto(f"{server.url}?tap=1")
    page.wait_for_timeout(3000)
    page.keyboard.type("The first words that anyone hears. ", delay=50)
    page.wait_for_timeout(2500)
    live = LivePage(page, server.url)
    assert page.evaluate("window.made.map((one) => one.state)") == ["running"], "one, and it was there before"
    assert [word["i"] for word in live.lit] == list(range(6))
    assert np.abs(live.rendered()).max() > 1000
    page.context.close()
