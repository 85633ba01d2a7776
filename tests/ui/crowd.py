"""Other clients that occupy a server's concurrency slots."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from websockets.sync.client import connect


def _free(url: str) -> int:
    with urllib.request.urlopen(url + "health", timeout=5.0) as answer:
        return json.load(answer)["places_free"]


def wait_free(url: str, count: int) -> None:
    until_s = time.monotonic() + 10.0
    while _free(url) != count:
        assert time.monotonic() < until_s, f"{_free(url)} places are free, not {count}"
        time.sleep(0.05)


@contextmanager
def occupy_all(url: str, queued: int = 0) -> Iterator[Callable[[int], None]]:
    """Occupies every slot and queues more; the yielded function ends one of them."""
    wait_free(url, 4)
    with connect(url.replace("http", "ws") + "ws/speak") as others:
        for number in range(4 + queued):
            others.send(json.dumps({"type": "open", "utterance": number, "source": "stream"}))
        received = 0
        while received < 4 + queued:
            received += json.loads(others.recv(timeout=10.0))["type"] in ("ready", "queued")
        yield lambda number: others.send(json.dumps({"type": "cancel", "utterance": number}))
