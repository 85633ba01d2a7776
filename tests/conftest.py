"""Settings of every test run, and the marks that follow from a test's folder and fixtures."""

import asyncio
import contextlib
import ctypes
import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from ui.browser import chromium as chromium
from ui.browser import launch as launch
from ui.browser import playwright as playwright

# Read when numpy is loaded, which is later: a small system of equations takes ten times the CPU time with two.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["STUDIO_POISON"] = "1"  # unwritten slots are NaN, in child processes as well
os.environ["TRITON_INTERPRET"] = "1"  # kernels of the CUDA form run on the CPU; read when they are defined
os.environ["STUDIO_PULLED_VOICES"] = "/nonexistent/voices"  # no test depends on voices of the user
os.environ["STUDIO_SPEAKERS"] = "/nonexistent/speakers"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
_SLOW_FOLDERS = {"bench", "durability", "train"}
_MARKS = {"playwright": "browser", "postgresql": "postgres"}
_TESTS = Path(__file__).parent
_TEST_S = {"browser": 3.0, "slow": 3.0, "postgres": 1.0}  # of a test with this mark; of others 0.02
# Files that take longer than the marks of their tests tell.
_FILE_S = {
    "train/test_aligner.py": 90.0,
    "durability/test_disk_faults.py": 400.0,
}


def pytest_configure(config: pytest.Config) -> None:
    """Let xdist keep the order of the files, in the place of that of their numbers of tests."""
    config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark tests of slow folders, and tests that use a browser or PostgreSQL, directly or through other fixtures.

    The longest files come first: at the end, processes that have no file left would wait for them.
    """
    for item in items:
        if item.path.is_relative_to(_TESTS) and item.path.relative_to(_TESTS).parts[0] in _SLOW_FOLDERS:
            item.add_marker("slow")
        for fixture, mark in _MARKS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
    yield
    lengths: Counter[Path] = Counter()
    for item in items:
        lengths[item.path] += max((s for mark, s in _TEST_S.items() if item.get_closest_marker(mark)), default=0.02)
    lengths |= Counter({_TESTS / file: s for file, s in _FILE_S.items()})
    items.sort(key=lambda item: -lengths[item.path])


def pytest_collection_finish() -> None:
    """Exempt what was imported from garbage collection: it stays, and is most of what each collection would visit."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Return the memory of a file's tests to the system at its end: a worker runs many files."""
    if nextitem and nextitem.path != item.path:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Start torch's random numbers anew in every test, where it is imported: near ties depend on them."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
        torch.set_num_threads(1)  # more threads spin while they wait for each other, at other workers' cost


@pytest.fixture(scope="session")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small voice of random weights, which no test changes."""
    from tinyvoice import write_tiny_voice

    return write_tiny_voice(tmp_path_factory.mktemp("voices")).parent


@pytest.fixture(autouse=True)
def _without_browser_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Hide Playwright's event loop, which runs in this thread from the first browser test on, from other tests."""
    loop = None if "playwright" in request.fixturenames else asyncio._get_running_loop()
    if loop is not None:
        asyncio._set_running_loop(None)
    yield
    if loop is not None:
        asyncio._set_running_loop(loop)
