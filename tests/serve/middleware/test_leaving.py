"""Clients that leave or stop reading: their waiting requests do not run, and nothing of them is kept."""

import asyncio
import gc
import socket
import struct
import threading
from contextlib import suppress

import httpx
import pytest
from serve.raw import PING, TEXT, UPGRADE, Raw, frame
from serve.serving import PATIENCE_S, Served, Serving, eventually
from starlette.types import Receive, Scope, Send

from studio.serve import server
from studio.serve.middleware import connections
from studio.serve.middleware.callers import CALLER, LateCaller
from studio.serve.middleware.turns import AT_ONCE
from studio.ui.gradio_middleware import PAGE_BURST, PageLimits

HIGH_WATER_BYTES, LOW_WATER_BYTES = 65_536, 16_384  # of asyncio: above it writing is paused; below, resumed


def test_waiting_requests_of_clients_that_have_left_do_not_run(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MAX_RUN_S", 1000.0)  # the next request waits for the end of one before
    served, go_on, ran = serving(), threading.Event(), list[str]()
    served.app.get("/held")(lambda: go_on.wait(60.0))
    served.app.get("/next")(lambda: ran.append("next"))
    tasks = served._server.server_state.tasks
    try:
        held = [Raw(served) for _ in range(AT_ONCE)]
        for raw in held:
            raw.get("/held")
        eventually(lambda: len(tasks) == AT_ONCE, "the running requests")
        clients = [Raw(served) for _ in range(20)]
        for raw in clients:
            raw.get("/next")
        eventually(lambda: len(tasks) == AT_ONCE + 20, "the waiting requests")
        for raw in clients:
            raw.socket.close()
        eventually(lambda: len(tasks) == AT_ONCE, "the end of the waiting requests", PATIENCE_S / 2)
    finally:
        go_on.set()
    assert ran == []
    assert httpx.get(f"{served.url}/next", timeout=PATIENCE_S).status_code == 200 and ran == ["next"]


def test_pages_are_not_rendered_for_clients_that_have_left() -> None:
    rendered: list[str] = []

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        rendered.append(scope["path"])

    async def main() -> None:
        limits, caller = PageLimits(page, ["/results"]), LateCaller()
        scope = {"type": "http", "path": "/results", "headers": [], "client": ("192.0.2.1", 1), "state": {}}

        async def receive() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            raise AssertionError(message)

        for _ in range(PAGE_BURST):
            await limits(scope, receive, send)
        waiting = [asyncio.create_task(limits(scope | {"state": {CALLER: caller}}, receive, send)) for _ in range(600)]
        await asyncio.sleep(0)
        caller.lost.set()
        await asyncio.wait_for(asyncio.gather(*waiting), 10.0)  # the last turn comes after half a minute
        left = scope | {"state": {CALLER: LateCaller()}, "client": ("192.0.2.2", 1)}
        await limits(left, receive, send)

    asyncio.run(main())
    assert len(rendered) == PAGE_BURST + 1


def test_lost_sockets_are_not_kept_in_memory(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LINGER_S", 1000.0)
    served = serving(max_sockets=1)
    for sent in (b"", frame(PING) * 200, frame(TEXT, b"{}")):
        clients = [Raw(served) for _ in range(5)]
        for raw in clients:
            raw.send(UPGRADE)  # one is accepted, the others are refused
            raw.socket.recv(16)
            with suppress(OSError):
                raw.send(sent)
            raw.socket.close()
        eventually(lambda: not served.connections, "the end of the connections")
    eventually(lambda: not _count_connections(served), "the memory of the connections")


def _count_connections(served: Served) -> int:
    """The server's connections in memory; a stopped server of another test may keep some of its own."""
    gc.collect()
    known = [one for one in gc.get_objects() if isinstance(one, connections.Connection)]
    return sum(one.limits is served._server.limits for one in known)


def test_reset_connections_are_not_kept_in_memory(serving: Serving) -> None:
    served = serving()
    served._server.config.timeout_keep_alive = 1000
    for _ in range(5):
        raw = Raw(served)
        raw.get("/health")
        said = b""
        while not said.endswith(b"}"):  # a complete response: uvicorn waits for the next request
            said += raw.socket.recv(4096)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.socket.close()
    eventually(lambda: not served.connections, "the end of the connections")
    eventually(lambda: not _count_connections(served), "the memory of the connections")


def narrow(served: Served) -> tuple[Raw, asyncio.Transport]:
    """A connection for which the kernel stores a few KB only; its transport."""
    raw = Raw(served, receive_bytes=8192)
    eventually(lambda: served.connections, "the connection")
    [transport] = served.connections
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    return raw, transport


@pytest.mark.parametrize("headers", ["", "Connection: close\r\n"])
def test_small_response_that_is_not_read_is_aborted(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, headers: str
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(connections, "STALL_S", 1.0)
    served = serving()
    served.app.get("/text")(lambda: "x" * 60_000)
    raw, transport = narrow(served)
    raw.get("/text", headers)
    eventually(transport.get_write_buffer_size, "a rest that the kernel has not taken")
    assert transport.get_write_buffer_size() < HIGH_WATER_BYTES
    eventually(lambda: not served.connections, "the end of the connection")
    raw.socket.close()


def test_last_part_of_a_response_that_is_not_read_is_aborted(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1000.0)
    monkeypatch.setattr(connections, "STALL_S", 2.0)
    served = serving()
    served.app.get("/text")(lambda: "x" * 200_000)
    for _ in range(50):  # until some of a last part is left: the kernel may take all of it at once
        raw, transport = narrow(served)
        raw.get("/text", "Connection: close\r\n")
        eventually(lambda one=transport: one.get_write_buffer_size() > HIGH_WATER_BYTES, "a pause")
        while transport.get_write_buffer_size() > LOW_WATER_BYTES:
            assert raw.socket.recv(1024), "cut off"
        if is_left := transport.get_write_buffer_size() > 0:
            break
        raw.socket.close()
        eventually(lambda: not served.connections, "the end of the connection")
    assert is_left, "all was sent"
    eventually(lambda: not served.connections, "the end of the connection")
    raw.socket.close()
