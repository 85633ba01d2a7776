"""First byte over each adapter, by the command."""

import json

from typer.testing import CliRunner

from studio.bench.speed.adapters import show_adapters
from studio.cli import cli

ADAPTERS = ["native", "elevenlabs", "elevenlabs-multi", "cartesia", "deepgram", "kyutai", "openai"]


def test_every_door_is_measured_beside_the_native_socket(capsys) -> None:
    done = CliRunner().invoke(cli, ["bench", "adapters", "--count", "3", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    out = json.loads(done.stdout)
    assert list(out["adapters"]) == ADAPTERS and out["n"] == 3
    assert all(0 < one["first_ms"]["p50"] <= one["first_ms"]["p95"] for one in out["adapters"].values())
    assert out["adapters"]["native"]["over_native_ms"]["p95"] == 0
    show_adapters(out)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ADAPTERS)
