"""``studio bench gpu`` and ``studio bench host``: on a CPU, by Triton's interpreter; and on a bare machine."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import engine.nets.interpreted  # noqa: F401 - before the kernels
import pytest
import torch

from studio.bench.settings import HostSetting
from studio.bench.speed import gpu, gpu_checks, host

ABSENT = ("gradio", "fastapi", "starlette", "pydantic", "sqlmodel", "typer", "safetensors", "torchaudio", "plotly")


def test_the_bench_needs_torch_triton_numba_numpy_and_rich_only() -> None:
    code = f"import sys; sys.modules.update(dict.fromkeys({ABSENT!r})); import studio.bench.speed.gpu"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_every_part_is_in_one_json(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"_WARM_STEPS": 1, "_TIMED_STEPS": 2, "_LOAD_FRAMES": 2, "_NEWCOMERS": 1, "CONTEXT_TOKENS": 8}
    for name, value in small.items():
        monkeypatch.setattr(gpu, name, value)
    monkeypatch.setattr(gpu, "_prepare", lambda voice: None)
    monkeypatch.setattr(gpu, "stock_loop", lambda *_: {"left_out": "slow here"})
    monkeypatch.setattr(
        gpu_checks, "all_checks", lambda _: [{"what": "a", "error": 0.5, "limit": 0.1, "passed": False}]
    )
    out = gpu.run_gpu_bench(torch.device("cpu"), (2,), ("tiny",), ("sourcefilter",))
    assert json.loads(json.dumps(out)) == out
    assert [one["rows"] for one in out["steps"]] == [2]
    assert all(one["decode_ms"]["p50"] > 0.0 < one["floor_ms"] for one in out["steps"])
    assert all(one["failed"] == 0 < one["frames_s"] for one in out["load"])
    assert all(one["first_sound_ms"]["p50"] > 0.0 for one in out["load"])
    assert out["memory"][0]["stream_mib"] > 0.0
    assert [one["what"] for one in out["failures"]] == ["a"]
    gpu.show(out)


def test_a_decoder_that_computes_something_else_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_ROWS": 2, "_PREFILL": 3, "_DECODED": 1}.items():
        monkeypatch.setattr(gpu_checks, name, value)
    decoder = gpu_checks._decoders(torch.device("cpu"))[-1][1]
    assert gpu_checks.decoder_error(decoder) < gpu_checks.LIMIT
    run = gpu_checks.CudaDecoder.run

    def wrong(self: Any, *args: Any, **keywords: Any) -> None:
        run(self, *args, **keywords)
        self.x += 1.0

    monkeypatch.setattr(gpu_checks.CudaDecoder, "run", wrong)
    assert gpu_checks.decoder_error(decoder) > gpu_checks.LIMIT


def test_the_host_bench_counts_every_frame() -> None:
    with ThreadPoolExecutor(1) as thread:  # this one may have a loop, that of a browser's tests
        out = thread.submit(host.bench_host, HostSetting(rows=(1, 3), frames=40, quiet=True)).result()
    assert [run["rows"] for run in out["runs"]] == [1, 3]
    for run in out["runs"]:
        assert run["engine_us"] > 0.0 < run["socket_us"]
        assert 1.0 < run["frames_a_chunk"] <= 8.0
    host.show(out)
