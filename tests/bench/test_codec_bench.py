"""``studio bench codec`` with a tiny Mimi, without Kyutai's package."""

import json

import pytest

from studio.bench.settings import CodecSetting
from studio.bench.speed.codec import bench_codec, show
from studio.engine.vocoders.mimi import MimiConfig


def test_a_frame_is_timed_beside_the_floor(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {"channels": 4, "codebook_size": 8, "codebook_width": 8, "width": 16, "filters": 4, "layers": 1, "heads": 2}
    out = bench_codec(CodecSetting(rows=(1, 3), frames=4), MimiConfig(**sizes, feed_width=16, window_tokens=10))
    assert [run["rows"] for run in out["runs"]] == [1, 3]
    assert all(run["ours_ms"]["p50"] > 0 for run in out["runs"])
    assert out["floor_ms"] > 0 and "not installed" in out["left_out"]
    json.dumps(out, allow_nan=False)
    show(out)
    printed = capsys.readouterr().out
    assert "A frame of 80 ms" in printed and "of bandwidth" in printed
