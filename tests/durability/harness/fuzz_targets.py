"""Entry points of a server, each fuzzed with hostile requests or messages in a process of its own."""

import base64
import json
import os
import random
import socket
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from durability.harness.hostile import changed, noise, numbers, raw_json, texts, values
from durability.harness.target import HELD_S, Line, Target, filled
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from studio.bench.mos.site import CAMPAIGN
from studio.bench.page.browser import PageFailed

MESSAGES = 20  # to one socket
LAST_WORDS_S = 0.1  # for the last answers
AGAIN_S, TRIES = 0.2, 300
_MAY_BE = {501, 503}  # allowed answers from 500: not implemented, no capacity
_UNHEALTHY = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
_KEPT = 5  # examples of errors
T = TypeVar("T")


@dataclass
class Outcome:
    """Result of fuzzing one entry point.

    Attributes:
        wrong: the first few forbidden answers, with what was sent.
    """

    door: str
    sent: int = 0
    answers: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    wrongs: int = 0

    def took(self, status: int, what: str, said: str = "") -> None:
        """Count an answer."""
        self.sent += 1
        self.answers[str(status)] += 1
        if status == -1 or (status >= 500 and status not in _MAY_BE):
            self.note(f"{status} to {what}: {said}")

    def note(self, what: str) -> None:
        """Count a failure."""
        self.wrongs += 1
        if len(self.wrong) < _KEPT:
            self.wrong.append(ascii(what)[:400])


def tried(examples: int, number: int, strategy: st.SearchStrategy[Any], take: Callable[[Any], None]) -> None:
    """Call a function with examples of a strategy."""
    if examples < 1:
        return

    @seed(number)
    @settings(
        max_examples=examples, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=_UNHEALTHY
    )
    @given(strategy)
    def go(example: Any) -> None:
        take(example)

    with suppress(Unsatisfiable):  # no negative case: the schema allows everything
        go()


# --- requests ------------------------------------------------------------------------------------


def our_routes(target: Target, count: int, number: int) -> Outcome:
    """Schemathesis on the schema of our own routes: valid and invalid cases."""
    import schemathesis
    from schemathesis.generation import GenerationMode

    out, line, rng = Outcome("our routes"), Line(target.port), random.Random(number)
    found: Any = schemathesis.openapi.from_dict(target.routes.schema).get_all_operations()
    operations = [one.ok() for one in found]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    each = max(1, min(count // (len(operations) * len(modes)), 100))

    def take(case: Any) -> None:
        path, token = case.formatted_path, rng.choice(target.tokens)
        path = path.replace("first", CAMPAIGN) if rng.random() < 0.5 else path
        query = _query(case.query)
        body = case.body if isinstance(case.body, dict | list | str | int | float | bool) else None
        if isinstance(body, dict) and rng.random() < 0.5:  # pass the authentication
            body = body | {k: v for k, v in {"campaign": CAMPAIGN, "key": target.key}.items() if k in body}
        with suppress(UnicodeError, ValueError):  # not representable in a URL or body
            out.took(*_with(line, case.method, f"{path}?{query}" if query else path, body, token))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rounds = 0
        while out.sent < count and rounds < count:  # some operations have few valid and no invalid cases
            for operation in operations:
                for mode in modes:
                    tried(each, number + rounds, operation.as_strategy(generation_mode=mode), take)
                    rounds += 1
    line.close()
    return out


def _query(given: Any) -> str:
    from urllib.parse import urlencode

    return urlencode(dict(given or {}), doseq=True, errors="replace")


def _with(line: Line, method: str, path: str, body: Any, token: str) -> tuple[int, str, str]:
    """Send a request; returns the status, the request and the answer."""
    token = token.encode("latin-1", "replace").decode("latin-1")
    status, said = line.ask(method, path, body, token)
    return status, f"{method} {path[:200]} {json.dumps(body)[:300]}", said[:200]


def mounted_routes(target: Target, count: int, number: int) -> Outcome:
    """Gradio's routes with hostile path values, and mutated calls of our pages."""
    out, line = Outcome("mounted routes"), Line(target.port)
    call = {"data": [""], "fn_index": 2, "session_hash": "abc", "event_data": None, "trigger_id": 8}
    methods = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"]

    def request(drawn: tuple[tuple[str, str], str, list[str], Any, str]) -> None:
        (method, path), other, words, body, token = drawn
        with suppress(UnicodeError, ValueError):
            out.took(*_with(line, other or method, filled(path, words), body, token))

    def join(body: Mapping[str, Any]) -> None:
        with suppress(UnicodeError, ValueError):
            out.took(*_with(line, "POST", "/gradio_api/queue/join", body, ""))

    def listen(session: str) -> None:
        out.took(*_with(line, "GET", f"/gradio_api/queue/data?session_hash={session}", None, ""))

    walk = st.tuples(
        st.sampled_from(target.routes.mounted),
        st.sampled_from(["", *methods]),
        st.lists(texts().filter(_fits_an_address), min_size=1, max_size=3),
        st.one_of(st.none(), values()),
        st.sampled_from(target.tokens),
    )
    calls = st.integers(0, 30).flatmap(lambda n: changed(call | {"fn_index": n, "data": [""] * (n % 5)}))
    tried(count // 2, number, walk, request)
    tried(count - count // 2 - 20, number, calls, join)
    tried(20, number, st.sampled_from(["abc", "nobody", "x" * 64]), listen)
    line.close()
    return out


def _fits_an_address(text: str) -> bool:
    return text.encode("utf-8", "replace").decode("utf-8") == text


def raw_http(target: Target, count: int, number: int) -> Outcome:
    """Mutated raw HTTP."""
    out = Outcome("raw http")
    good = b"POST /mos/join HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    parts = (
        b"\x00", b"\r\n", b"\n\n", b":", b" ", b"%00", b"\xff\xfe", b"HTTP/9.9", b"Host: x\r\n", b"Upgrade: h2c\r\n",
        b"Content-Length: -1\r\n", b"Content-Length: 9" + b"9" * 30, b"Transfer-Encoding: chunked\r\n",
        b"X: " + b"x" * 20_000, b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Expect: 100-continue\r\n",
        b"Range: bytes=0-,0-,0-\r\n",
    )  # fmt: skip
    put = st.one_of(st.sampled_from(parts), st.binary(max_size=20))
    change = st.tuples(st.integers(0, len(good)), st.integers(0, 12), put)

    def send(changes: list[tuple[int, int, bytes]]) -> None:
        data = bytearray(good)
        for at, gone, put in changes:
            data[at : at + gone] = put
        out.took(_status(target.port, bytes(data)), repr(bytes(data)[:300]))

    tried(count, number, st.lists(change, min_size=1, max_size=3), send)
    return out


def _status(port: int, data: bytes) -> int:
    """Status of the answer to raw bytes; 0 if the connection is closed or no answer is due."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.3) as raw:
        raw.sendall(data)
        said = raw.recv(4096)
        parts = said.split(maxsplit=2)
        return int(parts[1]) if len(parts) > 1 and parts[0].startswith(b"HTTP/") and parts[1].isdigit() else 0
    return 0


# --- sockets -------------------------------------------------------------------------------------

_SPEAK = {
    "open": {
        "source": "keyboard", "voice": "", "seed": 1, "options": {"m": 3, "n": 1}, "temperature": None,
        "credit_ms": 200,
    },
    "edit": {"at": 0, "remove": 0, "insert": "one two three "},
    "text": {"text": "one two three "},
    "flush": {},
    "end": {},
    "cancel": {"played_sample": 0},
    "options": {"options": {"m": 2}, "temperature": 0.5},
    "played": {"sample": 0, "buffered_ms": 1.0, "underruns": 0, "output_latency_ms": 1.0},
}  # fmt: skip
_LIVE = {
    "enter": {"token": "1.wrong"},
    "take": {"trial": "0" * 24, "slot": 0},
    **{name: _SPEAK[name] for name in ("edit", "end", "cancel", "played")},
}


def speak_socket(target: Target, count: int, number: int) -> Outcome:
    """Mutated messages of ``/ws/speak``."""
    return _messages(target, "/ws/speak", _SPEAK, count, number)


def live_socket(target: Target, count: int, number: int) -> Outcome:
    """Mutated messages of ``/mos/live``."""
    return _messages(target, "/mos/live", _LIVE, count, number)


def _messages(target: Target, path: str, known: Mapping[str, Mapping[str, Any]], count: int, number: int) -> Outcome:
    out = Outcome(path)
    right = [{"type": kind, "utterance": 1} | dict(fields) for kind, fields in known.items()]
    nearly = st.one_of(*(changed(one) for one in right)).map(raw_json)
    message = st.one_of(
        nearly,
        nearly,
        st.sampled_from(right).map(raw_json),
        noise(),
        st.tuples(st.sampled_from([*known]), numbers()).map(lambda t: raw_json({"type": t[0], "utterance": t[1]})),
        st.binary(max_size=40),
    )
    begins = [raw_json({"type": "enter", "token": token}) for token in target.raters[:8]]
    if path == "/ws/speak":
        begins = [raw_json(right[0] | {"source": source}) for source in ("keyboard", "stream", "keyboard")] + [""]

    def talk(drawn: tuple[list[Any], int]) -> None:
        messages, who = drawn
        first = [one for one in begins[who % len(begins) :][:1] if one]
        with hostile_socket(target.port, path, out) as ws:
            for one in [*first, *messages]:
                ws.send(one.encode("utf-8", "replace").decode() if isinstance(one, str) else one)
                out.sent += 1
                _listen(ws, out)
            _listen(ws, out, LAST_WORDS_S)

    lists = st.lists(message, min_size=MESSAGES, max_size=MESSAGES)
    tried(max(1, count // MESSAGES), number, st.tuples(lists, st.integers(0, 7)), talk)
    return out


@contextmanager
def hostile_socket(port: int, path: str, out: Outcome) -> Iterator[ClientConnection]:
    """Open a socket, retrying while the server refuses; count how it closes."""
    ws = _let_in(port, path, out)
    try:
        with ws:
            yield ws
    except (WebSocketException, OSError, EOFError) as error:
        code = getattr(getattr(error, "rcvd", None), "code", None)
        out.answers[f"closed {code or type(error).__name__}"] += 1
        if code in (1011, 1006):
            out.note(f"{path} was closed with {code}")


def _let_in(port: int, path: str, out: Outcome) -> ClientConnection:
    """Open a socket, retrying while the server refuses. Raises PageFailed."""

    def come() -> ClientConnection | None:
        try:
            return connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None, open_timeout=HELD_S)
        except InvalidStatus as refused:
            status = refused.response.status_code
            out.answers[f"refused {status}"] += 1
            if status not in _MAY_BE:
                out.note(f"{path} was refused with {status}")
        except (WebSocketException, OSError, EOFError) as error:
            out.answers[f"refused {type(error).__name__}"] += 1
        return None

    return _again(come, path)


def _again(come: Callable[[], T | None], path: str) -> T:
    """Retry while the rate limit of the address refuses. Raises PageFailed."""
    for _ in range(TRIES):
        if (found := come()) is not None:
            return found
        time.sleep(AGAIN_S)
    raise PageFailed(f"{path} refused all connections for {TRIES * AGAIN_S:g} s", "does the server still run?")


def _listen(ws: ClientConnection, out: Outcome, wait_s: float = 0.0) -> None:
    """Receive messages for ``wait_s``."""
    until_s = time.monotonic() + wait_s
    with suppress(TimeoutError):
        while True:
            said = ws.recv(timeout=max(0.0, until_s - time.monotonic()))
            if isinstance(said, bytes):
                continue
            event = json.loads(said)
            if event["type"] == "error":
                out.answers[f"error {event['code']}"] += 1
                if event["code"] == "internal":
                    out.note(f"internal: {event['message']}")


def raw_frames(target: Target, count: int, number: int) -> Outcome:
    """Mutated WebSocket frames."""
    out = Outcome("raw frames")
    piece = st.one_of(
        st.binary(min_size=1, max_size=30),
        st.tuples(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=130)).map(lambda t: bytes(t[:2]) + t[2]),
        st.tuples(st.sampled_from([0x81, 0x82, 0x88, 0x89, 0x8A, 0x01, 0x80]), st.binary(max_size=100)).map(_frame),
    )

    def come() -> socket.socket | None:
        with suppress(OSError):
            raw = socket.create_connection(("127.0.0.1", target.port), timeout=1.0)
            with suppress(OSError):
                raw.sendall(_upgrade())
                status = raw.recv(4096)[9:12].decode("ascii", "replace")
                out.answers[status] += 1
                if status == "101":
                    return raw
            raw.close()
        return None

    def send(pieces: list[bytes]) -> None:
        with _again(come, "/ws/speak") as raw, suppress(OSError):
            for one in pieces:
                raw.sendall(one)
                out.sent += 1

    rounds = 0
    while out.sent < count and rounds < count:  # the server closes at an invalid frame
        tried(max(1, (count - out.sent) // 8), number + rounds, st.lists(piece, min_size=1, max_size=15), send)
        rounds += 1
    return out


def _upgrade() -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        "GET /ws/speak HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()


def _frame(drawn: tuple[int, bytes]) -> bytes:
    head, payload = drawn
    return bytes([head, 0x80 | len(payload)]) + bytes(4) + payload
