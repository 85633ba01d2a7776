"""Request bodies are bounded in size and time; slow senders take no slots from the owner."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from inspection.spoken import RATE_HZ, pcm
from serve.mos_serving import ServedTests
from serve.serving import eventually

from studio.core.clips import wav_bytes
from studio.serve.app import guarded_app
from studio.serve.middleware import bodies
from studio.serve.middleware.bodies import MAX_BODY_BYTES, BodyLimitMiddleware
from studio.serve.server import build_server as make_server
from studio.serve.settings import ServeSettings

WITHIN_S = 1.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server with one route that reads its body and one that does not."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = ServeSettings(port=port)
    app = guarded_app(settings)
    _add_routes(app)
    app.add_middleware(BodyLimitMiddleware, timeout_s=WITHIN_S)
    server = make_server(app, settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started, "the server")
    yield port
    server.should_exit = True
    thread.join(10.0)


def _add_routes(app: FastAPI) -> None:
    @app.post("/reads")
    async def reads(request: Request) -> int:
        return len(await request.body())

    @app.post("/ignores")
    @app.get("/ignores")
    def ignores() -> str:
        return "never looked"


class Client:
    """A client that may stop in the middle."""

    def __init__(self, port: int, head: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20.0)
        self.send(f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode())

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Status and JSON body; the server must close the connection."""
        self._socket.settimeout(20.0)
        received = b""
        while part := self._socket.recv(65536):
            received += part
        self._socket.close()
        head, _, body = received.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("route", ["POST /reads", "POST /ignores", "GET /ignores", "POST /nothing"])
def test_declared_oversized_body_is_refused_before_it_is_read(port: int, route: str) -> None:
    client = Client(port, route)
    client.send(b"Content-Length: 200000000\r\n\r\n")
    status, said = client.answer()
    assert (status, said["code"]) == (413, "too_long")


@pytest.mark.parametrize("route", ["POST /reads", "POST /ignores", "POST /nothing"])
def test_undeclared_oversized_body_is_refused_at_the_limit(port: int, route: str) -> None:
    client = Client(port, route)
    client.send(b"Transfer-Encoding: chunked\r\n\r\n")
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    with pytest.raises(OSError):
        for _ in range(600):  # 20 MB, if accepted
            client.send(chunk)


def test_client_that_continues_sending_gets_the_reason(port: int) -> None:
    client = Client(port, "POST /reads")
    client.send(b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000)
    assert client.answer()[0] == 413


@pytest.mark.parametrize("route", ["POST /reads", "POST /ignores"])
def test_missing_body_times_out(port: int, route: str) -> None:
    client, began_s = Client(port, route), time.monotonic()
    client.send(b"Content-Length: 100\r\n\r\nabc")
    status, said = client.answer()
    assert (status, said["code"]) == (408, "too_slow")
    assert WITHIN_S * 0.9 < time.monotonic() - began_s < 15.0


def test_largest_allowed_body_arrives_complete(port: int) -> None:
    client = Client(port, "POST /reads")
    client.send(f"Content-Length: {MAX_BODY_BYTES}\r\nConnection: close\r\n\r\n".encode())
    client.send(b"x" * MAX_BODY_BYTES)
    assert client.answer() == (200, MAX_BODY_BYTES)


SOUND = wav_bytes(pcm(), RATE_HZ)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedTests]:
    running = ServedTests(tmp_path)
    yield running
    running.stop()


def slow(served: ServedTests, path: str, head: str = "") -> Client:
    """A client that declares a body and sends one byte."""
    client = Client(int(served.url.rpartition(":")[2]), f"POST {path}")
    client.send(f"{head}Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nR".encode())
    return client


def test_two_slow_clients_do_not_delay_the_owner(served: ServedTests) -> None:
    """On the public route, and on the owner's with a missing or wrong token."""
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
    refused = httpx.post(f"{served.url}/inspect/open", content=SOUND, timeout=20.0)  # two are being read
    assert refused.status_code == 503 and refused.json()["code"] == "busy"


def test_stalled_upload_releases_its_slot(served: ServedTests) -> None:
    began_s = time.monotonic()
    held = [slow(served, "/inspect/open") for _ in range(2)]
    for client in held:
        status, said = client.answer()
        assert (status, said["code"]) == (408, "too_slow")
    assert bodies.RATE_WINDOW_S * 0.9 < time.monotonic() - began_s < bodies.RATE_WINDOW_S + 10.0
    assert httpx.post(f"{served.url}/inspect/open", content=SOUND, timeout=20.0).status_code == 200


def test_steady_upload_in_pieces_is_accepted(served: ServedTests) -> None:
    """Longer than one rate interval, and faster than the minimum."""
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


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"1")]], ids=["no body", "a body"])
def test_route_that_reads_on_after_its_client_has_left_raises_nothing(headers: list[tuple[bytes, bytes]]) -> None:
    async def route(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        await request.body()
        await Request(scope, receive).body()  # as a second framework does inside a route
        raise AssertionError("the second body comes from a client that has left")

    async def run() -> None:
        messages = iter([{"type": "http.request", "body": b"x"}, {"type": "http.disconnect"}])

        async def receive() -> Any:
            return next(messages)

        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/x", "headers": headers, "client": ("127.0.0.1", 1)}
        await BodyLimitMiddleware(route)(scope, receive, send)
        assert not sent

    asyncio.run(run())
