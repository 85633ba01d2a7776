"""``studio bench kyutai`` with a tiny model, without Kyutai's package."""

import json

import pytest
from engine.families.kyutai_rows import TINY

from studio.bench.settings import KyutaiSetting
from studio.bench.speed.kyutai import bench_kyutai, show


def test_a_step_is_timed_beside_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    out = bench_kyutai(KyutaiSetting(rows=(1, 3), steps=4), TINY)
    assert [run["rows"] for run in out["runs"]] == [1, 3]
    assert all(run["ours_ms"]["p50"] > 0 for run in out["runs"])
    assert out["floor_ms"] > 0 and "not installed" in out["left_out"]
    json.dumps(out, allow_nan=False)
    show(out)
    printed = capsys.readouterr().out
    assert "A step of Kyutai's language model, 2 layers" in printed and "of bandwidth" in printed
