"""The race: the same keys to two lanes on one clock, word by word and sentence by sentence."""

import struct
from collections.abc import Callable
from pathlib import Path

from ui.live_page import LivePage

TEXT = "One two three four five six seven eight nine ten."
WORDS = 10
LANES = """() => {
  const { record, text } = document.querySelector('.live').tap.page.race;
  return { text, keys: record.keys, firstWordMs: record.firstWordMs, secondMs: record.secondMs, endMs: record.endMs,
    lanes: record.lanes.map(({ firstMs, lit, levels: all }) => {
      return { firstMs, lit, bars: all.filter((level) => level > 0).length };
    }) };
}"""


def _over(live: LivePage) -> None:
    live.page.wait_for_selector('.race[data-state="over"]')


def test_race_is_measured_and_can_be_shared(live: LivePage, tmp_path: Path) -> None:
    live.page.locator("#live-text").fill(TEXT)
    live.press("race")
    _over(live)
    found = live.page.evaluate(LANES)
    words, sentences = found["lanes"]
    assert found["text"] == TEXT
    assert "".join(key["text"] for key in found["keys"]) == TEXT
    assert abs(found["keys"][-1]["tMs"] - WORDS * 400) < 100, "150 words a minute"
    assert found["firstWordMs"] < words["firstMs"] < found["keys"][-1]["tMs"] < sentences["firstMs"]
    waited = [int((lane["firstMs"] - found["firstWordMs"]) / 100 + 0.5) for lane in found["lanes"]]
    earlier_s = (waited[1] - waited[0]) / 10  # the difference of the displayed figures, to the digit
    result = live.page.locator(".race-status").text_content()
    assert f"heard {earlier_s:.1f} s earlier" in result and "Measured in this run" in result
    assert len(words["lit"]) == len(sentences["lit"]) == WORDS
    assert words["bars"] > 20 and sentences["bars"] > 20
    assert all(start < end for start, end in words["lit"])
    assert sentences["lit"][0][0] >= max(found["secondMs"], words["lit"][-1][0]), "one after the other"

    with live.page.expect_download() as picture:
        live.page.locator('[data-share="picture"]').click()
    data = Path(picture.value.path()).read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 630)
    with live.page.expect_download() as clip:
        live.page.locator('[data-share="clip"]').click()
    assert Path(clip.value.path()).stat().st_size > 20_000
    live.page.wait_for_function("() => document.querySelector('.share output').textContent.includes('Clip saved')")


def test_any_voice_races_against_the_selected_one(live: LivePage) -> None:
    """The same keys to both, word by word; the second has its own settings."""
    live.page.locator("#live-text").fill(TEXT)
    second = live.page.locator("#race-second")
    offered = second.locator("option").all_text_contents()
    assert offered == ["the same voice, a sentence at a time", "Tone (no model): Low", "Tone (no model): High"]
    assert not live.page.locator(".race-second details").is_visible()
    second.select_option(label="Tone (no model): High")
    live.page.locator(".race-second summary").click()
    live.page.locator("#race-option-m").fill("6")
    live.press("race")
    live.page.wait_for_selector('.race[data-state="running"]')
    assert second.is_disabled() and live.page.locator("#race-option-m").is_disabled()
    _over(live)
    found = live.page.evaluate(LANES)
    first, other = found["lanes"]
    assert first["firstMs"] < other["firstMs"], "three words before six"
    assert len(first["lit"]) == len(other["lit"]) == WORDS and other["bars"] > 20
    names = live.page.evaluate("document.querySelector('.live').tap.page.race.record.names")
    assert names == ["Tone (no model): Low, Look-ahead 3", "Tone (no model): High, Look-ahead 6"]
    result = live.page.locator(".race-status").text_content()
    assert result.startswith("Tone (no model): Low, Look-ahead 3 was heard") and "earlier" in result
    assert names[1] in live.page.locator(".race canvas").get_attribute("aria-label")


def test_opponent_is_in_the_url(live: LivePage) -> None:
    page = live.page
    page.locator("#race-second").select_option(label="Tone (no model): High")
    page.locator(".race-second summary").click()
    page.locator("#race-option-m").fill("6")
    page.wait_for_function("() => location.search.includes('against.m=6')")
    page.reload()
    page.wait_for_selector('#race-option-m[max="6"]', state="attached")
    assert page.locator("#race-second").input_value() == "tone:high"
    assert page.locator("#race-option-m").input_value() == "6"
    names = page.evaluate("document.querySelector('.live').tap.page.race.record.names")
    assert names[1] == "Tone (no model): High, Look-ahead 6"
    page.locator("#race-second").select_option(index=0)
    page.wait_for_function("() => !location.search.includes('against')")
    page.goto(page.url + "&against=tone:high&against.m=2.5&against.n=9")
    page.wait_for_selector("#race-option-m", state="attached")
    assert page.locator("#race-option-m").input_value() == page.locator("#live-option-m").input_value(), "as usual"


def test_invalid_settings_end_the_race_with_a_reason(live: LivePage) -> None:
    live.page.locator("#race-second").select_option(label="Tone (no model): Low")
    live.page.locator(".race-second summary").click()
    live.page.locator("#race-option-n").fill("6")
    live.press("race")
    live.page.wait_for_function("() => document.querySelector('.race-status').textContent.includes('hop')")
    assert live.page.locator(".race").get_attribute("data-state") == "idle"
    assert live.page.locator("#race-second").is_enabled()


def test_key_ends_the_race_and_is_spoken(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.press("race")
    live.page.wait_for_selector('.race[data-state="running"]')
    live.type("hello you ")
    live.page.wait_for_selector('.race[data-state="idle"]')
    live.finish(spoken=1)
    assert [event["word"] for event in live.events("committed")] == ["hello", "you"]
