"""Inspect routes: a stored trace, and an uploaded file within limits."""

import io
import struct
import zipfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from inspection.spoken import RATE_HZ, pcm, story
from inspection.test_timeline import unpack
from serve.middleware.test_body_limits import Client
from serve.serving import Served, Serving, eventually, of

from studio.core.clips import wav_bytes
from studio.core.traces.trace_writer import TraceWriter
from studio.serve.middleware import bodies
from studio.serve.traces import MAX_EVENTS, MAX_FILE_BYTES


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("inspect"))


@pytest.fixture
def trace(tmp_path: Path) -> bytes:
    writer = TraceWriter(tmp_path / "a", {})
    writer.write(*story())
    return writer.close().read_bytes()


def sent(server: Served, body: bytes, text: str = "", **headers: str) -> httpx.Response:
    return httpx.post(
        f"{server.url}/inspect/open", content=body, headers={"X-Studio-Text": quote(text), **headers}, timeout=30.0
    )


def test_uploaded_trace_comes_back_packed(server: Served, trace: bytes) -> None:
    answer = sent(server, trace)
    assert answer.headers["cache-control"] == "private, no-store"
    header, arrays = unpack(answer.content)
    assert (arrays["pcm"] == pcm()).all() and len(header["timeline"]["words"]) == 3


def test_recording_is_uploaded_with_its_text(server: Served) -> None:
    header, _ = unpack(sent(server, wav_bytes(pcm(), RATE_HZ), "Grüße, zwei").content)
    assert [word["text"] for word in header["timeline"]["words"]] == ["Grüße,", "zwei"]


def test_stored_utterance_is_shown_by_its_token(serving: Serving) -> None:
    server = serving()
    with server.talk() as talk:
        talk.open(options={"m": 1}, credit_ms=60_000)
        talk.say("text", text="alpha beta")
        talk.say("end")
        heard = talk.until("trace")
    url = f"{server.url}/{heard[-1]['trace_url']}".removesuffix(".trace")
    header, arrays = unpack(httpx.get(url + ".view").content)
    assert len(of(heard, "word_end")) == 2 == len(header["timeline"]["words"])
    assert len(arrays["pcm"]) > 0
    _, measured = unpack(httpx.get(url + ".prosody").content)
    assert len(measured["level"]) == len(measured["pitch"]) == len(arrays["pcm"]) // 120
    for part in ("view", "prosody"):
        assert httpx.get(f"{server.url}/traces/{'x' * 22}.{part}").status_code == 404


def small_zip(line: bytes, lines: int) -> bytes:
    """A trace that unpacks to many lines of events."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", "{}")
        archive.writestr("events.jsonl", line * lines)
        archive.writestr("audio.wav", wav_bytes(pcm(), RATE_HZ))
    return out.getvalue()


EVENT = b'{"type":"flushed","words":0}'


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not a readable trace"),
        (b"PK\x03\x04", "not a readable trace"),
        (b"RIFF" + struct.pack("<I", 2**31) + b"WAVE", "has no data chunk"),
        (small_zip(b"\n", 34 << 20), "unpacks to more"),
        (small_zip(EVENT + b"\n", MAX_EVENTS + 1), f"at most {MAX_EVENTS:,} are opened here"),
        (small_zip(EVENT + b"\r", MAX_EVENTS + 1), f"at most {MAX_EVENTS:,} are opened here"),
    ],
)
def test_invalid_trace_is_refused_with_a_reason(server: Served, body: bytes, why: str) -> None:
    answer = sent(server, body)
    assert answer.status_code == 422 and why in answer.json()["message"]
    pitch = httpx.post(f"{server.url}/inspect/prosody", content=body)
    if why == "unpacks to more" or "are opened here" in why:
        assert pitch.status_code == 200, "the audio matches its header, and nothing else is read"
    else:
        assert pitch.json() == answer.json()


def test_oversized_file_is_refused(server: Served) -> None:
    client = Client(server.port, "POST /inspect/open")
    client.send(f"Content-Length: {MAX_FILE_BYTES + 1}\r\n\r\n".encode())
    status, said = client.answer()
    assert (status, said["code"]) == (413, "too_long")
    assert httpx.post(f"{server.url}/mos/join", content=b"x" * 70_000).status_code == 413, "no other route accepts one"


def test_concurrent_uploads_are_limited(server: Served, trace: bytes) -> None:
    """Two slow uploads use up their address's limit; a third is accepted when they are done."""
    slow = [Client(server.port, "POST /inspect/open") for _ in range(bodies.SLOTS_PER_ADDRESS)]
    for client in slow:
        client.send(b"Connection: close\r\nContent-Length: 10\r\n\r\nPK")
    eventually(lambda: sent(server, b"PK").status_code == 503, "every place is taken")
    for client in slow:
        client.send(b"12345678")
        assert client.answer()[0] == 422
    assert sent(server, trace).status_code == 200
