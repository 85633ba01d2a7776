"""A cache of compiled code that is damaged, full or missing costs time; functions still run, and a reason is given."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Two functions, so that a failure of the cache is reported once and not for each of them.
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import made
print(made.double(3.0), made.triple(3.0), sum(made.double.stats.cache_hits.values()), flush=True)
"""
MADE = """
from studio.engine.compiled.compiling import compiled

@compiled
def double(x):
    return 2 * x

@compiled
def triple(x):
    return 3 * x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "made.py").write_text(MADE)
    assert run(tmp_path) == (0, "")
    assert len(files(tmp_path)) == 2 and run(tmp_path) == (1, "")
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.code"))


def run(folder: Path, **environ: str) -> tuple[int, str]:
    """How often a new process found compiled code, and what it said; what it computes is right."""
    environ = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")} | environ
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(folder)], env=environ, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    *computed, hits = done.stdout.split()
    assert computed == ["6.0", "9.0"]
    return int(hits), done.stderr


def flip(path: Path) -> None:
    """One bit of the machine code."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_bytes(b"")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(path.read_bytes()[:20]),
        lambda path: path.write_bytes(os.urandom(5000)),
        lambda path: path.write_bytes(b"\x80\x05" + b"garbage" * 100),
        flip,
        make_folder,
    ],
    ids=["empty", "cut short", "less than a digest", "random", "pickle", "bit", "folder"],
)
def test_a_damaged_cache_is_said_once_and_replaced(folder: Path, damage: Callable[[Path], object]) -> None:
    for path in files(folder):
        damage(path)
    hits, said = run(folder)
    assert hits == 0 and said.count("compiled again") == 1 and "Traceback" not in said
    assert run(folder) == (1, "")


def test_a_change_of_the_source_is_compiled_without_a_word(folder: Path) -> None:
    source = folder / "made.py"
    source.write_text(MADE + "\n# changed\n")
    assert run(folder) == (0, "") and len(files(folder)) == 2, "and takes the place of what was there"
    assert run(folder) == (1, "")


def test_a_cache_that_cannot_be_written_is_said_once(folder: Path) -> None:
    for path in files(folder):
        path.unlink()
    full = "import studio.core.durable as d, errno\ndef replace(*_):\n raise OSError(errno.ENOSPC, 'No space left')\n"
    (folder / "made.py").write_text(full + "d.replace = replace\n" + MADE)
    hits, said = run(folder)
    assert hits == 0 and said.count("No space left") == 1 and "Traceback" not in said


def test_a_place_that_is_a_file_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE)
    (tmp_path / "cache").write_text("in the way")
    (tmp_path / "__pycache__").write_text("in the way")
    (tmp_path / "home").write_text("in the way")
    environ = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "", "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(tmp_path, **environ) == (0, "") and files(tmp_path) == []
