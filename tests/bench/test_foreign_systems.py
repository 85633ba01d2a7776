"""Latency and load of a foreign system, by the same commands as a voice."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from studio.cli import cli


def figures(*arguments: str) -> dict:
    """What a bench prints as JSON."""
    done = CliRunner().invoke(cli, ["bench", *arguments, "--system", "flite", "--json"], catch_exceptions=False)
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
