"""Latency of ``/health``, measured by a separate process.

``python pulse.py URL EVERY_S`` sends requests until its input ends, then prints each latency in ms. It imports only the
standard library, so that it starts quickly.
"""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

EVERY_S = 0.05
LOST_MS = 30_000.0  # counted for a missing answer


@contextmanager
def pulse(url: str) -> Iterator[list[float]]:
    """Measure during the block; the list is filled at its end."""
    command = [sys.executable, __file__, url, str(EVERY_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None, "a pipe"
        asking.stdout.readline()
        found: list[float] = []
        try:
            yield found
        finally:
            found += json.loads(asking.communicate()[0])


def _ask(url: str, every_s: float) -> None:
    over, took_ms = threading.Event(), list[float]()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("asking", flush=True)
    while not over.wait(every_s):
        began_s = time.perf_counter()
        try:
            with urllib.request.urlopen(url + "health", timeout=LOST_MS / 1000.0) as answer:
                answer.read()
            took_ms.append(1000.0 * (time.perf_counter() - began_s))
        except OSError:
            took_ms.append(LOST_MS)
    print(json.dumps(took_ms))


if __name__ == "__main__":
    _ask(sys.argv[1], float(sys.argv[2]))
