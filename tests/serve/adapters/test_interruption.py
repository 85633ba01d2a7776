"""Interruption over each door that can cancel: what a client tells as heard is what its player played, to the word.

``STUDIO_CANCELS`` sets the number of random cancels of each door.
"""

import base64
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.serving import Served, of
from tones import RATE_HZ, Script
from websockets.sync.client import ClientConnection, connect

from studio.core.packets import Packet
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once

CANCELS = int(os.environ.get("STUDIO_CANCELS", "20"))
WORDS = ("Alpha", "beta,", "a", "gamma", "delta.", "I", "epsilon", "zeta!")
MS = RATE_HZ // 1000
LOOK_AHEAD = 2  # words that the voice waits for
WAIT_S = 20.0


@dataclass
class Heard:
    """What a client knows when its player was stopped: samples received, and words by the times that it was sent."""

    samples: int = 0
    ends: list[float] = field(default_factory=list)  # samples, of words in order

    def words(self, played: int) -> int:
        """Words that were played to their end."""
        return sum(end <= played for end in self.ends)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path, Script(speed=60.0))
    yield served
    served.stop()


def cases(server: Served, seed: int) -> Iterator[tuple[str, int, list[int]]]:
    """Text, played sample, and the true ends of its words; no sample is within a millisecond of an end."""
    draw = random.Random(seed)
    truth: dict[str, list[int]] = {}
    left = CANCELS
    while left:
        text = " ".join(draw.choice(WORDS) for _ in range(draw.randrange(4, 9)))
        if text not in truth:
            trace = speak_once(server.engine, SpeakRequest("tone:low"), text)
            truth[text] = [one.end for one in trace.words() if one.end is not None]
        ends = truth[text]
        played = draw.randrange(1, ends[-LOOK_AHEAD - 1])  # later words wait for more text
        if all(abs(played - end) > MS for end in ends):
            left -= 1
            yield text, played, ends


def true_words(ends: list[int], played: int) -> int:
    return sum(end <= played for end in ends)


def test_native(server: Served) -> None:
    with server.talk() as talk:
        for number, (text, played, ends) in enumerate(cases(server, 1)):
            assert talk.open(number, voice="tone:low")["type"] == "ready"
            talk.say("text", number, text=text + " ")
            received = 0
            while received < played:
                message = talk.hear(WAIT_S, check=False)
                received += len(message.pcm) if isinstance(message, Packet) else 0
            talk.say("cancel", number, played_sample=played)
            (cancelled,) = of(talk.until("ended", utterance=number), "cancelled")
            count = true_words(ends, played)
            assert cancelled["heard"] == list(range(count)), (text, played, ends)
            spoken = text.split()[:count]
            assert text[: cancelled["char_end"]].split()[:count] == spoken


def until(ws: ClientConnection, name: str, played: int, heard: Heard) -> bool:
    """Read an ElevenLabs context until so much was received; whether it ended before."""
    while heard.samples < played:
        message = json.loads(ws.recv(timeout=WAIT_S))
        if message.get("contextId") != name:
            continue  # the rest of another one
        _elevenlabs(message, heard)
        if message.get("isFinal"):
            return True
    return False


def _elevenlabs(message: dict[str, Any], heard: Heard) -> None:
    heard.samples += len(base64.b64decode(message.get("audio") or "")) // 2
    if alignment := message.get("alignment"):
        spans = zip(alignment["chars"], alignment["charStartTimesMs"], alignment["charDurationsMs"], strict=True)
        ends = [start + length for char, start, length in spans if not char.isspace()]
        heard.ends.append(max(ends) * MS)


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 16_000])
def test_no_sound_follows_a_cancel(server: Served, rate_hz: int) -> None:
    """Sound that is queued, or held back by an encoder, is dropped once the cancel was read."""
    sound = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": rate_hz}
    common = {"model_id": "sonic-3", "voice": {"mode": "id", "id": "low"}, "output_format": sound}
    with connect(server.url.replace("http", "ws") + "/tts/websocket", proxy=None) as ws:
        for number in range(CANCELS):
            name = f"c{number}"
            ws.send(json.dumps({**common, "context_id": name, "continue": True, "transcript": "alpha " * 100}))
            while json.loads(ws.recv(timeout=WAIT_S))["type"] != "chunk":
                pass
            ws.send(json.dumps({"cancel": True, "context_id": name}))
            ws.send(json.dumps({"transcript": 3}))  # its answer says that the cancel was read
            kinds = [""]
            while not {"done", "error"} <= {*kinds}:
                kinds.append(json.loads(ws.recv(timeout=WAIT_S))["type"])
            assert "chunk" not in kinds[kinds.index("error") :]


def test_elevenlabs_close_context(server: Served) -> None:
    query = "output_format=pcm_24000&sync_alignment=true"
    path = f"/v1/text-to-speech/tone:low/multi-stream-input?{query}"
    with connect(server.url.replace("http", "ws") + path, proxy=None) as ws:
        for number, (text, played, ends) in enumerate(cases(server, 2)):
            name, heard = f"c{number}", Heard()
            ws.send(json.dumps({"text": text + " ", "context_id": name}))
            assert not until(ws, name, played, heard)
            ws.send(json.dumps({"context_id": name, "close_context": True}))
            until(ws, name, 10**9, heard)
            assert heard.words(played) == true_words(ends, played), (text, played, ends, heard)


def test_cartesia_cancel(server: Served) -> None:
    sound = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ}
    common = {"model_id": "sonic-3", "voice": {"mode": "id", "id": "low"}, "output_format": sound}
    with connect(server.url.replace("http", "ws") + "/tts/websocket", proxy=None) as ws:
        for number, (text, played, ends) in enumerate(cases(server, 3)):
            name, heard, is_cancelled = f"c{number}", Heard(), False
            more = {"context_id": name, "continue": False, "add_timestamps": True}
            ws.send(json.dumps({**common, **more, "transcript": text}))
            while True:
                message = json.loads(ws.recv(timeout=WAIT_S))
                assert message["type"] != "error", message
                if message["context_id"] != name:
                    continue
                heard.samples += len(base64.b64decode(message.get("data") or "")) // 2
                if message["type"] == "timestamps":
                    heard.ends.extend(end_s * RATE_HZ for end_s in message["word_timestamps"]["end"])
                if heard.samples >= played and not is_cancelled:
                    ws.send(json.dumps({"cancel": True, "context_id": name}))
                    is_cancelled = True
                if message["type"] == "done":
                    break
            assert heard.words(played) == true_words(ends, played), (text, played, ends, heard)


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 16_000])
def test_deepgram_clear(server: Served, rate_hz: int) -> None:
    """The protocol tells no words: after ``Cleared`` nothing of the old text comes, and the next text is whole."""
    path = f"/v1/speak?model=low&encoding=linear16&sample_rate={rate_hz}"
    with connect(server.url.replace("http", "ws") + path, proxy=None) as ws:
        for text, played, _ in cases(server, 4):
            _say(ws, "Speak", text=text + " ")
            received = 0
            while received < played:
                message = ws.recv(timeout=WAIT_S)
                received += len(message) // 2 * RATE_HZ // rate_hz if isinstance(message, bytes) else 0
            _say(ws, "Clear")
            while isinstance(message := ws.recv(timeout=WAIT_S), bytes) or json.loads(message)["type"] != "Cleared":
                pass
            _say(ws, "Speak", text=text)
            _say(ws, "Flush")
            sound = b""
            while isinstance(message := ws.recv(timeout=WAIT_S), bytes):
                sound += message
            assert json.loads(message)["type"] == "Flushed"
            pcm, whole = np.frombuffer(sound, "<i2"), _whole(server, text)
            if rate_hz == RATE_HZ:
                assert np.array_equal(pcm, whole), text
            else:
                assert len(pcm) * RATE_HZ // rate_hz == pytest.approx(len(whole), abs=2 * MS), text


def _say(ws: ClientConnection, kind: str, **fields: Any) -> None:
    ws.send(json.dumps({"type": kind, **fields}))


def _whole(server: Served, text: str) -> np.ndarray:
    return speak_once(server.engine, SpeakRequest("tone:low"), text).pcm
