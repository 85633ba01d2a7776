"""Idle sockets are closed to make room; active ones stay."""

import json
import time
from typing import Any

import pytest
from fakeutterance import FakeUtterance
from serve.mos_serving import ServedTests
from serve.serving import PATIENCE_S, Serving
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from studio.core.ports import SpeakRequest
from studio.serve.live import socket as sockets
from studio.serve.live.socket import IDLE
from studio.serve.middleware.addresses import network_of
from studio.serve.server import _least_used, _silent


def ends(ws: Any) -> int:
    """The close code sent by the server."""
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            ws.recv(timeout=PATIENCE_S)
    return closed.value.rcvd.code if closed.value.rcvd else 0


def test_idle_socket_is_closed(serving: Serving) -> None:
    with serving(idle_socket_ms=300).talk() as talk:
        began_s = time.monotonic()
        assert ends(talk.ws) == IDLE
        assert time.monotonic() - began_s > 0.2


def test_messages_alone_do_not_keep_a_socket_open(serving: Serving) -> None:
    with serving(idle_socket_ms=500).talk() as talk, pytest.raises(ConnectionClosed):
        for _ in range(100):
            talk.ws.send("{}")
            talk.hear()
            time.sleep(0.1)


def test_speaking_socket_stays(serving: Serving) -> None:
    with serving(idle_socket_ms=300).talk() as talk:
        talk.open()
        time.sleep(1.0)
        talk.say("text", text="one two three ")
        talk.say("end")
        talk.until("trace")
        assert ends(talk.ws) == IDLE


def test_socket_with_an_opening_utterance_stays(serving: Serving) -> None:
    server = serving(idle_socket_ms=300)
    really_open = server.engine.open

    def slow_open(request: SpeakRequest) -> FakeUtterance:
        time.sleep(0.8)
        return really_open(request)

    server.engine.open = slow_open
    with server.talk() as talk:
        assert talk.open()["type"] == "ready"
        talk.say("text", text="one two three ")
        talk.say("end")
        talk.until("trace")
        assert ends(talk.ws) == IDLE


def test_full_server_closes_the_longest_idle_socket(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "FRESH_S", 0.2)
    monkeypatch.setattr(sockets, "NEW_S", 0.2)
    server = serving(max_sockets=2)
    with server.talk() as speaking, server.talk() as idle:
        speaking.open()
        time.sleep(0.3)
        with server.talk() as third:
            assert ends(idle.ws) == IDLE
            assert third.open()["type"] == "ready"
            speaking.say("text", text="one two three ")
            speaking.until("word_end")
            with pytest.raises(InvalidStatus) as refused:
                server.talk()
            assert refused.value.response.status_code == 503


class Held:
    """A socket as the selection sees it."""

    def __init__(self, address: str, idle_s: float, is_used: bool = True) -> None:
        self.address, self._idle_s, self._is_used = address, idle_s, is_used

    def idle_s(self) -> float:
        return self._idle_s

    def is_fresh(self) -> bool:
        return sockets.SpeakSession.is_fresh(self)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("there", "comes", "goes"),
    [
        ([("a", 5.0), ("a", 3.0), ("a", 0.0), ("b", 9.0)], "c", 0),  # most sockets of one address; the one idle longest
        ([("a", 5.0), ("b", 3.0)], "c", None),  # all are recent and no address has more than the others
        ([("a", 50.0), ("b", 3.0)], "c", 0),
        ([("a", 5.0), ("a", 3.0), ("b", 50.0)], "a", 2),
        ([("a", 0.0), ("b", 0.0)], "c", None),  # all are active
        ([("a", 5.0)] * 5 + [("b", 0.0)], "a", None),  # the flooding address waits itself
    ],
)
def test_selection_of_the_socket_to_close(there: list[tuple[str, float]], comes: str, goes: int | None) -> None:
    held = [Held(address, idle_s) for address, idle_s in there]
    found = _least_used(held, comes)  # type: ignore[type-var]
    assert found is (None if goes is None else held[goes])


def test_unused_sockets_shut_nobody_out() -> None:
    held = [Held("a", 5.0), Held("a", 2.0, False), Held("a", 0.5, False)]
    assert _least_used(held, "a") is held[1]  # type: ignore[type-var]
    assert _least_used([held[0], held[2]], "a") is None  # type: ignore[type-var]


class Speaking:
    """A socket with an utterance as the selection sees it."""

    def __init__(self, address: str, is_heard: bool) -> None:
        self.address, self._is_heard = address, is_heard

    def is_heard(self) -> bool:
        return self._is_heard


def test_sockets_without_sound_of_one_address_shut_no_other_out() -> None:
    held = [Speaking("a", True), Speaking("a", False), Speaking("a", True), Speaking("b", False)]
    assert _silent(held, "c") is held[1]  # type: ignore[type-var]
    assert _silent(held[1:], "a") is None and _silent(held[2:], "c") is None  # type: ignore[type-var]


def test_socket_whose_utterances_wait_makes_room_for_another_address(serving: Serving) -> None:
    server = serving(max_sockets=2, proxies=("127.0.0.1",))
    with server.talk() as speaking, server.talk() as waiting:
        for talk in (speaking, waiting):
            talk.open()
        speaking.say("text", text="one two three ")
        speaking.until("word_end")
        headers = {"X-Forwarded-For": "192.0.2.1"}
        with server.talk(additional_headers=headers) as other:
            assert other.open()["type"] == "ready"
            assert ends(waiting.ws) == IDLE
        speaking.say("end")
        speaking.until("trace")


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::1", "127.0.0.1"),
        ("127.80.1.9", "127.0.0.1"),
        ("::ffff:127.0.0.9", "127.0.0.1"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_addresses_of_one_network_count_together(host: str, network: str) -> None:
    assert network_of(host) == network


def test_unauthenticated_rater_socket_is_closed(tests_served: ServedTests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studio.serve.mos.live.ENTER_S", 0.3)
    address = tests_served.url.replace("http", "ws") + "/mos/live"
    with connect(address, proxy=None) as ws:
        assert ends(ws) == IDLE
    token = tests_served.join().agree().headers["Authorization"].removeprefix("Bearer ")
    with connect(address, proxy=None) as ws:
        ws.send(json.dumps({"type": "enter", "token": token}))
        ws.recv(timeout=PATIENCE_S)
        time.sleep(0.6)
        assert ws.ping().wait(PATIENCE_S)
