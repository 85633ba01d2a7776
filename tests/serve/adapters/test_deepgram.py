"""Deepgram's own client speaks to the server over its socket, and over HTTP."""

import io
import json
from typing import Any

import av
import httpx
import numpy as np
import pytest
from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text
from serve.serving import Served, Serving, eventually
from tones import RATE_HZ, Script
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from studio.serve.adapters import deepgram

KEY = "a-key-that-nobody-guesses"


def client_of(server: Served, key: str = "any") -> DeepgramClient:
    sockets = server.url.replace("http", "ws")
    here = DeepgramClientEnvironment(base=server.url, production=sockets, agent=sockets, agent_rest=server.url)
    return DeepgramClient(api_key=key, environment=here)


def until(socket: Any, kind: str) -> tuple[bytes, list[Any]]:
    """The sound and the other messages up to one of a type."""
    sound, messages = b"", []
    while not messages or messages[-1].type != kind:
        message = socket.recv()
        if isinstance(message, bytes):
            sound += message
        else:
            messages.append(message)
    return sound, messages


def test_their_client_speaks_words_as_they_come_and_flushes(serving: Serving) -> None:
    server = serving()
    with client_of(server).speak.v1.connect(
        model="aura-2-thalia-en", encoding="linear16", sample_rate="24000"
    ) as socket:
        assert socket.recv().model_name == "tone"
        for word in ("Alpha ", "beta ", "gamma."):
            socket.send_text(SpeakV1Text(text=word))
        socket.send_flush()
        first, messages = until(socket, "Flushed")
        assert messages[-1].sequence_id == 0
        socket.send_text(SpeakV1Text(text="Delta."))
        socket.send_flush()
        second, messages = until(socket, "Flushed")
        assert messages[-1].sequence_id == 1
        socket.send_close()
    assert [one._text.split() for one in server.engine.opened] == [["Alpha", "beta", "gamma."], ["Delta."]]
    assert [len(first) // 2, len(second) // 2] == [one.samples for one in server.engine.opened]


def test_speech_starts_before_the_flush_and_stays_in_order(serving: Serving) -> None:
    server = serving()
    with client_of(server).speak.v1.connect(model="tone:low", encoding="linear16", sample_rate="24000") as socket:
        socket.recv()
        socket.send_text(SpeakV1Text(text="One two three four five six "))
        head = socket.recv()
        assert isinstance(head, bytes) and len(head)
        socket.send_flush()
        socket.send_text(SpeakV1Text(text="seven eight."))  # waits for what was flushed
        socket.send_flush()
        first, _ = until(socket, "Flushed")
        second, _ = until(socket, "Flushed")
    assert [len(head + first) // 2, len(second) // 2] == [one.samples for one in server.engine.opened]


def socket_of(server: Served, query: str = "") -> ClientConnection:
    return connect(f"{server.url.replace('http', 'ws')}/v1/speak{query}", proxy=None)


def say(ws: ClientConnection, kind: str, **fields: Any) -> None:
    ws.send(json.dumps({"type": kind, **fields}))


def test_clear_stops_at_once_and_the_socket_goes_on(serving: Serving) -> None:
    server = serving(script=Script(speed=2.0))
    with socket_of(server) as ws:
        ws.recv(timeout=20)
        say(ws, "Speak", text="word " * 200)
        say(ws, "Flush")
        say(ws, "Speak", text="never spoken. ")
        assert isinstance(ws.recv(timeout=20), bytes)
        say(ws, "Clear")
        while isinstance(message := ws.recv(timeout=20), bytes):
            pass
        assert json.loads(message)["type"] == "Cleared"
        eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot")
        say(ws, "Speak", text="again.")
        say(ws, "Flush")
        assert isinstance(ws.recv(timeout=20), bytes)
        while isinstance(message := ws.recv(timeout=20), bytes):
            pass
        assert json.loads(message) == {"type": "Flushed", "sequence_id": 0}
    assert [one._text.split()[0] for one in server.engine.opened] == ["word", "again."]


def test_close_speaks_what_came_and_then_closes(serving: Serving) -> None:
    server = serving()
    with socket_of(server) as ws:
        ws.recv(timeout=20)
        say(ws, "Speak", text="Alpha beta.")
        say(ws, "Close")
        sound = b"".join(one for one in ws if isinstance(one, bytes))
        assert ws.close_code == 1000
    assert len(sound) // 2 == server.engine.opened[-1].samples


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"type": "Speak", "text": 5}, "text"),
        ({"type": "Shout"}, "type"),
        ({"type": "Speak", "text": "x" * 150_000}, "characters wait"),
    ],
)
def test_mistakes_are_warnings_and_the_socket_goes_on(serving: Serving, message: Any, words: str) -> None:
    with socket_of(serving()) as ws:
        ws.recv(timeout=20)
        ws.send(json.dumps(message))
        warning = json.loads(ws.recv(timeout=20))
        assert warning["type"] == "Warning" and words in warning["description"]
        say(ws, "Flush")  # of nothing
        assert json.loads(ws.recv(timeout=20))["type"] == "Flushed"


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?model=nobody", "no voice 'nobody'"),
        ("?encoding=mp4", "encoding"),
        ("?container=wav", "container"),
        ("?sample_rate=24001", "sample_rate"),
        ("?sample_rate=.", "sample_rate"),
        (f"?sample_rate={'9' * 400}", "sample_rate"),  # no float holds it
        (f"?sample_rate={'9' * 5000}", "sample_rate"),  # and int() takes no so many digits
    ],
)
def test_wrong_addresses_are_named(serving: Serving, query: str, words: str) -> None:
    server = serving()
    with socket_of(server, query) as ws:
        assert words in json.loads(ws.recv(timeout=20))["description"]
    answer = httpx.post(f"{server.url}/v1/speak{query}", json={"text": "Hello."})
    if query != "?container=wav":  # which a socket does not send
        assert answer.status_code in (400, 404, 422) and words in answer.json()["err_msg"]


def test_sample_rate_may_have_a_point(serving: Serving) -> None:
    url = f"{serving().url}/v1/speak?encoding=linear16&sample_rate=16000.0"
    assert "rate=16000" in httpx.post(url, json={"text": "Hello."}, timeout=60.0).headers["content-type"]


@pytest.mark.parametrize("form", ["linear16", "mp3", "opus", "flac"])
def test_http_answers_with_the_whole_speech(serving: Serving, form: Any) -> None:
    server = serving(key=KEY)
    more: dict[str, Any] = {"container": "wav", "sample_rate": 24_000} if form == "linear16" else {}
    speak = client_of(server, KEY).speak.v1.audio
    body = b"".join(speak.generate(text="Alpha beta.", model="aura-2-thalia-en", encoding=form, **more))
    made_s = server.engine.opened[-1].samples / RATE_HZ
    with av.open(io.BytesIO(body)) as file:
        frames = list(file.decode(audio=0))
    seconds = sum(one.samples for one in frames) / frames[0].sample_rate
    assert abs(seconds - made_s) < 0.15
    pcm = np.concatenate([one.to_ndarray().reshape(-1) for one in frames])
    assert np.abs(pcm.astype(float)).max() > 0.0
    with pytest.raises(ApiError) as wrong:
        list(speak.generate(text=" ", model="aura-2-thalia-en"))
    assert wrong.value.status_code == 400 and "empty" in wrong.value.body["err_msg"]
    with pytest.raises(ApiError) as wrong:
        list(client_of(server, "wrong").speak.v1.audio.generate(text="Alpha."))
    assert wrong.value.status_code == 401


def test_failure_before_the_first_sound_is_a_500(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0, fail_at_word=0))
    with pytest.raises(ApiError) as failed:
        list(client_of(server).speak.v1.audio.generate(text="Alpha beta.", request_options={"max_retries": 0}))
    assert failed.value.status_code == 500 and "the script fails" in failed.value.body["err_msg"]


@pytest.mark.parametrize(("query", "spoken"), [("", "Alpha beta."), ("?markup=plain", "**Alpha** `beta`.")])
def test_markdown_is_not_spoken_unless_the_text_is_plain(serving: Serving, query: str, spoken: str) -> None:
    server = serving()
    with socket_of(server, query) as ws:
        ws.recv(timeout=20)
        for piece in ("**Al", "pha** `be", "ta`."):
            say(ws, "Speak", text=piece)
        say(ws, "Flush")
        while isinstance(ws.recv(timeout=20), bytes):
            pass
    assert server.engine.opened[-1]._text == spoken
    more: Any = {"additional_query_parameters": {"markup": "plain"} if query else {}}
    list(client_of(server).speak.v1.audio.generate(text="**Alpha** `beta`.", model="tone", request_options=more))
    assert server.engine.opened[-1]._text == spoken


def test_headers_name_the_request_and_the_voice(serving: Serving) -> None:
    """The vendor's packages before 5 fail without them."""
    said = httpx.post(f"{serving().url}/v1/speak?model=tone", json={"text": "Alpha beta."}, timeout=60.0).headers
    assert (said["dg-model-name"], said["dg-char-count"]) == ("tone", "11")
    assert said["dg-request-id"] and said["dg-model-uuid"] and said["content-type"] == "audio/mpeg"


def test_name_of_a_voice_may_have_any_characters(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepgram, "_names", lambda card: {"model_name": "\u58f0 1"})
    said = httpx.post(f"{serving().url}/v1/speak?model=tone", json={"text": "Alpha beta."}, timeout=60.0)
    assert said.status_code == 200 and said.headers["dg-model-name"] == "%E5%A3%B0 1"


@pytest.mark.parametrize("scheme", ["token", "bearer"])
def test_browser_says_its_key_as_a_subprotocol(serving: Serving, scheme: Any) -> None:
    server = serving(key=KEY)
    url = f"{server.url.replace('http', 'ws')}/v1/speak"
    offered: Any = [scheme, KEY, "x-deepgram-session-id", "1"]
    with connect(url, proxy=None, subprotocols=offered) as ws:
        assert ws.subprotocol == scheme and json.loads(ws.recv(timeout=20))["type"] == "Metadata"
    offered[1] = "wrong"
    with pytest.raises(InvalidStatus) as refused:
        connect(url, proxy=None, subprotocols=offered)
    assert refused.value.response.status_code == 401
