"""The race: the same keys to two lanes on one clock, word by word and a sentence at a time."""

import struct
from collections.abc import Callable
from pathlib import Path

from ui.live_page import LivePage

TEXT = "One two three four five six."
LANES = """() => {
  const { record, text } = document.querySelector('.live').tap.page.race;
  return { text, keys: record.keys, firstWordMs: record.firstWordMs, secondMs: record.secondMs, endMs: record.endMs,
    lanes: record.lanes.map(({ firstMs, lit, levels: all }) => {
      return { firstMs, lit, bars: all.filter((level) => level > 0).length };
    }) };
}"""


def _over(live: LivePage) -> None:
    live.page.wait_for_selector('.race[data-state="over"]')


def test_the_race_is_measured_and_can_be_shared(live: LivePage, tmp_path: Path) -> None:
    live.page.locator("#live-text").fill(TEXT)
    live.press("race")
    _over(live)
    found = live.page.evaluate(LANES)
    words, sentences = found["lanes"]
    assert found["text"] == TEXT
    assert "".join(key["text"] for key in found["keys"]) == TEXT
    assert abs(found["keys"][-1]["tMs"] - 6 * 400) < 100, "150 words a minute"
    assert found["firstWordMs"] < words["firstMs"] < found["keys"][-1]["tMs"] < sentences["firstMs"]
    earlier_s = (sentences["firstMs"] - words["firstMs"]) / 1000
    told = live.page.locator(".race-said").text_content()
    assert f"heard {earlier_s:.1f} s earlier" in told and "Measured in this run" in told
    assert len(words["lit"]) == len(sentences["lit"]) == 6
    assert words["bars"] > 20 and sentences["bars"] > 20
    assert all(start < end for start, end in words["lit"])
    assert sentences["lit"][0][0] >= max(found["secondMs"], words["lit"][-1][0]), "first the one, then the other"

    with live.page.expect_download() as picture:
        live.page.locator('[data-share="picture"]').click()
    data = Path(picture.value.path()).read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1200, 630)
    with live.page.expect_download() as clip:
        live.page.locator('[data-share="clip"]').click()
    assert Path(clip.value.path()).stat().st_size > 20_000
    live.page.wait_for_function("document.querySelector('.share output').textContent.includes('The clip is saved')")


def test_a_key_ends_the_race_and_is_spoken(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.press("race")
    live.page.wait_for_selector('.race[data-state="running"]')
    live.type("hello you ")
    live.page.wait_for_selector('.race[data-state="idle"]')
    live.finish()
    live.wait_said()
    assert [event["word"] for event in live.events("committed")] == ["hello", "you"]


def test_what_is_too_long_for_a_race_is_cut_at_a_sentence(live: LivePage) -> None:
    script = """async (texts) => {
      const base = document.querySelector('.live').tap.page.player.base;
      const { raceText } = await import(base + '/live/race/race.js');
      return texts.map(raceText);
    }"""
    long = "one two three. " * 20
    short, cut, endless = live.page.evaluate(script, ["  a  b ", long, "word " * 60])
    assert short == "a b"
    assert cut == ("one two three. " * 13).strip()
    assert len(endless.split()) == 40
