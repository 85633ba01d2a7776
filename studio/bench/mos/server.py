"""The ``/mos`` and ``/library`` routes through uvicorn as ``studio app`` serves them, without engine and page.

``python -m studio.bench.mos.server`` imports everything, then forks a server for each line of JSON that it reads and
answers its process id: it is begun in no time. The kill benches kill that child; only servers begun here take planted
faults.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool

from studio.bench.page.browser import PageFailed
from studio.core import durable
from studio.library.library import Library
from studio.mos.service import open_listening
from studio.mos.store.database import Faults
from studio.serve.app import guarded_app
from studio.serve.library.annotation import AnnotationRoutes
from studio.serve.library.routes import named
from studio.serve.mos.routes import add_listening
from studio.serve.run import run
from studio.serve.traces.inspection import Views
from studio.settings import ServeSettings

START_S = 60.0


@dataclass(frozen=True)
class Order:
    """What a server is to serve."""

    folder: str
    port: int
    acknowledge_before_commit: bool = False
    synchronous_off: bool = False
    acknowledge_before_write: bool = False  # of annotations


def serve(order: Order) -> None:
    """Serve until ended."""
    settings = ServeSettings(port=order.port)
    faults = Faults(order.acknowledge_before_commit, order.synchronous_off)
    listening = open_listening("", Path(order.folder), faults)
    app = guarded_app(settings)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok"}

    folder = Path(order.folder)
    library = Library(folder / "library")

    def call(work: Callable[[Library], Any]) -> Awaitable[Any]:
        return run_in_threadpool(work, library)

    door = add_listening(app, listening)
    app.include_router(AnnotationRoutes(door, Views(), call, named).owners("/library"))
    if order.acknowledge_before_write:
        _write_late()
    try:
        run(app, settings, stopped=listening.close)
    finally:
        listening.close()


def _write_late() -> None:
    """Plant a fault: a line of an annotation's journal is written some time after it was answered."""
    append = durable.append

    def late(file: BinaryIO, start: int, data: bytes) -> None:
        own = os.fdopen(os.dup(file.fileno()), "ab", buffering=0)
        threading.Timer(0.05, append, (own, start, data)).start()

    durable.append = late


class BareServer:
    """A server that can be begun, stopped for a moment, killed and begun again on the same port and files."""

    def __init__(self, process: subprocess.Popen[bytes], order: Order) -> None:
        self._process, self._order = process, order
        self.pid = 0

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._order.port}/"

    def begin(self) -> None:
        """Begin it, and wait until it answers. Raises PageFailed."""
        assert self._process.stdin and self._process.stdout, "both are pipes"
        self._process.stdin.write(json.dumps(asdict(self._order)).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PageFailed("the server of the bench did not start", "read what it says above")
        self.pid = int(line)
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            try:
                with urllib.request.urlopen(self.url + "health", timeout=5.0):
                    return
            except OSError:
                time.sleep(0.005)
        raise PageFailed(f"the server of the bench did not answer within {START_S:g} s", "read what it says above")

    def kill(self) -> None:
        """``kill -9``; when this returns, the process is gone."""
        self._send(signal.SIGKILL)
        until_s = time.monotonic() + START_S
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < until_s:
            time.sleep(0.001)
        self.pid = 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Hold it where it stands (SIGSTOP) for a while."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self.pid, "it was begun"
        os.kill(self.pid, number)


@contextmanager
def bare_server(folder: Path, *, plant: str = "", wrapper: Sequence[str] = ()) -> Iterator[BareServer]:
    """A server of a site's folder that has not been begun.

    Args:
        plant: a fault of studio.mos.store.database.Faults.
        wrapper: a command that the server runs under, strace for instance.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*wrapper, sys.executable, "-m", "studio.bench.mos.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        planted = {plant.replace("-", "_"): True} if plant else {}
        server = BareServer(process, Order(str(folder), port, **planted))
        try:
            yield server
        finally:
            if server.pid:
                server.kill()
            assert process.stdin is not None, "a pipe"
            process.stdin.close()


def _nursery() -> None:
    """Fork a server for each order, at most one at a time; when the orders end, so does the server."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the killed are gone at once, nobody asks how they ended
    child = 0
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(sys.stdin.fileno())
            serve(order)
            os._exit(0)
        print(child, flush=True)
    if child and Path(f"/proc/{child}").exists():  # the bench was ended and could not do it
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    _nursery()
