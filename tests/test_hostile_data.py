"""Commands on hostile values, on damaged and on read-only data folders: two lines of error output, and no harm."""

import ctypes
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from durability.write_paths import recording
from inspection.spoken import story
from mos.world import World
from needs import needs
from test_hostile_commands import ErrorOf, error_of

from studio.cli import main
from studio.core.traces.trace_writer import TraceWriter
from studio.library.index import Query
from studio.library.library import Library
from studio.mos.service import open_listening_tests

__all__ = ["error_of"]  # a fixture
ESCAPE = "a\x1b]0;owned\x07b\x9b2Jc\u202ed"
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with an answered campaign and an utterance."""
    folder = tmp_path / "data"
    with closing(open_listening_tests("", folder)) as listening:
        world = World(listening.store, folder / "clips")
        world.listening = listening
        world.campaign()
        rater = world.join("P1")
        rater.answer(rater.to_trials())
    with closing(Library(folder / "library")) as library:
        library.add(recording(1), "Text 1", "title")
    return folder


@pytest.fixture
def output_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Stdout and stderr of a command that succeeds."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["studio", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = "".join(capsys.readouterr())
        assert not ended.value.code, said
        return said

    return run


# --- what reaches the terminal -------------------------------------------------------------------


def is_harmless(said: str) -> bool:
    return not any(one in said for one in ("\x1b", "\x07", "\x9b", "\u202e", "\udcff"))


@pytest.mark.parametrize("command", ["add", "find", "find --json", "inspect", "voices", "tags"])
def test_foreign_trace_cannot_control_the_terminal(output_of: Callable[..., str], tmp_path: Path, command: str) -> None:
    writer = TraceWriter(tmp_path / "t", {"voice": ESCAPE, "speaker": ESCAPE, "vocoder": ESCAPE, "family": ESCAPE})
    writer.write(*story())
    trace = writer.close().rename(tmp_path / f"{ESCAPE}.trace")
    data = ("--data", tmp_path / "data")
    said = output_of("library", "add", trace, "--tag", "x", *data)
    match command:
        case "inspect":
            said = output_of("inspect", trace)
        case "find" | "find --json":
            said = output_of("library", *command.split(), *data)
        case "tags":
            said = output_of("library", "tags", *data)
        case _:
            pass
    assert said and is_harmless(said), ascii(said)


def test_usage_errors_cannot_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["studio", ESCAPE], ["studio", "library", ESCAPE], ["studio", "say", f"--{ESCAPE}"]):
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err
        assert ended.value.code == 2 and "owned" in said and is_harmless(said), ascii(said)


# --- values that used to give tracebacks ---------------------------------------------------------


def test_empty_data_folder_is_refused(error_of: ErrorOf) -> None:
    for command in (("library", "find"), ("campaign", "list"), ("app",), ("backup", "b")):
        assert "--data is empty" in error_of(*command, "--data", "")


@pytest.mark.parametrize("line", ["[" * 100_000, '{"t_ms": ' + "[" * 100_000, '{"a": ' * 100_000])
def test_deep_arrivals_are_reported(error_of: ErrorOf, tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(line)
    assert "line 1" in error_of("say", "--arrivals", tmp_path / "a.jsonl", "-o", tmp_path / "x.wav")


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a" + ".a" * 400_000 + " = 1", "[a" + ".b" * 400_000 + "]"])
@pytest.mark.parametrize("command", ["app --settings", "campaign new a --template speakstream-mos --from . --config"])
def test_deep_settings_are_reported(error_of: ErrorOf, tmp_path: Path, text: str, command: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    said = error_of(*command.split(), tmp_path / "s.toml", "--data", tmp_path / "data")
    assert "deep" in said or "parts" in said


def test_argument_that_is_no_text_is_reported(error_of: ErrorOf, data: Path) -> None:
    for command in (("delete-rater", "first", "\udcff"), ("results", "\udcff"), ("close", "\udcff")):
        assert "\\udcff" in error_of("campaign", *command, "--data", data)


@pytest.mark.parametrize("config", ["", "{", "[]", "7", "[" * 50_000, "null"])
def test_campaign_whose_settings_are_no_json_is_named(
    error_of: ErrorOf, data: Path, tmp_path: Path, config: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other)
    with closing(sqlite3.connect(data / "studio.sqlite")) as connection, connection:
        connection.execute("UPDATE campaign SET config = ?", (config,))
    out = tmp_path / "out.csv"
    for command in (("results", "first"), ("export", "first", "-o", out), ("list",), ("ready", "first")):
        assert len(error_of("campaign", *command, "--data", data)) < 1000
    assert "belongs to another" in error_of("campaign", "merge", other / "studio.sqlite", "--data", data)
    error_of("campaign", "merge", data / "studio.sqlite", "--data", other)


def test_malformed_database_is_named_as_that(error_of: ErrorOf, data: Path) -> None:
    file = data / "studio.sqlite"
    content = bytearray(file.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    file.write_bytes(content)
    said = error_of("campaign", "results", "first", "--data", data)
    assert "damaged" in said and "studio restore" in said and "space" not in said


@pytest.mark.timeout(100)  # a pipe is waited for, a device is read until the memory is full
@pytest.mark.parametrize("kind", ["pipe", "zero", "loop", "folder"])
def test_what_is_no_file_is_neither_waited_for_nor_read(
    error_of: ErrorOf, data: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("STUDIO_SYSTEMS", str(data / "systems.toml"))
    with closing(Library(data / "library")) as library:
        sha256 = library.find(Query())[0][0].sha256
    journal = data / "library" / "annotations" / sha256[:2] / sha256 / "0.jsonl"
    for place in (journal, data / "library" / "lock", data / ".systems.toml.lock"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        match kind:
            case "pipe":
                os.mkfifo(place)
            case "zero":
                place.symlink_to("/dev/zero")
            case "loop":
                place.symlink_to(place)
            case _:
                place.mkdir()
    for command in (("annotations", sha256), ("agreement",), ("note", sha256, "--tag", "x"), ("rebuild",)):
        assert error_of("library", *command, "--data", data)
    assert error_of("systems", "add", "one", "--command", "cat")


# --- folders -------------------------------------------------------------------------------------


def test_new_data_folders_are_private(output_of: Callable[..., str], tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        output_of("campaign", "list", "--data", tmp_path / "a/b")
        output_of("library", "find", "--data", tmp_path / "c/d")
    finally:
        os.umask(umask)
    for folder in ("a", "a/b", "c", "c/d", "c/d/library", "c/d/library/sounds"):
        assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700, folder
    assert stat.S_IMODE((tmp_path / "a/b/studio.sqlite").stat().st_mode) == 0o600


@pytest.fixture
def read_only(data: Path) -> Iterator[Path]:
    """The data folder as on a read-only medium, with answers in its log."""
    with closing(open_listening_tests("", data)) as listening:
        world = World(listening.store, data / "clips")
        world.listening = listening
        rater = world.join("P2")
        rater.answer(rater.to_trials())
        copy = data.with_name("copy")
        shutil.copytree(data, copy)
    assert (copy / "studio.sqlite-wal").stat().st_size
    for folder, _, names in os.walk(copy, topdown=False):
        for name in names:
            (Path(folder) / name).chmod(0o400)
        Path(folder).chmod(0o500)
    yield copy
    for folder, _, _ in os.walk(copy):
        Path(folder).chmod(0o700)


def without_override() -> None:
    """preexec function: permissions apply to root, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def test_read_only_data_folder_is_exported_and_reported_from(read_only: Path, tmp_path: Path) -> None:
    needs(sys.platform == "linux", "Linux: capabilities")

    def run(*command: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "studio", *map(str, command), "--data", str(read_only)],
            capture_output=True, text=True, preexec_fn=without_override, timeout=200, check=False,
        )  # fmt: skip

    before = {path: path.read_bytes() for path in read_only.rglob("*") if path.is_file()}
    needs(run("campaign", "close", "first").returncode != 0, "a process to which permissions apply")
    exported, report = tmp_path / "answers.csv", tmp_path / "report.html"
    for command in (
        ("campaign", "export", "first", "-o", exported),
        ("campaign", "report", "first", "-o", report),
        ("campaign", "results", "first", "--json"),
        ("campaign", "list"),
        ("library", "find"),
        ("backup", tmp_path / "saved.zip"),
    ):
        done = run(*command)
        assert done.returncode == 0, (command, done.stderr)
    assert len(exported.read_text().splitlines()) == 3 and report.stat().st_size > 1000
    said = run("campaign", "close", "first").stderr
    assert "read-only" in said and "Traceback" not in said
    assert {path: path.read_bytes() for path in before} == before
