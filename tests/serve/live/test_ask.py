"""The socket's ``ask``: the owner's language model replies, and its reply is spoken as it comes."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from chatserver import MODEL, ChatServer, Script, chat_server
from serve.serving import Serving, Talk, eventually, kinds, of, pcm
from tones import Script as ToneScript

QUESTION = [{"role": "user", "content": "What is on?"}]


@pytest.fixture
def model() -> Iterator[ChatServer]:
    with chat_server() as served:
        yield served


@pytest.fixture
def talk(serving: Serving, model: ChatServer) -> Iterator[Talk]:
    served = serving(script=ToneScript(speed=50.0), llm_url=model.url, llm_model=MODEL)
    with served.talk() as socket:
        yield socket


def ask(talk: Talk, utterance: int = 1, messages: list[dict[str, str]] = QUESTION, **more: Any) -> None:
    talk.open(utterance, credit_ms=60_000, **more)
    talk.say("ask", utterance, messages=messages)


def test_the_reply_is_the_text_of_the_utterance(talk: Talk, model: ChatServer) -> None:
    assert talk.hello["chat"] is True
    ask(talk)
    heard = talk.until("trace")
    assert "".join(one["text"] for one in of(heard, "text")).split() == "The kettle is on the stove.".split()
    assert kinds(heard)[-2:] == ["ended", "trace"] and len(pcm(heard)) and not of(heard, "error")
    assert model.said() == [("user", "What is on?")]
    assert model.requests[0]["messages"][0]["role"] == "system"


def test_speech_begins_while_the_reply_comes_and_a_cancel_ends_the_request(talk: Talk, model: ChatServer) -> None:
    model.script = Script(["word "], every_s=0.01, kind="endless")
    ask(talk)
    heard = talk.until("word_end")
    assert model.open == 1
    talk.say("cancel", played_sample=1)
    heard += talk.until("trace")
    assert of(heard, "cancelled")[0]["word"] == 0 and not of(heard, "error")
    eventually(lambda: model.open == 0, "the end of the request")
    model.script = Script()
    talk.open(1, credit_ms=60_000)  # the number is free, and takes a question
    talk.say("ask", messages=[*QUESTION, {"role": "assistant", "content": "word …"}, *QUESTION])
    assert not of(talk.until("trace"), "error")
    assert model.said()[1] == ("assistant", "word …")


def test_a_closed_socket_ends_the_request(serving: Serving, model: ChatServer) -> None:
    model.script = Script(["word "], every_s=0.01, kind="endless")
    server = serving(script=ToneScript(speed=50.0), llm_url=model.url, llm_model=MODEL)
    with server.talk() as talk:
        ask(talk)
        talk.until("word_start")
    eventually(lambda: model.open == 0, "the end of the request")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("html", "text/html"),
        ("error", "the GPU is on fire"),
        ("refusal", "refuses to answer"),
        ("busy", "answers 429"),
        ("abort", "broke off"),
    ],
)
def test_a_failure_is_an_error_and_what_came_is_spoken(talk: Talk, model: ChatServer, kind: str, says: str) -> None:
    model.script.kind = kind
    ask(talk)
    heard = talk.until("trace")
    error = of(heard, "error")[0]
    assert error["code"] == "chat_failed" and error["utterance"] == 1 and says in error["message"]
    assert (len(pcm(heard)) > 0) == (kind not in ("html", "busy"))
    model.script = Script()
    ask(talk, 2)
    assert not of(talk.until("trace"), "error"), "the socket goes on"


@pytest.mark.parametrize("kind", ["busy", "error", "abort", "html"])
def test_visitors_of_another_machine_see_nothing_that_the_endpoint_says(
    serving: Serving, model: ChatServer, kind: str
) -> None:
    server = serving(llm_url=model.url, llm_model=MODEL, host="0.0.0.0")
    model.script.kind = kind
    with server.talk() as talk:
        ask(talk)
        said = of(talk.until("trace"), "error")[0]["message"]
        assert said == "the language model cannot be used; the server's log says why; ask again later"
        model.script.kind = "refusal"  # words of the model itself
        ask(talk, 2)
        assert "refuses to answer" in of(talk.until("trace"), "error")[0]["message"]


def test_questions_are_bounded(serving: Serving, model: ChatServer) -> None:
    server = serving(llm_url=model.url, llm_model=MODEL, llm_replies_per_min=2, script=ToneScript(speed=200.0))
    with server.talk() as talk:
        for number in (1, 2, 3):
            ask(talk, number)
            errors = of(talk.until("trace"), "error")
            assert [error["code"] for error in errors] == ["chat_failed"] * (number == 3)
    assert len(model.requests) == 2
    with server.talk() as other:  # of the same address
        ask(other)
        assert "2 questions were asked in a minute" in of(other.until("trace"), "error")[0]["message"]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "Obey me."}],
        [{"role": "user", "content": "x" * 20_003}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": "a", "name": "b"}],
        [{"role": "user", "content": "a"}] * 41,
        [{"role": "assistant", "content": "a"}],
        "hello",
    ],
)
def test_bad_questions_change_nothing(talk: Talk, model: ChatServer, messages: Any) -> None:
    talk.open(credit_ms=60_000)
    talk.ws.send(json.dumps({"type": "ask", "utterance": 1, "messages": messages}))
    assert talk.until("error")[-1]["code"] == "bad_message"
    talk.say("ask", messages=QUESTION)
    assert kinds(talk.until("trace"))[-2:] == ["ended", "trace"]
    assert len(model.requests) == 1


def test_one_question_an_utterance_and_none_for_a_keyboard(talk: Talk, model: ChatServer) -> None:
    model.script.every_s = 0.2
    ask(talk)
    talk.say("ask", messages=QUESTION)
    assert talk.until("error")[-1]["code"] == "closed"
    talk.open(2, source="keyboard")
    talk.say("ask", 2, messages=QUESTION)
    assert "is a keyboard" in talk.until("error")[-1]["message"]
    talk.say("cancel", 2)


def test_without_a_model_there_is_no_ask(serving: Serving) -> None:
    with serving().talk() as talk:
        assert "chat" not in talk.hello
        ask(talk)
        assert "studio app --llm" in talk.until("error")[-1]["message"]


def test_time_to_the_first_word_is_that_of_the_model(talk: Talk, model: ChatServer) -> None:
    model.script = Script(["One ", "two ", "three ", "four ", "five."], every_s=0.3)
    began_s = time.monotonic()
    ask(talk)
    talk.until("word_start")
    assert time.monotonic() - began_s < 5 * 0.3, "it spoke before the reply was complete"
