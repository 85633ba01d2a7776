"""A connection that breaks, and what utterances over it become."""

import itertools
import random
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any

from systems.speaking import TEXT, opened

from studio.core.events import Ended, Failed
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once


class BadLine:
    """A proxy that cuts or stalls each connection after a random number of bytes."""

    def __init__(self, port: int, seed: int) -> None:
        self._port, self._draw = port, random.Random(seed)
        self._stack = ExitStack()
        self._server = self._stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=200))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
                left = self._draw.choice([10, 300, 2000, 20_000, 100_000, 1_000_000])
                plan = (self._draw.randrange(left), self._draw.random() < 0.5)
                threading.Thread(target=self._pump, args=(near, far, 10**9, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, *plan), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, left: int, stalls: bool) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data[:left])
                left -= len(data)
                if left <= 0:
                    if stalls:
                        return  # nothing more comes, and nothing is closed
                    break
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept no more."""
        self._stack.close()


def random_ends(port: int, system: Callable[[str], dict[str, Any]], count: int = 25) -> None:
    """Speak through random cuts and stalls, ten at once: each ends in failed or in the whole speech, none hangs."""
    with opened(system(f"http://127.0.0.1:{port}")) as clean:
        whole = len(speak_once(clean, SpeakRequest(), TEXT).pcm)
    with (
        closing(BadLine(port, seed=40)) as line,
        opened({**system(line.url), "timeout_s": 2.0, "max_concurrent": 10}) as engine,
        ThreadPoolExecutor(10) as pool,
    ):
        runs = [pool.submit(speak_once, engine, SpeakRequest(), TEXT) for _ in range(count)]
        traces = [one.result(timeout=120) for one in runs]
        ends = [type(one.events[-1]) for one in traces]
        assert set(ends) <= {Ended, Failed} and Failed in ends
        assert {len(one.pcm) for one, end in zip(traces, ends, strict=True) if end is Ended} <= {whole}
        assert all(a <= b for one in traces for a, b in itertools.pairwise(w.start for w in one.words() if w.end))
        assert engine.free_slots() == 10
