"""The race: the same keys to two lanes on one clock, word by word and a sentence at a time."""

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


def test_the_race_is_measured_and_can_be_shared(live: LivePage, tmp_path: Path) -> None:
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
    earlier_s = (waited[1] - waited[0]) / 10  # the difference of the two figures that are shown, to the digit
    told = live.page.locator(".race-said").text_content()
    assert f"heard {earlier_s:.1f} s earlier" in told and "Measured in this run" in told
    assert len(words["lit"]) == len(sentences["lit"]) == WORDS
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


def test_words_heard_between_two_pictures_are_lit_too(live: LivePage) -> None:
    """A page that is drawn late: nothing is drawn from the fifth word of each lane on until the lane is over."""
    found = live.page.evaluate("""async () => {
      const { Record } = await import(document.querySelector('.live').tap.page.player.base + '/live/race/record.js');
      const record = new Record("One two three four five six.", 60, ["a", "b"]);
      const words = ["One", "two", "three", "four", "five", "six."];
      for (const k of [0, 1]) {
        let from = 0;
        words.forEach((word, i) => {
          record.event(k, { type: "committed", i, char_start: from, char_end: from + word.length });
          record.event(k, { type: "word_start", i, sample: 1000 * i });
          record.event(k, { type: "word_end", i, sample: 1000 * i + 900 });
          from += word.length + 1;
        });
      }
      for (const tMs of [100, 200, 300, 400]) record.light(0, 10 * tMs - 50, tMs);
      record.second(900);
      for (const tMs of [1000, 1100]) record.light(1, 10 * (tMs - 900) - 50, tMs);
      record.second(1200);
      record.end(2000);
      return { second: record.secondMs, lit: record.lanes.map((lane) => lane.lit) };
    }""")
    assert found["second"] == 900
    assert found["lit"][0] == [[100, 100], [200, 200], [300, 300], [400, 400], [900, 900], [900, 900]]
    assert found["lit"][1] == [[1000, 1000], [1100, 1100], *[[2000, 2000]] * 4]


def test_every_line_of_a_race_is_seen_on_a_telephone(live: LivePage) -> None:
    """Forty words in both lanes, letters as small as they must be; the word being typed is whole, its rest faint."""
    drawn = live.page.evaluate("""async () => {
      const base = document.querySelector('.live').tap.page.player.base + '/live/race/';
      const [{ Record }, { drawRace, heightFor }] = [await import(base + 'record.js'), await import(base + 'paint.js')];
      const words = Array.from({ length: 40 }, (_, i) => `word${i}`);
      const record = new Record(words.join(" "), 150, ["a", "b"]);
      record.begin(Array.from(words.join(" ")).map((text, i) => ({ text, tMs: 10 * i })));
      const paint = document.createElement("canvas").getContext("2d");
      const height = heightFor(paint, record, 270, 14);
      const seen = [];
      paint.fillText = (text, x, y) => text && seen.push(text);
      const drawnAt = (tMs) => {
        seen.length = 0;
        drawRace(paint, record, tMs, { x: 0, y: 0, width: 270, height }, {}, 14);
        return [...seen];
      };
      return { whole: drawnAt(10000), half: drawnAt(21), height };
    }""")
    for i in range(40):
        assert drawn["whole"].count(f"word{i}") == 2
    assert drawn["height"] < 500
    assert drawn["half"].count("wor") == 2 and drawn["half"].count("d0") == 2


def test_any_voice_races_against_the_pages_own(live: LivePage) -> None:
    """The same keys to both, word by word; the second one has settings of its own."""
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
    assert first["firstMs"] < other["firstMs"], "three words are there before six"
    assert len(first["lit"]) == len(other["lit"]) == WORDS and other["bars"] > 20
    names = live.page.evaluate("document.querySelector('.live').tap.page.race.record.names")
    assert names == ["Tone (no model): Low, scheme S1, m 3, n 1", "Tone (no model): High, scheme S1, m 6, n 1"]
    told = live.page.locator(".race-said").text_content()
    assert told.startswith("Tone (no model): Low, scheme S1, m 3, n 1 was heard") and "earlier" in told
    assert names[1] in live.page.locator(".race canvas").get_attribute("aria-label")


def test_whom_to_race_against_is_in_the_address(live: LivePage) -> None:
    page = live.page
    page.locator("#race-second").select_option(label="Tone (no model): High")
    page.locator(".race-second summary").click()
    page.locator("#race-option-m").fill("6")
    page.wait_for_function("location.search.includes('against.m=6')")
    page.reload()
    page.wait_for_selector('#race-option-m[max="6"]', state="attached")
    assert page.locator("#race-second").input_value() == "tone:high"
    assert page.locator("#race-option-m").input_value() == "6"
    names = page.evaluate("document.querySelector('.live').tap.page.race.record.names")
    assert names[1] == "Tone (no model): High, scheme S1, m 6, n 1"
    page.locator("#race-second").select_option(index=0)
    page.wait_for_function("!location.search.includes('against')")
    page.goto(page.url + "&against=tone:high&against.m=2.5&against.n=9")
    page.wait_for_selector("#race-option-m", state="attached")
    assert page.locator("#race-option-m").input_value() == page.locator("#live-option-m").input_value(), "as usual"


def test_settings_that_do_not_fit_end_the_race_and_say_why(live: LivePage) -> None:
    live.page.locator("#race-second").select_option(label="Tone (no model): Low")
    live.page.locator(".race-second summary").click()
    live.page.locator("#race-option-n").fill("6")
    live.press("race")
    live.page.wait_for_function("document.querySelector('.race-said').textContent.includes('hop')")
    assert live.page.locator(".race").get_attribute("data-state") == "idle"
    assert live.page.locator("#race-second").is_enabled()


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
