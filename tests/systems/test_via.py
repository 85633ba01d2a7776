"""A system that leads back to the studio that declares it is refused in words, and takes one slot at most."""

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from serve.serving import Served, eventually
from systems.speaking import opened
from systems.test_doors import DOORS, door

from studio.core.events import Ended, Failed
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.via import MAX_SYSTEMS, LeadsBack, new_id, read_via, through
from studio.serve.app import create_app
from studio.systems.combined import CombinedEngine
from studio.systems.engine import RemoteEngine
from studio.systems.settings import check_system

Declare = Callable[[str, Mapping[str, Any]], RemoteEngine]


class Studio(Served):
    """A studio with foreign systems."""

    def make_app(self) -> Any:
        self.systems: dict[str, Any] = {}
        self.combined = CombinedEngine(self.engine, self.systems)
        return create_app(self.combined, self.settings)  # pyright: ignore[reportArgumentType]

    def declare(self, name: str, values: Mapping[str, Any]) -> None:
        """Add a system."""
        self.systems[name] = RemoteEngine(name, check_system(name, {"timeout_s": 5.0, **values}))

    def failure(self, voice: str) -> str:
        """Why a voice does not speak."""
        trace = speak_once(self.combined, SpeakRequest(voice), "Good morning.")  # pyright: ignore[reportArgumentType]
        last = trace.events[-1]
        assert isinstance(last, Failed), last
        return last.message

    def stop(self) -> None:
        for one in self.systems.values():
            one.close()
        super().stop()


@pytest.fixture
def studios(tmp_path: Path) -> Iterator[tuple[Studio, Studio]]:
    both = Studio(tmp_path / "a"), Studio(tmp_path / "b")
    yield both
    for one in both:
        one.stop()


def toward(kind: str, url: str, voice: str) -> dict[str, Any]:
    """A system that is a voice of a studio."""
    return door(kind, url) | {"voice": voice} | ({"model": voice} if kind.startswith("openai") else {})


@pytest.mark.parametrize("kind", DOORS)
def test_a_system_that_is_itself(studios: tuple[Studio, Studio], kind: str) -> None:
    one, _ = studios
    one.declare("loop", toward(kind, one.url, "loop"))
    assert "leads back to the studio that declares it" in one.failure("loop")
    assert one.systems["loop"].load().opened == 1
    eventually(lambda: not one.systems["loop"].load().speaking, "its slot")


@pytest.mark.parametrize("kind", DOORS)
def test_a_system_that_is_itself_through_another_studio(studios: tuple[Studio, Studio], kind: str) -> None:
    one, other = studios
    one.declare("there", toward(kind, other.url, "back"))
    other.declare("back", toward("studio", one.url, "there"))
    assert "leads back to the studio that declares it" in one.failure("there")
    for system in (one.systems["there"], other.systems["back"]):
        assert system.load().opened == 1
        eventually(lambda system=system: not system.load().speaking, "its slot")


def test_a_voice_behind_two_studios_speaks(studios: tuple[Studio, Studio]) -> None:
    one, other = studios
    one.declare("there", toward("openai", other.url, "back"))
    other.declare("back", toward("elevenlabs", one.url, "tone"))
    trace = speak_once(one.combined, SpeakRequest("there"), "Good morning.")  # pyright: ignore[reportArgumentType]
    assert isinstance(trace.events[-1], Ended) and len(one.engine.opened) == 1


def test_a_program_knows_what_it_was_started_for() -> None:
    ids = [new_id() for _ in range(2)]
    code = "import os, sys; sys.exit(os.environ['STUDIO_VIA'])"
    with opened({"kind": "command", "command": f"{sys.executable} -c {shlex.quote(code)}"}) as engine:
        last = speak_once(engine, SpeakRequest(via=tuple(ids)), "Alpha.").events[-1]
    assert isinstance(last, Failed) and ",".join(ids) in last.message


def test_systems_one_after_another_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    via: tuple[str, ...] = ()
    for n in range(MAX_SYSTEMS):
        monkeypatch.setenv("STUDIO_VIA", ",".join(via))
        via = through(f"s{n}", new_id(), ())
    assert read_via(",".join(via)) == via
    with pytest.raises(LeadsBack, match=f"at most {MAX_SYSTEMS} systems"):
        through("one", new_id(), via)


@pytest.mark.parametrize("value", ["", "x", "0" * 12 + ",", "0" * 11, ",".join(["0" * 12] * 40), "0" * 100_000])
def test_what_is_no_header_of_ours_is_nothing(value: str) -> None:
    assert read_via(value) == ()
