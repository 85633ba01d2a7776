"""First impression: focus, first key, examples, latency figure, Esc, messages."""

import threading
from collections.abc import Callable

import pytest
from ui.live_page import LivePage
from ui.waits import comes_to

TEXT = "Speech flows from words as they arrive. "


def test_page_has_one_claim_and_focus_in_its_field(live: LivePage) -> None:
    assert live.page.locator("h1").count() == 1
    assert live.page.evaluate("document.activeElement.id") == "live-text"
    assert live.page.locator(".figures").is_hidden(), "figures are folded under Details"
    live.page.locator(".details summary").click()
    assert live.page.locator(".figures").is_visible()


def test_text_finished_before_the_page_is_ready_is_spoken(visit: Callable[..., LivePage]) -> None:
    live = visit()
    come = threading.Event()
    held = []

    def hold(route: object) -> None:
        held.append(route)
        come.set()

    live.page.route("**/studio-assets/*/live/live.js", hold)
    live.page.goto(f"{live.url}?tap=1", wait_until="commit")
    live.page.locator("#live-text").focus()
    live.page.keyboard.type("early words")
    live.finish()
    while not come.is_set():
        live.page.wait_for_timeout(20)
    held[0].continue_()
    live.wait_spoken()
    assert [event["word"] for event in live.events("committed")] == ["early", "words"]


def test_examples_type_themselves_and_yield_to_the_user(live: LivePage) -> None:
    live.page.locator(".examples button").first.click()
    live.wait_lit(1)
    assert 8 < len(live.page.locator("#live-text").input_value()) < 60, "it is still being typed"
    live.page.keyboard.type("!")
    value = live.page.locator("#live-text").input_value()
    live.page.wait_for_timeout(700)
    assert live.page.locator("#live-text").input_value() == value


def shown(value_ms: float) -> str:
    """A time as the page writes it."""
    return f"{value_ms:.0f} ms" if value_ms < 95 else f"{value_ms / 1000:.1f} s"


def test_first_sound_counts_from_the_first_word_and_the_delay_from_the_last(live: LivePage) -> None:
    live.type("It speaks while words are on their way. ", delay_ms=40)
    live.finish(spoken=1)
    live.page.locator(".details summary").click()
    number = live.page.locator('[data-figure="first"]')
    first = live.figures["from_first_word_ms"]
    assert number.text_content() == shown(first) and first > live.figures["first_audio_ms"]
    assert live.page.locator(".lead-value").text_content() == f"{live.figures['first_audio_ms']:.0f} ms"
    live.press("old")
    live.wait_spoken(2)
    assert live.figures["mode"] == "old"
    assert number.text_content() == shown(live.figures["from_first_word_ms"])
    assert live.figures["from_first_word_ms"] > first


def test_sentence_mode_is_off_for_pasted_text_with_a_reason(live: LivePage) -> None:
    live.paste(TEXT)
    live.finish(spoken=1)
    assert live.page.locator('[data-do="old"]').is_disabled()
    why = live.page.locator(".why-not")
    assert why.is_visible() and "Not available for pasted text" in why.text_content()
    live.press("clear")
    live.type("this was typed ")
    live.finish(spoken=2)
    assert live.page.locator('[data-do="old"]').is_enabled() and why.is_hidden()


@pytest.mark.parametrize("key", ["Escape", "Control+Enter"])
def test_escape_and_finish_stop_typing_and_speech(live: LivePage, key: str) -> None:
    live.page.locator(".examples button").nth(2).click()
    live.wait_lit(2)
    live.page.keyboard.press(key)
    live.wait_spoken()
    live.wait_phase("idle")
    value = live.page.locator("#live-text").input_value()
    live.page.wait_for_timeout(600)
    assert live.page.locator("#live-text").input_value() == value


def test_words_light_in_the_field_also_for_a_typing_model(live: LivePage) -> None:
    lit = """() => Object.fromEntries([...CSS.highlights].filter(([name]) => name.startsWith('live-'))
      .map(([name, ranges]) => [name.slice(5), [...ranges].map((range) => range.toString()).join('|')]))"""
    live.type("\U0001f600 one two three four five ", delay_ms=30)
    live.page.wait_for_function(f"() => ['one', 'two', 'three', 'four'].includes(({lit})().now)")
    assert live.page.evaluate(lit)["left"] == "\U0001f600"
    live.finish(spoken=1)
    comes_to(lambda: live.page.evaluate(lit)["heard"].split()[1:], "one two three four five".split())
    live.page.locator("#live-llm").fill("A model types into the field.")
    live.press("llm")
    live.wait_spoken(2)
    assert live.page.locator("#live-text").input_value() == "A model types into the field."
    comes_to(lambda: live.page.evaluate(lit)["heard"], "A model types into the field.")


def test_url_keeps_the_text_and_settings(live: LivePage) -> None:
    live.type('kept "so" safe ')
    live.page.locator('[data-set="speaker"]').select_option("high")
    live.page.locator('[data-option="m"]').fill("2")
    live.open_advanced()
    seed = live.page.locator('[data-set="seed"]')
    seed.fill("42")
    seed.press("Tab")
    live.page.wait_for_function("() => location.search.includes('seed=42')")
    live.press("finish")  # the shortcuts that finish belong to the field, which has lost focus
    live.wait_spoken()
    live.page.reload()
    live.page.wait_for_selector(".live .options input", state="attached")
    assert live.page.locator("#live-text").input_value() == 'kept "so" safe '
    assert live.page.locator(".live").get_attribute("data-phase") == "idle", "it is not spoken automatically"
    live.press("speak")
    live.press("finish")
    live.wait_spoken()
    (ready,) = live.events("ready")
    assert (ready["speaker"], ready["seed"], ready["options"]["m"]) == ("high", 42, 2)
    assert [event["word"] for event in live.events("committed")] == ["kept", '"so"', "safe"]
