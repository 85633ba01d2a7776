"""Systems on the network, with the studio's own doors as their servers."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve.serving import Served
from systems.bad_line import random_ends
from systems.speaking import TEXT, failure, opened, spoken
from tones import Script

from studio.core.events import Audio, Cancelled, Ended
from studio.core.ports import SpeakRequest

KEY = "a-key-that-nobody-guesses"
DOORS: dict[str, dict[str, Any]] = {
    "openai": {"voice": "low", "model": "tone"},
    "openai-sse": {"voice": "low", "model": "tone", "kind": "openai", "stream_format": "sse"},
    "studio": {"voice": "tone/low"},
    "elevenlabs": {"voice": "low"},
    "elevenlabs-multi": {"voice": "low"},
    "cartesia": {"voice": "low"},
    "deepgram": {"voice": "tone/low"},
    "kyutai": {"voice": "tone/low"},  # their own voices are paths as well
}
SOURCES = {"studio": "eos", "elevenlabs": "aligner", "elevenlabs-multi": "aligner", "cartesia": "aligner"}
SOURCES |= {"kyutai": "action"}  # others are estimates
LIVE = ["studio", "elevenlabs", "elevenlabs-multi", "cartesia", "deepgram", "kyutai"]


def door(kind: str, url: str, **more: Any) -> dict[str, Any]:
    """A system that speaks to a studio at an address."""
    return {"kind": kind, "url": f"{url}/v1" if kind.startswith("openai") else url, **DOORS[kind], **more}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.stop()


@pytest.mark.parametrize("kind", DOORS)
def test_text_arrives_and_sound_and_word_times_come_back(server: Served, kind: str) -> None:
    trace = spoken(door(kind, server.url))
    assert isinstance(trace.events[-1], Ended), trace.events[-1]
    assert " ".join(one._text for one in server.engine.opened).split() == TEXT.split()
    sent = sum(one.samples for one in server.engine.opened)
    assert len(trace.pcm) == sent > 24_000
    assert trace.pcm.dtype == np.int16 and np.abs(trace.pcm).max() > 1000
    words = trace.words()
    assert [one.text for one in words] == TEXT.split()
    assert {one.source for one in words} == {SOURCES.get(kind, "estimate")}
    edges = [edge for one in words for edge in (one.start, one.end)]
    assert edges == sorted(edges) and edges[-1] <= sent
    assert len({one.start for one in words}) == len(words)


@pytest.mark.parametrize("kind", LIVE)
def test_live_systems_speak_before_the_text_has_ended(server: Served, kind: str) -> None:
    with opened(door(kind, server.url)) as engine:
        utterance = engine.open(SpeakRequest())
        utterance.push_text("One two three four five six ")
        events = utterance.events()
        next(one for one in events if isinstance(one, Audio))
        utterance.push_text("seven.")
        utterance.end()
        assert isinstance([*events][-1], Ended)


@pytest.mark.parametrize("kind", DOORS)
def test_a_cancel_frees_the_slot_there(server: Served, kind: str) -> None:
    with opened(door(kind, server.url)) as engine:
        utterance = engine.open(SpeakRequest(credit_samples=2400))
        utterance.push_text(TEXT + " ")
        events = utterance.events()
        next(one for one in events if isinstance(one, Audio))
        utterance.cancel(1200)
        rest = [*events]
        assert any(isinstance(one, Cancelled) for one in rest) and isinstance(rest[-1], Ended)
        until_s = time.monotonic() + 20
        while server.engine.free_slots() < server.engine.places and time.monotonic() < until_s:
            time.sleep(0.01)
        assert server.engine.free_slots() == server.engine.places


@pytest.mark.parametrize("kind", DOORS)
def test_a_wrong_key_and_a_missing_one_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    served = Served(tmp_path, key=KEY)
    try:
        monkeypatch.setenv("OTHER_KEY", "not-the-key-at-all")
        system = door(kind, served.url, key_env="OTHER_KEY")
        assert "refuses the key" in (wrong := failure(system)) and "OTHER_KEY" in wrong
        assert "not-the-key-at-all" not in wrong
        monkeypatch.setenv("OTHER_KEY", KEY)
        assert isinstance(spoken(system).events[-1], Ended)
        monkeypatch.delenv("OTHER_KEY")
        assert "OTHER_KEY is not set" in failure(system)
    finally:
        served.stop()


@pytest.mark.parametrize("kind", DOORS)
def test_nobody_there(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    assert "cannot be used" in failure(door(kind, url))


@pytest.mark.parametrize("kind", DOORS)
def test_a_server_that_accepts_and_says_nothing(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began_s = time.monotonic()
        failure(door(kind, url, timeout_s=1.0))
        assert time.monotonic() - began_s < 15


ANSWERS = {
    "/mp3/audio/speech": (200, "audio/mpeg", b"ID3\4" + bytes(100), "sent audio/mpeg"),
    "/html/audio/speech": (200, "text/html", b"<!doctype html><p>Welcome</p>", "sent text/html"),
    "/page/audio/speech": (200, "audio/wav", b"<!doctype html><p>Welcome</p>", "page of HTML"),
    "/busy/audio/speech": (503, "application/json", b'{"error": "busy"}', "try again later"),
    "/moved/audio/speech": (302, "text/plain", b"elsewhere", "answers 302"),
    "/nothing/audio/speech": (200, "audio/pcm", b"", "no sound"),
    "/zeros/audio/speech": (200, "audio/pcm", bytes(96_000), "silence"),
    "/fast/audio/speech": (200, "Audio/PCM; rate=44100", bytes(96_000), "give --sample-rate-hz 44100"),
    "/plain/audio/speech": (200, "audio/pcm", bytes(96_000), "it sends no SSE"),
    "/wrong/audio/speech": (200, "text/event-stream", b'data: {"error": {"message": "no voice"}}\n\n', "no voice"),
    "/half/audio/speech": (200, "text/event-stream", b'data: {"type": "speech.audio.delta"}\n\n', "breaks off"),
    "/lines/audio/speech": (200, "text/event-stream", b"data: hello\n\n", "no JSON object"),
}


SSE_ANSWERS = [f"/{one}/audio/speech" for one in ("plain", "wrong", "half", "lines")]


class _Odd(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status, kind, body, _ = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("location", "http://127.0.0.1:9/")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_odd_answers_fail_with_a_sentence() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Odd) as odd:
        threading.Thread(target=odd.serve_forever, daemon=True).start()
        for path, (*_, words) in ANSWERS.items():
            url = f"http://127.0.0.1:{odd.server_address[1]}{path}"
            more = {"stream_format": "sse"} if path in SSE_ANSWERS else {}
            message = failure({"kind": "openai", "url": url, **more})
            assert words in message and "; " in message, message
        odd.shutdown()


@pytest.mark.parametrize("kind", DOORS)
def test_random_cuts_and_stalls_end_in_failed_or_in_the_whole_speech(tmp_path: Path, kind: str) -> None:
    """25 of each door, ten at once."""
    served = Served(tmp_path, Script(speed=50.0), max_sockets=200)
    served.engine.places = 64
    try:
        random_ends(served.port, lambda url: door(kind, url))
    finally:
        served.stop()
