"""The app as a process that is watched: what it holds (threads, descriptors, memory, places) and what its log says."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.mos.site import Site
from studio.bench.page.browser import own_command, wait_for
from studio.core.errors import NeedsPackage

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n((?:[ +|].*\n)*)(\S.*)$", re.MULTILINE)
_LAST_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^ERROR.*$", re.MULTILINE)


@dataclass(frozen=True)
class Held:
    """What a server holds at a moment.

    Attributes:
        places: that the next utterances can take.
    """

    threads: int
    descriptors: int
    memory_mib: float
    places: int


class Served:
    """A running app, its log in a file."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
        self.url = url
        self._process, self._log = process, log

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2].strip("/"))

    def held(self) -> Held:
        """What it holds now. Raises NeedsPackage where a process's descriptors cannot be seen."""
        here = Path(f"/proc/{self._process.pid}")
        try:
            descriptors = len(list((here / "fd").iterdir()))
            status = (here / "status").read_text(encoding="ascii").splitlines()
        except OSError as error:
            raise NeedsPackage("this system does not tell in /proc what a process holds", "run it on Linux") from error
        found = {name: value.split()[0] for name, _, value in (line.partition(":") for line in status) if value.split()}
        return Held(int(found["Threads"]), descriptors, int(found["VmRSS"]) / 1024.0, self.places_free())

    def is_loaded(self, voice: str) -> bool:
        """Whoever opens one here waits for the other process, whatever it does."""
        return True

    def places_free(self) -> int:
        """Places that the next utterances can take."""
        with urllib.request.urlopen(self.url + "health", timeout=30.0) as answer:
            return json.loads(answer.read())["places_free"]

    def until_free(self, places: int, within_s: float) -> float | None:
        """After how many s so many places are free; None when they never were."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < within_s:
            if self.places_free() >= places:
                return time.monotonic() - began_s
            time.sleep(0.02)
        return None

    def trouble(self) -> list[str]:
        """Each error and each traceback of its log once, with where it arose and how often."""
        log = self._log.read_text(encoding="utf-8", errors="replace")
        found = Counter(_ERROR.findall(log))
        for frames, last in _TRACEBACK.findall(log):
            places = _LAST_FRAME.findall(frames) or [("?", "?")]
            where = f"{'/'.join(Path(places[-1][0]).parts[-2:])}:{places[-1][1]}"
            found[f"{last[:200]} at {where}"] += 1
        return [f"{count} times: {what}" for what, count in found.most_common()]

    def is_up(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None


@contextmanager
def served(site: Site, folder: Path, command: Sequence[str] | None = None) -> Iterator[Served]:
    """The app on a site's listening tests, for as long as the block lasts. Raises PageFailed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    whole = [*(command or own_command()), "--no-demo", "--data", str(site.folder), "--database", site.database]
    environ = {**os.environ, "STUDIO_SERVE_TRACES_FOLDER": str(folder / "traces")}
    log = folder / "server.log"
    with log.open("wb") as kept:
        process = subprocess.Popen([*whole, "--port", str(port)], env=environ, stdout=kept, stderr=kept)
        try:
            url = f"http://127.0.0.1:{port}/"
            wait_for(process, url + "health")
            yield Served(process, url, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30.0)


def plainly(held: Held) -> dict[str, Any]:
    """The figures of a moment as JSON."""
    return {**vars(held), "memory_mib": round(held.memory_mib, 1)}
