"""No request delays speech: an utterance is heard without a pause while others flood the server with requests."""

import pytest
from durability.harness.silence import HTTP_FLOODS, FloodSetting, bench_flood

pytestmark = pytest.mark.alone
TEXT = "Speech flows from words as they arrive, and it plays while the rest of them is typed."


def test_figures_of_a_voice_under_every_flood() -> None:
    found = bench_flood(FloodSetting(text=TEXT, quiet=True))
    assert set(found["floods"]) == set(HTTP_FLOODS) and found["failures"] == []
    assert found["floods"]["/rate"]["answers"]["200"] > 50, "pages are delayed, not refused"
