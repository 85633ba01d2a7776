"""Real servers on free ports, on the fake engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mos.world import items_of
from serve.mos_serving import Browser, ServedTests
from serve.serving import Served, Serving
from serve.typist import LIVE, VOICES, Typist

from studio.serve.trace_views import VIEWS, TraceViews


@pytest.fixture(scope="session", autouse=True)
def trace_process() -> None:
    """The trace process, started before a test waits for it: that takes seconds on a busy machine."""
    VIEWS.call(isinstance, None, TraceViews)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Starts servers; at teardown all are stopped and no slot is held."""
    started: list[Served] = []

    def start(**kwargs: object) -> Served:
        started.append(Served(tmp_path, **kwargs))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def tests_served(tmp_path: Path) -> Iterator[ServedTests]:
    """A server with an open campaign named first."""
    served = ServedTests(tmp_path)
    served.world.campaign()
    yield served
    served.stop()


@pytest.fixture
def live(tests_served: ServedTests) -> Iterator[tuple[ServedTests, Browser, Typist, str]]:
    """A live campaign, a rater at its first screen, and their socket."""
    tests_served.world.campaign(LIVE, "typing", VOICES, items_of(2))
    answer = tests_served.http.post("join", json={**tests_served.link(name="typing"), "panel": {"PROLIFIC_PID": "p1"}})
    rater = Browser(tests_served.http, answer.json()["token"])
    trial = rater.to_trials()["trial"]["trial"]
    typist = Typist(tests_served, rater)
    yield tests_served, rater, typist, trial
    typist.ws.close()
