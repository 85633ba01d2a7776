"""A client like those of Kyutai's server speaks word by word over msgpack."""

from itertools import pairwise
from typing import Any

import msgpack
import numpy as np
import pytest
from serve.serving import Served, Serving, eventually
from tones import RATE_HZ, Script
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from studio.core.ports import SpeakRequest

KEY = "a-key-that-nobody-guesses"
WORDS = ["Alpha", "beta", "gamma."]
QUERY = "?voice=low&format=PcmMessagePack"


def socket_of(server: Served, query: str = QUERY, **headers: str) -> ClientConnection:
    url = f"{server.url.replace('http', 'ws')}/api/tts_streaming{query}"
    return connect(url, proxy=None, additional_headers=headers or None)


def say(ws: ClientConnection, words: list[str]) -> None:
    for word in words:
        ws.send(msgpack.packb({"type": "Text", "text": word}))
    ws.send(msgpack.packb({"type": "Eos"}))


def until_closed(ws: ClientConnection) -> tuple[list[dict[str, Any]], int]:
    """The messages, and the code of the close."""
    out: list[dict[str, Any]] = []
    while True:
        try:
            out.append(msgpack.unpackb(ws.recv(timeout=60)))
        except ConnectionClosed as error:
            assert error.rcvd is not None
            return out, error.rcvd.code


def samples(messages: list[dict[str, Any]]) -> np.ndarray:
    return np.array([one for message in messages if message["type"] == "Audio" for one in message["pcm"]], np.float32)


def test_words_become_audio_and_words_with_times(serving: Serving) -> None:
    server = serving()
    with socket_of(server) as ws:
        say(ws, WORDS)
        messages, code = until_closed(ws)
    assert code == 1000 and messages[0] == {"type": "Ready"}
    pcm = samples(messages)
    sent = server.engine.opened[-1].samples
    assert len(pcm) == sent and 0.05 < np.abs(pcm).max() <= 1.0
    words = [one for one in messages if one["type"] == "Text"]
    assert [one["text"] for one in words] == WORDS
    assert all(a["stop_s"] <= b["start_s"] + 1e-6 for a, b in pairwise(words))
    assert words[-1]["stop_s"] == pytest.approx(len(pcm) / RATE_HZ, abs=0.1)


def test_speech_begins_before_the_text_has_ended(serving: Serving) -> None:
    with socket_of(serving()) as ws:
        for word in WORDS:
            ws.send(msgpack.packb({"type": "Text", "text": word}))
        kinds = {msgpack.unpackb(ws.recv(timeout=60))["type"] for _ in range(3)}
        assert "Audio" in kinds
        ws.send(msgpack.packb({"type": "Eos"}))
        assert until_closed(ws)[1] == 1000


@pytest.mark.parametrize("words", [["Alpha beta", " gamma."], ["Alpha ", "", "beta gamma."]])
def test_messages_may_hold_spaces_and_several_words(serving: Serving, words: list[str]) -> None:
    with socket_of(serving()) as ws:
        say(ws, words)
        messages, _ = until_closed(ws)
    assert [one["text"] for one in messages if one["type"] == "Text"] == WORDS


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        msgpack.packb([1]),
        msgpack.packb({"type": "Voice", "embeddings": [0.0], "shape": [1]}),
        msgpack.packb({"type": "Text", "text": 3}),
        msgpack.packb({"type": "Text"}),
        "text",
    ],
)
def test_other_messages_end_the_socket_in_words(serving: Serving, message: bytes | str) -> None:
    server = serving()
    with socket_of(server) as ws:
        ws.send(message)
        messages, code = until_closed(ws)
    assert code == 1008 and messages[-1]["type"] == "Error"
    assert "no message of the protocol" in messages[-1]["message"]
    eventually(lambda: server.engine.free_slots() == server.engine.places, "its slot is free")


@pytest.mark.parametrize(("query", "says"), [("?voice=nobody", "tone:low"), ("?format=Wav", "PcmMessagePack")])
def test_wrong_address_is_named(serving: Serving, query: str, says: str) -> None:
    with socket_of(serving(), query) as ws:
        messages, code = until_closed(ws)
    assert code == 1008 and messages[0]["type"] == "Error" and says in messages[0]["message"]


def test_full_server_says_so_at_once(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    server.engine.queue = 0
    for _ in range(server.engine.places):
        server.engine.open(SpeakRequest())
    with socket_of(server) as ws:
        messages, code = until_closed(ws)
    assert code == 1013 and [one["type"] for one in messages] == ["Error"]


def test_failing_voice_is_an_error(serving: Serving) -> None:
    with socket_of(serving(script=Script(fail_at_word=1))) as ws:
        say(ws, WORDS)
        messages, code = until_closed(ws)
    assert code != 1000 and messages[-1]["type"] == "Error"


def test_client_that_leaves_frees_its_slot(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    with socket_of(server) as ws:
        ws.send(msgpack.packb({"type": "Text", "text": "Alpha beta gamma delta"}))
        assert msgpack.unpackb(ws.recv(timeout=60))["type"] == "Ready"
    eventually(lambda: server.engine.free_slots() == server.engine.places, "its slot is free")


def test_key_is_sent_in_their_header(serving: Serving) -> None:
    server = serving(key=KEY)
    with pytest.raises(InvalidStatus):
        socket_of(server)
    with socket_of(server, **{"kyutai-api-key": KEY}) as ws:
        say(ws, WORDS)
        assert until_closed(ws)[1] == 1000


@pytest.mark.parametrize(("query", "spoken"), [("", ["**Alpha**", "beta."]), ("&markup=markdown", ["Alpha", "beta."])])
def test_words_are_spoken_as_they_are_unless_asked_for(serving: Serving, query: str, spoken: list[str]) -> None:
    server = serving()
    with socket_of(server, QUERY + query) as ws:
        say(ws, ["**Alpha**", "beta."])
        messages, code = until_closed(ws)
    assert code == 1000
    assert [one["text"] for one in messages if one["type"] == "Text"] == spoken
