"""Floods, stalls and partial requests affect only their sender."""

import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from serve.raw import CONT, PING, PONG, TEXT, UPGRADE, Raw, frame
from serve.serving import PATIENCE_S, Served, Serving, eventually, of
from websockets.exceptions import ConnectionClosed

from studio.core.text import livetext
from studio.serve.live.stream import BACKOFF_FACTOR
from studio.serve.middleware import connections, rates
from studio.serve.middleware.connections import ConnectionLimits
from studio.serve.middleware.rates import FrameCounter
from studio.serve.server import max_connections


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second instead of ten and thirty."""
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    monkeypatch.setattr(connections, "STALL_S", 0.5)


# --- floods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [frame(PING), frame(PING, b"x" * 125), frame(PONG), frame(TEXT)])
def test_flood_of_frames_is_closed(serving: Serving, kind: bytes) -> None:
    server = serving()
    raw = Raw(server)
    raw.upgrade()
    with suppress(OSError):
        for _ in range(2000):
            raw.send(kind * 200)
    assert raw.ends()[0] < PATIENCE_S / 2
    assert httpx.get(f"{server.url}/health", timeout=PATIENCE_S).status_code == 200


def test_pings_at_a_normal_rate_are_answered(serving: Serving) -> None:
    with serving().talk() as talk:
        for _ in range(10):
            assert talk.ws.ping().wait(PATIENCE_S)
        assert talk.open()["type"] == "ready"


def test_empty_fragments_are_not_stored(serving: Serving) -> None:
    """They do not increase a message's length, so the size limit never applies."""
    server = serving()
    raw = Raw(server)
    raw.upgrade()
    raw.send(struct.pack("BB4s", TEXT & 0x7F, 0x80, bytes(4)))  # not the last one
    with suppress(OSError):
        for _ in range(500):
            raw.send(struct.pack("BB4s", CONT & 0x7F, 0x80, bytes(4)) * 200)
    assert raw.ends()[0] < PATIENCE_S / 2


@pytest.mark.parametrize("piece", [1, 3, 1000])
@pytest.mark.parametrize("length", [0, 125, 126, 65_536])
def test_frames_are_counted_in_any_segmentation(length: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "time", SimpleNamespace(monotonic=lambda: 0.0))
    extended = b"" if length < 126 else struct.pack("!H", length) if length < 65_536 else struct.pack("!Q", length)
    head = bytes((TEXT, 0x80 | (length if length < 126 else 126 if length < 65_536 else 127))) + extended
    data, counter = (head + bytes(4 + length)) * 10, FrameCounter(frames_per_s=9.5)
    within = [counter.is_within(data[at : at + piece]) for at in range(0, len(data), piece)]
    assert within.index(False) in range((9 * len(data) // 10) // piece, (9 * len(data) // 10 + 14) // piece + 1)


@contextmanager
def editor(served: Served, field: str) -> Iterator[Any]:
    with served.talk(max_queue=None) as talk:
        talk.open(source="keyboard")
        talk.say("edit", at=0, remove=0, insert=field)
        yield talk


def test_client_editing_a_long_field_leaves_cpu_to_others(serving: Serving) -> None:
    """Each edit of one huge word takes milliseconds; its thread then backs off for a multiple of that."""
    served = serving()
    field = "x" * (livetext.MAX_FIELD_CHARS - 10)
    with editor(served, field + " ") as talk:
        talk.until("text")
        began_s, used_s = time.monotonic(), _edit_threads_s()
        while time.monotonic() - began_s < 2.0:
            talk.say("edit", at=0, remove=0, insert="y")
            talk.say("edit", at=0, remove=1, insert="")
            time.sleep(0.01)
        share = (_edit_threads_s() - used_s) / (time.monotonic() - began_s)
    assert share < 2.0 / (1.0 + BACKOFF_FACTOR), "the edit threads exceeded their share"


def _edit_threads_s() -> float:
    """CPU seconds of the shared edit threads, the event loop's pool."""
    return sum(_cpu_s(thread) for thread in threading.enumerate() if thread.name.startswith("asyncio_"))


def _cpu_s(thread: threading.Thread) -> float:
    stat = Path(f"/proc/self/task/{thread.native_id}/stat").read_text(encoding="ascii")
    ticks = stat.rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def test_edit_inside_a_huge_word_is_answered_briefly(serving: Serving) -> None:
    served = serving()
    with editor(served, "x" * 50_000 + " and some more ") as talk:
        talk.until("word_start")  # it is being spoken and stays
        talk.say("edit", at=1, remove=0, insert="y")
        [edited] = of(talk.until("edited"), "edited")
    assert len(edited["text"]) == livetext.MAX_NOTED_CHARS


def test_oversized_trace_is_dropped_and_the_speech_continues(serving: Serving) -> None:
    served = serving(max_trace_bytes=20_000)
    with served.talk() as talk:
        talk.open(credit_ms=60_000)
        talk.say("text", text="several words that take a while ")
        talk.say("end")
        heard = talk.until("error", "trace")
    assert of(heard, "ended") and heard[-1]["code"] == "bad_file"
    assert list(served.settings.traces_folder.iterdir()) == []


# --- stalls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_partial_request_is_closed(serving: Serving, quick: None, sent: bytes) -> None:
    raw = Raw(serving())
    raw.send(sent)
    after_s, said = raw.ends()
    assert 0.3 < after_s < PATIENCE_S / 2
    assert said.startswith(b"HTTP/1.1 408")


def test_slow_bytes_do_not_extend_the_deadline(serving: Serving, quick: None) -> None:
    raw = Raw(serving())
    began_s = time.monotonic()
    with suppress(OSError):
        for k in range(1000):
            raw.send(b"GET /health HTTP/1.1\r\n"[k : k + 1] if k < 22 else b"X")
            time.sleep(0.02)
    assert time.monotonic() - began_s < 15.0, "every byte extended the deadline"


def test_partial_second_request_is_closed_too(serving: Serving, quick: None) -> None:
    raw = Raw(serving())
    raw.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"200 OK" in raw.socket.recv(4096)
    raw.send(b"GET /hea")
    assert b"HTTP/1.1 408" in raw.ends()[1]


def test_websocket_is_no_partial_request(serving: Serving, quick: None) -> None:
    with serving().talk() as talk:
        time.sleep(1.5)
        assert talk.open()["type"] == "ready"


def test_sequential_requests_are_answered(serving: Serving, quick: None) -> None:
    raw = Raw(serving())
    for _ in range(4):
        raw.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2)
        said = b""
        while said.count(b'"status"') < 2:
            said += raw.socket.recv(4096)
        time.sleep(0.3)


def test_websocket_may_follow_a_request_immediately(
    serving: Serving, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 0.2)
    server = serving()
    raw = Raw(server)
    raw.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + UPGRADE)
    said = b""
    while b"hello" not in said:
        said += raw.socket.recv(4096)
    assert said.count(b"HTTP/1.1 200") == 1 and said.count(b"HTTP/1.1 101") == 1
    time.sleep(1.5)
    assert len(server._server.limits.connections) == 1
    raw.send(frame(TEXT, b"{}"))
    assert b"lacks the field" in raw.socket.recv(4096)


def test_unread_response_is_aborted(serving: Serving, quick: None) -> None:
    served = serving()
    served.app.get("/large")(lambda: "x" * 30_000_000)
    raw = Raw(served)
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.send(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    connected = served._server.server_state.connections
    eventually(lambda: connected, "the connection")
    eventually(lambda: not connected, "its end")


def test_slow_reader_is_tolerated(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_S", 1.0)  # kernel buffers move several times at this rate
    served, size = serving(), 30_000_000
    served.app.get("/large")(lambda: "x" * size)
    raw = Raw(served)
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    raw.send(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    got, until_s = 0, time.monotonic() + 3.0 * connections.STALL_S
    while time.monotonic() < until_s:  # the response takes longer than a stall may last
        got += len(raw.socket.recv(100_000))
        time.sleep(connections.STALL_S / 40)
    while got < size:
        more = len(raw.socket.recv(1 << 20))
        assert more, f"cut off after {got} bytes"
        got += more


# --- counts --------------------------------------------------------------------------------------


def test_connections_are_limited(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.serve.server.max_connections", lambda: 3)
    server = serving()
    held = [Raw(server) for _ in range(3)]
    eventually(lambda: len(server._server.server_state.connections) == 3, "the connections")
    one_more = Raw(server)
    assert one_more.ends()[1].startswith(b"HTTP/1.1 503")
    held[0].socket.close()
    eventually(lambda: len(server._server.server_state.connections) == 2, "a place")
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_one_address_cannot_take_all_connections(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "is_loopback", lambda address: False)
    monkeypatch.setattr("studio.serve.server.max_connections", lambda: 4)
    server = serving()
    held = [Raw(server) for _ in range(2)]
    eventually(lambda: len(server._server.server_state.connections) == 2, "the connections")
    assert Raw(server).ends()[1].startswith(b"HTTP/1.1 503")
    assert len(held) == 2 and ConnectionLimits.max_per_address == 500


def test_descriptors_are_reserved_for_files() -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert max_connections() < allowed


@pytest.mark.parametrize(
    "head", ["X: " + "x" * 9000, "\r\n".join(f"X{k}: 1" for k in range(200)), "Sec-WebSocket-Protocol: " + "a," * 3000]
)
def test_handshake_with_huge_headers_is_refused_quietly(
    serving: Serving, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, head: str
) -> None:
    raw = Raw(serving())
    raw.send(
        f"GET /ws/speak HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{head}\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    raw.socket.settimeout(2.0)
    try:
        said = raw.socket.recv(4096)
    except TimeoutError:
        said = b"nothing"
    assert said.startswith((b"HTTP/1.1 4", b"HTTP/1.1 101")) or said == b""
    assert "Traceback" not in capfd.readouterr().err + caplog.text


def test_closed_socket_gets_a_reason(serving: Serving) -> None:
    with serving().talk() as talk, pytest.raises(ConnectionClosed) as closed:
        for _ in range(100):
            talk.ws.pong(b"x")
        talk.hear()
    assert closed.value.rcvd is None or closed.value.rcvd.code == 1008


def test_sockets_per_address_are_limited(serving: Serving) -> None:
    server = serving(max_sockets=1000)
    clients = [Raw(server) for _ in range(300)]
    for raw in clients:  # before any answer is read: a slow machine must not fill the bucket again
        raw.send(UPGRADE)
    statuses = []
    for raw in clients:
        statuses.append(raw.socket.recv(4096)[9:12])
        raw.socket.close()
    assert statuses[:50] == [b"101"] * 50 and b"503" in statuses
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_flooding_client_gets_a_reason_without_a_traceback(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    server = serving(messages_per_s=50)
    for _ in range(5):
        raw = Raw(server)
        raw.upgrade()
        with suppress(OSError):
            for _ in range(20):
                raw.send(frame(TEXT, b"{}") * 200)
        raw.ends()
    assert "Traceback" not in caplog.text


def test_answers_to_a_client_that_has_left_are_dropped_quietly(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving()
    for _ in range(5):
        raw = Raw(server)
        raw.upgrade()
        raw.send(frame(TEXT, b"{}") * 250)  # an error each
        raw.socket.recv(16)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.socket.close()  # with a reset: the server's next send fails
    eventually(lambda: not server.connections, "the end of the connections")
    assert "socket.send() raised exception" not in caplog.text
