"""Switches that every test turns on, in processes that it starts too."""

import os
from pathlib import Path

import pytest

os.environ["STUDIO_POISON"] = "1"

TIMED = tuple(
    Path(__file__).parent / name for name in ("ui", "serve", "bench", "mos/rating", "test_readme.py", "test_say.py")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What waits for a browser, a socket or a process gets two more chances: a machine may be busy for a while."""
    for item in items:
        if any(item.path == place or place in item.path.parents for place in TIMED):
            item.add_marker(pytest.mark.flaky(reruns=2))
