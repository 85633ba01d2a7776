"""The page's bench drives the real page; on tones here, so that no figure is asserted but that there is one."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def test_bench_takes_the_latency_apart(chromium: Any) -> None:
    app = shlex.join([sys.executable, str(ROOT / "tests" / "fakes.py")])
    command = [sys.executable, "-m", "studio.bench.page", "--command", app]
    command += ["-n", "1", "--wpm", "240", "--long-words", "0", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120.0, check=True)
    out = json.loads(done.stdout)
    assert (out["n"], out["m"]) == (1, 3)
    parts = ("t2_t0_ms", "lead_in_ms", "page_ms")
    assert abs(out["t6_key_ms"]["p50"] - sum(out[part]["p50"] for part in parts)) < 1e-6
    assert all(out[part]["p50"] >= 0.0 for part in parts)
