"""Idle sockets whose client does not read: closing them delays nobody."""

import pytest
from serve.raw import PING, Raw, frame
from serve.serving import Served, Serving, eventually

from studio.serve.live import socket as sockets
from studio.serve.middleware import connections, rates

HIGH_WATER_BYTES = 65_536  # of asyncio: beyond it, uvicorn waits before it sends


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers every ping and aborts no socket because of its silence."""
    monkeypatch.setattr(rates, "CONTROLS_PER_S", 1e9)
    monkeypatch.setattr(connections, "SILENCE_S", 1000.0)
    monkeypatch.setattr(sockets, "NEW_S", 0.0)


def unread(served: Served) -> Raw:
    """A socket whose client has sent pings and reads none of the pongs."""
    raw = Raw(served)
    raw.upgrade()
    [transport] = served.connections
    for _ in range(1000):
        raw.send(frame(PING, b"x" * 125) * 100)
        if transport.get_write_buffer_size() > HIGH_WATER_BYTES:
            return raw
    raise AssertionError("the kernel has taken all pongs")


def test_socket_that_is_not_read_makes_room(serving: Serving, patient: None) -> None:
    served = serving(max_sockets=1)
    raw = unread(served)
    with served.talk() as talk:
        assert talk.open()["type"] == "ready"
    raw.ends()


def test_idle_socket_that_is_not_read_ends(serving: Serving, patient: None) -> None:
    served = serving(idle_socket_ms=5000)
    raw = unread(served)
    eventually(lambda: not served.connections, "the end of the socket")
    raw.socket.close()
