"""Talking with a language model on the Live page: words light up as heard, and interruptions reach the model."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from chatserver import MODEL, ChatServer, Script, chat_server
from serve.serving import eventually
from ui.live.test_live_early import below_the_field
from ui.live.test_live_languages import CATALOGUES
from ui.live_page import LivePage
from ui.site.test_axe import violations
from ui.site.test_page_load import CLIPPED
from ui.waits import comes_to

REPLY = "The kettle is on the stove."
MESSAGES = "document.querySelector('.live').live.chat.messages"


@pytest.fixture(scope="module")
def model() -> Iterator[ChatServer]:
    with chat_server() as served:
        yield served


@pytest.fixture(scope="module")
def address(start_server: Callable[..., Any], model: ChatServer) -> str:
    return start_server("--llm", model.url, "--model", MODEL).url


@pytest.fixture
def live(visit: Callable[..., LivePage], address: str, model: ChatServer) -> LivePage:
    model.script = Script()
    page = visit(url=address)
    page.page.get_by_role("heading", name="Talk with a language model").wait_for()
    return page


def ask(live: LivePage, question: str) -> None:
    live.page.get_by_label("Your question").fill(question)
    live.page.get_by_role("button", name="Ask", exact=True).click()


def note(live: LivePage, part: str) -> str:
    script = "part => document.querySelector('.chat-note').textContent.includes(part)"
    live.page.wait_for_function(script, arg=part)
    return live.page.locator(".chat-note").text_content()


@pytest.mark.parametrize("width", [1280, 1920])
def test_picture_of_the_speech_comes_before_the_chat(visit: Callable[..., LivePage], address: str, width: int) -> None:
    live = visit(url=address, viewport={"width": width, "height": 900})
    live.page.get_by_role("heading", name="Talk with a language model").wait_for()
    below_the_field(live, 900)
    picture, chat = (live.page.locator(one).bounding_box() for one in (".live .stage", ".live .chat"))
    assert picture["y"] + picture["height"] <= chat["y"] or picture["x"] > chat["x"] + chat["width"]


def test_reply_is_spoken_and_the_next_question_carries_it(live: LivePage, model: ChatServer) -> None:
    ask(live, "What is on?")
    ladder = note(live, "end ")
    for step in ("first text", "first word", "first sound"):
        assert step in ladder
    assert live.page.locator(".chat-log p").all_text_contents()[0] == "What is on?"
    lit = live.page.locator(".chat-log p > span:first-child")
    comes_to(lambda: lit.last.text_content().strip(), REPLY)
    assert len(live.lit) == len(REPLY.split())
    ask(live, "And then?")
    eventually(lambda: len(model.said()) == 3, "the second question")
    assert model.said() == [("user", "What is on?"), ("assistant", REPLY), ("user", "And then?")]
    assert live.foreign == [] and live.errors == []


@pytest.mark.parametrize("how", ["Escape", "a", "question"])
def test_an_interruption_stops_the_sound_and_tells_the_words_heard(live: LivePage, model: ChatServer, how: str) -> None:
    words = [f"word{number} " for number in range(400)]
    model.script = Script(words, every_s=0.01)
    ask(live, "Talk to me.")
    live.wait_lit(3)
    if how == "question":
        ask(live, "Stop that.")
    else:
        live.page.get_by_label("Your question").focus()
        live.page.keyboard.press(how)
    comes_to(lambda: len(live.page.evaluate(MESSAGES)) >= 2, True)
    eventually(lambda: model.open == 0 or how == "question", "the end of the request")
    stopped = live.events("cancelled")[0]
    committed, starts = (
        [one for one in live.events(kind) if one["utterance"] == stopped["utterance"]]
        for kind in ("committed", "word_start")
    )
    begun = [one["i"] for one in starts if one["sample"] < stopped["sample"]]
    chars = next(one["char_end"] for one in committed if one["i"] == begun[-1])
    told = live.page.evaluate(MESSAGES)[1]
    assert told == {"role": "assistant", "content": f"{''.join(words)[:chars]} …"}
    assert stopped["word"] == begun[-1] and len(begun) >= 3
    model.script = Script()
    if how == "question":
        eventually(lambda: ("user", "Stop that.") in model.said(), "the second question")
    else:
        ask(live, "Go on.")
        eventually(lambda: ("user", "Go on.") in model.said(), "the next question")
    assert model.said()[1] == ("assistant", told["content"])
    live.press("stop")
    live.wait_phase("idle")


@pytest.mark.parametrize(
    ("kind", "says"), [("error", "the GPU is on fire"), ("html", "text/html"), ("refusal", "refuses")]
)
def test_failures_are_said_and_the_page_goes_on(live: LivePage, model: ChatServer, kind: str, says: str) -> None:
    model.script.kind = kind
    ask(live, "What is on?")
    note(live, says)
    live.wait_phase("idle")
    model.script = Script()
    ask(live, "Again?")
    note(live, "first sound")
    live.wait_phase("idle")
    said = [(role, text) for role, text in model.said() if role == "assistant"]
    assert said == ([] if kind == "html" else [("assistant", f"{REPLY} …")])


def test_without_a_model_there_is_no_such_section(visit: Callable[..., LivePage]) -> None:
    assert visit().page.locator(".chat").is_hidden()


@pytest.mark.parametrize("language", [one for one in CATALOGUES if one != "en"])
def test_longer_texts_fit(visit: Callable[..., LivePage], address: str, language: str) -> None:
    live = visit(url=address, locale=language)
    live.page.locator(".chat").wait_for()
    live.open_advanced()
    for width in (390, 1280):
        live.page.set_viewport_size({"width": width, "height": 844})
        assert live.page.evaluate("document.documentElement.scrollWidth") <= width
        assert live.page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_a_conversation(
    visit: Callable[..., LivePage], address: str, model: ChatServer, scheme: str
) -> None:
    live = visit(url=address, color_scheme=scheme)
    model.script = Script([f"word{number} " for number in range(400)])
    ask(live, "Talk to me.")
    live.wait_lit(2)
    live.page.keyboard.press("Escape")
    live.wait_phase("idle")
    note(live, "end ")
    assert violations(live.page) == []
