"""Settings of every test run, and the marks that follow from a test's folder and fixtures."""

import os
import sys
from pathlib import Path

import pytest

os.environ["STUDIO_POISON"] = "1"  # unwritten slots are NaN, in child processes as well
_SLOW_FOLDERS = {"bench", "durability", "train"}
_MARKS = {"chromium": "browser", "postgresql": "postgres"}
_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests of slow folders, and tests that use a browser or PostgreSQL, directly or through other fixtures."""
    for item in items:
        if item.path.is_relative_to(_TESTS) and item.path.relative_to(_TESTS).parts[0] in _SLOW_FOLDERS:
            item.add_marker("slow")
        for fixture, mark in _MARKS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Start torch's random numbers anew in every test, where it is imported: near ties depend on them."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
