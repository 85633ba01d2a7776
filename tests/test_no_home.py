"""Processes without a home folder: no HOME and no user entry, as in a container with a random user."""

import os
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from mos.rated import write_sounds
from needs import needs
from tinyvoice import write_tiny_voice
from typer.main import get_command

from studio.cli import cli
from studio.core.errors import BadFile, BadOption
from studio.core.folders import data_folder
from studio.measure.recognisers.registry import open_recogniser
from studio.serve import trace_store

pytestmark = pytest.mark.slow

# The user database is empty; HOME and the XDG folders are set by the test.
RUN = """
import pwd, sys

def nobody(_):
    raise KeyError("uid not found")

pwd.getpwuid = pwd.getpwnam = nobody
from studio.cli import main

for line in sys.stdin.read().splitlines() or [None]:
    if line is not None:
        sys.argv[1:] = line.split("\\t")
    try:
        main()
    except SystemExit as ended:
        if line is None or ended.code:
            raise
"""


def environ(**given: str) -> dict[str, str]:
    named = ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "STUDIO_DATA_FOLDER")
    return {name: value for name, value in os.environ.items() if name not in named} | given


def run(folder: Path, *arguments: str, lines: str = "", **given: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ(**given), input=lines, capture_output=True, text=True, timeout=250
    )


def commands() -> list[str]:
    """The arguments of ``--help`` for every command and group."""
    found: list[str] = []

    def walk(command: object, before: list[str]) -> None:
        found.append("\t".join([*before, "--help"]))
        for name, one in getattr(command, "commands", {}).items():
            walk(one, [*before, name])

    walk(get_command(cli), [])
    return found


def test_every_command_has_help(tmp_path: Path) -> None:
    every = commands()
    done = run(tmp_path, lines="\n".join(every))
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.stdout.count("Usage:") == len(every) > 60
    assert "~/.local/share/" in run(tmp_path, "campaign", "list", "--help").stdout
    assert "[serve]" in run(tmp_path, "app", "--help").stdout  # not taken for markup
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("home", [{}, {"HOME": ""}, {"HOME": "relative", "XDG_DATA_HOME": "relative"}])
def test_commands_that_need_a_folder_ask_for_it(tmp_path: Path, home: dict[str, str]) -> None:
    for command in (["library", "find"], ["campaign", "list"]):
        done = run(tmp_path, *command, **home)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert "no home folder is known" in done.stderr
        assert "give --data FOLDER, or set HOME or XDG_DATA_HOME" in done.stderr
    assert [*tmp_path.iterdir()] == []
    found = run(tmp_path, "library", "find", **home | {"XDG_DATA_HOME": str(tmp_path / "xdg")})
    assert found.returncode == 0 and (tmp_path / "xdg/streaming-tts-studio/library/index.sqlite").exists()


def test_unusable_home_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "campaign", "list", HOME=str(tmp_path / "file"))
    assert done.returncode == 2 and "Traceback" not in done.stderr and "--data" in done.stderr
    assert run(tmp_path, "campaign", "list", HOME=str(tmp_path / "made")).returncode == 0


@pytest.mark.parametrize(
    ("given", "reason"),
    [("", "--data is empty"), ("~nobody/data", "no home folder is known"), ("~/data", "no home folder is known")],
)
def test_invalid_folder_is_refused(tmp_path: Path, given: str, reason: str) -> None:
    done = run(tmp_path, "campaign", "list", "--data", given)
    assert done.returncode == 2 and "Traceback" not in done.stderr and reason in done.stderr
    assert [*tmp_path.iterdir()] == []


def test_home_folder_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(BadOption, match="no home folder is known for ~no-such-user/data"):
        data_folder("~no-such-user/data")


def test_campaign_is_created_with_a_data_folder(tmp_path: Path) -> None:
    arguments = [
        "campaign",
        "new",
        "first",
        "--template",
        "incremental-mos",
        "--from",
        write_sounds(tmp_path / "sounds"),
    ]
    done = run(tmp_path, *map(str, arguments), "--data", str(tmp_path / "data"))
    assert done.returncode == 0 and "the same --data" in done.stderr, done.stderr


def test_traces_are_temporary_if_the_default_folder_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / ".cache").write_text("a file in the place of the folder")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(trace_store, "DEFAULT_TRACES", Path("~/.cache/streaming-tts-studio/traces"))
    kept = trace_store.TraceStore(trace_store.DEFAULT_TRACES, 1, 1).folder
    assert kept.parent == tmp_path / "temporary" and kept.stat().st_mode & 0o777 == 0o700
    assert f"traces are kept in {kept}" in caplog.text
    with pytest.raises(BadFile, match="traces_folder"):
        trace_store.TraceStore(Path("~/.cache/others"), 1, 1)
    monkeypatch.setenv("HOME", "")
    with pytest.raises(BadOption, match="no home folder is known for ~/others"):
        trace_store.TraceStore(Path("~/others"), 1, 1)


@pytest.mark.parametrize("weights", ["base", "~/weights"])
def test_weights_in_the_home_folder_need_one(monkeypatch: pytest.MonkeyPatch, weights: str) -> None:
    needs(find_spec("faster_whisper"), "faster-whisper")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "~/.cache/huggingface/hub")
    with pytest.raises(BadOption, match="no home folder is known"):
        open_recogniser(f"whisper:{weights}")


def test_it_speaks_and_serves(tmp_path: Path) -> None:
    voices, here = tmp_path / "voices", tmp_path / "here"
    write_tiny_voice(voices)
    here.mkdir()
    done = run(here, "say", "one two", "-o", "a.wav", "--voices", str(voices))
    assert done.returncode == 0 and (here / "a.wav").stat().st_size > 1000, done.stderr
    options = ["--port", "0", "--no-demo", "--voices", str(voices), "--data", str(tmp_path / "data")]
    command = [sys.executable, "-c", RUN, "app", *options]
    with subprocess.Popen(
        command, cwd=here, env=environ(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as app:
        assert app.stderr is not None
        said = ""
        for line in app.stderr:
            said += line
            if "Streaming-TTS Studio: http" in line:
                app.send_signal(signal.SIGTERM)
    assert "Streaming-TTS Studio: http" in said and "traces are kept in" in said and "Traceback" not in said, said
    assert [path.name for path in here.iterdir()] == ["a.wav"], "no folder named ~"
