"""Busy server, second tab, lost connection, engine failure, reload: each with a clear message."""

from collections.abc import Callable
from typing import Any

import pytest
from ui.crowd import occupy_all, wait_free
from ui.live_page import OFFERED, LivePage

TEXT = "Speech flows from words as they arrive. "
# The page records every state of its chip.
STATES = """() => {
  const root = document.querySelector('.live');
  root.states = [];
  new MutationObserver(() => root.states.push(root.querySelector('.chip').dataset.state))
    .observe(root.querySelector('.chip'), { attributes: true });
}"""


def test_queue_position_is_shown_and_typed_text_is_spoken(visit: Callable[..., LivePage]) -> None:
    live = visit()
    chip = live.page.locator(".chip")
    with occupy_all(live.url, queued=1) as end:
        live.type("Speech flows from words ")
        assert live.wait_status("ahead of you").startswith("In queue: 1 person ahead of you. Keep typing")
        assert chip.text_content() == "In queue"
        end(4)
        live.wait_status("you are next")
        live.type("as they came. ")
        for _ in range(6):
            live.page.keyboard.press("Backspace")
        live.type("arrive. ")
        assert live.lit == []
        end(0)
        live.page.wait_for_function("() => !document.querySelector('.status').textContent.includes('next')")
        live.wait_lit(1)  # text finished before it speaks counts from there
        live.finish(spoken=1)
    assert [word["i"] for word in live.lit] == [*range(7)]
    assert "arrive" in live.page.locator(".words").text_content()
    assert live.figures["first_audio_cause"] == "queue" and live.figures["first_audio_ms"] < 5_000


def test_stop_leaves_the_queue(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with occupy_all(live.url) as end:
        live.type(TEXT)
        live.wait_status("you are next")
        live.press("stop")
        live.wait_phase("idle")
        assert "next" not in live.page.locator(".status").text_content()
        end(0)
        wait_free(live.url, 1)


@pytest.mark.parametrize("press", [True, False])
@pytest.mark.parametrize("queued", [0, 2])
def test_race_offers_queued_text_again(visit: Callable[..., LivePage], queued: int, press: bool) -> None:
    """From the queue and from a full queue; newly typed text follows it."""
    live = visit()
    rest = live.page.get_by_role("button", name="Speak the rest")
    with occupy_all(live.url, queued=queued):
        live.type(TEXT)
        live.wait_status("our text will be spoken")
        live.press("race")
        live.wait_status(OFFERED)
        live.wait_phase("idle")
        live.page.wait_for_selector('.race[data-state="waiting"], .race[data-state="idle"]')
        if live.page.locator(".race").get_attribute("data-state") == "waiting":
            live.press("race")  # which stops it
        rest.wait_for()
        assert OFFERED in live.page.locator(".status").text_content(), "shown as long as it holds"
    wait_free(live.url, 4)
    if press:
        rest.click()
    else:
        live.page.locator("#live-text").focus()
        live.page.keyboard.press("End")
        live.type("And on. ")
    live.wait_phase("open")
    rest.wait_for(state="hidden")
    assert live.page.locator(".status").text_content() == ""
    live.finish()
    live.wait_phase("idle")
    live.wait_lit(7 if press else 9)
    said = [event["word"] for event in live.events("committed")]
    assert said == TEXT.lower().split() + ([] if press else ["and", "on."])


def test_stop_withdraws_text_kept_by_a_race(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with occupy_all(live.url):
        live.type(TEXT)
        live.wait_status("you are next")
        live.press("race")
        live.wait_status(OFFERED)
        live.press("stop")
        live.page.wait_for_selector('.race[data-state="idle"]')
        live.page.wait_for_function("() => document.querySelector('.status').textContent === ''")
        live.page.get_by_role("button", name="Speak the rest").wait_for(state="hidden")
    wait_free(live.url, 4)
    live.type("new text ")
    live.finish(spoken=2)  # the waiting, stopped utterance is the first
    assert [event["word"] for event in live.events("committed")] == ["new", "text"]


def test_text_is_kept_after_a_queue_timeout(visit: Callable[..., LivePage], start_server: Callable[..., Any]) -> None:
    live = visit(url=start_server("--queue-timeout-s", "0.5").url)
    with occupy_all(live.url) as end:
        live.type(TEXT)
        live.wait_status("Your text is stored: press Speak to try again.")
        live.wait_phase("idle")
        end(0)
        wait_free(live.url, 1)
        live.press("speak")
        live.wait_lit(1)


def test_full_queue_is_reported_and_the_text_is_spoken_later(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with occupy_all(live.url, queued=2):
        live.type(TEXT)
        message = live.wait_status("Your text will be spoken")
        assert message.startswith("Too many people are speaking, and the queue is full. Your text will be spoken")
        assert live.page.locator(".chip").text_content() == "In queue"
    live.finish()
    live.wait_lit(7)
    assert [event["word"] for event in live.events("committed")][-1] == "arrive."


def test_complete_text_queued_behind_all_slots_is_spoken_whole(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with occupy_all(live.url, queued=2):
        live.page.evaluate(
            """([text]) => {  // the end goes out before the server can say that it is busy
            const { page } = document.querySelector('.live').tap;
            page.editor.set(text);
            page.do('finish');
        }""",
            [TEXT],
        )
        live.wait_status("Your text will be spoken")
    live.wait_spoken()
    assert [event["word"] for event in live.events("committed")][-1] == "arrive."


def test_second_tab_speaks_beside_the_first(visit: Callable[..., LivePage]) -> None:
    tabs = [visit(), visit()]
    for tab in tabs:
        tab.paste(TEXT)
    for tab in tabs:
        tab.finish(spoken=1)
        assert [word["i"] for word in tab.lit] == list(range(7))


def test_reload_during_a_word_frees_the_slot(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.paste(TEXT * 3)
    live.wait_lit(2)
    live.open()
    wait_free(live.url, 4)
    live.paste("Back again and speaking. ")
    live.finish(spoken=1)
    assert len(live.lit) == 4


def test_missing_scripts_are_reported(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.page.route("**/studio-assets/*/live/live.js", lambda route: route.abort())
    live.page.reload()
    live.page.get_by_text("could not be loaded").wait_for()


def test_idle_socket_reconnects_at_the_next_key(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    server = start_server("--idle-socket-ms", "1000")
    live = visit(url=server.url)
    live.page.evaluate(STATES)
    for said in (1, 2):
        live.type("one two three ")
        live.finish(spoken=said)
        live.page.wait_for_timeout(2500)  # the server closes it after 1 s
    assert "offline" not in live.page.evaluate("document.querySelector('.live').states")
    assert live.page.locator(".status").text_content() == ""


# The first opening message crosses the close of a socket that the server considers idle.
CROSSING = """
const crossing = `
  let crossed = false;
  globalThis.WebSocket = class extends WebSocket {
    send(data) {
      if (crossed || JSON.parse(data).type !== "open") return super.send(data);
      crossed = true;
      const close = this.onclose;
      this.onclose = null;
      this.close();
      setTimeout(() => close({ code: 4000 }), 30);
    }
  };`;
const module = (code) => URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
globalThis.Worker = class extends Worker {
  constructor(url, options) {
    const first = module(crossing);
    super(module(`import ${JSON.stringify(first)}; import ${JSON.stringify(new URL(url, location).href)};`), options);
  }
};
"""


@pytest.mark.parametrize("is_finished", [False, True])
def test_message_crossing_an_idle_close_is_spoken_whole(visit: Callable[..., LivePage], is_finished: bool) -> None:
    live = visit(script=CROSSING, bypass_csp=True)
    live.page.evaluate(STATES)
    live.type("one two ")
    if is_finished:
        live.finish()
    else:
        live.type("three ")
        live.wait_lit(1)
        live.finish()
    live.wait_spoken()
    words = ["one", "two"] if is_finished else ["one", "two", "three"]
    assert [event["word"] for event in live.events("committed")] == words
    states = live.page.evaluate("document.querySelector('.live').states")
    assert "waiting" in states, "nothing crossed"
    assert "offline" not in states
    assert live.page.locator(".status").text_content() == ""


def test_incompatible_settings_are_reported_and_the_text_waits(visit: Callable[..., LivePage]) -> None:
    live = visit()
    set_to = """(options) => {
      const { settings } = document.querySelector('.live').tap.page;
      settings.options = { ...settings.options, ...options };
      settings.send();
    }"""
    live.page.evaluate(set_to, {"m": 2, "n": 5})
    live.type("One two three ")
    notice = live.wait_status("hop n = 5 is more than window m = 2")
    assert "no utterance" not in notice
    live.wait_phase("idle")
    assert live.lit == [] and "no utterance" not in live.page.locator(".status").text_content()
    live.page.evaluate(set_to, {"m": 2, "n": 1})
    live.type("four. ")
    live.finish(spoken=1)
    assert [word["i"] for word in live.lit] == [0, 1, 2, 3], "text typed before is spoken too"
    assert "n = 5" not in live.page.locator(".status").text_content()
