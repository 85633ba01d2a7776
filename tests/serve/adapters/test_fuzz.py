"""Hostile messages to every foreign protocol: no 500, no exception in the log, no slot that stays taken.

``STUDIO_FUZZ_MESSAGES`` sets how many (400; 100,000 take an hour): a quarter over HTTP, in equal shares of its routes.
"""

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest
from serve.serving import Served, eventually
from tones import Script
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

MESSAGES = int(os.environ.get("STUDIO_FUZZ_MESSAGES", "400"))
SHARE_BY_HTTP = 0.25
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 1e400, 2**70, "", " ", "word ", "Alpha beta. ", "\ud800", "\x00", "é", "tone:low"),
    *(
        "pcm_s16le",
        "pcm",
        "json",
        "sse",
        "breaks",
        [],
        {},
        [[[[]]]],
        {"id": "tone:low"},
        {"container": "raw"},
        {"a": {"b": {}}},
        "x" * 300,
    ),
]
FIELDS = {
    "/v1/text-to-speech/tone:low/stream-input": ("text", "flush", "context_id", "close_socket", "voice_settings"),
    "/v1/text-to-speech/tone:low/multi-stream-input": ("text", "flush", "context_id", "close_context", "contextId"),
    "/api/tts_streaming": ("type", "text"),
    "/tts/websocket": ("transcript", "voice", "context_id", "continue", "flush", "cancel", "output_format"),
    "/v1/speak": ("type", "text"),
    "/ws/speak": ("type", "utterance", "text", "at", "remove", "insert", "voice", "options"),
}
TYPES = ("Text", "Eos", "Speak", "Flush", "Clear", "Close", "open", "text", "end", "edit", "revise", "cancel", "played")
ROUTES = {  # the text comes first
    "/v1/audio/speech": ("input", "voice", "model", "response_format", "speed", "stream_format", "markup"),
    **dict.fromkeys(
        (
            f"/v1/text-to-speech/tone:low{route}"
            for route in ("", "/stream", "/with-timestamps", "/stream/with-timestamps")
        ),
        ("text", "model_id", "voice_settings", "language_code"),
    ),
    "/tts/bytes": ("transcript", "voice", "model_id", "output_format"),
    "/v1/speak": ("text",),
    "/tts/sse": ("transcript", "voice", "context_id", "output_format", "add_timestamps"),
}
QUERIES = (
    "",
    "?output_format=pcm_24000",
    "?output_format=x",
    "?model=x&encoding=linear16",
    "?sample_rate=1e999",
    "?" + "a=b&" * 50,
)


def message(rng: random.Random, fields: tuple[str, ...]) -> dict[str, Any]:
    """Some of the fields with values that may be right or wrong."""
    chosen = rng.sample(fields, rng.randint(0, len(fields)))
    out = {name: rng.choice(VALUES) for name in chosen}
    if "type" in fields and rng.random() < 0.8:
        out["type"] = rng.choice(TYPES)
    if "utterance" in fields and rng.random() < 0.8:
        out["utterance"] = rng.randint(0, 3)
    return out


def packed(rng: random.Random, path: str, data: dict[str, Any]) -> str | bytes:
    """A message as its protocol wants it; now and then as none does."""
    luck = rng.random()
    if luck < 0.03:
        return rng.randbytes(rng.randint(0, 60))
    if luck < 0.06:
        return rng.choice(["", "{", "[]", '"text"', "nul", '{"a":' * 500])
    if path == "/api/tts_streaming":
        with suppress(ValueError, OverflowError, UnicodeEncodeError):
            return msgpack.packb(data)
        return b"\xc1"
    return json.dumps(data)


def talk(server: Served, path: str, count: int, rng: random.Random, seen: Counter[str]) -> None:
    """Send messages over sockets, each of which the server may close."""
    left = count
    url = server.url.replace("http", "ws")
    while left > 0:
        left -= 1  # of the address
        try:
            with connect(f"{url}{path}{rng.choice(QUERIES)}", proxy=None, max_size=None) as ws:
                for _ in range(min(left, rng.randint(1, 60))):
                    left -= 1
                    ws.send(packed(rng, path, message(rng, FIELDS[path])))
                    seen[path] += 1
                    with suppress(TimeoutError):
                        ws.recv(timeout=0.0005)
        except InvalidStatus as error:
            seen[f"{path} {error.response.status_code}"] += 1
            assert error.response.status_code < 500 or error.response.status_code == 503
        except (ConnectionClosed, OSError):
            pass


def call(server: Served, path: str, count: int, rng: random.Random, seen: Counter[str]) -> None:
    """Post bodies."""
    with httpx.Client(base_url=server.url, timeout=60.0) as client:
        for _ in range(count):
            data = message(rng, ROUTES[path])
            if rng.random() < 0.5:
                data[ROUTES[path][0]] = "Alpha beta. "  # else few get beyond an empty text
            body = packed(rng, path, data)
            content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
            answer = client.post(path + rng.choice(QUERIES), content=content)
            seen[f"POST {path} {answer.status_code}"] += 1
            assert answer.status_code < 500 or answer.status_code == 503, answer.text


@pytest.mark.slow
def test_no_message_breaks_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Served(tmp_path, Script(speed=2000.0), max_queue=64)
    seen: Counter[str] = Counter()
    wrong: list[BaseException] = []

    def guarded(work: Callable[..., None], path: str, count: int, seed: int) -> None:
        try:
            work(server, path, count, random.Random(seed), seen)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            wrong.append(error)

    sockets = int(MESSAGES * (1 - SHARE_BY_HTTP)) // len(FIELDS)
    posts = int(MESSAGES * SHARE_BY_HTTP) // len(ROUTES)
    jobs = [*((talk, path, sockets) for path in FIELDS), *((call, path, posts) for path in ROUTES)]
    threads = [
        threading.Thread(target=guarded, args=(work, path, count, seed))
        for seed, (work, path, count) in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    by_route = {path: sum(seen[key] for key in seen if key.startswith(f"POST {path} ")) for path in ROUTES}
    assert by_route == dict.fromkeys(ROUTES, posts), "the share of each route by HTTP"
    assert all(seen[path] for path in FIELDS) and any(key.endswith("200") for key in seen)
    eventually(lambda: server.engine.free_slots() == server.engine.places, "every slot", 60.0)
    assert httpx.get(f"{server.url}/health", timeout=60.0).status_code == 200
    server.stop()
    assert "Traceback" not in caplog.text
    print(f"{MESSAGES} messages:", dict(sorted(seen.items())))
    print(f"{sum(by_route.values())} of them by HTTP:", by_route)
