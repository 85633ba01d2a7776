"""A cache of compiled code that is damaged, full or missing costs time; functions still run, and a reason is given."""

import errno
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from forking import Forked, Forks

pytestmark = pytest.mark.slow

# Two functions, so that a failure of the cache is reported once and not for each of them.
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import made
print(made.double(3.0), made.triple(3.0), sum(made.double.stats.cache_hits.values()), flush=True)
"""
MADE = """
from studio.engine.nets.cpu.jit import cached_njit

@cached_njit
def double(x):
    return 2 * x

@cached_njit
def triple(x):
    return 3 * x
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a module of two functions, whose compiled code is cached; each test leaves the cache complete."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "made.py").write_text(MADE)
    assert run(folder) == (0, "")
    return folder


def files(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.code"))


# Numba's compiler is set up once for each environment: it reads home folders and the processor's name by then.
SET_UP = """
import numba.core.caching
import studio.engine.nets.cpu.jit

numba.njit("float64(float64)")(lambda x: x)
"""


@cache
def forks(**environ: str) -> Forks:
    return Forks(SET_UP, os.environ | environ)


def start(folder: Path, before: str = "", **environ: str) -> Forked:
    """A new process that runs the code ``before``, then calls both functions."""
    server, environ = forks(**environ), os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")} | environ
    code = f"import numba\nnumba.core.config.reload_config()\n{before}{CODE}"
    return server.start(code, str(folder), folder=folder, environ=environ)


def result(process: Forked) -> tuple[int, str]:
    """How often a process found compiled code of ``double``, and its messages; what it computed is right."""
    status, out, said = process.finish()
    assert status == 0 and "Traceback" not in said, said
    *computed, hits = out.split()
    assert computed == ["6.0", "9.0"]
    return int(hits), said


def run(folder: Path, before: str = "", **environ: str) -> tuple[int, str]:
    return result(start(folder, before, **environ))


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
    assert len(files(folder)) == 2
    for path in files(folder):
        damage(path)
    hits, said = run(folder)
    assert hits == 0 and said.count("compiled again") == 1
    assert run(folder) == (1, "")


REFUSED = """
import errno, os, pathlib
from studio.core import durable
from studio.engine.nets.cpu import jit as compiling

def refuse(*_, **__):
    raise OSError(errno.{code}, os.strerror(errno.{code}))

{name} = refuse
"""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("durable.replace", "ENOSPC"),
        ("durable.replace", "EROFS"),
        ("compiling.read_bounded", "EACCES"),
        ("compiling.read_bounded", "EIO"),
    ],
)
def test_a_disk_that_refuses_is_said_once(folder: Path, name: str, code: str) -> None:
    if name == "durable.replace":
        for path in files(folder):
            path.unlink()
    hits, said = run(folder, REFUSED.format(name=name, code=code))
    assert hits == 0 and said.count("compiled again") == 1 and os.strerror(getattr(errno, code)) in said
    run(folder)
    assert run(folder) == (1, "")


def test_code_of_another_processor_or_numba_is_not_used(folder: Path) -> None:
    before = "import numba\nnumba.__version__ = '0.0.1'\n"
    assert run(folder, before) == (0, "") and run(folder, before) == (1, "")
    assert run(folder) == (0, "") and run(folder) == (1, ""), "another numba replaces the files"
    assert run(folder, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == (0, "")
    assert len(files(folder)) == 4 and run(folder) == (1, ""), "another processor has files of its own"
    for path in files(folder):
        path.unlink()
    assert run(folder) == (0, "")


def test_two_processes_fill_the_cache_at_once(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE)
    both = [start(tmp_path), start(tmp_path)]
    assert [result(one)[1] for one in both] == ["", ""]
    assert len(files(tmp_path)) == 2 and run(tmp_path) == (1, "")


def test_a_process_that_is_killed_while_it_saves(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE)
    killed = start(
        tmp_path, "import os\nfrom studio.core import durable\ndurable.publish = lambda *_: os.kill(os.getpid(), 9)\n"
    )
    assert killed.finish()[0] == -signal.SIGKILL
    [part] = (tmp_path / "cache").rglob("*.part")
    os.utime(part, (0, 0))
    assert run(tmp_path) == (0, "") and not part.exists(), "an old incomplete file is removed"
    assert run(tmp_path) == (1, "")


def test_a_change_of_the_source_is_compiled_without_a_word(tmp_path: Path) -> None:
    source = tmp_path / "made.py"
    source.write_text(MADE)
    assert run(tmp_path) == (0, "")
    source.write_text(MADE + "\n# changed\n")
    assert run(tmp_path) == (0, "") and len(files(tmp_path)) == 2, "and takes the place of what was there"
    assert run(tmp_path) == (1, "")


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "home", "XDG_CACHE_HOME": ""},
        {"HOME": "", "XDG_CACHE_HOME": ""},
        {"HOME": "relative", "XDG_CACHE_HOME": "relative"},
    ],
)
def test_without_any_folder_nothing_is_cached(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "made.py").write_text(MADE)
    for name in ("cache", "__pycache__", "home"):
        (tmp_path / name).write_text("a file in the place of the folder")
    if environ["HOME"] == "home":
        environ = environ | {"HOME": str(tmp_path / "home")}
    before = {path.name for path in tmp_path.iterdir()}
    hits, said = run(tmp_path, PYTHONDONTWRITEBYTECODE="1", **environ)
    assert hits == 0 and said.count("NUMBA_CACHE_DIR can name another folder") == 1
    assert {path.name for path in tmp_path.iterdir()} == before, "no folder is made in the working directory"


def test_the_users_cache_folder_is_used_where_the_code_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE)
    (tmp_path / "__pycache__").write_text("a file in the place of the folder")
    environ = {"NUMBA_CACHE_DIR": "", "HOME": "", "XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert run(tmp_path, **environ) == (0, "")
    assert len([*(tmp_path / "xdg/streaming-tts-studio/compiled").rglob("*.code")]) == 2
    assert run(tmp_path, **environ) == (1, "")


def test_the_code_of_another_function_is_not_used(folder: Path) -> None:
    double, triple = files(folder)
    triple.write_bytes(double.read_bytes())
    run(folder)


def test_code_is_compiled_again_when_the_file_of_inlined_code_changes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "tiles.py").write_text("other")
    tiles = f"import pathlib; jit._TILES = pathlib.Path({str(tmp_path / 'tiles.py')!r})\n"
    for changed in ("from studio.engine.nets.cpu import jit\n" + tiles, ""):
        assert run(folder, changed) == (0, "") and run(folder, changed) == (1, "")
