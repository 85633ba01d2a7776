"""Engine failure and lost server: unspoken text is kept and offered."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ui.live_page import OFFERED, LivePage

TEXT = "Speech flows from words as they arrive. "


def test_engine_failure_and_lost_server(visit: Callable[..., LivePage], start_server: Callable[..., Any]) -> None:
    server = start_server("--fail-at-word", "2")
    live = visit(url=server.url)
    live.paste("these words fail soon ")
    live.finish(spoken=1)
    live.wait_status("the script fails at word 2")
    server.stop()
    live.wait_status("Connection lost")
    assert live.page.locator(".chip").text_content() == "Not connected"
    live.press("clear")
    live.type("typed while it was away ")
    server = start_server("--speed", "8", port=server.port)
    live.wait_status("Reconnected")
    live.finish(spoken=2)
    assert [event["word"] for event in live.events("committed")][-5:] == ["typed", "while", "it", "was", "away"]

    # What was received before the second loss is played to its end.
    live.press("clear")
    lit = len(live.lit)
    live.paste(TEXT * 3)
    live.wait_lit(lit + 2)
    made_ms = live.figures["audio_ms"]
    server.stop()
    live.wait_status("Connection lost")
    live.wait_spoken(3)
    assert len(live.rendered(play=live.turns[-1]["play"])) / 24.0 >= made_ms


@contextmanager
def _lost_server(live: LivePage, server: Any, start_server: Callable[..., Any]) -> Iterator[None]:
    """A long text is cut off; the body runs while the server is down."""
    live.wait_lit(3)  # two were played to their end
    server.stop()
    live.wait_status("Connection lost")
    live.wait_spoken()
    yield
    start_server("--speed", "8", port=server.port)


def _words(live: LivePage) -> tuple[list[str], list[str]]:
    """The words of the first completed utterance and those of the next one."""
    committed, ends = live.events("committed"), live.events("word_end")
    first, second = ([event["word"] for event in committed if event["utterance"] == number] for number in (1, 2))
    heard = {event["i"] for event in ends if event["utterance"] == 1 and event["sample"] <= len(live.rendered(1))}
    return [word for i, word in enumerate(first) if i in heard], second


@pytest.mark.parametrize("press", [True, False])
def test_unspoken_text_is_offered_after_a_lost_server(
    visit: Callable[..., LivePage], start_server: Callable[..., Any], press: bool
) -> None:
    server = start_server()
    live = visit(url=server.url)
    text = "\U0001f600 " + TEXT * 4
    live.paste(text)
    rest = live.page.get_by_role("button", name="Speak the rest")
    with _lost_server(live, server, start_server):
        assert rest.count() == 0, "not while there is no server"
    live.wait_status("Reconnected. Press Speak the rest")
    assert live.page.locator("#live-text").input_value() == text
    if press:
        rest.click()
    else:  # newly typed text follows the rest
        live.page.keyboard.press("End")
        live.type("And on. ")
    live.wait_phase("open")
    assert rest.count() == 0
    live.finish(spoken=2)
    heard, after = _words(live)
    assert 2 <= len(heard) < 28
    assert heard + after == (TEXT * 4).lower().split() + ([] if press else ["and", "on."])


def test_race_keeps_the_unspoken_text(visit: Callable[..., LivePage], start_server: Callable[..., Any]) -> None:
    server = start_server()
    live = visit(url=server.url)
    live.paste(TEXT * 4)
    with _lost_server(live, server, start_server):
        live.press("race")
        live.page.wait_for_function("() => document.querySelector('.race-status').textContent.includes('server lost')")
        assert "your text is stored" in live.page.locator(".status").text_content()
    live.wait_status("Reconnected. Press Speak the rest")
    live.press("race")
    live.page.wait_for_selector('.race[data-state="running"]')
    live.wait_status(OFFERED)
    live.page.get_by_role("button", name="Speak the rest").click()
    live.page.wait_for_selector('.race[data-state="idle"]')
    live.wait_phase("open")
    live.finish(spoken=2)
    heard, after = _words(live)
    assert heard + after == (TEXT * 4).lower().split()


def test_clear_withdraws_the_offer(visit: Callable[..., LivePage], start_server: Callable[..., Any]) -> None:
    server = start_server()
    live = visit(url=server.url)
    live.paste(TEXT * 4)
    with _lost_server(live, server, start_server):
        live.press("clear")
    live.wait_status("Reconnected.")
    assert live.page.get_by_role("button", name="Speak the rest").count() == 0
    live.type("new text ")
    live.finish(spoken=2)
    assert _words(live)[1] == ["new", "text"]


def test_typing_model_resumes_where_it_was_cut_off(
    visit: Callable[..., LivePage], start_server: Callable[..., Any]
) -> None:
    server = start_server()
    live = visit(url=server.url)
    live.page.locator("#live-llm").fill(TEXT * 3)
    live.page.locator("#live-rate").fill("20")
    live.press("llm")
    with _lost_server(live, server, start_server):
        pass
    live.wait_status("Reconnected.")
    live.page.get_by_role("button", name="Speak the rest").click()
    live.wait_spoken(2)
    heard, after = _words(live)
    assert heard + after == (TEXT * 3).lower().split()
