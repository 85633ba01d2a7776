"""Floods: one kind of message as fast as possible for some seconds; closed connections are reopened."""

import base64
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from durability.harness.target import Line, Target
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

HANDS = 4  # concurrent senders
_PING = bytes([0x89, 0x80, 0, 0, 0, 0])
Flood = Callable[[Target, Callable[[], bool]], None]


def pings(target: Target, goes_on: Callable[[], bool]) -> None:
    """Control frames."""
    while goes_on():
        with suppress(OSError), _upgraded(target.port) as raw:
            while goes_on():
                raw.sendall(_PING * 1000)


def messages(target: Target, goes_on: Callable[[], bool]) -> None:
    """Messages without effect."""
    while goes_on():
        with suppress(OSError, WebSocketException), _talk(target) as ws:
            while goes_on():
                ws.send('{"type": "flush", "utterance": 1}')


def edits(target: Target, goes_on: Callable[[], bool]) -> None:
    """Edits at the start of a word of 199,000 letters."""
    while goes_on():
        with suppress(OSError, WebSocketException), _talk(target) as ws:
            ws.send(json.dumps({"type": "open", "utterance": 1, "source": "keyboard", "credit_ms": 100}))
            ws.send(json.dumps({"type": "edit", "utterance": 1, "at": 0, "insert": "x" * 199_000 + " "}))
            while goes_on():
                for change in ({"insert": "y"}, {"remove": 1}):
                    ws.send(json.dumps({"type": "edit", "utterance": 1, "at": 0} | change))
                time.sleep(0.01)


def half_requests(target: Target, goes_on: Callable[[], bool]) -> None:
    """Connections with incomplete requests."""
    held: list[socket.socket] = []
    while goes_on():
        with suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", target.port), timeout=1.0))
            held[-1].sendall(b"GET /hea")
        if len(held) > 200:
            held.pop(0).close()
        time.sleep(0.005)
    for one in held:
        one.close()


def idle_sockets(target: Target, goes_on: Callable[[], bool]) -> None:
    """Idle sockets."""
    held: list[socket.socket] = []
    while goes_on():
        with suppress(OSError):
            held.append(_upgraded(target.port))
        if len(held) > 60:
            held.pop(0).close()
        time.sleep(0.005)
    for one in held:
        one.close()


def long_bodies(target: Target, goes_on: Callable[[], bool]) -> None:
    """Endless bodies."""
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    while goes_on():
        with suppress(OSError), socket.create_connection(("127.0.0.1", target.port), timeout=5.0) as raw:
            raw.sendall(b"POST /mos/answer HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            while goes_on():
                raw.sendall(chunk)


def page_calls(target: Target, goes_on: Callable[[], bool]) -> None:
    """Gradio calls without a listener."""
    line, number = Line(target.port), 0
    while goes_on():
        number += 1
        call = {"data": [], "fn_index": 2, "session_hash": f"s{number}"}
        line.ask("POST", "/gradio_api/queue/join", call)
    line.close()


def wrong_tokens(target: Target, goes_on: Callable[[], bool]) -> None:
    """Wrong tokens."""
    line, number = Line(target.port), 0
    while goes_on():
        number += 1
        line.ask("GET", "/mos/owner/campaigns", token=f"wrong {number}")
        line.ask("GET", f"/mos/greet?campaign=bench&key=wrong{number}")
    line.close()


FLOODS: tuple[Flood, ...] = (
    pings, messages, edits, half_requests, idle_sockets, long_bodies, page_calls, wrong_tokens,
)  # fmt: skip


def flood(kind: Flood, target: Target, for_s: float) -> None:
    """Run a flood with ``HANDS`` threads for ``for_s`` seconds."""
    logging.getLogger("websockets").setLevel(logging.CRITICAL)  # websockets logs a closed connection as an error
    until_s = time.monotonic() + for_s
    hands = [threading.Thread(target=kind, args=(target, lambda: time.monotonic() < until_s)) for _ in range(HANDS)]
    for hand in hands:
        hand.start()
    for hand in hands:
        hand.join()


def _talk(target: Target):
    return connect(f"ws://127.0.0.1:{target.port}/ws/speak", proxy=None, max_size=None, close_timeout=0.2)


def _upgraded(port: int) -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", port), timeout=5.0)
    key = base64.b64encode(os.urandom(16)).decode()
    raw.sendall(
        "GET /ws/speak HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    raw.recv(4096)
    return raw
