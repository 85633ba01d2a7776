"""On stage, on a telephone with its keyboard open, and at a slow writer's pace."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.live_page import LivePage


@pytest.fixture
def stage(visit: Callable[..., LivePage]) -> LivePage:
    live = visit(color_scheme="light")
    live.page.goto(f"{live.url}?tap=1&stage")
    live.page.wait_for_selector(".live[data-talk] .options input", state="attached")
    return live


def test_on_stage_there_are_field_words_and_one_number_large_and_dark(stage: LivePage) -> None:
    page = stage.page
    assert page.evaluate("document.body.classList.contains('dark')")
    for shown in ("#live-text", '[data-figure="first"]', ".talk"):
        assert page.locator(shown).is_visible()
    for gone in (".masthead", ".race", ".stage", ".settings", ".llm", ".examples"):
        assert page.locator(gone).is_hidden(), gone
    assert float(page.locator("#live-text").evaluate("(n) => parseFloat(getComputedStyle(n).fontSize)")) >= 40
    page.get_by_text("Prepared texts", exact=True).click()
    page.get_by_label("Prepared texts, one a line").fill("alpha beta gamma delta\nsecond text to say")
    page.keyboard.press("Control+2")
    stage.wait_lit(1)
    page.keyboard.press("Escape")
    stage.wait_phase("idle")
    assert page.locator("#live-text").input_value() in "second text to say"
    page.reload()
    page.wait_for_selector(".live .options input", state="attached")
    assert [text[2:] for text in page.locator(".talk-texts button").all_text_contents()] == [
        "alpha beta gamma delta",
        "second text to say",
    ]


def test_on_stage_the_sound_is_checked_and_has_a_volume(stage: LivePage) -> None:
    stage.page.get_by_label("Volume").fill("40")
    gain = stage.page.evaluate("document.querySelector('.live').tap.page.player.volume")
    assert gain == 0.4
    stage.page.get_by_role("button", name="Check the sound").click()
    stage.page.wait_for_function(
        "document.querySelector('.talk output').textContent.includes('Sound leaves this page')"
    )


def test_a_telephone_with_its_keyboard_open_shows_field_words_and_number(visit: Callable[..., LivePage]) -> None:
    live = visit(viewport={"width": 390, "height": 430}, has_touch=True, is_mobile=True)
    live.type("Speech flows from words as they arrive on a telephone ", delay_ms=20)
    live.wait_lit(2)
    live.page.wait_for_function("document.querySelector('[data-figure=first]').textContent.includes('s')")
    for name in ("#live-text", '[data-figure="first"]', '[data-do="stop"]'):
        box = live.page.locator(name).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 430, name
    assert live.page.evaluate("CSS.highlights.get('live-heard').size + CSS.highlights.get('live-now').size") >= 1
    assert live.page.evaluate("document.documentElement.scrollWidth") <= 390


def _gaps(live: LivePage) -> int:
    return len(live.resumes(int(live.turns[-1]["play"])))


def test_smooth_mode_speaks_by_phrases_to_who_types_slowly(live: LivePage) -> None:
    text = "one two three four, five six seven eight "
    live.type(text, delay_ms=110)  # about a word in half a second; the fake voice needs less
    live.finish()
    live.wait_said()
    torn = _gaps(live)
    live.press("clear")
    live.page.get_by_label("Smooth: speak by phrase").check()
    for take in range(2, 6):  # what else a machine has to do adds pauses to a take, and takes none away
        live.type(text, delay_ms=110)
        live.finish()
        live.wait_said(take)
        if _gaps(live) <= torn / 2:
            break
        live.press("clear")
    assert _gaps(live) <= torn / 2, "fewer pauses"
    told = live.page.locator(".pace").text_content()
    assert told.startswith("You type ") and "the voice speaks" in told
    play = live.turns[-1]["play"]
    turns = [turn for turn in live.turns if turn["play"] == play and turn["playing"]]
    assert min(turn["rate"] for turn in turns) < 1.0, "it follows the typist"
    assert live.turns[-1]["sample"] == live.events("ended")[-1]["samples"], "all of it was heard"
    assert [word["i"] for word in live.lit][-8:] == [*range(8)]


def test_phrases_follow_the_pace(live: LivePage) -> None:
    script = """async () => {
      const { base } = document.querySelector('.live').tap.page.player;
      const { Phrases, phraseWords, typedWpm } = await import(base + '/live/worker/pacing.js');
      const words = (ms) => Array.from({ length: 9 }, (_, k) => ({ word: k === 1 ? 'so,' : 'word', keyMs: k * ms }));
      const ends = (ms) => {
        const phrases = new Phrases();
        const all = words(ms);
        return all.map((_, i) => i).filter((i) => phrases.isOver(all.slice(0, i + 1), i));
      };
      return [[null, 42, 60, 119, 150].map(phraseWords), Math.round(typedWpm(words(1000))), ends(1000), ends(300)];
    }"""
    sizes, wpm, slow, quick = live.page.evaluate(script)
    assert sizes == [3, 3, 4, 7, 1]
    assert wpm == 60
    assert slow == [1, 5], "at the comma, then four words later"
    assert quick == [*range(1, 9)]


def test_slower_speech_has_the_same_pitch(live: LivePage) -> None:
    script = """async (hz) => {
      const { base } = document.querySelector('.live').tap.page.player;
      const { Stretch } = await import(base + '/sound/stretch.js');
      const ring = Float32Array.from({ length: 65536 }, (_, k) => Math.sin((2 * Math.PI * hz * k) / 24000));
      const stretch = new Stretch(ring, 24000);
      stretch.begin(0, 0.8);
      const out = [];
      for (let value; (value = stretch.next(48000)) !== undefined; ) out.push(value);
      let crossings = 0;
      let jump = 0;
      for (let k = 1; k < out.length; k++) {
        crossings += out[k - 1] < 0 && out[k] >= 0;
        jump = Math.max(jump, Math.abs(out[k] - out[k - 1]));
      }
      return [out.length / 24000, (crossings * 24000) / out.length, jump, stretch.sample];
    }"""
    seconds, hz, jump, sample = live.page.evaluate(script, 220)
    assert 2.45 < seconds < 2.52, "two seconds at 0.8"
    assert abs(hz - 220) < 4
    assert jump < 0.09, "no clicks: a sine of 220 Hz moves by 0.058 a sample"
    assert sample == 48_000


def test_what_was_said_can_be_copied(visit: Callable[..., LivePage]) -> None:
    live = visit(permissions=["clipboard-read", "clipboard-write"])
    live.type('say "so" ')
    live.finish()
    live.wait_said()
    live.page.wait_for_selector('[data-get="heard"]:not([hidden])')

    def copied(name: str, what: str) -> Any:
        live.press(name)
        live.wait_status(f"The {what} is copied")
        return live.page.evaluate("navigator.clipboard.readText()")

    link = copied("link", "link")
    assert "text=say+%22so%22+" in link and "tap" not in link
    python = copied("python", "Python")
    compile(python, "copied", "exec")
    assert '"say \\"so\\" "' in python and 'voice="tone:low"' in python and "m=3" in python
    curl = copied("curl", "command")
    assert curl.startswith("curl -o speech.wav 'http://") and curl.endswith(".wav?as_heard=1'")
