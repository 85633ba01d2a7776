"""The history of the Live page: stored in the browser, played without the server."""

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ui.live_page import LivePage

ROWS = ".history li"
# Opening a database fails, as where storage is blocked.
BLOCKED = (
    "Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('blocked', 'SecurityError'); } })"
)
# Copies of the newest entry, as older ones, straight into the database.
COPIES = """async (count) => {
  const { history } = document.querySelector('.live').tap.page;
  const [entry] = await history.store.list();
  const wav = await history.store.sound(entry.id);
  const { id, ...rest } = entry;
  for (let k = 0; k < count; k++) await history.store.add({ ...rest, text: `copy ${k}` }, wav);
  await history.update();
}"""


def _texts(live: LivePage) -> list[str]:
    return live.page.locator(f"{ROWS} .history-text").all_text_contents()


def _wait_rows(live: LivePage, count: int) -> None:
    script = "([rows, count]) => document.querySelectorAll(rows).length === count"
    live.page.wait_for_function(script, arg=[ROWS, count])


def _say(live: LivePage, text: str, spoken: int) -> None:
    live.paste(text)
    live.finish(spoken=spoken)
    _wait_rows(live, spoken)


def _press(live: LivePage, name: str, row: int = 0) -> None:
    live.page.locator(ROWS).nth(row).locator(f'[data-history="{name}"]').click()


def _reload(live: LivePage) -> None:
    live.page.reload()
    live.page.wait_for_selector(".live .options input", state="attached")


def test_history_survives_a_reload_and_plays_without_the_server(live: LivePage) -> None:
    _say(live, "a cat sat ", 1)
    _say(live, "on a mat ", 2)
    assert _texts(live) == ["on a mat", "a cat sat"]
    _reload(live)
    _wait_rows(live, 2)
    assert _texts(live) == ["on a mat", "a cat sat"]
    requests: list[str] = []
    live.page.on("request", lambda request: requests.append(request.url))
    opened = len(live.events("ready"))
    _press(live, "play", row=1)
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.history.audio.currentTime > 0")
    assert live.page.locator(ROWS).nth(1).locator('[data-history="play"]').text_content() == "Stop"
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.history.playing === null")
    assert live.page.locator(ROWS).nth(1).locator('[data-history="play"]').text_content() == "Play"
    assert len(live.events("ready")) == opened
    assert [url for url in requests if not url.startswith("blob:")] == []


def test_download_is_the_sound_as_played(live: LivePage) -> None:
    _say(live, "a cat sat ", 1)
    heard = live.rendered()
    with live.page.expect_download() as download:
        _press(live, "download")
    assert download.value.suggested_filename == "a-cat-sat.wav"
    with wave.open(io.BytesIO(download.value.path().read_bytes())) as file:
        assert (file.getframerate(), file.getnchannels()) == (24_000, 1)
        stored = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    sounds = stored[stored != 0]
    assert len(stored) >= len(heard)
    assert np.array_equal(sounds, live.sent()[live.sent() != 0])


def test_links_open_the_trace(live: LivePage) -> None:
    _say(live, "a cat sat ", 1)
    link = live.page.locator(f"{ROWS} [data-history=inspect]")
    link.wait_for()
    trace = live.page.locator('[data-get="inspect"]').get_attribute("href")
    assert link.get_attribute("href") == trace
    compare = live.page.locator(f"{ROWS} [data-history=compare]").get_attribute("href")
    assert "voice=tone&speaker=low" in compare
    link.click()
    live.page.wait_for_url("**/inspect?trace=*")
    live.page.wait_for_selector(".inspect canvas")


def test_twenty_first_entry_removes_the_oldest(live: LivePage) -> None:
    _say(live, "the first ", 1)
    live.page.evaluate(COPIES, 19)
    _wait_rows(live, 20)
    assert _texts(live)[-1] == "the first"
    _say_more(live, "the last ")
    assert _texts(live)[0] == "the last" and _texts(live)[-1] == "copy 0"
    _reload(live)
    _wait_rows(live, 20)
    assert _texts(live)[0] == "the last" and "the first" not in _texts(live)


def _say_more(live: LivePage, text: str) -> None:
    """Speak a text while the list is full."""
    live.paste(text)
    live.finish(spoken=2)
    script = "text => document.querySelector('.history-text')?.textContent === text"
    live.page.wait_for_function(script, arg=text.strip())


def test_clear_asks_once_and_empties_the_browser(live: LivePage) -> None:
    _say(live, "a cat sat ", 1)
    clear = live.page.locator(".history-head button")
    clear.focus()
    live.page.keyboard.press("Enter")
    assert clear.text_content() == "Delete all 1?"
    live.page.keyboard.press("Tab")
    assert clear.text_content() == "Clear history"
    clear.press("Enter")
    clear.press("Enter")
    _wait_rows(live, 0)
    assert "stay in this browser" in live.page.locator(".history-head .sub").text_content()
    _reload(live)
    live.page.wait_for_function("() => document.querySelector('.history-head .sub').textContent")
    _wait_rows(live, 0)


def test_history_stops_for_speech_and_for_escape(live: LivePage) -> None:
    _say(live, "constantinople and alexandria were wonderful ", 1)
    playing = "isPlaying => (document.querySelector('.live').tap.page.history.playing !== null) === isPlaying"
    _press(live, "play")
    live.page.wait_for_function(playing, arg=True)
    live.page.keyboard.press("Escape")
    live.page.wait_for_function(playing, arg=False)
    _press(live, "play")
    live.page.wait_for_function(playing, arg=True)
    live.paste("so on ")
    live.page.wait_for_function(playing, arg=False)
    live.wait_lit(4)
    _press(live, "play")
    live.wait_phase("idle")


@pytest.mark.parametrize("script", [BLOCKED])
def test_without_storage_the_history_lasts_for_the_visit(visit: Callable[..., Any], script: str) -> None:
    live = visit(script=script)
    _say(live, "a cat sat ", 1)
    assert "until it is closed" in live.page.locator(".history-head .sub").text_content()
    _press(live, "play")
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.history.audio.currentTime > 0")
    _reload(live)
    live.page.wait_for_function("() => document.querySelector('.history-head .sub').textContent")
    _wait_rows(live, 0)


@pytest.mark.parametrize("how", ["link", "reload"])
def test_page_left_while_it_plays_keeps_what_was_played(live: LivePage, how: str) -> None:
    live.paste("constantinople and alexandria were wonderful " * 20)
    # More than a browser takes over in one piece of a page that is left (64 KiB).
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.history.draft?.seconds > 4")
    if how == "link":
        live.page.locator(".masthead a", has_text="Inspect").click()
        live.page.wait_for_url("**/inspect")
        live.page.go_back()
    else:
        live.page.reload()
    live.page.wait_for_selector(".live .options input", state="attached")
    _wait_rows(live, 1)
    assert _texts(live)[0].startswith("constantinople and alexandria")
    with live.page.expect_download() as download:
        _press(live, "download")
    with wave.open(io.BytesIO(download.value.path().read_bytes())) as file:
        assert file.getnframes() > 4 * 24_000


def test_page_that_was_not_left_has_one_entry(live: LivePage) -> None:
    live.paste("constantinople and alexandria were wonderful ")
    live.page.wait_for_function("() => document.querySelector('.live').tap.page.history.draft?.seconds > 0.5")
    live.page.evaluate("() => dispatchEvent(new Event('beforeunload'))")  # such as a link that turns out a download
    live.page.evaluate("() => document.querySelector('.live').tap.page.history.update()")
    _wait_rows(live, 1)
    live.finish(spoken=1)
    live.page.locator(f"{ROWS} [data-history=inspect]").wait_for()
    assert _texts(live) == ["constantinople and alexandria were wonderful"]
