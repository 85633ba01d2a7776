"""Speed on the socket: the sound, positions in it, and what is told about them."""

import io
import json
from typing import Any

import httpx
import numpy as np
import pytest
from serve.serving import Serving, of, pcm
from tones import RATE_HZ

from studio.core.packets import Packet
from studio.core.sound_files import read_mono

TEXT = "Hello there my good old friend."
NEAR = round(0.05 * RATE_HZ)


def spoken(serving: Serving, **more: Any) -> list[object]:
    with serving().talk() as talk:
        talk.open(credit_ms=60_000, **more)
        talk.say("text", text=TEXT)
        talk.say("end")
        return talk.until("trace", "error")


@pytest.mark.parametrize("speed", [0.5, 2])
def test_sound_is_as_much_shorter_and_words_are_in_it(serving: Serving, speed: float) -> None:
    usual, other = spoken(serving), spoken(serving, speed=speed)
    one, two = pcm(usual), pcm(other)
    assert abs(len(two) * speed / len(one) - 1.0) < 0.05 and of(other, "ended")[0]["samples"] == len(two)
    pitches = [np.abs(np.fft.rfft(sound)).argmax() * RATE_HZ / len(sound) for sound in (one, two)]
    assert abs(pitches[0] - pitches[1]) < 5.0
    for kind in ("word_start", "word_end", "segment"):
        places = [[event["sample"] for event in of(heard, kind)] for heard in (usual, other)]
        assert len(places[0]) == len(places[1]) == 6
        assert all(abs(a / speed - b) < NEAR for a, b in zip(*places, strict=True))


@pytest.mark.parametrize("credit_ms", [50, 200])
def test_the_smallest_credits_are_enough_to_begin(serving: Serving, credit_ms: int) -> None:
    with serving().talk() as talk:
        talk.open(credit_ms=credit_ms, speed=0.5)
        talk.say("text", text=TEXT)
        talk.say("end")
        heard = list[Any]()
        while not of(heard, "ended"):
            heard.append(talk.hear())
            if isinstance(heard[-1], Packet):
                talk.say("played", sample=heard[-1].first_sample + len(heard[-1].pcm))


def test_the_trace_is_in_time_with_the_sound(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open(credit_ms=60_000, speed=2)
        talk.say("text", text=TEXT)
        talk.say("end")
        heard = talk.until("trace")
    wav = httpx.get(f"{server.url}/{heard[-1]['wav_url']}", timeout=60.0).content
    sound, _ = read_mono(io.BytesIO(wav))
    assert np.array_equal(sound, pcm(heard))


def test_a_cancel_tells_words_that_were_played(serving: Serving) -> None:
    whole = spoken(serving, speed=2)
    end = of(whole, "word_end")[1]["sample"]
    with serving().talk() as talk:
        talk.open(speed=2)
        talk.say("text", text=TEXT)
        heard, sent = [], 0
        while sent < end:
            heard.append(talk.hear())
            sent += len(heard[-1].pcm) if isinstance(heard[-1], Packet) else 0
        talk.say("cancel", played_sample=end)
        cancelled = of(talk.until("ended"), "cancelled")[0]
    assert cancelled["heard"] == [0, 1] and cancelled["sample"] == end and cancelled["char_end"] == len("Hello there")


def test_an_edit_of_the_field_takes_sound_back(serving: Serving) -> None:
    with serving().talk() as talk:
        talk.open(speed=2, source="keyboard", credit_ms=60_000)
        talk.say("edit", at=0, insert=f"{TEXT} And you? ")
        heard = talk.until("word_end")
        talk.say("edit", at=TEXT.index("friend"), remove=6, insert="enemy")
        heard += talk.until("revised")
        talk.say("end")
        heard += talk.until("trace")
    revised = of(heard, "revised")[0]
    end = 0
    for packet in (one for one in heard if isinstance(one, Packet)):
        if packet.take == revised["take"] and end != packet.first_sample:
            assert packet.first_sample == revised["from_sample"] <= end
            end = packet.first_sample
        assert packet.first_sample == end
        end += len(packet.pcm)
    assert of(heard, "ended")[0]["samples"] == end
    assert of(heard, "word_end")[-1]["sample"] == end
    assert "enemy." in [word["word"] for word in of(heard, "committed")]


@pytest.mark.parametrize("speed", [0.49, 2.01, "fast", None, True])
def test_other_speeds_are_refused(serving: Serving, speed: object) -> None:
    with serving().talk() as talk:
        talk.ws.send(f'{{"type": "open", "utterance": 1, "speed": {json.dumps(speed)}}}')
        error = talk.until("error")[-1]
    assert error["code"] == "bad_message" and "0.5 to 2" in error["message"]
