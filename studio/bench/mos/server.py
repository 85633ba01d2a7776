"""The ``/mos`` and ``/library`` routes through uvicorn as in ``studio app``, without engine and page.

``python -m studio.bench.mos.server`` imports everything, then forks a server for each line of JSON on stdin and prints
its process id, so that servers start immediately. The kill harnesses kill that child.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studio.bench.page.browser import PageFailed, free_port
from studio.core.terminal import print_line
from studio.mos.service import open_listening_tests
from studio.serve.app import guarded_app
from studio.serve.library.access import LibraryAccess
from studio.serve.library.annotation import owner_routes
from studio.serve.mos.routes import add_listening
from studio.serve.server import run
from studio.serve.settings import ServeSettings
from studio.serve.trace_views import TraceViews

START_S = 60.0
PROGRAM = ("-m", "studio.bench.mos.server")


@dataclass(frozen=True)
class ServerSpec:
    """Parameters of a server."""

    folder: str
    port: int


def serve(spec: ServerSpec) -> None:
    """Serve until stopped."""
    settings = ServeSettings(port=spec.port)
    listening = open_listening_tests("", Path(spec.folder))
    app = guarded_app(settings)

    @app.get("/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok"}

    access = LibraryAccess(Path(spec.folder) / "library", add_listening(app, listening), TraceViews())
    app.include_router(owner_routes(access, "/library"))
    try:
        run(app, settings, on_stopped=listening.close)
    finally:
        listening.close()


class BareServer:
    """Server process that can be started, paused, killed and restarted on the same port and files."""

    def __init__(self, process: subprocess.Popen[bytes], spec: ServerSpec) -> None:
        self._process, self._order = process, spec
        self.pid = 0

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self._order.port}/"

    def begin(self) -> None:
        """Start it and wait until it responds. Raises PageFailed."""
        assert self._process.stdin and self._process.stdout, "both are pipes"
        self._process.stdin.write(json.dumps(asdict(self._order)).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PageFailed("the server of the bench did not start", "see its output above")
        self.pid = int(line)
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            try:
                with urllib.request.urlopen(self.url + "health", timeout=5.0):
                    return
            except OSError:
                time.sleep(0.005)
        raise PageFailed(f"the server of the bench did not answer within {START_S:g} s", "see its output above")

    def kill(self) -> None:
        """``kill -9``; returns when the process is gone."""
        self._send(signal.SIGKILL)
        until_s = time.monotonic() + START_S
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < until_s:
            time.sleep(0.001)
        self.pid = 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause the process (SIGSTOP)."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self.pid, "it was begun"
        os.kill(self.pid, number)


@contextmanager
def bare_server(folder: Path, *, program: Sequence[str] = PROGRAM, wrapper: Sequence[str] = ()) -> Iterator[BareServer]:
    """Server of a site's folder, not yet started.

    Args:
        program: arguments of Python that run ``fork_servers``.
        wrapper: command prefix that the server runs under, e.g. strace.
    """
    command = [*wrapper, sys.executable, *program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        server = BareServer(process, ServerSpec(str(folder), free_port()))
        try:
            yield server
        finally:
            if server.pid:
                server.kill()
            assert process.stdin is not None, "a pipe"
            process.stdin.close()


def fork_servers() -> None:
    """Fork a server per line of stdin, one at a time; the last one ends with stdin."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # killed children are reaped immediately
    child = 0
    for line in sys.stdin:
        spec = ServerSpec(**json.loads(line))
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(sys.stdin.fileno())
            serve(spec)
            os._exit(0)
        print_line(child)
    if child and Path(f"/proc/{child}").exists():  # the bench ended without killing it
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    fork_servers()
