"""Real servers on free ports, on the fake engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve.mos_serving import ServedTests
from serve.serving import Served, Serving


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Starts servers; all of them are gone, and no place is held, when the test is over."""
    started: list[Served] = []

    def start(**kwargs: object) -> Served:
        started.append(Served(tmp_path, **kwargs))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def tests_served(tmp_path: Path) -> Iterator[ServedTests]:
    """A server with an open campaign called first."""
    served = ServedTests(tmp_path)
    served.world.campaign()
    yield served
    served.stop()
