"""ElevenLabs' own client, and sockets like its agents', speak to the server word by word."""

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import pytest
from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from serve.serving import Served, Serving, eventually
from tones import FRAME_SAMPLES, RATE_HZ, Script
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

KEY = "a-key-that-nobody-guesses"
WORDS = ["Alpha ", "beta ", "gamma."]
QUERY = "?output_format=pcm_24000"


def client_of(server: Served, key: str = "any") -> ElevenLabs:
    client = ElevenLabs(base_url=server.url, api_key=key, timeout=20.0)
    client.text_to_speech._ws_base_url = server.url.replace("http", "ws")
    return client


def socket_of(server: Served, kind: str, query: str = QUERY, **headers: str) -> ClientConnection:
    url = f"{server.url.replace('http', 'ws')}/v1/text-to-speech/tone:low/{kind}{query}"
    return connect(url, proxy=None, additional_headers=headers or None)


def say(ws: ClientConnection, **message: Any) -> None:
    ws.send(json.dumps(message))


def heard(ws: ClientConnection) -> Iterator[dict[str, Any]]:
    """Messages up to the close."""
    while True:
        try:
            yield json.loads(ws.recv(timeout=20))
        except ConnectionClosed as error:
            assert error.rcvd is not None and error.rcvd.code == 1000
            return


def until_final(ws: ClientConnection, context: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    while not out or not (out[-1].get("isFinal") and out[-1]["contextId"] == context):
        out.append(json.loads(ws.recv(timeout=20)))
    return [one for one in out if one["contextId"] == context]


def pcm_of(messages: list[dict[str, Any]]) -> np.ndarray:
    return np.frombuffer(b"".join(base64.b64decode(one.get("audio") or "") for one in messages), "<i2")


def alignments(messages: list[dict[str, Any]], kind: str = "alignment") -> list[dict[str, list[Any]]]:
    out = [one[kind] for one in messages if one.get(kind)]
    assert all(len({len(values) for values in one.values()}) == 1 for one in out)
    assert all(set(one) == {"chars", "charStartTimesMs", "charDurationsMs"} for one in out)
    return out


def one_text(server: Served, query: str, words: list[str] = WORDS) -> list[dict[str, Any]]:
    """As an agent: an init message, words, and the end."""
    with socket_of(server, "stream-input", query) as ws:
        say(ws, text=" ", voice_settings={"stability": 0.5}, generation_config={"chunk_length_schedule": [50]})
        for word in words:
            say(ws, text=word, try_trigger_generation=True)
        say(ws, text="")
        return list(heard(ws))


@pytest.mark.parametrize("form", ["pcm_16000", "pcm_22050", "pcm_24000", "pcm_44100", "mp3_44100_128"])
def test_their_client_speaks_words_as_they_come(serving: Serving, form: str) -> None:
    server = serving()
    sound = b"".join(
        client_of(server).text_to_speech.convert_realtime(
            "tone:low", text=iter(WORDS), model_id="eleven_turbo_v2_5", output_format=form
        )
    )
    made_s = server.engine.opened[-1].samples / RATE_HZ
    assert server.engine.opened[-1]._text.split() == ["Alpha", "beta", "gamma."]
    if form.startswith("mp3"):
        with av.open(io.BytesIO(sound)) as file:
            frames = list(file.decode(audio=0))
        pcm, rate_hz = np.concatenate([one.to_ndarray()[0] for one in frames]), frames[0].sample_rate
    else:
        pcm, rate_hz = np.frombuffer(sound, "<i2"), int(form.removeprefix("pcm_"))
    assert abs(len(pcm) / rate_hz - made_s) < 0.1
    pitch_hz = np.abs(np.fft.rfft(pcm)).argmax() * rate_hz / len(pcm)
    assert abs(pitch_hz - 220.0) < 15.0


def test_voices_are_listed_for_their_client(serving: Serving) -> None:
    listed = client_of(serving()).voices.get_all().voices
    assert [one.voice_id for one in listed] == ["tone:low", "tone:high"]


def test_alignment_is_absolute_or_adds_up(serving: Serving) -> None:
    server = serving()
    absolute = one_text(server, f"{QUERY}&sync_alignment=true")
    relative = one_text(server, QUERY)
    assert np.array_equal(pcm_of(absolute), pcm_of(relative)) and len(pcm_of(absolute))
    assert "".join("".join(one["chars"]) for one in alignments(absolute)) == "Alpha beta gamma."
    spoken = alignments(absolute, "normalizedAlignment")
    assert "".join("".join(one["chars"]) for one in spoken) == "alpha beta gamma. "
    starts = [one["charStartTimesMs"][0] for one in alignments(absolute)]
    frame_ms = 1000 * FRAME_SAMPLES // RATE_HZ
    lengths = [frame_ms * max(1, round(60 * letters / frame_ms)) for letters in (5, 4, 5)]
    assert starts == [0, lengths[0], lengths[0] + lengths[1]]
    last = alignments(absolute)[-1]
    assert last["charStartTimesMs"][-1] + last["charDurationsMs"][-1] == sum(lengths)
    at = 0
    for one, other in zip(alignments(relative), alignments(absolute), strict=True):
        assert [at + start for start in one["charStartTimesMs"]] == other["charStartTimesMs"]
        assert one["charDurationsMs"] == other["charDurationsMs"]
        at += one["charStartTimesMs"][-1] + one["charDurationsMs"][-1]
    assert absolute[-1] == {"isFinal": True} and sum(bool(one.get("isFinal")) for one in absolute) == 1


def test_no_space_and_no_unspoken_text_is_lost(serving: Serving) -> None:
    messages = one_text(serving(), QUERY, ["One  two", " -- three\n", "four "])
    assert "".join("".join(one["chars"]) for one in alignments(messages)) == "One  two -- three\nfour "


@pytest.mark.parametrize("end", [' <break time="1s"/>', " \U0001f600", "  \n"])
def test_what_follows_the_last_word_is_aligned_at_the_end(serving: Serving, end: str) -> None:
    messages = one_text(serving(), f"{QUERY}&sync_alignment=true", ["One ", "two", end])
    aligned = alignments(messages)
    assert "".join("".join(one["chars"]) for one in aligned) == f"One two{end}"
    assert aligned[-1]["charStartTimesMs"][-1] <= 1000 * len(pcm_of(messages)) / RATE_HZ + 1
    assert "".join("".join(one["chars"]) for one in alignments(messages, "normalizedAlignment")) == "one two "


def test_flush_speaks_what_came_and_goes_on(serving: Serving) -> None:
    with socket_of(serving(), "stream-input") as ws:
        say(ws, text=" ")
        say(ws, text="alpha ", flush=True)
        first: list[dict[str, Any]] = []
        while not alignments(first):
            first.append(json.loads(ws.recv(timeout=20)))
        assert len(pcm_of(first)) and not any(one["isFinal"] for one in first)
        say(ws, text="beta ")
        say(ws, text="")
        rest = list(heard(ws))
    assert ["".join(one["chars"]) for one in alignments(rest)] == ["beta "] and len(pcm_of(rest))


def test_contexts_are_apart(serving: Serving) -> None:
    server = serving()
    with socket_of(server, "multi-stream-input") as ws:
        for name, word in (("one", "alpha "), ("two", "beta ")):
            say(ws, text=" ", context_id=name)
            say(ws, text=word, context_id=name)
        say(ws, text="", context_id="one")  # a keepalive
        say(ws, context_id="one", flush=True)  # without a text
        say(ws, context_id="one", close_context=True)
        first = until_final(ws, "one")
        assert ["".join(one["chars"]) for one in alignments(first)] == ["alpha "] and len(pcm_of(first))
        say(ws, text="gamma ", context_id="two", flush=True)
        say(ws, close_socket=True)
        rest = list(heard(ws))
    assert {one["contextId"] for one in rest} == {"two"}
    assert "".join("".join(one["chars"]) for one in alignments(rest)) == "beta gamma "
    assert rest[-1] == {"isFinal": True, "contextId": "two", "context_id": "two"}


def test_closed_context_is_interrupted(serving: Serving) -> None:
    """Text that was not flushed is not spoken on; the socket's other contexts go on."""
    server = serving(script=Script(speed=1.0))
    with socket_of(server, "multi-stream-input") as ws:
        say(ws, text="alpha " * 200, context_id="one")
        while not json.loads(ws.recv(timeout=20)).get("audio"):
            pass
        say(ws, context_id="one", close_context=True)
        until_final(ws, "one")
        assert server.engine.opened[-1].samples < 10 * RATE_HZ
        say(ws, text="beta ", context_id="one")
        say(ws, context_id="one", flush=True)
        say(ws, context_id="one", close_context=True)
        assert "".join("".join(one["chars"]) for one in alignments(until_final(ws, "one"))) == "beta "


def test_context_that_is_closed_twice_is_interrupted(serving: Serving) -> None:
    """Frameworks close a context when its text is complete, and once more when the user interrupts it."""
    server = serving(script=Script(speed=1.0))
    with socket_of(server, "multi-stream-input") as ws:
        say(ws, text="alpha " * 200, context_id="one")
        say(ws, context_id="one", flush=True)
        say(ws, context_id="one", close_context=True)
        while not json.loads(ws.recv(timeout=20)).get("audio"):
            pass
        say(ws, context_id="one", close_context=True)
        until_final(ws, "one")
        assert eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot") < 2.0
        assert server.engine.opened[-1].samples < 10 * RATE_HZ


def test_breaks_are_silence_however_they_are_cut(serving: Serving) -> None:
    server = serving()
    written = 'Alpha <break time="0.5s" /> beta.'
    for name, pieces in (("whole", [written]), ("cut", [*written])):
        with socket_of(server, "multi-stream-input", "?output_format=pcm_24000&sync_alignment=true") as ws:
            for piece in pieces:
                say(ws, text=piece, context_id=name)
            say(ws, context_id=name, flush=True)
            say(ws, context_id=name, close_context=True)
            heard = until_final(ws, name)
        told = alignments(heard)
        assert "".join("".join(one["chars"]) for one in told) == written
        starts = [start for one in told for start in one["charStartTimesMs"]]
        ends = [a + b for one in told for a, b in zip(one["charStartTimesMs"], one["charDurationsMs"], strict=True)]
        assert starts[written.index("beta")] - ends[4] >= 500
        sound = b"".join(base64.b64decode(one.get("audio") or "") for one in heard)
        assert bytes(24_000) in sound and sound[-2400:] != bytes(2400)


def test_client_that_leaves_frees_its_slots(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    with socket_of(server, "multi-stream-input") as ws:
        for name in "abc":
            say(ws, text="alpha " * 200, context_id=name)
        eventually(lambda: server.engine.free_slots() == server.engine.places - 3, "three utterances")
    assert eventually(lambda: server.engine.free_slots() == server.engine.places, "the slots") < 2.0


@pytest.mark.parametrize(
    ("path", "says"),
    [("alloy/stream-input", "tone:low, tone:high"), ("tone/stream-input?output_format=wma", "pcm_16000")],
)
def test_bad_address_is_explained(serving: Serving, path: str, says: str) -> None:
    with connect(f"{serving().url.replace('http', 'ws')}/v1/text-to-speech/{path}", proxy=None) as ws:
        say(ws, text=" ")
        assert says in json.loads(ws.recv(timeout=20))["message"]
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=20)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_bad_address_is_told_to_the_context_that_waits(serving: Serving) -> None:
    """Frameworks ignore what comes before their first message, and wait for their context for ever."""
    with connect(f"{serving().url.replace('http', 'ws')}/v1/text-to-speech/alloy/multi-stream-input", proxy=None) as ws:
        with pytest.raises(TimeoutError):
            ws.recv(timeout=0.2)
        say(ws, text=" ", context_id="one")
        error = json.loads(ws.recv(timeout=20))
    assert (error["error"], error["contextId"], error["context_id"]) == ("bad_voice", "one", "one")


@pytest.mark.parametrize("kind", ["stream-input", "multi-stream-input"])
@pytest.mark.parametrize("message", ["[]", "{", '{"text": 3}', '{"context_id": {}}', "x" * 300_000])
def test_malformed_message_is_explained(serving: Serving, kind: str, message: str) -> None:
    with socket_of(serving(), kind) as ws:
        ws.send(message)
        assert json.loads(ws.recv(timeout=20))["error"] == "bad_message"


def test_full_server_says_busy(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    server.engine.queue = 0
    with server.talk() as talk:
        for number in range(server.engine.places):
            talk.open(number)
        with pytest.raises(ApiError) as error:
            b"".join(client_of(server).text_to_speech.convert_realtime("tone:low", text=iter(WORDS)))
        body: Any = error.value.body  # the close reason, where the package notices the close while it sends
        assert (error.value.status_code, body["error"] if isinstance(body, dict) else body) == (1013, "busy")
        with socket_of(server, "multi-stream-input") as ws:
            say(ws, text="alpha ", context_id="one")
            assert json.loads(ws.recv(timeout=20))["contextId"] == "one"


def test_failure_closes_the_socket_with_the_reason(serving: Serving) -> None:
    with pytest.raises(ApiError) as error:
        client = client_of(serving(script=Script(speed=20.0, fail_at_word=1)))
        b"".join(client.text_to_speech.convert_realtime("tone:low", text=iter(WORDS)))
    assert error.value.status_code == 1011 and "the script fails" in str(error.value.body)


def test_key_is_the_clients_api_key(serving: Serving) -> None:
    server = serving(key=KEY)
    assert b"".join(client_of(server, KEY).text_to_speech.convert_realtime("tone:low", text=iter(WORDS)))
    with pytest.raises(InvalidStatus) as refused:
        socket_of(server, "stream-input", **{"xi-api-key": "wrong"})
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize(("query", "chars"), [("", "**Alpha** beta."), ("&markup=markdown", "Alpha beta.")])
def test_alignment_has_the_text_as_written_unless_asked_for(serving: Serving, query: str, chars: str) -> None:
    messages = one_text(serving(), QUERY + query, ["**Al", "pha** ", "beta. "])
    assert "".join(char for one in alignments(messages) for char in one["chars"]).strip() == chars
