"""ElevenLabs' own client speaks whole texts over HTTP: bytes, and JSON with the times of the characters."""

import base64
import io
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from elevenlabs import VoiceSettings
from elevenlabs.core.api_error import ApiError
from serve.adapters.test_elevenlabs import client_of
from serve.serving import Served, Serving, eventually
from tones import RATE_HZ, Script

from studio.serve.adapters import elevenlabs_http

TEXT = "Alpha beta 12."
FORM = "pcm_24000"


def spoken(server: Served, **more: Any) -> np.ndarray:
    client = client_of(server)
    sound = b"".join(client.text_to_speech.convert("tone:low", text=TEXT, output_format=FORM, **more))
    return np.frombuffer(sound, "<i2")


def test_convert_and_stream_give_the_sound(serving: Serving) -> None:
    server = serving()
    whole = spoken(server)
    streamed = b"".join(client_of(server).text_to_speech.stream("tone:low", text=TEXT, output_format=FORM))
    assert len(whole) > RATE_HZ / 2 and np.array_equal(np.frombuffer(streamed, "<i2"), whole)


def test_sound_may_be_a_wav(serving: Serving) -> None:
    server = serving()
    sound = b"".join(client_of(server).text_to_speech.convert("tone:low", text=TEXT, output_format="wav_24000"))
    pcm, rate_hz = soundfile.read(io.BytesIO(sound), dtype="int16")
    assert rate_hz == RATE_HZ and np.array_equal(pcm, spoken(server))


def test_speed_changes_the_length_alone(serving: Serving) -> None:
    server = serving()
    fast = spoken(server, voice_settings=VoiceSettings(speed=2.0))
    assert len(fast) == pytest.approx(len(spoken(server)) / 2, rel=0.1)


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_timestamps_span_the_text_and_the_sound(serving: Serving, speed: float) -> None:
    server = serving()
    answer = client_of(server).text_to_speech.convert_with_timestamps(
        "tone:low", text=TEXT, output_format=FORM, voice_settings=VoiceSettings(speed=speed)
    )
    pcm = np.frombuffer(base64.b64decode(answer.audio_base_64), "<i2")
    times, spoken_times = answer.alignment, answer.normalized_alignment
    assert times is not None and spoken_times is not None
    assert "".join(times.characters) == TEXT
    assert "".join(spoken_times.characters).split() == TEXT.lower().split()
    starts, ends = times.character_start_times_seconds, times.character_end_times_seconds
    assert len(starts) == len(ends) == len(TEXT)
    assert starts == sorted(starts) and all(a <= b for a, b in zip(starts, ends, strict=True))
    assert ends[-1] == pytest.approx(len(pcm) / RATE_HZ, abs=0.1)


def test_words_of_ssml_keep_their_spaces(serving: Serving) -> None:
    text = 'One <prosody rate="slow">two</prosody>, three.<break time="200ms"/>Four <break time="200ms"/>'
    answer = client_of(serving()).text_to_speech.convert_with_timestamps(
        "tone:low", text=text, output_format=FORM, request_options={"additional_query_parameters": {"markup": "ssml"}}
    )
    assert answer.alignment is not None and "".join(answer.alignment.characters) == "One two, three. Four"


def test_streamed_timestamps_add_up_to_the_whole(serving: Serving) -> None:
    server = serving()
    speech = client_of(server).text_to_speech
    whole = speech.convert_with_timestamps("tone:low", text=TEXT, output_format=FORM)
    pieces = [*speech.stream_with_timestamps("tone:low", text=TEXT, output_format=FORM)]
    assert b"".join(base64.b64decode(one.audio_base_64) for one in pieces) == base64.b64decode(whole.audio_base_64)
    timed = [one.alignment for one in pieces if one.alignment]
    assert len(timed) == 3 and whole.alignment is not None
    assert [char for one in timed for char in one.characters] == whole.alignment.characters
    ends = [end for one in timed for end in one.character_end_times_seconds]
    assert ends == whole.alignment.character_end_times_seconds


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("tone:low", {"text": " "}, 422, "the text is empty"),
        ("tone:low", {"text": 3}, 422, "text: "),
        ("tone:low", {"text": "x" * 5000}, 422, "text: "),
        ("tone:low", {"text": "hi", "voice_settings": {"speed": 9.0}}, 422, "voice_settings.speed"),
        ("tone:low?output_format=mp9", {"text": "hi"}, 422, "there is no output_format"),
        ("rachel", {"text": "hi"}, 404, "there is no voice"),
        ("rachel/with-timestamps", {"text": "hi"}, 404, "there is no voice"),
        ("rachel/stream/with-timestamps", {"text": "hi"}, 404, "there is no voice"),
    ],
)
def test_mistakes_are_answered_in_words(serving: Serving, path: str, body: Any, status: int, message: str) -> None:
    answer = httpx.post(f"{serving().url}/v1/text-to-speech/{path}", json=body, timeout=60.0)
    assert answer.status_code == status and message in answer.json()["detail"]["message"]


def test_failing_voice_is_an_error_of_the_whole_answer(serving: Serving) -> None:
    server = serving(script=Script(fail_at_word=1))
    with pytest.raises(ApiError) as error:
        client_of(server).text_to_speech.convert_with_timestamps("tone:low", text=TEXT, output_format=FORM)
    assert error.value.status_code == 500
    eventually(lambda: server.engine.free_slots() == server.engine.places, "its slot is free again")


def test_too_much_sound_for_one_answer_is_refused(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elevenlabs_http, "MAX_WHOLE_BYTES", RATE_HZ)
    server = serving()
    url = f"{server.url}/v1/text-to-speech/tone:low/with-timestamps?output_format={FORM}"
    answer = httpx.post(url, json={"text": 'a <break time="3s"/>'}, timeout=60.0)
    assert answer.status_code == 422 and "too long for one JSON" in answer.json()["detail"]["message"]
    eventually(lambda: server.engine.free_slots() == server.engine.places, "its slot is free again")


def test_full_server_answers_503(serving: Serving) -> None:
    server = serving(script=Script(speed=1.0))
    server.engine.queue = 0
    with server.talk() as talk:
        for number in range(server.engine.places):
            talk.open(number)
        answer = httpx.post(f"{server.url}/v1/text-to-speech/tone:low", json={"text": TEXT}, timeout=60.0)
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
    assert answer.json()["detail"]["status"] == "busy"


def test_a_break_is_silence_and_counts_in_times(serving: Serving) -> None:
    speech = client_of(serving()).text_to_speech
    broken = 'Alpha. <break time="0.5s" /> Beta.'
    sound = np.frombuffer(b"".join(speech.convert("tone:low", text=broken, output_format=FORM)), "<i2")
    first, second = (
        np.frombuffer(b"".join(speech.convert("tone:low", text=one, output_format=FORM)), "<i2")
        for one in ("Alpha.", "Beta.")
    )
    assert len(sound) == len(first) + RATE_HZ // 2 + len(second)
    assert not sound[len(first) :][: RATE_HZ // 2].any() and np.array_equal(sound[-len(second) :], second)
    timed = speech.convert_with_timestamps("tone:low", text=broken, output_format=FORM)
    assert timed.alignment is not None and "".join(timed.alignment.characters) == broken  # as written
    begin_s = timed.alignment.character_start_times_seconds[broken.index("Beta")]
    assert abs(begin_s - (len(first) / RATE_HZ + 0.5)) < 0.03
    with pytest.raises(ApiError, match="0s to 10s"):
        b"".join(speech.convert("tone:low", text='A <break time="60s"/> b.', output_format=FORM))
