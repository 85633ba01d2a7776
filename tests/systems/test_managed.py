"""Systems that the owner adds, tests and removes while the studio runs."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import FakeEngine
from serve.serving import Served
from systems.speaking import TEXT, shell
from tones import Script

from studio.core.errors import BadOption, BadVoice, Closing
from studio.core.events import Ended, Failed
from studio.core.ports import SpeakRequest
from studio.core.speaking import speak_once
from studio.core.systems import SupportsSystems
from studio.systems.engine import RemoteEngine
from studio.systems.managed import ManagedEngine
from studio.systems.settings import check_system, read_systems
from studio.systems.sound import SystemFailed


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "systems.toml"
    monkeypatch.setenv("STUDIO_SYSTEMS", str(path))
    return path


@pytest.fixture
def engine(file: Path) -> Iterator[ManagedEngine]:
    program = check_system("program", shell("echo /secret/place >&2; exit 3"))
    found = ManagedEngine(
        FakeEngine(Script(speed=50.0)), {"program": RemoteEngine("program", program)}, hides_failures=True
    )
    yield found
    found.close()


def test_a_system_is_added_spoken_and_removed(engine: ManagedEngine, file: Path, tmp_path: Path) -> None:
    assert isinstance(engine, SupportsSystems)
    served = Served(tmp_path)
    try:
        engine.add_system("far", {"kind": "deepgram", "url": served.url, "voice": "low"})
        assert list(read_systems(file)) == ["far"] and "far" in [card.name for card in engine.cards()]
        assert isinstance(speak_once(engine, SpeakRequest("far"), TEXT).events[-1], Ended)
        spoken = engine.test_system("far")
        assert spoken.first_ms > 0 and spoken.length_s > 1 and spoken.sources == ("estimate",)
        program, far = engine.systems()
        assert (far.kind, far.address, far.is_removable, far.opened) == ("deepgram", served.url, True, 2)
        assert (program.address, program.is_removable, program.last_failure) == ("", False, "")
        engine.remove_system("far")
        assert read_systems(file) == {} and [one.name for one in engine.systems()] == ["program"]
    finally:
        served.stop()


def test_a_removal_ends_what_the_system_speaks(engine: ManagedEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the request, and never answers
        engine.add_system("far", {"kind": "openai", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/v1"})
        utterances = [engine.open(SpeakRequest("far")) for _ in range(6)]  # two of them wait for a slot
        for one in utterances:
            one.push_text(TEXT)
            one.end()
        far = engine._systems["far"]
        engine.remove_system("far")
        for one in utterances:
            last = list(one.poll_events())[-1]
            assert isinstance(last, Failed) and "the system far was removed" in last.message
    with pytest.raises(Closing, match="choose another voice"):
        far.open(SpeakRequest("far"))
    with pytest.raises(BadVoice):
        engine.open(SpeakRequest("far"))


def test_the_owner_is_told_why_a_system_fails(engine: ManagedEngine) -> None:
    with pytest.raises(SystemFailed, match="ended with status 3: /secret/place"):
        engine.test_system("program")
    (state,) = engine.systems()
    assert "/secret/place" in state.last_failure and state.failed == 1
    assert state.failed_s_ago is not None and 0 <= state.failed_s_ago < 60


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("other", {"kind": "command", "command": "true"}, "cannot be added here"),
        ("other", {"kind": "python", "python": "python a:b"}, "cannot be added here"),
        ("other", {"kind": "folder", "folder": "/etc"}, "cannot be added here"),
        ("other", {"kind": "openai", "url": "file:///etc/passwd"}, "begins with"),
        ("other", {"kind": "openai", "url": "http://host/v1", "command": "true"}, "command"),
        ("other", {"kind": "openai", "url": "http://host/v1", "key_env": "STUDIO_SERVE_API_KEY"}, "not allowed"),
        ("other", {"kind": "openai", "url": "http://host/v1", "key_env": "AWS_SECRET"}, "not allowed"),
        ("tone", {"kind": "openai", "url": "http://host/v1"}, "already"),
        ("program", {"kind": "openai", "url": "http://host/v1"}, "already"),
    ],
)
def test_what_may_not_be_added_changes_nothing(
    engine: ManagedEngine, file: Path, name: str, values: dict[str, str], words: str
) -> None:
    with pytest.raises(BadOption, match=words):
        engine.add_system(name, values)
    assert not file.exists() and len(engine.systems()) == 1


def test_what_is_declared_elsewhere_stays(engine: ManagedEngine) -> None:
    with pytest.raises(BadOption, match="cannot be removed here"):
        engine.remove_system("program")
    with pytest.raises(BadOption, match="no system 'nobody'"):
        engine.test_system("nobody")
