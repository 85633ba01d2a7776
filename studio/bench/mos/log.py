"""The raters of a bench as a process, and what its log says so far."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from studio.bench.mos.raters import Plan
from studio.bench.mos.site import CAMPAIGN, Acknowledged, Site


class RaterLog:
    """Reads the raters' log as it grows; only whole lines count."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self.acknowledged: list[Acknowledged] = []
        self.problems: list[str] = []
        self.took_ms: dict[str, list[float]] = {}
        self.count: dict[str, int] = {}

    def read(self) -> "RaterLog":
        """Take in what was written since the last time."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.splitlines():
            self._take(json.loads(line))
        return self

    def _take(self, line: dict[str, Any]) -> None:
        what = line["what"]
        self.count[what] = self.count.get(what, 0) + 1
        if "ms" in line:
            self.took_ms.setdefault(what, []).append(line["ms"])
        if what == "answer":
            self.acknowledged.append(Acknowledged(line["trial"], line["comment"], line["scores"]))
        if what == "problem":
            self.problems.append(line["message"])


@contextmanager
def raters(
    site: Site, url: str, *, count: int, think_s: tuple[float, float], seed: int, endless: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], RaterLog]]:
    """Raters at work on a site's campaign; ended at the latest when the block is left."""
    host, _, port = url.removeprefix("http://").strip("/").partition(":")
    log = site.folder / f"raters-{seed}.jsonl"
    log.touch()
    plan = Plan(host, int(port), CAMPAIGN, site.key, str(log), count, think_s, seed=seed, endless=endless)
    command: Sequence[str] = [
        sys.executable,
        "-m",
        "studio.bench.mos.raters",
        str(plan.write(log.with_suffix(".plan.json"))),
    ]
    with subprocess.Popen(command, env={**os.environ}) as process:
        try:
            yield process, RaterLog(log)
        finally:
            process.terminate()
