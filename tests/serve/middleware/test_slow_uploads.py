"""Files that come slowly: they hold no place that is the owner's, nor any for long."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from inspection.spoken import RATE_HZ, pcm
from serve.middleware.test_body_limits import Client
from serve.mos_serving import ServedTests

from studio.core.clips import wav_bytes
from studio.serve.middleware import bodies

SOUND = wav_bytes(pcm(), RATE_HZ)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTests]:
    running = ServedTests(tmp_path)
    yield running
    running.stop()


def slow(served: ServedTests, path: str, head: str = "") -> Client:
    """Somebody who says that much comes, and sends one byte."""
    client = Client(int(served.url.rpartition(":")[2]), f"POST {path}")
    client.send(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nR".encode())
    return client


def test_two_slow_strangers_do_not_keep_the_owner_waiting(served: ServedTests) -> None:
    """On the route of anybody, and on the owner's own without a token or with a wrong one."""
    held = [slow(served, "/inspect/open") for _ in range(2)]
    held += [slow(served, "/library/files") for _ in range(2)]
    held += [slow(served, "/library/files", "Authorization: Bearer wrong\r\n") for _ in range(2)]
    time.sleep(0.3)
    began_s = time.monotonic()
    answer = httpx.post(
        f"{served.url}/library/files", content=SOUND, headers={**served.owner, "X-Studio-Text": "one"}, timeout=20.0
    )
    assert answer.status_code == 200, answer.text
    assert time.monotonic() - began_s < 5.0
    for client in held[2:]:
        assert client.answer()[0] == 403
    refused = httpx.post(f"{served.url}/inspect/open", content=SOUND, timeout=20.0)  # two of this address are read
    assert refused.status_code == 503 and refused.json()["code"] == "busy"


def test_a_file_that_does_not_come_on_gives_its_place_back(served: ServedTests) -> None:
    began_s = time.monotonic()
    held = [slow(served, "/inspect/open") for _ in range(2)]
    for client in held:
        status, said = client.answer()
        assert (status, said["code"]) == (408, "too_slow")
    assert bodies.RATE_WINDOW_S * 0.9 < time.monotonic() - began_s < bodies.RATE_WINDOW_S + 10.0
    assert httpx.post(f"{served.url}/inspect/open", content=SOUND, timeout=20.0).status_code == 200


def test_a_file_that_comes_on_in_pieces_is_taken(served: ServedTests) -> None:
    """Longer than one stretch of the pace, and faster than it."""
    port = int(served.url.rpartition(":")[2])
    sound = wav_bytes(pcm(600), RATE_HZ)
    with socket.create_connection(("127.0.0.1", port), timeout=30.0) as client:
        head = "POST /inspect/open HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        client.sendall(f"{head}Content-Length: {len(sound)}\r\n\r\n".encode())
        step = len(sound) // 7 + 1
        for at in range(0, len(sound), step):
            client.sendall(sound[at : at + step])
            time.sleep(0.9)
        received = client.recv(64)
    assert received.startswith(b"HTTP/1.1 200")
