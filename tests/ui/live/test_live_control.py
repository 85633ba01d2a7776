"""Stop, clear, replay, sentence mode, settings, the LLM box, downloads."""

import json
import urllib.request
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from ui.live_page import LivePage, without_fades
from ui.waits import comes_to

TEXT = "Speech flows from words as they arrive. Nobody waits for it. "
WORDS = 11


def _events(live: LivePage) -> list[dict[str, Any]]:
    """The events of the trace that the page offers."""
    live.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    address = live.page.locator('[data-get="trace"]').get_attribute("href")
    with urllib.request.urlopen(address, timeout=10.0) as answer, zipfile.ZipFile(BytesIO(answer.read())) as trace:
        return [json.loads(line) for line in trace.read("events.jsonl").splitlines()]


def test_stop_shows_which_words_were_heard(live: LivePage) -> None:
    live.paste(TEXT)
    live.wait_lit(3)
    live.press("stop")
    live.wait_spoken()
    message = live.wait_status("Stopped. You heard")
    (cancelled,) = live.events("cancelled")
    heard = len(cancelled["heard"])
    assert heard < WORDS
    assert f"{heard} word" in message
    assert len(live.rendered()) == cancelled["sample"]
    lit = len(live.lit)
    live.page.wait_for_timeout(400)
    assert len(live.lit) == lit
    assert [event["type"] for event in _events(live)][-2:] == ["cancelled", "ended"]


def test_temperature_is_shown_beside_its_slider(live: LivePage) -> None:
    live.page.wait_for_selector("#live-option-m")
    live.open_advanced()
    shown = {
        name: live.page.locator(f"div.slider:has(#{name}) output") for name in ("live-temperature", "live-option-m")
    }
    before = shown["live-option-m"].inner_text()
    for value, text in (("0", "always the same"), ("0.35", "0.35")):
        live.page.locator("#live-temperature").fill(value)
        assert {name: one.inner_text() for name, one in shown.items()} == {
            "live-temperature": text,
            "live-option-m": before,
        }


def test_typing_after_the_end_starts_a_new_utterance(live: LivePage) -> None:
    live.type("first text ")
    live.finish(spoken=1)
    live.type("second one ")
    live.finish(spoken=2)
    assert live.page.locator("#live-text").input_value() == "first text second one "
    assert [event["word"] for event in live.events("committed")] == ["first", "text", "second", "one"]
    live.page.keyboard.press("End")
    live.type("and more ")
    live.finish(spoken=3)
    assert [event["word"] for event in live.events("committed")][4:] == ["and", "more"]


def test_clear_discards_text_and_speech(live: LivePage) -> None:
    live.paste(TEXT)
    live.wait_lit(2)
    live.press("clear")
    live.wait_spoken()
    live.wait_phase("idle")
    assert live.page.locator("#live-text").input_value() == ""
    live.type("fresh start ")
    live.wait_phase("open")
    live.finish(spoken=2)
    live.shows("was", ["fresh", "start"])


@pytest.mark.parametrize("key", ["", "Control+z"])
def test_clear_can_be_undone_without_speaking(live: LivePage, key: str) -> None:
    live.paste(TEXT)
    live.finish(spoken=1)
    opened = len(live.events("ready"))
    clear, field = live.page.locator('[data-do="clear"]'), live.page.locator("#live-text")
    clear.click()
    live.page.wait_for_function("() => document.querySelector('[data-do=clear]').textContent === 'Undo'")
    if key:
        live.page.keyboard.press(key)
    else:
        clear.click()
    assert field.input_value() == TEXT
    assert clear.text_content() == "Clear"
    live.type("more ")
    live.finish(spoken=2)
    assert len(live.events("ready")) == opened + 1
    assert field.input_value() == TEXT + "more "
    live.shows("w", ["more"])


def test_text_goes_on_after_ctrl_enter(live: LivePage) -> None:
    """Nothing is selected that the next key would delete."""
    live.paste(TEXT)
    live.finish()
    live.page.keyboard.type("x")
    assert live.page.locator("#live-text").input_value() == TEXT + "x"
    live.finish(spoken=2)


PICTURE = """() => {
  const { page } = document.querySelector('.live').tap;
  const text = (selector) => Array.from(document.querySelectorAll(selector), (node) => node.textContent);
  page.scope.drawnAt = 0;
  page.scope.dirty = true;
  page.scope.draw(0, false, performance.now()); // what the next frame would show
  return {
    caption: text('.words'),
    figures: text('.figures :is(dt, dd), .bars dd'),
    marks: Array.from(document.querySelectorAll('.figures .bad'), (node) => node.dataset.figure),
    off: Array.from(document.querySelectorAll('.after :disabled, .compare :disabled'), (node) => node.dataset.do),
    shown: Array.from(document.querySelectorAll('[data-get]'), (node) => !node.hidden),
    spectrogram: page.scope.canvas.toDataURL(),
  };
}"""


# The spectrogram's size comes after the page's first layout.
LAID_OUT = """() => {
  const { canvas, width } = document.querySelector('.live').tap.page.scope;
  return width > 0 && Math.round(width) === Math.round(canvas.clientWidth);
}"""


@pytest.mark.parametrize("is_heard_out", [True, False])
def test_clear_restores_the_initial_page(live: LivePage, is_heard_out: bool) -> None:
    live.page.wait_for_function(LAID_OUT)
    at_start = live.page.evaluate(PICTURE)
    live.paste(TEXT)
    live.wait_lit(4)
    if is_heard_out:
        live.finish(spoken=1)
        live.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    assert live.page.evaluate(PICTURE)["spectrogram"] != at_start["spectrogram"]
    live.press("clear")
    live.wait_spoken()
    live.page.wait_for_timeout(600)  # late messages of the server have arrived
    comes_to(lambda: live.page.evaluate(PICTURE), at_start)
    assert live.page.locator(".status").text_content() == ""
    live.type("fresh start ")
    live.finish(spoken=2)
    live.shows("was", ["fresh", "start"])
    live.page.wait_for_selector('[data-get="trace"]:not([hidden])')
    assert live.page.locator('[data-do="replay"]').is_enabled()


def test_stop_drops_the_pending_utterance(live: LivePage) -> None:
    live.paste(" ".join([TEXT] * 6))  # not over before Stop on a busy machine
    live.wait_lit(2)
    live.press("llm")
    live.wait_status("Next in the queue")
    live.press("stop")
    live.wait_spoken()
    live.page.wait_for_timeout(500)
    assert live.page.locator(".live").get_attribute("data-phase") == "idle"
    assert live.page.locator(".live").get_attribute("data-spoken") == "1"


def test_text_typed_during_playback_is_the_next_utterance(live: LivePage) -> None:
    live.type("first text ")
    live.finish()
    live.page.keyboard.press("End")
    live.type("and more ")  # the server's `ended` for the first one arrives in between
    live.finish(spoken=2)
    assert [event["word"] for event in live.events("committed")] == ["first", "text", "and", "more"]


def test_example_chosen_during_speech_is_spoken_to_its_end(live: LivePage) -> None:
    live.paste(TEXT)
    live.wait_lit(2)
    live.page.locator(".examples button").first.click()  # it is finished while the old text is being stopped
    live.wait_spoken(2)
    (wanted,) = live.page.evaluate("[document.querySelector('.examples button').title]")
    assert live.events("committed")[-1]["word"] == wanted.split()[-1]
    live.page.wait_for_function(
        "count => document.querySelectorAll('.words .was').length === count", arg=len(wanted.split())
    )


def test_replay_repeats_the_sound_with_its_pauses(live: LivePage) -> None:
    live.type("one small word ", delay_ms=110)
    live.page.wait_for_timeout(400)
    live.type("after another ", delay_ms=110)
    live.finish(spoken=1)
    once = live.rendered(1)
    live.press("replay")
    live.wait_spoken(2)
    again = live.rendered(2)
    resumes = sorted({*live.resumes(1), *live.resumes(2)})
    np.testing.assert_array_equal(without_fades(again, resumes), without_fades(once, resumes))
    gaps = {
        play: [(t["sample"], t["gap"]) for t in live.turns if t["play"] == play and t["gap"] > 0] for play in (1, 2)
    }
    assert gaps[1]
    assert gaps[2] == gaps[1]
    assert [word["i"] for word in live.lit] == [0, 1, 2, 3, 4] * 2


def test_sentence_mode_says_the_same_later(live: LivePage) -> None:
    live.type("It speaks while the words are still on their way. Then again it does. ", delay_ms=60)
    live.finish(spoken=1)
    said = [event["word"] for event in live.events("committed")]
    assert live.page.get_by_role("button", name="Hear it by sentences").count() == 1
    live.press("old")
    live.wait_spoken(2)
    assert [event["word"] for event in live.events("committed")] == said * 2
    early, late = (live.page.locator(f'[data-time="{way}"]').text_content() for way in ("live", "old"))
    assert float(late.split()[0]) > float(early.split()[0]) > 0.0
    arrivals = [event for event in _events(live) if event["type"] == "text"]
    assert [event["text"] for event in arrivals] == [
        "It speaks while the words are still on their way. ",
        "Then again it does. ",
    ]


def test_language_model_types_at_its_rate(live: LivePage) -> None:
    live.page.locator("#live-llm").fill("Tokens come one by one and are spoken at once.")
    live.page.locator("#live-rate").fill("10")
    live.press("llm")
    live.wait_spoken()
    arrivals = [event for event in _events(live) if event["type"] == "text"]
    assert "".join(event["text"] for event in arrivals) == "Tokens come one by one and are spoken at once."
    assert len(arrivals) >= 10
    span_ms = arrivals[-1]["t_ms"] - arrivals[0]["t_ms"]
    assert abs(span_ms - (len(arrivals) - 1) * 100.0) < 400.0
    assert len({word["i"] for word in live.lit}) == 10


def test_hop_is_at_most_the_window(live: LivePage) -> None:
    live.page.locator('[data-option="n"]').fill("5")
    assert live.page.locator('[data-option="n"]').input_value() == "3"
    assert "cannot be more than the look-ahead, which is 3" in live.page.locator(".settings-note").text_content()
    live.page.locator('[data-option="m"]').fill("2")
    assert live.page.locator('[data-option="n"]').input_value() == "2"


@pytest.mark.parametrize(
    ("query", "messages", "settings"),
    [
        (
            "m=2&n=5",
            ["for n 5 with m 2: words per step cannot be more than the look-ahead, so it is 2"],
            {"m": "2", "n": "2"},
        ),
        (
            "voice=nobody&m=9&seed=-1&temperature=9&speaker=everybody",
            [
                "for voice nobody: this server has no such voice, and uses Tone (no model)",
                "for m 9: it must be from 1 to",
                "for seed -1: it must be a whole number from 0 to",
                "for temperature 9: it must be from 0 to 1.5",
                "for speaker everybody: Tone (no model) has low, high",
            ],
            {},
        ),
        ("m=2&n=2&seed=7", [], {"m": "2", "n": "2", "seed": "7"}),
    ],
)
def test_invalid_url_parameters_are_reported(
    live: LivePage, query: str, messages: list[str], settings: dict[str, str]
) -> None:
    live.page.goto(f"{live.url}?tap=1&{query}&text=one+two+three")
    live.page.wait_for_selector(".live .options input", state="attached")
    note = live.page.locator(".settings-note").text_content() or ""
    assert all(sentence in note for sentence in messages) and note.count("The address asks for") == len(messages)
    live.press("speak")
    live.wait_lit(2)
    assert live.page.locator('.status[data-level="error"]').count() == 0
    names = ("voice", "m", "n", "seed", "temperature", "speaker")
    live.page.wait_for_function(  # the URL is written shortly after the last change, perhaps after a word is lit
        """wanted => Object.entries(wanted).every(
            ([name, value]) => new URLSearchParams(location.search).get(name) === value)""",
        arg={name: settings.get(name) for name in names},
    )


def test_queued_settings_are_announced_during_an_utterance(live: LivePage) -> None:
    speaker, note = live.page.locator('[data-set="speaker"]'), live.page.locator(".voice-card .voice-note")
    speaker.select_option("high")
    assert note.text_content() == ""
    live.type("one two three four ")
    live.wait_lit(1)
    speaker.select_option("low")
    assert note.text_content() == "The speaker changes with the next text."
    assert note.bounding_box()["y"] - speaker.bounding_box()["y"] < 80, "beside the control"
    live.page.locator('[data-option="m"]').fill("2")
    assert note.text_content(), "it still does"


def test_options_change_at_the_next_segment(live: LivePage) -> None:
    live.type("one two three four ")
    live.wait_lit(1)
    live.page.locator('[data-option="m"]').fill("1")
    live.page.wait_for_function("() => document.querySelector('.settings-note').textContent.includes('Look-ahead 1')")
    live.type("five six ")
    live.finish(spoken=1)
    assert [event["options"]["m"] for event in live.events("options")] == [1]
    assert len(live.events("segment")[-1]["seen"]) == 1


def test_options_set_just_before_a_key_apply_to_it(live: LivePage) -> None:
    """In one task, as fast as a menu and a key can be: the Worker gets settings a moment later."""
    live.page.evaluate(
        """() => {
          const speaker = document.querySelector('[data-set="speaker"]');
          speaker.value = 'high';
          speaker.dispatchEvent(new Event('change', { bubbles: true }));
          document.querySelector('.live').tap.page.editor.set('hello ');
        }"""
    )
    live.finish(spoken=1)
    assert [event["speaker"] for event in live.events("ready")] == ["high"]


def test_voice_speaker_and_seed_reach_the_server(live: LivePage) -> None:
    live.page.locator('[data-set="speaker"]').select_option("high")
    live.open_advanced()
    live.page.locator('[data-set="seed"]').fill("42")
    live.page.locator('[data-set="seed"]').press("Tab")
    live.type("hello ")
    live.finish(spoken=1)
    (ready,) = live.events("ready")
    assert (ready["voice"], ready["speaker"], ready["seed"]) == ("tone", "high", 42)


@pytest.mark.parametrize("typed", ["", "-5", "1e99", "2.5", "e"])
def test_invalid_seed_is_refused_beside_its_field(live: LivePage, typed: str) -> None:
    live.open_advanced()
    seed = live.page.get_by_role("spinbutton", name="Seed")
    seed.fill("42")
    seed.press("Tab")
    seed.focus()
    live.page.keyboard.press("Control+A")
    live.page.keyboard.press("Delete")
    live.page.keyboard.type(typed)
    seed.press("Tab")
    said = live.page.locator("#live-seed-error")
    assert said.text_content() == "A seed is a whole number from 0 to 9007199254740991. The seed is still 42."
    assert said.get_attribute("role") == "status"
    assert said.is_visible()
    assert "live-seed-error" in seed.get_attribute("aria-describedby").split()
    assert seed.get_attribute("aria-invalid") == "true"
    live.page.locator('[data-option="m"]').fill("2")  # other settings keep the typed text
    live.page.wait_for_timeout(250)
    assert seed.get_attribute("aria-invalid") == "true"
    live.type("hello ")
    live.finish(spoken=1)
    assert [event["seed"] for event in live.events("ready")] == [42]
    seed.fill("7")
    seed.press("Enter")
    assert said.text_content() == ""
    assert seed.get_attribute("aria-invalid") == "false"


def test_example_speaks_with_one_click(live: LivePage) -> None:
    live.page.locator(".examples button").first.click()
    live.wait_lit(4)
    assert live.page.locator("#live-text").input_value().startswith("Hello there")
    live.press("stop")
    live.wait_spoken()


def test_keyboard_reaches_everything(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.page.locator("#live-text").focus()
    script = """() => {
      const { dataset, id, parentElement } = document.activeElement;
      if (document.activeElement.tagName === 'SUMMARY') return parentElement.className;
      return dataset.do ?? dataset.option ?? dataset.set ?? id;
    }"""
    seen = set()
    for _ in range(60):  # with the tips of terms
        live.page.keyboard.press("Tab")
        seen.add(reached := live.page.evaluate(script))
        if reached == "advanced":
            live.page.keyboard.press("Enter")
    wanted = {"speak", "clear", "m", "n", "voice", "temperature", "seed", "reseed", "llm", "live-llm", "live-rate"}
    assert wanted <= seen
