"""A client that leaves frees its slot at once, at every HTTP door and whatever the request is waiting for."""

import json
import socket
import struct
from typing import Any

import pytest
from serve.serving import Served, Serving, eventually
from tones import RATE_HZ, Script

TEXT = "alpha " * 300
SSML = "<s>One two three four.</s><break/>" * 40
AT_ONCE_S = 3.0  # on a busy machine; the speech itself takes minutes
DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/audio/speech", {"input": TEXT, "voice": "low", "response_format": "pcm"}),
    "openai-mp3": ("/v1/audio/speech", {"input": TEXT, "voice": "low"}),
    "openai-sse": ("/v1/audio/speech", {"input": TEXT, "voice": "low", "stream_format": "sse"}),
    "openai-json": ("/v1/audio/speech", {"input": TEXT, "voice": "low", "stream_format": "json"}),
    "openai-ssml": ("/v1/audio/speech", {"input": SSML, "voice": "low", "markup": "ssml"}),
    "elevenlabs": ("/v1/text-to-speech/tone:low", {"text": TEXT}),
    "elevenlabs-stream": ("/v1/text-to-speech/tone:low/stream", {"text": TEXT}),
    "elevenlabs-breaks": ("/v1/text-to-speech/tone:low", {"text": "One two.<break time='1s'/>" * 40}),
    "elevenlabs-whole": ("/v1/text-to-speech/tone:low/with-timestamps", {"text": TEXT}),
    "elevenlabs-lines": ("/v1/text-to-speech/tone:low/stream/with-timestamps", {"text": TEXT}),
    "cartesia": ("/tts/bytes", {"transcript": TEXT, "voice": {"mode": "id", "id": "low"}}),
    "deepgram": ("/v1/speak?model=low", {"text": TEXT}),
}


def asked(server: Served, door: str, more: bytes = b"") -> socket.socket:
    path, body = DOORS[door]
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    client = socket.create_connection(("127.0.0.1", server.port), timeout=20.0)
    client.sendall(head.encode() + data + more)
    return client


def all_free(server: Served) -> bool:
    return not server.engine.waiting and server.engine.free_slots() == server.engine.places


@pytest.mark.parametrize("door", DOORS)
def test_while_it_speaks(serving: Serving, door: str) -> None:
    server = serving(script=Script(speed=2.0))
    client = asked(server, door)
    eventually(lambda: server.engine.opened and server.engine.opened[-1].samples > 0, "sound")
    client.close()
    assert eventually(lambda: all_free(server), "the slot") < AT_ONCE_S
    assert sum(one.samples for one in server.engine.opened) < 20 * RATE_HZ


@pytest.mark.parametrize("door", DOORS)
def test_before_the_first_sound_without_a_goodbye(serving: Serving, door: str) -> None:
    server = serving(script=Script(cold_ms=1000.0))
    client = asked(server, door)
    eventually(lambda: server.engine.speaking, "the utterance")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    client.close()
    assert eventually(lambda: all_free(server), "the slot") < AT_ONCE_S
    assert [one.samples for one in server.engine.opened] == [0]


@pytest.mark.parametrize("door", DOORS)
def test_in_the_queue(serving: Serving, door: str) -> None:
    server = serving()
    places, server.engine.places = server.engine.places, 0
    client = asked(server, door)
    eventually(lambda: server.engine.waiting, "the queue")
    client.close()
    assert eventually(lambda: not server.engine.waiting, "its place") < AT_ONCE_S
    server.engine.places = places
    assert len(server.engine.opened) == 1


@pytest.mark.parametrize("door", ["elevenlabs-whole", "openai"])
def test_behind_a_second_request(serving: Serving, door: str) -> None:
    """Bytes of another request, which the server does not read yet, do not hide that the client left."""
    server = serving(script=Script(cold_ms=1000.0))
    client = asked(server, door, more=b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    eventually(lambda: server.engine.speaking, "the utterance")
    client.close()
    assert eventually(lambda: all_free(server), "the slot") < AT_ONCE_S
