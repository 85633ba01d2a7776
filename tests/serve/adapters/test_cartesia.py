"""Cartesia's own client speaks to the server over its socket, and over HTTP."""

import base64
import io
import json
from typing import Any

import numpy as np
import pytest
import soundfile
from cartesia import AuthenticationError, BadRequestError, Cartesia, InternalServerError
from serve.serving import Served, Serving, eventually
from tones import RATE_HZ, Script
from websockets.sync.client import ClientConnection, connect

KEY = "a-key-that-nobody-guesses"
WORDS = ["Alpha ", "beta ", "gamma."]
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
RAW_FLOATS: Any = {"samplerate": 44_100, "channels": 1, "format": "RAW", "subtype": "FLOAT"}
VOICE: Any = {"mode": "id", "id": "tone:low"}


def client_of(server: Served, key: str = "any") -> Cartesia:
    return Cartesia(
        api_key=key, base_url=server.url, websocket_base_url=server.url.replace("http", "ws"), max_retries=0
    )


def spoken(context: Any) -> list[Any]:
    """Every event of a context, whose last one is ``done``."""
    events = list(context.receive())
    assert events[-1].type == "done" and events[-1].done and not any(one.done for one in events[:-1])
    return events


def sound(events: list[Any]) -> bytes:
    return b"".join(base64.b64decode(one.data) for one in events if one.type == "chunk")


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "dtype"), [("pcm_s16le", 24_000, "<i2"), ("pcm_s16le", 16_000, "<i2"), ("", 44_100, "<f4")]
)
def test_their_client_speaks_words_as_they_come(serving: Serving, encoding: str, rate_hz: int, dtype: str) -> None:
    server = serving()
    with client_of(server).tts.websocket_connect() as connection:
        form = {**RAW, "encoding": encoding, "sample_rate": rate_hz} if encoding else None  # or the client's default
        context = connection.context(voice=VOICE, output_format=form, add_timestamps=True)
        for word in WORDS:
            context.push(word)
        context.no_more_inputs()
        events = spoken(context)
    assert server.engine.opened[-1]._text.split() == ["Alpha", "beta", "gamma."]
    pcm = np.frombuffer(sound(events), dtype)
    made_s = server.engine.opened[-1].samples / RATE_HZ
    assert abs(len(pcm) / rate_hz - made_s) < 0.1
    assert dtype == "<i2" or 0.01 < np.abs(pcm).max() <= 1.0
    pitch_hz = np.abs(np.fft.rfft(pcm)).argmax() * rate_hz / len(pcm)
    assert abs(pitch_hz - 220.0) < 15.0
    times = [one.word_timestamps for one in events if one.type == "timestamps"]
    assert [word for one in times for word in one.words] == ["Alpha", "beta", "gamma."]
    edges = [edge for one in times for edge in (*one.start, *one.end)]
    assert edges == sorted(edges) and edges[0] >= 0.0 and edges[-1] <= made_s + 1e-9


def test_contexts_share_a_socket_and_times_come_only_where_asked(serving: Serving) -> None:
    with client_of(serving()).tts.websocket_connect() as connection:
        contexts = [connection.context(name, voice=VOICE, output_format=RAW) for name in ("one", "two")]
        for context in contexts:
            context.push("Alpha beta.", continue_=False)
        first, second = (spoken(context) for context in contexts)
    assert sound(first) == sound(second) != b""
    assert {one.type for one in first} == {"chunk", "done"}
    assert {one.context_id for one in first} == {"one"} and {one.context_id for one in second} == {"two"}


def test_flush_is_reported_when_its_words_were_sent(serving: Serving) -> None:
    with client_of(serving()).tts.websocket_connect() as connection:
        context = connection.context(voice=VOICE, output_format=RAW, add_timestamps=True)
        context.push("Alpha beta ")
        context.push("", flush=True)
        events: list[Any] = []
        for event in context.receive():
            events.append(event)
            if event.type == "flush_done":
                break
        assert event.flush_id == 1 and len(sound(events)) > 0
        words = [word for one in events if one.type == "timestamps" for word in one.word_timestamps.words]
        assert words == ["Alpha", "beta"]
        context.push("gamma.", continue_=False)
        assert len(sound(spoken(context))) > 0


def say(ws: ClientConnection, **message: Any) -> None:
    ws.send(json.dumps({"voice": VOICE, "output_format": RAW, "model_id": "sonic-3", **message}))


def socket_of(server: Served, query: str = "") -> ClientConnection:
    return connect(f"{server.url.replace('http', 'ws')}/tts/websocket{query}", proxy=None)


def test_cancel_ends_a_context_at_once(serving: Serving) -> None:
    server = serving(script=Script(speed=2.0))
    with socket_of(server) as ws:
        say(ws, context_id="one", transcript="word " * 200)
        assert json.loads(ws.recv(timeout=20))["type"] == "chunk"
        ws.send(json.dumps({"cancel": True, "context_id": "one"}))
        while (last := json.loads(ws.recv(timeout=20)))["type"] != "done":
            assert last["type"] == "chunk"
        assert server.engine.opened[-1].samples < 100 * RATE_HZ * 0.3
        eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot")
        say(ws, context_id="one", transcript="again")
        assert json.loads(ws.recv(timeout=20))["context_id"] == "one"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"transcript": " "}, "empty"),
        ({"transcript": 5}, "transcript"),
        ({"transcript": "hello", "voice": {"mode": "id", "id": "nobody"}}, "no voice 'nobody'"),
        ({"transcript": "hello", "model_id": "other-3"}, "no model 'other-3'"),
        ({"transcript": "hello", "output_format": {"container": "mp3"}}, "sends no mp3"),
        ({"transcript": "hello", "output_format": {**RAW, "sample_rate": 1}}, "output_format"),
        ({"transcript": "hello", "context_id": "x" * 300}, "context_id"),
    ],
)
def test_mistakes_are_named_and_the_socket_goes_on(serving: Serving, wrong: dict[str, Any], words: str) -> None:
    with socket_of(serving()) as ws:
        say(ws, **wrong)
        error = json.loads(ws.recv(timeout=20))
        assert (error["type"], error["status_code"], error["done"]) == ("error", 400, True)
        assert words in error["message"]
        say(ws, transcript="hello")
        assert json.loads(ws.recv(timeout=20))["type"] == "chunk"


def test_full_server_says_so(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0), max_utterances_per_socket=1)
    with socket_of(server) as ws:
        say(ws, context_id="one", transcript="word " * 50, **{"continue": True})
        say(ws, context_id="two", transcript="word ")
        messages = [json.loads(ws.recv(timeout=20))]
        while messages[-1]["type"] != "error":
            messages.append(json.loads(ws.recv(timeout=20)))
        assert (messages[-1]["context_id"], messages[-1]["status_code"]) == ("two", 429)


def test_key_comes_in_any_of_their_places(serving: Serving) -> None:
    server = serving(key=KEY)
    with client_of(server, KEY).tts.websocket_connect() as connection:
        context = connection.context(voice=VOICE, output_format=RAW)
        context.push("Alpha.", continue_=False)
        assert sound(spoken(context))
    with socket_of(server, f"?api_key={KEY}") as ws:
        say(ws, transcript="hello")
        assert json.loads(ws.recv(timeout=20))["type"] == "chunk"
    with pytest.raises(AuthenticationError):
        client_of(server, "wrong").tts.generate(
            model_id="sonic-3", transcript="hello", voice=VOICE, output_format={**RAW, "container": "wav"}
        )


@pytest.mark.parametrize("form", ["wav", "raw", "mp3"])
def test_bytes_are_the_whole_speech(serving: Serving, form: str) -> None:
    server = serving()
    wanted: Any = {**RAW, "container": form} | ({"bit_rate": 128_000, "sample_rate": 44_100} if form == "mp3" else {})
    answer = client_of(server).tts.generate(
        model_id="sonic-3", transcript="Alpha beta.", voice=VOICE, output_format=wanted
    )
    body = answer.read()
    samples = server.engine.opened[-1].samples
    if form == "mp3":
        assert len(body) > 2_000 and answer.headers["content-type"] == "audio/mpeg"
    else:
        assert len(body) == 2 * samples + (44 if form == "wav" else 0)
    with pytest.raises(BadRequestError, match="empty"):
        client_of(server).tts.generate(model_id="sonic-3", transcript=" ", voice=VOICE, output_format=wanted)


def test_failure_before_the_first_sound_is_a_500(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0, fail_at_word=0))
    wanted: Any = {**RAW, "container": "wav"}
    with pytest.raises(InternalServerError, match="the script fails"):
        client_of(server).tts.generate(model_id="sonic-3", transcript="Alpha beta.", voice=VOICE, output_format=wanted)


@pytest.mark.parametrize("add_timestamps", [True, False])
def test_markdown_is_not_spoken_where_no_times_refer_to_it(serving: Serving, add_timestamps: bool) -> None:
    server = serving()
    with client_of(server).tts.websocket_connect() as connection:
        context = connection.context(voice=VOICE, output_format=RAW, add_timestamps=add_timestamps)
        for piece in ("**Al", "pha** "):
            context.push(piece)
        context.push("beta.", continue_=False)
        events = spoken(context)
    assert server.engine.opened[-1]._text == ("**Alpha** beta." if add_timestamps else "Alpha beta.")
    words = [word for one in events if one.type == "timestamps" for word in one.word_timestamps.words]
    assert words == (["**Alpha**", "beta."] if add_timestamps else [])


@pytest.mark.parametrize("container", ["raw", "wav"])
def test_bytes_may_be_floats(serving: Serving, container: Any) -> None:
    """As in the vendor's first example."""
    server = serving()
    form: Any = {"container": container, "encoding": "pcm_f32le", "sample_rate": 44_100}
    body = client_of(server).tts.generate(model_id="sonic-3", transcript="Alpha.", voice=VOICE, output_format=form)
    pcm, rate_hz = soundfile.read(
        io.BytesIO(body.read()), dtype="float32", **({} if container == "wav" else RAW_FLOATS)
    )
    assert abs(len(pcm) / rate_hz - server.engine.opened[-1].samples / RATE_HZ) < 0.1
    assert 0.01 < np.abs(pcm).max() <= 1.0


def test_events_are_those_of_a_socket(serving: Serving) -> None:
    server = serving()
    asked: Any = {"transcript": "Alpha beta.", "voice": VOICE, "model_id": "sonic-3", "output_format": RAW}
    events = [*client_of(server).tts.generate_sse(**asked, add_timestamps=True, context_id="mine")]
    assert {one.context_id for one in events} == {"mine"}
    assert len(sound(events)) // 2 == server.engine.opened[-1].samples
    assert [one.word_timestamps.words for one in events if one.type == "timestamps"] == [["Alpha"], ["beta."]]
    assert [one.type for one in events if one.done] == ["done"] and events[-1].done
    assert {one.type for one in client_of(server).tts.generate_sse(**asked)} == {"chunk", "done"}
    for wrong in ({"transcript": " "}, {"output_format": {**RAW, "container": "wav"}}, {"voice": "nobody"}):
        with pytest.raises(BadRequestError):
            client_of(server).tts.generate_sse(**{**asked, **wrong})


def test_failure_is_the_last_event(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0, fail_at_word=1))
    asked: Any = {"transcript": "Alpha beta.", "voice": VOICE, "model_id": "sonic-3", "output_format": RAW}
    *_, last = client_of(server).tts.generate_sse(**asked)
    assert (last.type, last.status_code, last.done) == ("error", 500, True) and "the script fails" in last.message


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"voice": {"id": "nobody"}}, "nobody"), ({"output_format": {"sample_rate": 3}}, "sample_rate")],
)
def test_error_reaches_the_context_of_its_message(serving: Serving, wrong: dict[str, Any], words: str) -> None:
    """Their client waits for it there, for ever."""
    with socket_of(serving()) as ws:
        ws.send(json.dumps({"context_id": "mine", "transcript": "Alpha ", "continue": True, **wrong}))
        error = json.loads(ws.recv(timeout=20))
    assert (error["type"], error["context_id"], error["done"]) == ("error", "mine", True) and words in error["message"]


def test_context_without_text_is_done_when_it_ends(serving: Serving) -> None:
    server = serving()
    with client_of(server).tts.websocket_connect() as connection:
        context = connection.context(voice=VOICE)
        context.no_more_inputs()
        assert [one.type for one in context.receive()] == ["done"]
    assert not server.engine.opened


def test_browser_says_its_key_in_the_address(serving: Serving) -> None:
    server = serving(key=KEY)
    for name in ("api_key", "access_token"):
        with socket_of(server, f"?{name}={KEY}") as ws:
            ws.send(json.dumps({"transcript": "Alpha.", "context_id": "one", "voice": VOICE}))
            assert json.loads(ws.recv(timeout=20))["context_id"] == "one"
