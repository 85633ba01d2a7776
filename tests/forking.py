"""Processes forked from one that has loaded modules: loading them is most of a short process."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Forks a process for each line of its input.
_SERVER = """
import json, os, sys

for line in sys.stdin:
    job = json.loads(line)
    if "wait" in job:
        print(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1]), flush=True)
        continue
    pid = os.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(job["environ"])
        os.chdir(job["folder"])
        for number, name, flags in ((0, "in", os.O_RDONLY), (1, "out", os.O_WRONLY), (2, "err", os.O_WRONLY)):
            os.dup2(os.open(job[name], flags), number)
        sys.argv = job["argv"]
        status = 1
        try:
            exec(job["code"], {"__name__": "__main__"})
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            import traceback
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
    print(pid, flush=True)
"""


class Forks:
    """Starts processes that have run the code ``before``, for example imports."""

    def __init__(self, before: str, environ: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-c", before + _SERVER]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env=environ, **pipes)

    def start(
        self, code: str, *arguments: str, folder: Path, environ: Mapping[str, str], stdin: str = os.devnull
    ) -> "Forked":
        """Run code in a new process; ``stdin`` is a file or a named pipe."""
        out, err = (Path(tempfile.mkstemp()[1]) for _ in range(2))
        files = {"in": stdin, "out": str(out), "err": str(err)}
        job = {"environ": {**environ}, "code": code, "folder": str(folder), "argv": ["-c", *arguments]}
        return Forked(self, self.ask(**job, **files), out, err)

    def ask(self, **job: object) -> int:
        """The answer to a job."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())


@dataclass
class Forked:
    """A running process."""

    forks: Forks
    pid: int
    out: Path
    err: Path

    def finish(self) -> tuple[int, str, str]:
        """Exit status, output and messages."""
        return self.forks.ask(wait=self.pid), self.out.read_text(), self.err.read_text()
