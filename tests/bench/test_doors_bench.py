"""First byte over each door, by the command."""

import json

from typer.testing import CliRunner

from studio.bench.speed.doors import show_doors
from studio.cli import cli

DOORS = ["native", "elevenlabs", "elevenlabs-multi", "cartesia", "deepgram", "kyutai", "openai"]


def test_every_door_is_measured_beside_the_native_socket(capsys) -> None:
    done = CliRunner().invoke(cli, ["bench", "doors", "--count", "3", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    out = json.loads(done.stdout)
    assert list(out["doors"]) == DOORS and out["n"] == 3
    assert all(0 < one["first_ms"]["p50"] <= one["first_ms"]["p95"] for one in out["doors"].values())
    assert out["doors"]["native"]["over_native_ms"]["p95"] == 0
    show_doors(out)
    printed = capsys.readouterr().out
    assert all(name in printed for name in DOORS)
