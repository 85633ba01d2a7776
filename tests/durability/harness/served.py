"""The app as a monitored process: threads, descriptors, memory, free slots and log."""

import json
import re
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studio.bench.mos.site import BenchSite
from studio.bench.page.browser import app_process, own_command, wait_for
from studio.core.errors import NeedsPackage

_TRACEBACK = re.compile(r"^Traceback \(most recent call last\):\n((?:[ +|].*\n)*)(\S.*)$", re.MULTILINE)
_LAST_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_ERROR = re.compile(r"^ERROR.*$", re.MULTILINE)


@dataclass(frozen=True)
class Resources:
    """Resources of a server at a moment; ``places`` are free slots, ``children_mib`` the memory of its processes."""

    threads: int
    descriptors: int
    memory_mib: float
    places: int
    children_mib: float = 0.0


class MonitoredServer:
    """A running app with a log file."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
        self.url = url
        self._process, self._log = process, log

    @property
    def port(self) -> int:
        """Its TCP port."""
        return int(self.url.rpartition(":")[2].strip("/"))

    def resources(self) -> Resources:
        """Current resources. Raises NeedsPackage without /proc."""
        here = Path(f"/proc/{self._process.pid}")
        try:
            descriptors = len(list((here / "fd").iterdir()))
            status = (here / "status").read_text(encoding="ascii").splitlines()
        except OSError as error:
            raise NeedsPackage(
                "this system does not report a process's resources in /proc", "run it on Linux"
            ) from error
        found = _fields(status)
        memory_mib = int(found["VmRSS"]) / 1024.0
        return Resources(int(found["Threads"]), descriptors, memory_mib, self.places_free(), _children_mib(here))

    def places_free(self) -> int:
        """Free slots."""
        with urllib.request.urlopen(self.url + "health", timeout=30.0) as answer:
            return json.loads(answer.read())["places_free"]

    def until_free(self, places: int, within_s: float) -> float | None:
        """Seconds until ``places`` slots are free; None after ``within_s``."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < within_s:
            if self.places_free() >= places:
                return time.monotonic() - began_s
            time.sleep(0.02)
        return None

    def trouble(self) -> list[str]:
        """Distinct errors and tracebacks of the log, with location and count."""
        log = self._log.read_text(encoding="utf-8", errors="replace")
        found = Counter(_ERROR.findall(log))
        for frames, last in _TRACEBACK.findall(log):
            places = _LAST_FRAME.findall(frames) or [("?", "?")]
            where = f"{'/'.join(Path(places[-1][0]).parts[-2:])}:{places[-1][1]}"
            found[f"{last[:200]} at {where}"] += 1
        return [f"{count} times: {what}" for what, count in found.most_common()]

    def is_up(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None


def _fields(status: Sequence[str]) -> dict[str, str]:
    return {name: value.split()[0] for name, _, value in (line.partition(":") for line in status) if value.split()}


def _children_mib(process: Path) -> float:
    """Resident memory of the processes that a process has started."""
    total_kib = 0
    for task in process.glob("task/*/children"):
        with suppress(OSError):  # it has ended
            for pid in task.read_text(encoding="ascii").split():
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
                total_kib += int(_fields(status).get("VmRSS", 0))
    return total_kib / 1024.0


@contextmanager
def served(site: BenchSite, folder: Path, command: Sequence[str] | None = None) -> Iterator[MonitoredServer]:
    """Run the app on a site's listening tests. Raises PageFailed."""
    whole = [*(command or own_command()), "--no-demo", "--data", str(site.folder), "--database", site.database]
    log = folder / "server.log"
    with app_process(whole, folder / "traces", log) as (process, url):
        wait_for(process, url + "health")
        yield MonitoredServer(process, url, log)


def plainly(held: Resources) -> dict[str, Any]:
    """Resources as JSON."""
    return {**vars(held), "memory_mib": round(held.memory_mib, 1), "children_mib": round(held.children_mib, 1)}
