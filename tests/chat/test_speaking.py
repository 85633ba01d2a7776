"""A reply is spoken while it comes; after an interruption exactly the words are kept whose sound was played."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import closing

import numpy as np
import pytest
from cancels import CANCELS
from chatserver import MODEL, ChatServer, Script, chat_server
from fakes import FakeEngine
from serve.serving import eventually
from tones import Script as ToneScript

from studio.chat.conversation import MAX_HISTORY_CHARS, MAX_MESSAGES, ChatMessage, heard_message, recent
from studio.chat.endpoint import ChatClient, ChatEndpoint
from studio.chat.speaking import Background, Spoken, speak_reply
from studio.core.folders import VOICES
from studio.core.ports import Engine, SpeakRequest
from studio.core.speaking import speak_once
from studio.systems.combined import open_voices
from studio.text.normalise import best

REPLY = "The kettle is on the stove, and the tea will be ready in three minutes. Would you like some milk with it?"

ONSET_SAMPLES = 12_000  # a voice reports a word when it is audible, which may be a pause after its start


class Listener:
    """A player whose position goes on by random steps, and who interrupts at a random sample."""

    def __init__(self, generator: random.Random, stop_at: int | None = None) -> None:
        self._generator, self.stop_at = generator, stop_at
        self.given = self.at = 0
        self.is_stopped = False

    def play(self, pcm: np.ndarray) -> None:
        assert not self.is_stopped
        self.given += len(pcm)

    def position(self) -> int:
        self.at = min(self.given, self.at + self._generator.randrange(1, 4000))
        if self.stop_at is not None:
            self.at = min(self.at, self.stop_at)
        return self.at

    def stop(self) -> int:
        self.is_stopped = True
        return self.at

    def is_interrupted(self) -> bool:
        return self.stop_at is not None and self.at >= self.stop_at


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as served:
        served.script = Script([REPLY[at : at + 4] for at in range(0, len(REPLY), 4)])
        yield served


@pytest.fixture
def background() -> Iterator[Background]:
    with closing(Background()) as one:
        yield one


def converse(engine: Engine, server: ChatServer, background: Background, stops: list[int], seed: int) -> list[Spoken]:
    """As many turns as there are stops, each interrupted at its sample."""
    client = ChatClient(ChatEndpoint(server.url, MODEL))
    messages: list[ChatMessage] = []
    generator, replies = random.Random(seed), []
    for number, stop_at in enumerate(stops):
        messages = recent([*messages, {"role": "user", "content": f"Question {number}?"}])
        listener, shown = Listener(generator, stop_at), []
        spoken = speak_reply(
            engine,
            SpeakRequest(),
            client.reply(messages),
            background,
            listener,
            is_interrupted=listener.is_interrupted,
            on_heard=shown.append,
        )
        assert spoken.error is None
        assert "".join(shown) == spoken.text[: spoken.heard_chars]
        messages.append(spoken.message())
        replies.append(spoken)
    messages.append({"role": "user", "content": "What did you say?"})
    speak_reply(engine, SpeakRequest(), client.reply(recent(messages)), background, Listener(generator), plays=False)
    background.start(client.close()).result(20.0)
    return replies


def assert_told_what_was_heard(
    engine: Engine, server: ChatServer, stops: list[int], replies: list[Spoken], onset_samples: int = 0
) -> None:
    """Each request must end the reply before it behind the last word that had begun before the stop.

    ``onset_samples``: a word that had sounded for less may be missing.
    """
    whole = speak_once(engine, SpeakRequest(), REPLY).words()
    for number, (stop_at, spoken) in enumerate(zip(stops, replies, strict=True)):
        played = min(stop_at, len(spoken.pcm))
        expected = [
            f"{REPLY[: ends[-1]] if ends else ''} …".strip()
            for late in (0, onset_samples)
            if (ends := [word.char_end for word in whole if word.start < played - late]) is not None
        ]
        told = server.said(number + 1)[-2]
        assert told[0] == "assistant"
        if spoken.was_interrupted:
            assert told[1] in expected, (number, played)
        else:
            assert told[1] == REPLY
    assert sum(spoken.was_interrupted for spoken in replies) > len(stops) // 2


@pytest.mark.timeout(300 + CANCELS)
def test_in_random_interruptions_the_model_is_told_exactly_the_words_that_were_played(
    server: ChatServer, background: Background
) -> None:
    engine = FakeEngine(ToneScript(speed=200.0))
    length = len(speak_once(engine, SpeakRequest(), REPLY).pcm)
    generator = random.Random(5)
    stops = [generator.randrange(0, length) for _ in range(max(CANCELS, 50))]
    replies = converse(engine, server, background, stops, seed=6)
    assert_told_what_was_heard(engine, server, stops, replies)
    assert engine.free_slots() == engine.places


@pytest.mark.slow
def test_a_real_voice_tells_the_words_that_were_played(server: ChatServer, background: Background) -> None:
    with closing(open_voices(VOICES, best(), "cpu", ["wren"])) as engine:
        length = len(speak_once(engine, SpeakRequest(), REPLY).pcm)
        generator = random.Random(7)
        stops = [generator.randrange(0, length) for _ in range(10)]
        replies = converse(engine, server, background, stops, seed=8)
        assert_told_what_was_heard(engine, server, stops, replies, ONSET_SAMPLES)


def test_speech_begins_before_the_reply_is_complete(server: ChatServer, background: Background) -> None:
    server.script.every_s = 0.02
    client = ChatClient(ChatEndpoint(server.url, MODEL))
    began_s = time.monotonic()
    spoken = speak_reply(
        FakeEngine(ToneScript(speed=200.0)),
        SpeakRequest(),
        client.reply([{"role": "user", "content": "?"}]),
        background,
        Listener(random.Random(1)),
    )
    took_ms = (time.monotonic() - began_s) * 1000.0
    ladder = spoken.ladder
    assert spoken.text.split() == REPLY.split() and spoken.heard_chars == len(REPLY)
    assert 0 < ladder.token <= ladder.word <= ladder.sound < ladder.end <= took_ms
    assert ladder.sound < len(server.script.pieces) * 20.0 / 2, "it spoke when half of the reply was not sent"
    assert str(ladder).startswith("question -> first text ")
    background.start(client.close()).result(20.0)


@pytest.mark.parametrize(("kind", "says"), [("error", "broke off"), ("abort", "broke off")])
def test_what_came_of_a_broken_reply_is_spoken(
    server: ChatServer, background: Background, kind: str, says: str
) -> None:
    server.script.kind = kind
    engine = FakeEngine(ToneScript(speed=200.0))
    client = ChatClient(ChatEndpoint(server.url, MODEL))
    spoken = speak_reply(engine, SpeakRequest(), client.reply([]), background, Listener(random.Random(1)), plays=False)
    assert says in str(spoken.error) and spoken.text.split() == REPLY.split()
    assert len(spoken.pcm) == len(speak_once(engine, SpeakRequest(), REPLY).pcm)
    background.start(client.close()).result(20.0)


def test_a_voice_that_fails_ends_the_reply(background: Background) -> None:
    async def endless() -> AsyncGenerator[str]:
        try:
            while True:
                yield "word "
                await asyncio.sleep(0.001)
        finally:
            left.append(True)

    left: list[bool] = []
    engine = FakeEngine(ToneScript(speed=200.0, fail_at_word=4))
    spoken = speak_reply(engine, SpeakRequest(), endless(), background, Listener(random.Random(1)))
    assert "fails at word 4" in str(spoken.error)
    eventually(lambda: left == [True], "the end of the request")
    assert engine.free_slots() == engine.places


def test_history_is_bounded_and_begins_with_a_question() -> None:
    turns: list[ChatMessage] = []
    for number in range(60):
        turns += [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"}]
    turns.append({"role": "user", "content": "last"})
    kept = recent(turns)
    assert len(kept) == MAX_MESSAGES - 1 and kept[0]["role"] == "user" and kept[-1]["content"] == "last"
    long = "x" * (MAX_HISTORY_CHARS - 4)
    kept = recent([{"role": "user", "content": "old"}, {"role": "assistant", "content": long}, turns[-1]])
    assert kept == [turns[-1]]


@pytest.mark.parametrize(("chars", "content"), [(0, "…"), (3, "One …"), (7, "One two …"), (8, "One two. …")])
def test_a_cut_reply_ends_with_an_ellipsis(chars: int, content: str) -> None:
    assert heard_message("One two. ", chars, is_cut=True) == {"role": "assistant", "content": content}
    assert heard_message("One two. ", 9, is_cut=False)["content"] == "One two."
