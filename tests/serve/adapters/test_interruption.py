"""Interruption over each door that can cancel: what a client tells as heard is what its player played, to the word.

The doors are tried on the engine itself, with a tiny voice, and on tones, which come at a known pace.
"""

import asyncio
import base64
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import av
import httpx
import msgpack
import numpy as np
import pytest
from cancels import CANCELS, heard_words, random_cancels
from serve.serving import Served, eventually, of
from tinyvoice import write_tiny_voice
from tones import RATE_HZ, Script
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from studio.core.events import Cancelled
from studio.core.packets import Packet
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.traces.trace import open_trace
from studio.engine.engine import open_engine
from studio.serve.adapters import encoding
from studio.serve.adapters.contexts import ContextSession
from studio.serve.adapters.elevenlabs import FORMATS
from studio.serve.adapters.encoding import open_encoder
from studio.serve.app import create_app
from studio.text.normalise import best

pytestmark = pytest.mark.timeout(300 + CANCELS)

MS = RATE_HZ // 1000
BETA_SAMPLES = 6000  # of the tone of a word of four letters
WAIT_S = 60.0
Whole = Callable[[str], np.ndarray]
VOICES = {"tones": "tone:low", "engine": "tiny:one"}


class LocalServed(Served):
    """The engine itself over a folder of voices."""

    def __init__(self, folder: Path) -> None:
        self._voices = folder / "voices"
        write_tiny_voice(self._voices)
        super().__init__(folder)

    def make_app(self) -> Any:
        """What is served."""
        engine: Any = open_engine(self._voices, best(), device="cpu")
        engine.places = engine.free_slots()
        self.engine = engine
        return create_app(engine, self.settings)


@pytest.fixture(params=VOICES)
def voice(request: pytest.FixtureRequest) -> str:
    return VOICES[request.param]


@pytest.fixture
def server(tmp_path: Path, voice: str) -> Iterator[Served]:
    served = LocalServed(tmp_path) if voice.startswith("tiny") else Served(tmp_path, Script(speed=60.0))
    yield served
    served.stop()
    if isinstance(served, LocalServed):
        served.engine.close()


@pytest.fixture
def whole(server: Served, voice: str) -> Whole:
    """The sound of a whole text."""
    return cache(lambda text: speak_once(server.engine, SpeakRequest(voice), text).pcm)


@contextmanager
def opened(server: Served, path: str) -> Iterator[ClientConnection]:
    """A socket; an address may open twenty a second."""
    with ExitStack() as stack:
        made: list[ClientConnection] = []

        def is_open() -> bool:
            try:
                address = server.url.replace("http", "ws") + path
                made.append(stack.enter_context(connect(address, proxy=None, max_size=None)))
            except InvalidStatus as error:
                assert error.response.status_code == 429, error
            return bool(made)

        eventually(is_open, "a socket")
        yield made[0]


@dataclass
class Heard:
    """What a client knows: samples received, and the ends of words by the times that it was sent, in samples."""

    samples: int = 0
    ends: list[float] = field(default_factory=list)

    def words(self, played: int) -> int:
        """Words that were played to their end."""
        return sum(round(end) <= played for end in self.ends)


def test_native(server: Served, voice: str) -> None:
    with server.talk() as talk:
        for number, (text, played, ends) in enumerate(random_cancels(server.engine, voice, 1)):
            assert talk.open(number, voice=voice)["type"] == "ready"
            talk.say("text", number, text=text + " ")
            first_sample = 0
            while first_sample < played:  # the player is behind what was received
                message = talk.hear(WAIT_S, check=False)
                if isinstance(message, Packet):
                    first_sample = message.first_sample
                    if first_sample % RATE_HZ == 0:  # as often as the credit needs
                        talk.say("played", number, sample=min(first_sample, played))
            talk.say("cancel", number, played_sample=played)
            (cancelled,) = of(talk.until("ended", utterance=number), "cancelled")
            count = heard_words(ends, played)
            assert cancelled["heard"] == list(range(count)), (text, played, ends)
            assert text[: cancelled["char_end"]].split() == text.split()[:count]


# ------------------------------------------------------------ sockets with a message that cancels


def _elevenlabs(message: Mapping[str, Any], heard: Heard) -> int:
    """Take a message's times; returns its samples."""
    if alignment := message.get("alignment"):
        spans = zip(alignment["chars"], alignment["charStartTimesMs"], alignment["charDurationsMs"], strict=True)
        heard.ends.append(max(start + length for char, start, length in spans if not char.isspace()) * MS)
    return len(base64.b64decode(message.get("audio") or "")) // 2


def test_elevenlabs_close_context(server: Served, voice: str) -> None:
    query = "output_format=pcm_24000&sync_alignment=true"
    with opened(server, f"/v1/text-to-speech/{voice}/multi-stream-input?{query}") as ws:
        for number, (text, played, ends) in enumerate(random_cancels(server.engine, voice, 2, apart=MS)):
            name, heard, is_closed = f"c{number}", Heard(), False
            ws.send(json.dumps({"text": text + " ", "context_id": name}))
            while True:
                message = json.loads(ws.recv(timeout=WAIT_S))
                if message.get("contextId") != name:
                    continue  # the rest of another one
                samples = _elevenlabs(message, heard)
                if message.get("isFinal"):
                    break
                if samples and heard.samples >= played and not is_closed:  # the player is behind what was received
                    ws.send(json.dumps({"context_id": name, "close_context": True}))
                    is_closed = True
                heard.samples += samples
            assert is_closed and heard.words(played) == heard_words(ends, played), (text, played, ends, heard)


def test_cartesia_cancel(server: Served, voice: str) -> None:
    sound = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE_HZ}
    common = {"model_id": "sonic-3", "voice": {"mode": "id", "id": voice}, "output_format": sound}
    with opened(server, "/tts/websocket") as ws:
        for number, (text, played, ends) in enumerate(random_cancels(server.engine, voice, 3)):
            name, heard, is_cancelled = f"c{number}", Heard(), False
            more = {"context_id": name, "continue": False, "add_timestamps": True}
            ws.send(json.dumps({**common, **more, "transcript": text}))
            while True:
                message = json.loads(ws.recv(timeout=WAIT_S))
                assert message["type"] != "error", message
                if message["context_id"] != name:
                    continue
                samples = len(base64.b64decode(message.get("data") or "")) // 2
                if message["type"] == "timestamps":
                    heard.ends.extend(end_s * RATE_HZ for end_s in message["word_timestamps"]["end"])
                if samples and heard.samples >= played and not is_cancelled:  # the player is behind what was received
                    ws.send(json.dumps({"cancel": True, "context_id": name}))
                    is_cancelled = True
                heard.samples += samples
                if message["type"] == "done":
                    break
            assert heard.words(played) == heard_words(ends, played), (text, played, ends, heard)


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 16_000])
def test_no_sound_follows_a_cancel(server: Served, voice: str, rate_hz: int) -> None:
    """Sound that is queued, or held back by an encoder, is dropped once the cancel was read."""
    sound = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": rate_hz}
    common = {"model_id": "sonic-3", "voice": {"mode": "id", "id": voice}, "output_format": sound}
    with opened(server, "/tts/websocket") as ws:
        for number in range(CANCELS):
            name = f"c{number}"
            ws.send(json.dumps({**common, "context_id": name, "continue": True, "transcript": "alpha " * 100}))
            while (message := json.loads(ws.recv(timeout=WAIT_S)))["type"] != "chunk":
                assert message["type"] != "error", (number, message["message"])
            ws.send(json.dumps({"cancel": True, "context_id": name}))
            ws.send(json.dumps({"transcript": 3}))  # its answer says that the cancel was read
            kinds = [""]
            while not {"done", "error"} <= {*kinds}:
                kinds.append(json.loads(ws.recv(timeout=WAIT_S))["type"])
            assert "chunk" not in kinds[kinds.index("error") :]


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 16_000])
def test_deepgram_clear(server: Served, voice: str, whole: Whole, rate_hz: int) -> None:
    """The protocol tells no words: after ``Cleared`` nothing of the old text comes, and the next text is whole."""
    with opened(server, f"/v1/speak?model={voice}&encoding=linear16&sample_rate={rate_hz}") as ws:
        for text, played, _ in random_cancels(server.engine, voice, 4):
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
            pcm, expected = np.frombuffer(sound, "<i2"), whole(text)
            if rate_hz == RATE_HZ:
                assert np.array_equal(pcm, expected), text
            else:
                assert len(pcm) * RATE_HZ // rate_hz == pytest.approx(len(expected), abs=2 * MS), text


def _say(ws: ClientConnection, kind: str, **fields: Any) -> None:
    ws.send(json.dumps({"type": kind, **fields}))


# ------------------------------------------------------------ doors that are cancelled by leaving


def _leave_stream_input(server: Served, voice: str, text: str, played: int, heard: Heard) -> None:
    query = "output_format=pcm_24000&sync_alignment=true"
    with opened(server, f"/v1/text-to-speech/{voice}/stream-input?{query}") as ws:
        ws.send(json.dumps({"text": text + " "}))
        while True:
            message = json.loads(ws.recv(timeout=WAIT_S))
            samples = _elevenlabs(message, heard)
            if samples and heard.samples >= played:
                return
            heard.samples += samples


def _leave_kyutai(server: Served, voice: str, text: str, played: int, heard: Heard) -> None:
    with opened(server, f"/api/tts_streaming?voice={voice}&format=PcmMessagePack") as ws:
        for word in text.split():
            ws.send(msgpack.packb({"type": "Text", "text": word}))
        while True:
            message: Any = msgpack.unpackb(ws.recv(timeout=WAIT_S))
            assert message["type"] != "Error", message
            if message["type"] == "Text":
                heard.ends.append(message["stop_s"] * RATE_HZ)
            if message["type"] == "Audio":
                if heard.samples >= played:
                    return
                heard.samples += len(message["pcm"])


def _leave_lines(server: Served, voice: str, text: str, played: int, heard: Heard) -> None:
    """ElevenLabs' stream with timestamps."""
    path = f"/v1/text-to-speech/{voice}/stream/with-timestamps?output_format=pcm_24000"
    with httpx.stream("POST", server.url + path, json={"text": text}, timeout=WAIT_S) as answer:
        for line in answer.iter_lines():
            message = json.loads(line)
            if alignment := message.get("alignment"):
                spans = zip(alignment["characters"], alignment["character_end_times_seconds"], strict=True)
                heard.ends.append(max(end_s for char, end_s in spans if not char.isspace()) * RATE_HZ)
            samples = len(base64.b64decode(message.get("audio_base64") or "")) // 2
            if samples and heard.samples >= played:
                return
            heard.samples += samples


LEAVING: dict[str, Callable[[Served, str, str, int, Heard], None]] = {
    "elevenlabs-stream-input": _leave_stream_input,
    "elevenlabs-lines": _leave_lines,
    "kyutai": _leave_kyutai,
}


def all_free(server: Served) -> bool:
    return server.engine.free_slots() == server.engine.places


@pytest.mark.parametrize("door", LEAVING)
def test_leaving_with_times_of_words(server: Served, voice: str, door: str) -> None:
    """A client that leaves has the times of every word that its player played."""
    for text, played, ends in random_cancels(server.engine, voice, 5, apart=MS):
        heard = Heard()
        LEAVING[door](server, voice, text, played, heard)
        assert heard.words(played) == heard_words(ends, played), (text, played, ends, heard)
        eventually(lambda: all_free(server), "the slot")


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_leaving_openai(server: Served, voice: str, whole: Whole, stream_format: str) -> None:
    """What came is the beginning of the speech, and the trace tells nothing as heard that was not sent."""
    for text, played, ends in random_cancels(server.engine, voice, 6):
        body = {"input": text, "voice": voice, "response_format": "pcm", "stream_format": stream_format}
        sound = b""
        with httpx.stream("POST", f"{server.url}/v1/audio/speech", json=body, timeout=WAIT_S) as answer:
            trace_path = answer.headers["X-Studio-Trace"]
            pieces = answer.iter_raw() if stream_format == "audio" else map(_delta, answer.iter_lines())
            for piece in pieces:
                sound += piece
                if len(sound) // 2 >= played:
                    break
        assert np.array_equal(np.frombuffer(sound, "<i2"), whole(text)[: len(sound) // 2]), text
        eventually(lambda: all_free(server), "the slot")
        eventually(lambda path=trace_path: httpx.get(f"{server.url}/{path}").status_code == 200, "the trace")
        trace = open_trace(server.settings.traces_folder / trace_path.removeprefix("traces/"))
        for cancelled in (one for one in trace.events if isinstance(one, Cancelled)):
            assert len(cancelled.heard) <= heard_words(ends, len(sound) // 2)


def _delta(line: str) -> bytes:
    event = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
    return base64.b64decode(event.get("audio", ""))


@pytest.mark.parametrize("form", ["pcm_16000", "mp3_44100_64"])
def test_a_packet_that_a_cancel_overtakes_was_not_sent(
    serving: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """It was being encoded in a thread, or lies in the encoder: no word that ends in it is told."""
    encode, cancel = encoding._Pipeline.encode, ContextSession._cancel
    is_encoding, is_cut = threading.Event(), threading.Event()

    def slowly(pipeline: Any, pcm: np.ndarray) -> bytes:
        data = encode(pipeline, pcm)
        if pipeline._at == BETA_SAMPLES:
            is_encoding.set()
            assert is_cut.wait(WAIT_S)
            return data if form.startswith("pcm") else b""  # it completes no packet of MP3
        return data

    async def told(session: Any, context: Any) -> None:
        await cancel(session, context)
        is_cut.set()

    monkeypatch.setattr(encoding._Pipeline, "encode", slowly)
    monkeypatch.setattr(ContextSession, "_cancel", told)
    with opened(serving(), f"/v1/text-to-speech/tone:low/multi-stream-input?output_format={form}") as ws:
        ws.send(json.dumps({"text": "beta " * 20, "context_id": "one"}))
        eventually(is_encoding.is_set, "the packet in which the first word ends")
        ws.send(json.dumps({"context_id": "one", "close_context": True}))
        messages = [json.loads(ws.recv(timeout=WAIT_S))]
        while not messages[-1].get("isFinal"):
            messages.append(json.loads(ws.recv(timeout=WAIT_S)))
    assert any(one.get("audio") for one in messages) and not any(one.get("alignment") for one in messages)


@pytest.mark.parametrize("name", ["pcm_24000", "pcm_16000", "wav_44100", "ulaw_8000", "mp3_44100_32", "mp3_44100_128"])
def test_an_encoder_knows_what_it_holds_back(name: str) -> None:
    wanted, pcm, sent = FORMATS[name], np.zeros(RATE_HZ // 40, np.int16), b""
    encoder = asyncio.run(open_encoder(wanted, RATE_HZ))
    for _ in range(40):
        sent += asyncio.run(encoder.encode(pcm))
    if wanted.name == "mp3":
        with av.open(io.BytesIO(sent)) as file:
            sent_s = sum(frame.samples for frame in file.decode(audio=0)) / wanted.rate_hz
    else:
        sent_s = (len(sent) - 44 * (wanted.name == "wav")) / (1 if wanted.name == "ulaw" else 2) / wanted.rate_hz
    assert 1.0 - encoder.held_samples / RATE_HZ == pytest.approx(sent_s, abs=0.001)
    assert (sent_s == 1.0) == (name == "pcm_24000")
