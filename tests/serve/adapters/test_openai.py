"""OpenAI's own client speaks to the server: formats, streams, errors, limits, and a client that leaves."""

import asyncio
import base64
import io
import json
import threading
import wave
from typing import Any

import av
import httpx
import httpx2
import numpy as np
import openai
import pytest
from serve.serving import Served, Serving, eventually
from tones import FRAME_SAMPLES, RATE_HZ, Script

from studio.serve.adapters import openai as openai_adapter
from studio.serve.adapters.speech import json_with_sound
from studio.text.markdown import MarkdownStream
from studio.text.ssml import SsmlReader

KEY = "a-key-that-nobody-guesses"
TEXT = "Alpha beta gamma."
LONG = "alpha " * 300
JSON: dict[str, Any] = {"input": TEXT, "voice": "low", "response_format": "pcm", "stream_format": "json"}


def client_of(server: Served, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=20.0)


@pytest.fixture
def client(serving: Serving) -> openai.OpenAI:
    return client_of(serving())


def spoken(client: openai.OpenAI, form: Any, **more: Any) -> bytes:
    chosen = {"input": TEXT, "model": "tts-1", "voice": "low", "response_format": form, **more}
    return client.audio.speech.create(**chosen).content


def decoded(data: bytes) -> np.ndarray:
    """Samples at 24 kHz."""
    resampler, parts = av.AudioResampler("s16", "mono", RATE_HZ), []
    with av.open(io.BytesIO(data)) as file:
        for frame in file.decode(audio=0):
            parts += [one.to_ndarray()[0] for one in resampler.resample(frame)]
    return np.concatenate(parts)


def pitch_hz(pcm: np.ndarray) -> float:
    """Of the loudest partial."""
    return float(np.abs(np.fft.rfft(pcm)).argmax() * RATE_HZ / len(pcm))


def engines_sound(server: Served) -> int:
    return server.engine.opened[-1].samples


def test_pcm_and_wav_are_the_samples_of_the_engine(serving: Serving) -> None:
    server = serving()
    client = client_of(server)
    pcm = np.frombuffer(spoken(client, "pcm"), "<i2")
    assert len(pcm) == engines_sound(server) > RATE_HZ // 2
    assert abs(pitch_hz(pcm) - 220.0) < 15.0  # the speaker "low"
    assert server.engine.opened[-1].speaker == "low"
    with wave.open(io.BytesIO(spoken(client, "wav"))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE_HZ, 1, 2)
        assert file.readframes(10**9) == pcm.tobytes()
    high = np.frombuffer(spoken(client, "pcm", voice="tone:high"), "<i2")
    assert abs(pitch_hz(high) - 440.0) < 15.0


@pytest.mark.parametrize("form", ["mp3", "opus", "aac", "flac"])
def test_encoded_formats_hold_the_whole_speech(client: openai.OpenAI, form: str) -> None:
    expected = np.frombuffer(spoken(client, "pcm"), "<i2")
    answer = client.audio.speech.with_raw_response.create(
        input=TEXT,
        model="tts-1",
        voice="low",
        response_format=form,  # type: ignore[arg-type]
    )
    assert answer.headers["content-type"] == {"mp3": "audio/mpeg", "opus": "audio/ogg"}.get(form, f"audio/{form}")
    pcm = decoded(answer.content)
    assert abs(len(pcm) - len(expected)) < 0.1 * RATE_HZ  # encoders pad
    assert abs(pitch_hz(pcm) - 220.0) < 15.0
    if form == "flac":
        assert np.array_equal(pcm, expected)


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0])
def test_speed_keeps_the_pitch(client: openai.OpenAI, speed: float) -> None:
    expected = np.frombuffer(spoken(client, "pcm"), "<i2")
    pcm = np.frombuffer(spoken(client, "pcm", speed=speed), "<i2")
    assert abs(len(pcm) * speed / len(expected) - 1.0) < 0.05
    assert abs(pitch_hz(pcm) - 220.0) < 15.0


def test_sound_is_sent_as_it_is_made(serving: Serving) -> None:
    """The first bytes come while the voice still speaks."""
    server = serving(script=Script(speed=1.0))
    with client_of(server).audio.speech.with_streaming_response.create(
        input=TEXT, model="tts-1", voice="low", response_format="pcm"
    ) as answer:
        first = next(answer.iter_bytes(2 * FRAME_SAMPLES))
        assert len(first) == 2 * FRAME_SAMPLES
        assert engines_sound(server) < 8 * FRAME_SAMPLES, "the engine spoke on before anything was sent"


def test_server_sent_events_hold_the_same_sound(client: openai.OpenAI) -> None:
    pcm = spoken(client, "pcm")
    with client.audio.speech.with_streaming_response.create(
        input=TEXT, model="gpt-4o-mini-tts", voice="low", response_format="pcm", stream_format="sse"
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]
    assert [one["type"] for one in events[:-1]] == ["speech.audio.delta"] * (len(events) - 1) and len(events) > 3
    assert b"".join(base64.b64decode(one["audio"]) for one in events[:-1]) == pcm
    frames = len(pcm) // 2 // FRAME_SAMPLES
    usage = {"input_tokens": 3, "output_tokens": frames, "total_tokens": 3 + frames}
    assert events[-1] == {"type": "speech.audio.done", "usage": usage}


def test_one_answer_has_the_sound_and_the_times_of_its_words(serving: Serving) -> None:
    server = serving()
    written = "**Alpha** \U0001f600 in 1999, gamma. \U0001f600"
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=JSON | {"input": written})
    told, pcm = answer.json(), np.frombuffer(spoken(client_of(server), "pcm", input=written), "<i2")
    assert set(told) == {"audio", "content_type", "duration_s", "text", "words"}
    assert np.array_equal(np.frombuffer(base64.b64decode(told["audio"]), "<i2"), pcm)
    assert told["content_type"].startswith("audio/pcm;rate=24000") and told["duration_s"] == len(pcm) / RATE_HZ
    words = told["words"]
    assert told["text"].strip() == written.replace("**", "")
    assert [one["word"] for one in words] == ["Alpha", "in", "1999,", "gamma."], "written forms, and no emoji"
    assert [told["text"][one["char_start"] : one["char_end"]] for one in words] == [one["word"] for one in words]
    edges = [edge for one in words for edge in (one["start_s"], one["end_s"])]
    assert edges == sorted(edges) and edges[0] == 0.0 and edges[-1] == told["duration_s"]
    assert answer.headers["x-studio-speech"] == "synthetic"
    url = f"{server.url}/{answer.headers['x-studio-trace']}"
    eventually(lambda: httpx.get(url).status_code == 200, "the trace")
    eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot")


def test_times_of_one_answer_are_those_of_its_sound(client: openai.OpenAI) -> None:
    """At another speed, and with pauses."""
    ssml = '<speak>Alpha <break time="500ms"/>beta</speak>'

    def told(**more: Any) -> dict[str, Any]:
        return httpx.post(f"{client.base_url}audio/speech", json=JSON | {"input": ssml, "markup": "ssml"} | more).json()

    usual, fast = told(), told(speed=2.0)
    (alpha, beta), (fast_alpha, fast_beta) = usual["words"], fast["words"]
    assert beta["start_s"] - alpha["end_s"] >= 0.5
    assert usual["text"][beta["char_start"] : beta["char_end"]] == "beta" == beta["word"]
    assert fast_alpha["end_s"] == pytest.approx(alpha["end_s"] / 2, abs=0.002)
    assert fast_beta["end_s"] == pytest.approx(beta["end_s"] / 2, abs=0.002) == fast["duration_s"]
    assert len(base64.b64decode(fast["audio"])) / 2 / RATE_HZ == pytest.approx(fast["duration_s"], abs=0.05)


def test_too_much_sound_for_one_answer_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_adapter, "MAX_WHOLE_BYTES", RATE_HZ)
    server = serving()
    long = JSON | {"input": '<speak>a<break time="3s"/></speak>', "markup": "ssml"}
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=long)
    assert answer.status_code == 400 and "too long for one JSON" in answer.json()["error"]["message"]
    eventually(lambda: server.engine.free_slots() == server.engine.places, "the slot")


@pytest.mark.parametrize("size", [0, 1, 2, 500_000])
def test_one_answer_is_written_in_pieces(size: int) -> None:
    """A whole one of a long speech would take the event loop for a third of a second."""
    sound, rest = bytes(range(200)) * (size // 200) + b"x" * (size % 200), {"text": 'a "word" \U0001f600'}
    response = json_with_sound("audio", sound, rest)

    async def pieces() -> list[Any]:
        return [piece async for piece in response.body_iterator]

    found = asyncio.run(pieces())
    assert max(map(len, found)) < 200_000
    assert len(b"".join(found)) == int(response.headers["content-length"])
    assert json.loads(b"".join(found)) == {"audio": base64.b64encode(sound).decode(), **rest}


def test_failure_is_no_answer_with_words(serving: Serving) -> None:
    server = serving(script=Script(speed=20.0, fail_at_word=2))
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "failed")


def test_markdown_is_read_unless_the_input_is_plain(client: openai.OpenAI) -> None:
    written = "# Alpha\n**beta** <think>a b c d</think>gamma"
    assert spoken(client, "pcm", input=written) == spoken(client, "pcm", input="Alpha.\nbeta  gamma")
    as_written = spoken(client, "pcm", input=written, extra_body={"markup": "plain"})
    assert len(as_written) > len(spoken(client, "pcm", input=written))
    with pytest.raises(openai.BadRequestError, match="nothing to speak"):
        spoken(client, "pcm", input="<think>only thoughts")


def test_trace_can_be_fetched(serving: Serving) -> None:
    server = serving()
    answer = client_of(server).audio.speech.with_raw_response.create(
        input=TEXT, model="tts-1", voice="low", response_format="pcm"
    )
    url = f"{server.url}/{answer.headers['x-studio-trace'].replace('.trace', '.wav')}"
    eventually(lambda: httpx.get(url).status_code == 200, "the trace")
    with wave.open(io.BytesIO(httpx.get(url).content)) as file:
        assert file.readframes(10**9) == answer.content


def test_models_and_voices_are_listed(client: openai.OpenAI) -> None:
    assert [one.id for one in client.models.list()] == ["tone"]
    listed = httpx.get(f"{client.base_url}audio/voices").json()["voices"]
    assert [one["id"] for one in listed] == ["tone:low", "tone:high"]
    for one in listed:
        assert spoken(client, "pcm", voice=one["id"], model=one["model"])
    assert spoken(client, "pcm", voice="default", model="speakstream")


@pytest.mark.parametrize(
    ("change", "status", "param", "says"),
    [
        ({"voice": "alloy"}, 400, "voice", "tone:low, tone:high"),
        ({"model": "whisper-1"}, 404, None, "there are tone"),
        ({"response_format": "wma"}, 400, "response_format", "mp3"),
        ({"speed": 9.0}, 400, "speed", "4"),
        ({"input": "x" * 4097}, 400, "input", "4096"),
        ({"input": " \n"}, 400, None, "give some text"),
        ({"input": 7}, 400, "input", "string"),
    ],
)
def test_errors_are_openais(
    client: openai.OpenAI, change: dict[str, Any], status: int, param: str | None, says: str
) -> None:
    with pytest.raises(openai.APIStatusError) as error:
        spoken(client, **{"form": "pcm", **change} if "response_format" not in change else {"form": "wma"})
    assert error.value.status_code == status
    body: Any = error.value.body  # the client takes it out of {"error": ...}
    assert set(body) == {"message", "type", "param", "code"}
    assert body["type"] == "invalid_request_error" and says in body["message"]
    assert body["param"] == param or param is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"input": "\\ud800", "voice": 3}', b"\xff\xfe", b"[" * 60_000])
def test_malformed_body_is_a_bad_request(serving: Serving, body: bytes) -> None:
    answer = httpx.post(f"{serving().url}/v1/audio/speech", content=body)
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_full_server_answers_busy_at_once(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    server.engine.queue = 0
    with server.talk() as talk:
        for number in range(server.engine.places):
            talk.open(number)
        with pytest.raises(openai.InternalServerError) as error:
            spoken(client_of(server), "pcm")
        assert (error.value.status_code, error.value.response.headers["retry-after"]) == (503, "1")
        assert error.value.code == "busy"
        talk.say("cancel", 0)
        talk.until("trace")
        assert spoken(client_of(server), "pcm")


def test_failure_has_a_status_before_the_first_sound(serving: Serving) -> None:
    with pytest.raises(openai.InternalServerError) as error:
        spoken(client_of(serving(script=Script(speed=20.0, fail_at_word=0))), "pcm")
    assert error.value.code == "failed" and "the script fails" in str(error.value)


def test_failure_within_the_speech_is_no_whole_answer(serving: Serving) -> None:
    client = client_of(serving(script=Script(speed=20.0, fail_at_word=2)))
    with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
        spoken(client, "pcm")
    with client.audio.speech.with_streaming_response.create(
        input=TEXT, model="tts-1", voice="low", response_format="pcm", stream_format="sse"
    ) as answer:
        last = [line for line in answer.iter_lines() if line.startswith("data: ")][-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "failed"


def test_key_is_the_clients_api_key(serving: Serving) -> None:
    server = serving(key=KEY)
    assert spoken(client_of(server, KEY), "pcm")
    with pytest.raises(openai.AuthenticationError):
        spoken(client_of(server, "wrong"), "pcm")
    assert httpx.get(f"{server.url}/v1/models").status_code == 401
    assert httpx.get(f"{server.url}/v1/models", headers={"xi-api-key": KEY}).status_code == 200
    elsewhere = httpx.get(f"{server.url}/api/voices", headers={"Authorization": f"Bearer {KEY}"})
    assert elsewhere.status_code == 403, "there the header is the owner's"


def test_pauses_of_ssml_are_silence(client: openai.OpenAI) -> None:
    ssml: Any = {"markup": "ssml"}
    written = '<speak><break time="100ms"/>Alpha. <break time="500ms"/> Beta gamma.</speak>'
    pcm = np.frombuffer(spoken(client, "pcm", input=written, extra_body=ssml), "<i2")
    first, second = (np.frombuffer(spoken(client, "pcm", input=one), "<i2") for one in ("Alpha.", "Beta gamma."))
    lead, pause = RATE_HZ // 10, RATE_HZ // 2
    assert len(pcm) == lead + len(first) + pause + len(second)
    assert not pcm[:lead].any() and not pcm[lead + len(first) :][:pause].any()
    assert np.array_equal(pcm[lead:][: len(first)], first) and np.array_equal(pcm[-len(second) :], second)
    with pytest.raises(openai.BadRequestError, match="<voice> is not supported; use <speak>"):
        spoken(client, "pcm", input="<voice name='x'>y</voice>", extra_body=ssml)
    sse = spoken(client, "pcm", input=written, stream_format="sse", extra_body=ssml).decode()
    events = [json.loads(line.removeprefix("data: ")) for line in sse.splitlines() if line.startswith("data: ")]
    assert b"".join(base64.b64decode(one.get("audio", "")) for one in events) == pcm.tobytes()
    assert events[-1]["usage"]["input_tokens"] == 3


def test_rates_of_ssml_are_those_of_the_speech(client: openai.OpenAI) -> None:
    def samples(text: str) -> int:
        return len(spoken(client, "pcm", input=text, extra_body={"markup": "ssml"})) // 2

    usual = samples("One two three.")
    assert abs(samples('<prosody rate="50%">One two three.</prosody>') - 2 * usual) < 3
    with pytest.raises(openai.BadRequestError, match="50% to 200%"):
        samples('<prosody rate="900%">One.</prosody>')


@pytest.mark.parametrize(
    ("text", "markup"), [("\u2026 \U0001f600", "plain"), ("<speak>\U0001f600<break/></speak>", "ssml")]
)
def test_text_that_no_voice_can_say_is_a_bad_request(client: openai.OpenAI, text: str, markup: str) -> None:
    with pytest.raises(
        openai.BadRequestError,
        match=r"nothing of the text can be spoken: .*write it in words; give at least one word",
    ):
        spoken(client, "pcm", input=text, extra_body={"markup": markup})


def test_part_of_ssml_that_cannot_be_said_is_its_pause(client: openai.OpenAI) -> None:
    def samples(text: str) -> int:
        return len(spoken(client, "pcm", input=text, extra_body={"markup": "ssml"})) // 2

    alone, pause = samples("<speak>alpha</speak>"), RATE_HZ // 2
    first = samples('<speak>\U0001f600<break time="500ms"/>alpha</speak>')
    later = samples('<speak>alpha<break time="500ms"/>\U0001f600<break time="500ms"/>alpha</speak>')
    assert (first, later) == (alone + pause, 2 * alone + 2 * pause)


def test_client_that_leaves_in_ssml_frees_its_slot(serving: Serving) -> None:
    server = serving(script=Script(speed=4.0))
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
    chosen: Any = {"input": "<s>One two three four.</s><break/>" * 20, "model": "tts-1", "voice": "low"}
    with client.audio.speech.with_streaming_response.create(
        **chosen, response_format="pcm", extra_body={"markup": "ssml"}
    ) as answer:
        pieces = answer.iter_bytes(1024)  # a generator that is dropped closes the connection
        next(pieces)
        eventually(lambda: len(server.engine.opened) >= 2, "the second part")
    eventually(lambda: server.engine.free_slots() == server.engine.places, "every place")


@pytest.mark.parametrize("markup", ["markdown", "ssml"])
def test_texts_are_read_beside_the_event_loop(serving: Serving, monkeypatch: pytest.MonkeyPatch, markup: str) -> None:
    """The event loop sends the sound of others."""
    threads: set[threading.Thread] = set()
    owner: Any = MarkdownStream if markup == "markdown" else SsmlReader
    end = owner.end

    def noted(reader: Any) -> Any:
        threads.add(threading.current_thread())
        return end(reader)

    monkeypatch.setattr(owner, "end", noted)
    server = serving()
    assert spoken(client_of(server), "pcm", extra_body={"markup": markup})
    assert threads and server._thread not in threads
