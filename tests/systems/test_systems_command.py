"""A foreign program from one command to a voice: in lists, in speech, in stimuli, beside the studio's own voices."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import FakeEngine
from systems.speaking import shell, sound_file
from tinyvoice import write_tiny_voice
from tones import Script
from typer.testing import CliRunner

from studio.cli import cli
from studio.core.errors import BadOption, BadVoice
from studio.core.events import Ended
from studio.core.ports import SpeakRequest, SupportsLoad
from studio.core.speaking import speak_once
from studio.core.traces.trace import open_trace
from studio.systems.combined import CombinedEngine, all_cards, declared_systems, open_voices
from studio.systems.engine import RemoteEngine
from studio.systems.settings import MAX_SYSTEMS, change_systems, check_system, read_systems

FLITE = "flite -voice slt -t {text} -o /dev/stdout"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of systems, which does not exist yet."""
    path = tmp_path / "new" / "systems.toml"
    monkeypatch.setenv("STUDIO_SYSTEMS", str(path))
    return path


def run(*arguments: object) -> str:
    """The output of a command that succeeds."""
    done = CliRunner().invoke(cli, [str(one) for one in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_flite_from_one_command_to_speech_and_stimuli(file: Path, tmp_path: Path) -> None:
    run("systems", "add", "flite", "--command", FLITE, "--licence", "BSD-like")
    assert "flite: Flite: command" in run("systems", "list")
    assert "word times: estimate" in run("systems", "test", "flite")
    voices = tmp_path / "voices"
    write_tiny_voice(voices)
    assert "flite: Flite: command. Speakers: default. BSD-like" in run("voices", "--voices", voices)
    assert "no word times" in run("voices", "info", "flite", "--voices", voices)
    wav, trace = tmp_path / "a.wav", tmp_path / "a.trace"
    run("say", "Good morning, my friend.", "--voice", "flite", "--voices", voices, "-o", wav, "--trace", trace)
    spoken = open_trace(trace)
    assert spoken.rate_hz == 24_000 and len(spoken.pcm) > 24_000
    assert [one.text for one in spoken.words()] == ["Good", "morning,", "my", "friend."]
    (tmp_path / "texts.txt").write_text("One two three.\nFour five six.\n")
    out = tmp_path / "spoken"
    run("synth", "--texts", tmp_path / "texts.txt", "--system", "flite", "--voices", voices, "-o", out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert [one["name"] for one in manifest["systems"]] == ["flite"] and len(manifest["files"]) == 2
    run("systems", "remove", "flite")
    assert read_systems(file) == {} and "flite" not in run("voices", "--voices", voices)


def test_the_file_keeps_what_others_wrote(file: Path) -> None:
    file.parent.mkdir()
    file.write_text('# by hand\n[systems.one]\nkind = "command"\ncommand = "one" # mine\n')
    run("systems", "add", "two", "--openai", "http://localhost:1/v1", "--key-env", "TWO_KEY")
    assert "# by hand" in file.read_text() and "# mine" in file.read_text()
    assert list(read_systems(file)) == ["one", "two"] and read_systems(file)["two"].key_env == "TWO_KEY"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "command", "command": ""}, "empty"),
        ({"kind": "command", "command": "a 'b"}, "quot"),
        ({"kind": "command", "command": "a", "shell": True}, "shell"),
        ({"kind": "openai", "url": "file:///etc/passwd"}, "begins with"),
        ({"kind": "openai", "url": "http://me:secret@host/v1"}, "key_env"),
        ({"kind": "openai", "url": "http://host/v1", "key_env": "sk-12345"}, "key_env"),
        ({"kind": "command", "command": "a", "timeout_s": 0}, "timeout_s"),
        ({"kind": "kyutai", "url": "http://host", "voice": "wren:clara"}, "name/speaker"),
        ({"kind": "kyutai", "url": "http://host", "speakers": ["a", "b?c"]}, "no :, \\? and"),
        ({"kind": "phonograph"}, "phonograph"),
    ],
)
def test_bad_settings_are_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(BadOption, match=words):
        check_system("other", values)


def test_a_name_is_taken_once(file: Path, tmp_path: Path) -> None:
    run("systems", "add", "tiny", "--command", "true")
    again = CliRunner().invoke(cli, ["systems", "add", "tiny", "--command", "true"])
    assert isinstance(again.exception, BadOption)
    write_tiny_voice(tmp_path / "voices")
    with pytest.raises(BadOption, match="both named 'tiny'"):
        all_cards(tmp_path / "voices")


@pytest.mark.parametrize("option", [("--command", "absent -q"), ("--lines", "absent"), ("--python", "absent a:b")])
def test_a_missing_program_is_not_added(file: Path, option: tuple[str, str]) -> None:
    refused = CliRunner().invoke(cli, ["systems", "add", "tiny", *option])
    assert isinstance(refused.exception, BadOption) and "no program 'absent'" in refused.exception.what
    assert declared_systems() == {}


def test_a_settings_file_declares_systems_beside_serve(file: Path, tmp_path: Path) -> None:
    from studio.serve.settings import load_settings

    settings = tmp_path / "studio.toml"
    settings.write_text('[serve]\nport = 8001\n[systems.one]\nkind = "command"\ncommand = "one"\n')
    assert load_settings(settings, {}).port == 8001
    assert list(declared_systems(settings)) == ["one"]


def test_one_engine_over_voices_and_systems(tmp_path: Path) -> None:
    system = check_system("other", shell(f"cat {sound_file(tmp_path / 'a.wav')}"))
    local = FakeEngine(Script(speed=50.0))
    engine = CombinedEngine(local, {"other": RemoteEngine("other", system)})
    try:
        assert [card.name for card in engine.cards()] == ["tone", "other"] and isinstance(engine, SupportsLoad)
        for voice in ("", "tone:high", "other", "other:default"):
            trace = speak_once(engine, SpeakRequest(voice), "Hello there.")
            assert isinstance(trace.events[-1], Ended) and len(trace.pcm)
        assert len(local.opened) == 2
        with pytest.raises(BadVoice, match="there is no voice 'nobody'"):
            engine.open(SpeakRequest("nobody"))
    finally:
        engine.close()


def test_a_system_alone_opens_without_voices(file: Path, tmp_path: Path) -> None:
    run("systems", "add", "flite", "--command", FLITE)
    engine = open_voices(tmp_path / "no voices here", lambda tokens, before=(): [], voice_names=["flite"])
    try:
        assert isinstance(engine, RemoteEngine)
    finally:
        engine.close()


ADD_SYSTEMS = """
import sys
from pathlib import Path
from studio.core import locks
from studio.systems.settings import change_systems, check_system

locks.LOCK_WAIT_S = 120.0  # the machine may be busy
system = check_system("x", {"kind": "command", "command": "cat"})
for number in range(10):
    change_systems(Path(sys.argv[1]), lambda there: there.update({f"{sys.argv[2]}{number}": system}))
"""


def test_systems_that_several_add_at_once_are_all_kept(file: Path) -> None:
    command = [sys.executable, "-c", ADD_SYSTEMS, str(file)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b", "c", "d")]
    assert [one.wait() for one in processes] == [0, 0, 0, 0]
    assert len(read_systems(file)) == 40


def test_one_system_too_many_is_refused_and_changes_nothing(file: Path) -> None:
    system = check_system("x", {"kind": "command", "command": "cat"})
    change_systems(file, lambda there: there.update({f"s{number}": system for number in range(MAX_SYSTEMS)}))
    before = file.read_bytes()
    with pytest.raises(BadOption, match="at most 64"):
        change_systems(file, lambda there: there.update({"another": system}))
    assert file.read_bytes() == before and len(read_systems(file)) == MAX_SYSTEMS
