"""Latency and load of a foreign system, by the same commands as a voice."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from studio.bench.speed.latency import show as show_latency
from studio.bench.speed.load import show_all as show_load
from studio.bench.speed.systems import plot_compared
from studio.bench.speed.typists import answer
from studio.cli import cli
from studio.core.errors import BadOption, StudioError


def figures(*arguments: str, systems: tuple[str, ...] = ("flite",)) -> dict:
    """What a bench prints as JSON."""
    named = [part for name in systems for part in ("--system", name)]
    done = CliRunner().invoke(cli, ["bench", *arguments, *named, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_latency_and_load_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "systems.toml"
    file.write_text('[systems.flite]\nkind = "command"\ncommand = "flite -voice slt -t {text} -o /dev/stdout"\n')
    monkeypatch.setenv("STUDIO_SYSTEMS", str(file))
    latency = figures("latency", "--count", "2", "--typed", "1", "--cold", "0", "--served", "0")
    assert latency["voice"] == "flite" and latency["t2_t0_ms"]["n"] == 2
    assert 0 < latency["t2_t0_ms"]["p50"] <= latency["t5_t0_ms"]["p50"] and latency["rtf"] > 0
    load = figures("load", "--seconds", "1", "--most", "1")
    assert load["weights"] == "its own" and load["tries"][0]["failed"] == 0
    assert load["newcomers"]["idle"]["newcomers"] > 0


def declare(folder: Path, patch: pytest.MonkeyPatch, script: str) -> None:
    """A system named mute that is a shell script."""
    file = folder / "systems.toml"
    command = f"sh -c {shlex.quote(script)}"
    file.write_text(f"[systems.mute]\nkind = 'command'\ncut = 'text'\ncommand = {json.dumps(command)}\n")
    patch.setenv("STUDIO_SYSTEMS", str(file))


def test_a_typist_who_hears_nothing_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, "flite -voice slt -t Hello. -o /dev/stdout")  # once the text has ended
    load = figures("load", "--seconds", "1", "--most", "2", systems=("mute",))
    assert load["typists_without_stall"] == 0 and [one["typists"] for one in load["tries"]] == [1]
    assert load["tries"][0]["unheard"] == 1 and load["tries"][0]["stalls"] == 0
    assert "heard nothing in 1 s: raise --seconds" in answer(load)


@pytest.mark.parametrize("arguments", [("load", "--seconds", "1"), ("latency", "--count", "1", "--served", "0")])
def test_a_system_that_fails_has_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    declare(tmp_path, monkeypatch, "exit 3")
    with pytest.raises(StudioError, match=r"mute did not speak .*: .* 3"):
        figures(*arguments, systems=("mute",))


def test_several_systems_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "systems.toml"
    program = 'kind = "command"\ncommand = "flite -voice VOICE -t {text} -o /dev/stdout"\n'
    tables = [f"[systems.{name}]\n{program.replace('VOICE', name)}" for name in ("slt", "rms")]
    file.write_text("".join(tables))
    monkeypatch.setenv("STUDIO_SYSTEMS", str(file))
    short = ("--count", "1", "--typed", "1", "--cold", "0", "--served", "0")
    latency = figures("latency", *short, systems=("slt", "rms"))
    assert list(latency["systems"]) == ["slt", "rms"]
    assert all(one["voice"] == name and one["t2_t0_ms"]["p50"] > 0 for name, one in latency["systems"].items())
    load = figures("load", "--seconds", "1", "--most", "1", systems=("slt", "rms"))
    assert all(one["tries"][0]["failed"] == 0 for one in load["systems"].values())
    for name, out, show in (("latency", latency, show_latency), ("load", load, show_load)):
        show(out)
        printed = capsys.readouterr().out
        assert "slt" in printed and "rms" in printed
        (path,) = plot_compared(out, f"systems-{name}", tmp_path)
        assert path.name.startswith(f"systems-{name}-") and "</svg>" in path.read_text()
    twice = CliRunner().invoke(cli, ["bench", "latency", "--system", "slt", "--system", "slt"])
    assert isinstance(twice.exception, BadOption)
