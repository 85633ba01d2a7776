"""Every write path, while the disk fails at any point or a signal ends the process, loses nothing acknowledged."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from durability.sweep import WRITE_PATHS
from needs import needs

HERE = Path(__file__).parent
POINTS = int(os.environ.get("DURABILITY_POINTS", "16"))  # of each write; a large number tries every byte


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that makes the disk fail, compiled."""
    needs(shutil.which("gcc"), "gcc")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", library, HERE / "faults.c", "-ldl"], check=True)
    return library


@pytest.mark.timeout(400)
@pytest.mark.parametrize("chosen", ["ENOSPC EDQUOT", "EIO EROFS", "SIGKILL SIGTERM"])
@pytest.mark.parametrize("path", WRITE_PATHS)
def test_a_failing_disk_loses_nothing_that_was_acknowledged(
    path: str, chosen: str, faults: Path, tmp_path: Path
) -> None:
    control, data = tmp_path / "control", tmp_path / "data"
    control.write_bytes(struct.pack("qqqq", -1, 0, 0, 0))
    data.mkdir()
    environ = os.environ | {
        "FAULT_CONTROL": str(control),
        "FAULT_ROOT": str(data),
        "LD_PRELOAD": str(faults),
        "PYTHONPATH": str(HERE.parent),
    }
    command = [sys.executable, "-m", "durability.sweep", path, str(data), str(POINTS), *chosen.split()]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stderr[-4000:]
    for found in json.loads(done.stdout):
        assert not found["problems"], "\n".join([found["fault"], *found["problems"][:3]])
        assert found["points"] >= min(POINTS, found["units"]) and found["refused"], found
