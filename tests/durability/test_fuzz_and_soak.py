"""Short fuzzing and soaking runs, and their reports of planted faults."""

import sys
from pathlib import Path
from typing import Any

import pytest
from durability.harness.floods import FLOODS
from durability.harness.fuzz import FuzzSetting, bench_fuzz
from durability.harness.fuzz_entry_points import DOORS
from durability.harness.fuzz_targets import Outcome
from durability.harness.served import Resources
from durability.harness.soak import SoakSetting, _failures, _figures, _Heard, _Sample, bench_soak
from durability.harness.target import Routes

APP = (sys.executable, str(Path(__file__).parent / "harness" / "fake_app.py"))


@pytest.mark.timeout(900)  # on a busy machine
def test_fuzzing_finds_no_failure() -> None:
    setting = FuzzSetting(requests=400, flood_s=0.3, settle_s=3.0, command=APP, quiet=True)
    found = bench_fuzz(setting)
    # In so short a time pools still fill, and a busy machine is slow.
    passing = [line for line in found["failures"] if line.endswith(" before") or "came back after" in line]
    assert [line for line in found["failures"] if line not in passing] == []
    assert len(found["doors"]) == len(DOORS) and all(one["sent"] >= 20 for one in found["doors"])
    assert set(found["floods"]) == {kind.__name__ for kind in FLOODS}
    assert found["requests"] > 300 and found["health_ms"]["n"] > 0


def test_planted_faults_are_found() -> None:
    """A message that fails inside the server, and slots that are not released."""
    setting = FuzzSetting(
        routes=Routes({}, []), targets=["speak_socket"], requests=2000, flood_s=0.0, settle_s=2.0,
        command=[*APP, "--plant", "mistakes"], quiet=True,
    )  # fmt: skip
    said = "; ".join(bench_fuzz(setting)["failures"])
    for part in ("ZeroDivisionError", "slots are lost", "not freed"):
        assert part in said


def test_forbidden_answers() -> None:
    outcome = Outcome("a door")
    for status in (200, 404, 429, 501, 503, 0):
        outcome.took(status, "GET /x")
    assert (outcome.sent, outcome.wrongs) == (6, 0)
    for status in (500, 502, -1):
        outcome.took(status, "GET /x", "said \ud800")
    assert outcome.wrongs == 3 and outcome.wrong[0].startswith("'500 to GET /x")


def test_ordinary_use_leaks_nothing(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("One two three.\n")
    setting = SoakSetting(texts=texts, minutes=0.1, visitors=1, every_s=0.3, wpm=2000.0, command=APP, quiet=True)
    found = bench_soak(setting)
    passing = [line for line in found["failures"] if line.endswith(" at first")]  # pools still fill in so short a time
    assert [line for line in found["failures"] if line not in passing] == []
    assert found["utterances"] > 3 and found["answers"] > 0 and found["visits"]["200"] > 0
    assert all(one["children_mib"] >= 0 for one in found["over_time"]) and len(found["over_time"]) > 1


def soaked(**grows: float) -> list[str]:
    """The report of 600 utterances after which something has grown by so much."""

    def held(share: float) -> Resources:
        most = {"threads": 15.0, "descriptors": 40.0, "memory_mib": 950.0}
        now: dict[str, Any] = {name: value + share * grows.get(name, 0.0) for name, value in most.items()}
        return Resources(int(now["threads"]), int(now["descriptors"]), now["memory_mib"], 4)

    samples = [_Sample(float(n), n, held(n / 600.0)) for n in range(600)]
    heard = _Heard(utterances=600)
    figures = _figures(SoakSetting(), heard, samples, [1.0]) | {"log": [], "answers": 1}
    return _failures(figures, heard)


def test_growth_is_reported() -> None:
    assert soaked() == soaked(memory_mib=0.5) == []
    assert "MiB more for every 1,000" in soaked(memory_mib=2.0)[0]
    assert "threads towards the end" in soaked(threads=10.0)[0]
    assert "descriptors towards the end" in soaked(descriptors=10.0)[0]
