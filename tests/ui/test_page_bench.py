"""The page's bench drives the real page; on tones here, so that no figure is asserted but that there is one."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studio.bench.page import PageSetting, bench_page

FAKES = Path(__file__).resolve().parents[1] / "fakes.py"


def test_bench_takes_the_latency_apart(launch: Callable[..., Any], tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("One small text to speak.\n")
    command = [sys.executable, str(FAKES)]
    out = bench_page(PageSetting(command=command, texts=texts, n=1, warm=0, wpm=240.0, long_words=0, quiet=True))
    assert out["n"] == 1
    assert out["m"] == 3
    parts = ("t2_t0_ms", "lead_in_ms", "page_ms")
    assert abs(out["t6_key_ms"]["p50"] - sum(out[part]["p50"] for part in parts)) < 1e-6
    assert all(out[part]["p50"] >= 0.0 for part in parts)
