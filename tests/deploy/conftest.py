"""Fixtures of the tests of replicas."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deploy.fronting import Fronting, fronting


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Fronting]:
    """Starts fronts before fake replicas."""
    with fronting(tmp_path) as start:
        yield start
