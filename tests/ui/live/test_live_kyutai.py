"""A voice whose frames are codes of Mimi on the pages: typed, stopped, raced and inspected."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from serve.serving import eventually
from ui.conftest import Server
from ui.inspect.test_inspect_page import Inspect, inspect  # noqa: F401 - a fixture
from ui.live_page import LivePage

TEXT = "the morning light came in slowly over the old stone wall"


@pytest.fixture(scope="module")
def coded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("coded"), "--family", "kyutai", script="ui/tiny_server.py")
    yield running
    running.stop()


def opened(context: Any, coded: Server) -> LivePage:
    """The page; its voice has no option but the language and those that are folded at first."""
    live = LivePage(context(viewport={"width": 1280, "height": 800}).new_page(), coded.url)
    live.page.goto(f"{coded.url}?tap=1")
    live.page.wait_for_selector(".advanced input", state="attached")
    return live


def test_words_light_up_while_they_are_typed_and_the_utterance_is_inspected(
    opening: Callable[..., Any],
    inspect: Callable[..., Inspect],  # noqa: F811
    coded: Server,
) -> None:
    live = opened(opening, coded)
    live.open_advanced()
    assert "how strictly it follows text and speaker" in live.page.locator(".advanced").inner_text()
    live.type(f"{TEXT[:38]} ")
    live.wait_lit(2)
    live.type(TEXT[38:])
    live.finish(spoken=1)
    words = TEXT.split()
    assert [event["word"] for event in live.events("committed")] == words and len(live.lit) == len(words)
    assert {event["source"] for event in live.events("word_start")} == {"action"}
    link = live.page.locator('[data-get="inspect"]').get_attribute("href")
    assert link is not None and live.errors == []
    tab = inspect(coded.url).open(link.removeprefix(coded.url))
    tab.opened()
    assert tab.page.locator('[data-do="picture"]').is_hidden(), "the spectrogram of the samples is all there is"
    assert tab.page.locator('[data-do="attention"]').is_hidden()


def test_french_is_chosen_on_the_page_and_while_it_speaks(opening: Callable[..., Any], coded: Server) -> None:
    live = opened(opening, coded)
    language = live.page.locator(".live .options .segmented", has_text="Language")
    language.get_by_text("fr", exact=True).click()
    live.type("Il est 3 heures, « ça va ? » ")
    live.wait_lit(2)
    language.get_by_text("en", exact=True).click()
    eventually(lambda: live.events("options"), "the change of language")
    live.type("At 3 o'clock.")
    live.finish(spoken=1)
    words = "il est trois heures, ça va? at three o'clock."
    assert " ".join(event["word"] for event in live.events("committed")) == words and live.errors == []


def test_stop_and_race(opening: Callable[..., Any], coded: Server) -> None:
    live = opened(opening, coded)
    live.type(f"{TEXT} {TEXT} ")
    live.wait_lit(2)
    live.press("stop")
    live.wait_phase("idle")
    assert live.events("cancelled") and len(live.lit) < 22
    live.page.locator("#live-text").fill(TEXT)
    live.press("race")
    live.page.wait_for_selector('.race[data-state="over"]')
    lanes = live.page.evaluate(
        "document.querySelector('.live').tap.page.race.record.lanes.map((one) => one.lit.length)"
    )
    assert lanes == [11, 11] and live.errors == []
