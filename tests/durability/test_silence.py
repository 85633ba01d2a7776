"""Nobody silences anybody: an utterance is heard without a pause while others flood the server with requests."""

import sys
from pathlib import Path

import pytest
from durability.harness.silence import HTTP_FLOODS, FloodSetting, bench_flood

pytestmark = pytest.mark.alone
APP = (sys.executable, str(Path(__file__).parent / "harness" / "fake_app.py"))
STARVED_MS = 2_000.0  # before, it was ten seconds; a busy machine alone gives some hundred milliseconds


def test_floods_of_pages_and_views_starve_no_sound() -> None:
    kinds = ("views of a trace", "/rate", "unknown addresses")
    setting = FloodSetting(kinds=kinds, connections=32, minutes=0.5, lead_s=0.3, command=APP, quiet=True)
    found = bench_flood(setting)["floods"]
    assert set(found) == set(kinds)
    for name, one in found.items():
        assert one["audio_s"] > 5.0 and one["silence_ms"] < STARVED_MS, (name, one)
        assert one["health_p99_ms"] < STARVED_MS, (name, one)
    assert found["/rate"]["answers"]["200"] > 50, "pages are delayed, not refused"


def test_figures_of_a_voice_under_every_flood() -> None:
    found = bench_flood(FloodSetting(quiet=True))
    assert set(found["floods"]) == set(HTTP_FLOODS) and found["failures"] == []
