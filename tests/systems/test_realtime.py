"""Sockets of events that take text, against servers with the recorded form of each dialect's messages."""

import base64
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from systems.bad_line import random_ends
from systems.speaking import TEXT, failure, opened, spoken, tone
from websockets.sync.server import ServerConnection, serve

from studio.core.events import Audio, Ended
from studio.core.ports import SpeakRequest

RATE_HZ = {"riva": 24_000, "sglang": 24_000, "vllm": 16_000, "nari": 24_000}
NARI, NARI_AUDIO = "nari.speech.v1", {"encoding": "pcm_s16le", "sample_rate": 24_000, "channels": 1}
WORD_S = 0.2
Answer = Callable[[str, Any], None]


class Fake:
    """A server of one dialect: each word becomes a tone.

    Attributes:
        texts: of each session, as they came.
        fault: a message it answers the first text with.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect, self.texts, self.fault = dialect, list[str](), ""
        self.closes_early = False

    def __call__(self, ws: ServerConnection) -> None:
        """One session."""
        if self.dialect == "riva":
            self.say(ws, "conversation.created")
        if self.dialect == "nari":
            if ws.subprotocol != NARI:
                ws.close(1002, f"required subprotocol: {NARI}")
                return
            self.say(ws, "session.created", protocol=NARI, audio=NARI_AUDIO)
        for raw in ws:
            message = json.loads(raw)
            kind = message["type"]
            if self.closes_early and "text" in message:
                return
            if self.fault and "text" in message:
                ws.send(self.fault)
                return
            if kind == "synthesize_session.update":
                assert message["session"]["output_audio_params"]["sample_rate_hz"] == 24_000
                self.say(ws, "synthesize_session.updated", session=message["session"])
            elif kind == "session.config" and self.dialect == "sglang":
                self.say(ws, "session.configured", sample_rate=24_000)
            elif kind == "turn.start":
                self.say(ws, "turn.started", turn_id=message["turn_id"])
                self.say(ws, "audio.start", sample_rate=24_000)
                self.number = 0
            elif kind == "session.config":
                assert message["stream_audio"] and message["response_format"] == "pcm"
                self.say(ws, "audio.start", sentence_index=0, sample_rate=RATE_HZ[self.dialect])
            elif kind == "request.start":
                assert message == {"type": kind, "model": "theirs"}, "what it does not know, it refuses"
                self.say(ws, "request.configured")
                self.number = 0
            elif "text" in message:
                self.speak(ws, message)
            elif kind == "input_text.end":
                self.in_order(ws, message)
                self.say(ws, "response.done", request_id="ws-1", stop_reason="stop", audio_chunks=1)
                return
            elif kind == "input.done":
                if self.dialect == "sglang":
                    self.say(ws, "input.ack", accepted_seq_no=message["seq_no"])
                    self.say(ws, "turn.done", committed=True)
                else:
                    self.say(ws, "audio.done", sentence_index=0)
                    self.say(ws, "session.done", total_sentences=1)
            elif kind == "input_text.done":
                self.say(ws, "conversation.item.speech.completed", is_last_result=True)

    def speak(self, ws: ServerConnection, message: dict[str, Any]) -> None:
        """Answer a text with its sound."""
        self.texts.append(message["text"])
        data = tone(WORD_S * len(message["text"].split()), RATE_HZ[self.dialect]).tobytes()
        if self.dialect == "riva":
            self.say(ws, "conversation.item.speech.data", audio=base64.b64encode(data).decode())
            self.say(ws, "conversation.item.speech.completed", is_last_result=False)
            return
        if self.dialect == "nari" and not message["sequence"]:
            self.say(ws, "response.started", request_id="ws-1", audio=NARI_AUDIO)
        for at in range(0, len(data), 999):  # a message may end within a sample
            ws.send(data[at : at + 999])
        if self.dialect == "sglang":
            self.say(ws, "input.ack", accepted_seq_no=message["seq_no"])
        if self.dialect == "nari":
            self.in_order(ws, message)

    def in_order(self, ws: ServerConnection, message: dict[str, Any]) -> None:
        """Nari counts texts and their end, and acknowledges them."""
        assert message["sequence"] == self.number
        self.number += 1
        self.say(ws, "input_text.ack", event=message["type"], sequence=message["sequence"], request_id="ws-1")

    def say(self, ws: ServerConnection, kind: str, **fields: Any) -> None:
        """Send an event."""
        ws.send(json.dumps({"type": kind, **fields}))


def chosen(_: ServerConnection, offered: Any) -> Any:
    """Nari's subprotocol where it is offered; its server closes the others after the handshake."""
    return NARI if NARI in offered else None


@contextmanager
def running(fake: Fake) -> Generator[int]:
    """Serve it; yields its port."""
    known: Any = [NARI] if fake.dialect == "nari" else None
    with serve(fake, "127.0.0.1", 0, subprotocols=known, select_subprotocol=chosen) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.socket.getsockname()[1]
        server.shutdown()


def system(dialect: str, url: str) -> dict[str, Any]:
    """The system at an address."""
    return {"kind": "realtime", "url": url, "dialect": dialect, "model": "theirs"}


@pytest.mark.parametrize("dialect", RATE_HZ)
def test_text_arrives_and_sound_comes_back(dialect: str) -> None:
    fake = Fake(dialect)
    with running(fake) as port:
        trace = spoken(system(dialect, f"ws://127.0.0.1:{port}"))
    assert isinstance(trace.events[-1], Ended), trace.events[-1]
    assert "".join(fake.texts).split() == TEXT.split()
    assert abs(len(trace.pcm) - 24_000 * WORD_S * len(TEXT.split())) < 100
    assert np.abs(trace.pcm).max() > 1000
    assert [one.text for one in trace.words()] == TEXT.split()
    assert {one.source for one in trace.words()} == {"estimate"}


@pytest.mark.parametrize("dialect", RATE_HZ)
def test_it_speaks_before_the_text_has_ended(dialect: str) -> None:
    with running(Fake(dialect)) as port, opened(system(dialect, f"ws://127.0.0.1:{port}")) as engine:
        utterance = engine.open(SpeakRequest())
        utterance.push_text("One two ")
        events = utterance.events()
        next(one for one in events if isinstance(one, Audio))
        utterance.flush()
        utterance.push_text("three.")
        utterance.end()
        assert isinstance([*events][-1], Ended)


@pytest.mark.parametrize("dialect", RATE_HZ)
def test_text_without_words_ends_without_sound(dialect: str) -> None:
    with running(Fake(dialect)) as port:
        assert isinstance(spoken(system(dialect, f"ws://127.0.0.1:{port}"), "... !").events[-1], Ended)


@pytest.mark.parametrize("dialect", RATE_HZ)
def test_errors_and_early_ends_are_failures(dialect: str) -> None:
    fake = Fake(dialect)
    with running(fake) as port:
        url = f"ws://127.0.0.1:{port}"
        fake.fault = json.dumps({"type": "error", "error": {"message": "there is no voice ann"}})
        assert "there is no voice ann" in failure(system(dialect, url))
        fake.fault = json.dumps({"type": "error", "message": "full"})
        assert "full" in failure(system(dialect, url))
        fake.fault = "[1, 2]"
        assert "no JSON object" in failure(system(dialect, url))
        fake.fault, fake.closes_early = "", True
        assert "before the speech had ended" in failure(system(dialect, url))


@pytest.mark.parametrize("dialect", RATE_HZ)
def test_random_cuts_and_stalls_end_in_failed_or_in_the_whole_speech(dialect: str) -> None:
    with running(Fake(dialect)) as port:
        random_ends(port, lambda url: system(dialect, url))
