"""Every write path x every fault: nothing acknowledged is lost, no store is unreadable, refusals say why.

| a cell of `test_failing_disk_loses_nothing_acknowledged` | where the fault comes | afterwards |
|---|---|---|
| ENOSPC, EDQUOT, EIO | after any byte or call of a write | the process goes on, and saves the same item |
| EROFS | the same; nothing can be written or removed then | the same; on the read-only disk everything can be read |
| SIGKILL, SIGTERM | the same | a new process reads everything, and saves |
| LOCKED | another process holds every lock | refused, or saved where files are renamed into place |

`WRITE_PATHS` are the rows: edits (first, appended, compacted), utterances kept, notes, indexes, assignments, clips and
traces (in the library, of live speech), words of the lexicon, systems, added speakers, answers, drafts, settings,
uploads, merges and migrations; and removals: of speakers, words, systems, utterances and raters.
`test_locked.py` asks a server's routes under locks, `test_stopping.py` stops servers.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from durability.sweep import LOCKED, WRITE_PATHS
from needs import needs

HERE = Path(__file__).parent
POINTS = int(os.environ.get("DURABILITY_POINTS", "16"))  # of each write; a large number tries every byte
MEMORY = Path("/dev/shm")  # `faults.c` counts calls and lets them fail, on any file system; here a sync takes no time


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes the disk fail, compiled."""
    needs(shutil.which("gcc"), "gcc")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", library, HERE / "faults.c", "-ldl"], check=True)
    return library


@pytest.fixture(scope="session")
def sweep(faults: Path) -> Iterator[Callable[..., Any]]:
    """Sweeps a path under faults, in a process forked from one whose disk can fail."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        control, data, log = (Path(made) / name for name in ("control", "data", "log"))
        control.write_bytes(struct.pack("qqqq", -1, 0, 0, 0))
        data.mkdir()
        environ = os.environ | {
            "FAULT_CONTROL": str(control),
            "FAULT_ROOT": str(data),
            "LD_PRELOAD": str(faults),
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
        }
        command = [sys.executable, "-m", "durability.sweep", str(data)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with log.open("w") as errors, subprocess.Popen(command, env=environ, stderr=errors, **pipes) as process:

            def ask(*words: str) -> Any:
                print(*words, file=process.stdin, flush=True)
                said = process.stdout.readline()
                assert said, log.read_text()[-4000:]
                return json.loads(said)

            yield ask
            process.stdin.close()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("chosen", ["ENOSPC EDQUOT", "EIO EROFS", "SIGKILL SIGTERM", LOCKED])
@pytest.mark.parametrize("path", WRITE_PATHS)
def test_failing_disk_loses_nothing_acknowledged(path: str, chosen: str, sweep: Callable[..., Any]) -> None:
    answer = sweep(path, str(POINTS), *chosen.split())
    assert isinstance(answer, list) and len(answer) == len(chosen.split()), answer
    for found in answer:
        assert not found["problems"], "\n".join([found["fault"], *found["problems"][:3]])
        if chosen == LOCKED:
            assert found["refused"] == WRITE_PATHS[path].is_locked, found
        else:
            assert found["points"] >= min(POINTS, found["units"]) and found["refused"], found
