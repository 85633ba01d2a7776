"""Busy, a second tab, a lost connection, a failing engine, a reload: each with a clear message."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ui.live_page import LivePage
from websockets.sync.client import connect

TEXT = "Speech flows from words as they arrive. "


def _free(url: str) -> int:
    with urllib.request.urlopen(url + "health", timeout=5.0) as answer:
        return json.load(answer)["places_free"]


def _wait_free(url: str, count: int) -> None:
    until_s = time.monotonic() + 10.0
    while _free(url) != count:
        assert time.monotonic() < until_s, f"{_free(url)} places are free, not {count}"
        time.sleep(0.05)


@contextmanager
def _others_take_all(live: LivePage) -> Iterator[None]:
    """Every place is taken for a while."""
    _wait_free(live.url, 4)
    with connect(live.url.replace("http", "ws") + "ws/speak") as others:
        for number in range(4):
            others.send(json.dumps({"type": "open", "utterance": number, "source": "stream"}))
        _wait_free(live.url, 0)
        yield


def test_a_fifth_utterance_hears_busy_and_is_spoken_when_there_is_a_place(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with _others_take_all(live):
        live.type(TEXT)
        live.wait_status("Your text is kept")
        assert live.page.locator(".chip").text_content() == "Waiting for a place"
    live.finish()
    live.wait_lit(7)
    assert [event["word"] for event in live.events("committed")][-1] == "arrive."


def test_a_text_that_was_complete_when_all_places_were_taken_is_spoken_whole(visit: Callable[..., LivePage]) -> None:
    live = visit()
    with _others_take_all(live):
        live.page.evaluate(
            """([text]) => {  // the end goes out before the server can say that it is busy
            const { page } = document.querySelector('.live').tap;
            page.editor.set(text);
            page.do('finish');
        }""",
            [TEXT],
        )
        live.wait_status("Your text is kept")
    live.wait_said()
    assert [event["word"] for event in live.events("committed")][-1] == "arrive."


def test_a_second_tab_speaks_beside_the_first(visit: Callable[..., LivePage]) -> None:
    tabs = [visit(), visit()]
    for tab in tabs:
        tab.paste(TEXT)
    for tab in tabs:
        tab.finish()
        tab.wait_said()
        assert [word["i"] for word in tab.lit] == list(range(7))


def test_a_reload_in_mid_word_frees_the_place(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.paste(TEXT * 3)
    live.wait_lit(2)
    live.open()
    _wait_free(live.url, 4)
    live.paste("Back again and speaking. ")
    live.finish()
    live.wait_said()
    assert len(live.lit) == 4


def test_a_failing_engine_and_a_lost_server(visit: Callable[..., LivePage], start_server: Callable[..., Any]) -> None:
    server = start_server("--fail-at-word", "2")
    live = visit(url=server.url)
    live.paste("these words fail soon ")
    live.finish()
    live.wait_said(1)
    live.wait_status("the script fails at word 2")
    server.stop()
    live.wait_status("connection to the server is lost")
    assert live.page.locator(".chip").text_content() == "Not connected"
    live.press("clear")
    live.type("typed while it was away ")
    server = start_server("--speed", "8", port=server.port)
    live.wait_status("Connected again")
    live.finish()
    live.wait_said(2)
    assert [event["word"] for event in live.events("committed")][-5:] == ["typed", "while", "it", "was", "away"]

    # What had come before the second loss is heard to its end.
    live.press("clear")
    lit = len(live.lit)
    live.paste(TEXT * 3)
    live.wait_lit(lit + 2)
    made_ms = live.figures["audio_ms"]
    server.stop()
    live.wait_status("connection to the server is lost")
    live.wait_said(3)
    assert len(live.rendered(play=live.turns[-1]["play"])) / 24.0 >= made_ms


def test_doors_of_gradio_that_no_page_uses_are_shut(live: LivePage) -> None:
    for path in ("gradio_api/upload", "gradio_api/proxy=%00", "openapi.json"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(live.url + path, timeout=10.0)
        assert refused.value.code == 404
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\nabc\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(urllib.request.Request(live.url + "gradio_api/upload", part, headers), timeout=10.0)
    assert refused.value.code == 404


def test_a_page_whose_scripts_do_not_come_says_so(visit: Callable[..., LivePage]) -> None:
    live = visit()
    live.page.route("**/studio-assets/**/live.js", lambda route: route.abort())
    live.page.reload()
    live.page.get_by_text("could not be loaded").wait_for()
