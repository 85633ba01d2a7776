"""The build of Gradio's pages in a running server leaves speech its time."""

import gc
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from studio.ui.late_app import BuiltApp, LateApp

WORK = "import time\nend = time.thread_time() + 0.02\nwhile time.thread_time() < end: pass\n"
MODULES = 5


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Modules that each take 20 ms of CPU time to import."""
    names = [f"slow_part_{k}" for k in range(MODULES)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(WORK)
    monkeypatch.syspath_prepend(str(tmp_path))
    return names


@asynccontextmanager
async def lifespan(_: Any) -> AsyncGenerator[None]:
    yield


def build_with(names: list[str], is_speaking: Callable[[], bool]) -> tuple[float, list[bool]]:
    """Seconds of a build that imports modules, and whether garbage was collected between them."""
    collecting: list[bool] = []

    def build() -> BuiltApp:
        for name in names:
            sys.modules.pop(name, None)
            __import__(name)
            collecting.append(gc.isenabled())
        return BuiltApp(FastAPI(), lifespan, lambda: None)

    began_s = time.monotonic()
    LateApp(build, is_speaking).begin().result(timeout=60.0)
    return time.monotonic() - began_s, collecting


def test_imports_rest_while_somebody_speaks(modules: list[str]) -> None:
    finders = [*sys.meta_path]
    spoken_s, collecting = build_with(modules, lambda: True)
    assert spoken_s > 4 * 0.02 * (MODULES - 1), "each rests for three times the run of the one before it"
    assert collecting == [False] * MODULES
    assert gc.isenabled() and sys.meta_path == finders


def test_failed_build_leaves_imports_and_collections_as_they_were() -> None:
    finders = [*sys.meta_path]

    def build() -> BuiltApp:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        LateApp(build).begin().result(timeout=60.0)
    assert gc.isenabled() and sys.meta_path == finders
