"""No request delays speech: an utterance is heard without a pause while others flood the server with requests."""

import os

import pytest
from durability.harness.silence import HTTP_FLOODS, FloodSetting, bench_flood

pytestmark = pytest.mark.alone
TEXT = "Speech flows from words as they arrive, and it plays while the rest of them is typed."
# These differ from another flood by their addresses or number of connections.
SIMILAR = {"level and pitch", "/rate, 16 connections", "all pages", "lists of voices", "unknown addresses"}
KINDS = set(HTTP_FLOODS) - (set() if os.environ.get("STUDIO_ALL_CASES") else SIMILAR)


def test_figures_of_a_voice_under_every_flood() -> None:
    found = bench_flood(FloodSetting(text=TEXT, kinds=[*KINDS], quiet=True))
    assert set(found["floods"]) == KINDS and found["failures"] == []
    assert found["floods"]["/rate"]["answers"]["200"] > 50, "pages are delayed, not refused"
