"""Speed and expressiveness on the Live page."""

import json
import urllib.request
import zipfile
from io import BytesIO
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tones import RATE_HZ
from ui.live_page import LivePage, without_fades

TEXT = "Speech flows from words as they arrive. "


def meta(live: LivePage) -> dict[str, Any]:
    """What the last utterance's trace says of it."""
    live.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    address = live.page.locator('[data-get="trace"]').get_attribute("href")
    with urllib.request.urlopen(address, timeout=60.0) as answer, zipfile.ZipFile(BytesIO(answer.read())) as trace:
        return json.loads(trace.read("meta.json"))


def shown_speed(live: LivePage) -> str:
    return live.page.locator("div.slider:has(#live-option-speed) output").inner_text()


def level(live: LivePage) -> str | None:
    """The chosen expressiveness; None between two."""
    chosen = live.page.locator(".manner input[type=radio]:checked")
    return chosen.get_attribute("value") if chosen.count() else None


def test_text_is_spoken_at_the_speed_and_words_light_up_in_it(live: LivePage) -> None:
    lengths, ends = [], []
    for count, speed in enumerate(("1", "2"), 1):
        live.page.locator("#live-option-speed").fill(speed)
        assert shown_speed(live) == f"{speed}×"
        live.type(TEXT)
        live.finish(count)
        sent, rendered = live.sent(), live.rendered(count)
        assert np.array_equal(*(without_fades(pcm, live.resumes(count)) for pcm in (sent, rendered)))
        lengths.append(len(sent))
        ends.append([event["sample"] for event in live.events("word_end")][-7:])
        assert meta(live).get("speed", 1) == int(speed)
        live.press("clear")
    assert abs(2 * lengths[1] / lengths[0] - 1.0) < 0.05
    assert all(abs(one / 2 - two) < 0.05 * RATE_HZ for one, two in zip(*ends, strict=True))
    assert len(live.lit) == 14


def test_speed_is_in_the_address_and_in_the_history(live: LivePage) -> None:
    page = live.page
    page.goto(f"{live.url}?tap=1&speed=1.5&text=Hello+there.")
    page.wait_for_selector(".live .options input", state="attached")
    assert shown_speed(live) == "1.5×" and page.locator(".settings-note").inner_text() == ""
    live.press("speak")
    live.wait_spoken()
    assert meta(live)["speed"] == 1.5
    page.wait_for_selector(".history li")
    assert "speed=1.5" in page.locator("[data-history=compare]").first.get_attribute("href")
    assert "speed=1.5" in page.evaluate("document.querySelector('.live').live.address.link('')")
    page.locator("#live-option-speed").fill("1")
    page.wait_for_function("() => !location.search.includes('speed')")
    page.goto(f"{live.url}?tap=1&speed=3")
    page.wait_for_selector(".live .options input", state="attached")
    assert "for speed 3: it must be from 0.5 to 2" in page.locator(".settings-note").inner_text()


def test_another_speed_waits_for_the_next_text(live: LivePage) -> None:
    live.type("one two three four ")
    live.wait_lit(1)
    live.page.locator("#live-option-speed").fill("1.2")
    assert live.page.locator(".settings-note").inner_text() == "The speed changes with the next text."
    live.finish(1)
    assert "speed" not in meta(live)


def test_expressiveness_and_temperature_are_kept_in_step(live: LivePage) -> None:
    page = live.page
    live.open_advanced()
    temperature = page.locator("#live-temperature")
    assert (level(live), temperature.input_value()) == ("Normal", "0.7")
    for name, value in (("Lively", "1.05"), ("Calm", "0.35"), ("Normal", "0.7")):
        page.get_by_text(name, exact=True).click()
        assert (level(live), temperature.input_value()) == (name, value)
    page.wait_for_function("() => !location.search.includes('temperature')")
    for value, name in (("0.35", "Calm"), ("0.5", None), ("0.7", "Normal"), ("1.05", "Lively")):
        temperature.fill(value)
        assert level(live) == name
    page.wait_for_url("**temperature=1.05*")
    live.type("Hello there. ")
    live.finish(1)
    assert meta(live)["temperature"] == 1.05
    page.reload()
    page.wait_for_selector(".live .options input", state="attached")
    assert level(live) == "Lively"


def test_a_voice_without_a_temperature_has_no_expressiveness(live: LivePage) -> None:
    assert live.page.locator(".manner fieldset").is_visible()
    live.page.evaluate("""() => {
      const { settings } = document.querySelector(".live").live;
      settings.setVoices(settings.voices.map((voice) => ({ ...voice, temperature: 0 })));
    }""")
    assert not live.page.locator(".manner fieldset").is_visible()
    assert live.page.locator("#live-option-speed").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_the_controls_fit_below_each_other(visit: Any, width: int, scheme: str) -> None:
    live = visit(viewport={"width": width, "height": 900}, color_scheme=scheme)
    live.page.wait_for_selector(".options .control")
    boxes = [one.bounding_box() for one in live.page.locator(".settings > :is(.options, .manner) > .control").all()]
    columns = 2 if width == 390 else 1  # a phone has the first two side by side
    assert len(boxes) == 4 and len({round(box["x"]) for box in boxes}) == columns
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(boxes[columns - 1 :]))
    assert all(box["x"] + box["width"] <= width for box in boxes)
