"""Step time of Mimi's decoder at its true size, with random weights, beside Kyutai's own code and the memory floor.

Both decode the same codes with the same weights in turn, frame by frame, so that other work on the machine delays both.
The floor is the weights once, at the bandwidth that a copy reaches in the same run.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from studio.bench.settings import CodecSetting
from studio.bench.speed.device import copy_bandwidth, seconds
from studio.bench.speed.step import weight_bytes
from studio.core.terminal import print_line
from studio.engine.tokenizers.mimi import Codebook
from studio.engine.vocoders.mimi import Mimi, MimiConfig
from studio.engine.vocoders.mimi_cpu import CpuMimi, MimiArrays
from studio.measure.latency import percentiles
from studio.measure.report import print_table

_CPU = torch.device("cpu")
_WARM = 3
ABSENT = "moshi is not installed: pip install --no-deps --target FOLDER moshi, and PYTHONPATH=FOLDER"


def bench_codec(setting: CodecSetting, config: MimiConfig | None = None) -> dict[str, Any]:
    """Milliseconds of a frame by number of streams, and the relative difference of the samples."""
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    trained = _random_mimi(config or MimiConfig())
    cpu, kyutai = CpuMimi(trained), _kyutai(trained)
    bandwidth, weights = copy_bandwidth(_CPU), weight_bytes(cpu)
    with torch.inference_mode():
        runs = [_run(rows, setting.frames, trained, cpu, kyutai) for rows in setting.rows]
    out: dict[str, Any] = {"threads": setting.threads, "frames": setting.frames, "weight_bytes": weights}
    out |= {"frame_ms": 1000.0 * trained.config.frame_samples / trained.config.sample_rate_hz}
    out |= {"floor_ms": 1000.0 * weights / bandwidth, "bandwidth_gb_s": bandwidth / 1e9, "runs": runs}
    if kyutai is None:
        out["left_out"] = ABSENT
    return out


def _random_mimi(config: MimiConfig) -> Mimi:
    trained = Mimi(config).eval().requires_grad_(False)
    for module in trained.modules():
        if isinstance(module, Codebook):
            module.embedding_sum.normal_()
    return trained


def _kyutai(trained: Mimi) -> Any:
    """Kyutai's model with the same weights; None if its package is absent or the sizes are not the published ones."""
    if find_spec("moshi") is None or trained.config != MimiConfig():
        return None
    model = import_module("moshi.models.loaders").get_mimi(None, num_codebooks=trained.config.channels)
    model.load_state_dict(trained.state_dict())
    return model


def _run(rows: int, frames: int, trained: Mimi, cpu: CpuMimi, kyutai: Any) -> dict[str, Any]:
    c = trained.config
    slots, numbers = MimiArrays(trained.init_state(rows)), np.arange(rows)
    ours_ms, theirs_ms, difference = list[float](), list[float](), 0.0
    with ExitStack() as stack:
        if kyutai is not None:
            stack.enter_context(kyutai.streaming(rows))
        for _ in range(_WARM + frames):
            codes = torch.randint(c.codebook_size, (rows, 1, c.channels))
            pcm = timed(ours_ms, lambda codes=codes: cpu.step(codes.numpy(), slots, numbers))
            if kyutai is not None:
                expected = timed(theirs_ms, lambda codes=codes: kyutai.decode(codes.transpose(1, 2)))[:, 0].numpy()
                difference = float(np.linalg.norm(pcm - expected) / np.linalg.norm(expected))
    run: dict[str, Any] = {"rows": rows, "ours_ms": percentiles(ours_ms[_WARM:])}
    if kyutai is not None:
        run |= {"kyutai_ms": percentiles(theirs_ms[_WARM:]), "difference": difference}
    return run


def timed(times_ms: list[float], work: Callable[[], Any]) -> Any:
    """The result of ``work``, whose time is appended."""
    results = []
    times_ms.append(1000.0 * seconds(lambda: results.append(work()), _CPU))
    return results[0]


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows, frame_ms = [], out["frame_ms"]
    for run in out["runs"]:
        ours, theirs = run["ours_ms"], run.get("kyutai_ms")
        row = [run["rows"], *(f"{ours[point]:.1f}" for point in ("p50", "p95", "iqr"))]
        row += [f"{100 * out['floor_ms'] / ours['p50']:.0f}%", f"{ours['p50'] / (run['rows'] * frame_ms):.3f}"]
        row += [f"{theirs['p50']:.1f}", f"{theirs['p50'] / ours['p50']:.1f}x"] if theirs else [None, None]
        rows.append([*row, f"{run['difference']:.0e}" if theirs else None])
    columns = ("streams", "ours, ms", "p95", "IQR", "of bandwidth", "rtf", "Kyutai's, ms", "ratio", "difference")
    title = f"A frame of {frame_ms:.0f} ms of Mimi's decoder, random weights, {out['threads']} CPU threads"
    note = f"floor {out['floor_ms']:.1f} ms: {out['weight_bytes'] / 1e6:.0f} MB at {out['bandwidth_gb_s']:.1f} GB/s"
    print_table(title, columns, rows, note)
    if "left_out" in out:
        print_line(out["left_out"], err=True)
