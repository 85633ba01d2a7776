"""The CUDA form on this machine's GPU: checks against the reference, step times, load, memory. One JSON in minutes.

``python -m studio.bench.speed.gpu`` runs where only torch, Triton, numba, numpy and rich are installed.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studio.bench.speed.device import copy_bandwidth, seconds, settle
from studio.bench.speed.random_voice import random_card, random_voice
from studio.bench.speed.step_baselines import LateClock, Stock, begin_request, stock_loop
from studio.core.time import MonotonicClock
from studio.engine.nets.cuda.device import check_gpu, free_bytes, tensor_bytes
from studio.engine.nets.cuda.graphs import padded_rows
from studio.engine.scheduler import Scheduler
from studio.engine.voices import Voice, pick_device
from studio.measure.latency import percentiles
from studio.measure.report import print_table

CONTEXT_TOKENS = 500  # in each KV slot of the step table
FRAME_MS = 25.0
_WARM_STEPS, _TIMED_STEPS = 5, 30
_LOAD_FRAMES, _NEWCOMERS = 24, 20


def run_gpu_bench(
    device: torch.device,
    rows: Sequence[int] = (1, 8, 64, 512),
    sizes: Sequence[str] = ("paper", "small"),
    vocoders: Sequence[str] = ("vocstream", "sourcefilter"),
    report: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Everything; ``report`` receives the name of each part.

    Raises NeedsPackage: the GPU cannot run the CUDA form.
    """
    from studio.bench.speed import gpu_checks  # imports Triton

    if device.type == "cuda":
        check_gpu()
    began_s = time.perf_counter()
    bandwidth = copy_bandwidth(device)
    out: dict[str, Any] = {"device": _about(device) | {"copy_gb_s": bandwidth / 1e9}}
    with torch.inference_mode():
        report("checks against the reference")
        out["checks"] = gpu_checks.all_checks(device)
        out["steps"], out["load"] = [], []
        for size in sizes:
            for vocoder in vocoders:
                report(f"steps and load: {size}, {vocoder}")
                voice = _voice(size, vocoder, device, max(rows))
                began_capture_s = time.perf_counter()
                _prepare(voice)
                out.setdefault("capture_s", {})[f"{size} {vocoder}"] = time.perf_counter() - began_capture_s
                about = {"size": size, "vocoder": vocoder}
                out["steps"] += [about | _step(voice, count, bandwidth) for count in rows]
                out["load"] += [about | _load(voice, count) for count in rows]
                out.setdefault("memory", []).append(about | _memory(voice))
                if vocoder == vocoders[0]:
                    out.setdefault("stock", {})[size] = stock_loop(Stock.of(voice), [CONTEXT_TOKENS], _TIMED_STEPS)
                del voice
                _free(device)
    out["seconds"] = time.perf_counter() - began_s
    out["failures"] = [one for one in out["checks"] if not one["passed"]]
    return out


def bench_gpu(setting: Any) -> dict[str, Any]:
    """``run_gpu_bench`` with the parameters of the command. Raises NeedsPackage, BadOption."""
    return run_gpu_bench(pick_device(setting.device), setting.rows, setting.size)


def _free(device: torch.device) -> None:
    """Free a voice's memory; the collector is needed because steps and modules refer to each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _about(device: torch.device) -> dict[str, Any]:
    import triton

    about: dict[str, Any] = {"torch": torch.__version__, "triton": triton.__version__, "type": device.type}
    if device.type == "cuda":
        about |= {
            "name": torch.cuda.get_device_name(device),
            "capability": ".".join(map(str, torch.cuda.get_device_capability(device))),
            "memory_gib": torch.cuda.mem_get_info(device)[1] / 2**30,
        }
    return about


def _voice(size: str, vocoder: str, device: torch.device, rows: int) -> Voice:
    return random_voice(random_card(size, vocoder), Path(), device, rows, form="cuda")


def _prepare(voice: Voice) -> None:
    from rich.progress import Progress

    with Progress(transient=True) as progress:
        voice.prepare(progress)


def _step(voice: Voice, rows: int, bandwidth: float) -> dict[str, Any]:
    """Milliseconds of a decode step and a vocoder step of ``rows`` rows, each with CONTEXT_TOKENS cached tokens."""
    module: Any = voice.family.modules["decode"]
    slots, cache = voice.family.slots, voice.family.slots.cache
    numbers = [(slot,) for slot in range(rows)]
    decode_ms, vocode_ms = [], []
    frames = [np.zeros_like(voice.family.prompt(0)[:1])] * rows
    for _ in range(_WARM_STEPS + _TIMED_STEPS):
        cache.start[:], cache.length[:] = 0, CONTEXT_TOKENS
        decode_ms.append(1000.0 * seconds(lambda: module.run(slots, numbers, [None] * rows), voice.device))
        vocode_ms.append(1000.0 * seconds(lambda: voice.vocode.run(voice.vocode.slots, numbers, frames), voice.device))
    device_ms = 1000.0 * seconds(lambda: _launch_steps(module, rows), voice.device) / _TIMED_STEPS
    keys = cache.keys[0]
    kv_bytes = 2 * len(cache.keys) * keys.shape[1] * keys.shape[3] * keys.element_size() * CONTEXT_TOKENS
    floor_ms = 1000.0 * (tensor_bytes(module.step.weights) + rows * kv_bytes) / bandwidth
    decode = percentiles(decode_ms[_WARM_STEPS:])
    return {
        "rows": rows,
        "decode_ms": decode,
        "decode_device_ms": device_ms,
        "vocode_ms": percentiles(vocode_ms[_WARM_STEPS:]),
        "floor_ms": floor_ms,
        "of_bandwidth": floor_ms / device_ms,
    }


def _launch_steps(module: Any, rows: int) -> None:
    """Decode steps without host work between them; positions increase, within the slots' capacity."""
    for _ in range(_TIMED_STEPS):
        module.step.launch(padded_rows(rows))


def _load(voice: Voice, rows: int) -> dict[str, Any]:
    """Frames a second of ``rows`` concurrent utterances, host included, and the first sound of a newcomer."""
    samples, clock = voice.card.frame_samples, LateClock()
    requests = [begin_request(voice, seed, _LOAD_FRAMES * samples) for seed in range(rows)]
    scheduler = Scheduler(clock)
    while any(one.samples == 0 and not one.done for one in requests):
        scheduler.step(requests)
    samples_before, began_s, steps_ms = sum(one.samples for one in requests), time.perf_counter(), list[float]()
    while any(one.samples < _LOAD_FRAMES * samples and not one.done for one in requests):
        at_s = time.perf_counter()
        if not scheduler.step([one for one in requests if not one.done]):
            break
        steps_ms.append(1000.0 * (time.perf_counter() - at_s))
    took_s = time.perf_counter() - began_s
    frames = (sum(one.samples for one in requests) - samples_before) // samples
    failed = sum(one.failed for one in requests)
    for one in requests:
        one.cancel()
    scheduler.step(requests)
    requests.clear()  # frees their revision points as well
    figures = {
        "rows": rows,
        "frames_s": frames / took_s,
        "streams": frames / took_s * FRAME_MS / 1000.0,
        "step_ms": percentiles(steps_ms),
        "failed": failed,
    }
    first_ms = _first_sounds(voice, max(0, int(0.8 * rows) - 1))
    return figures | {"first_sound_ms": percentiles(first_ms) | {"p99": float(np.percentile(first_ms, 99))}}


def _first_sounds(voice: Voice, others: int) -> list[float]:
    """Milliseconds from a whole text to the first sound, while ``others`` speak."""
    samples, clock = voice.card.frame_samples, MonotonicClock()
    running = [begin_request(voice, seed, 10_000 * samples) for seed in range(others)]
    scheduler, times_ms = Scheduler(clock), list[float]()
    while any(one.samples == 0 and not one.done for one in running):
        scheduler.step(running)
    for seed in range(_NEWCOMERS):
        settle(voice.device)
        began_s = time.perf_counter()
        newcomer = begin_request(voice, others + seed, samples)
        while newcomer.samples == 0 and not newcomer.done:
            scheduler.step([*running, newcomer])
        times_ms.append(1000.0 * (time.perf_counter() - began_s))
        newcomer.cancel()
        scheduler.step([*running, newcomer])
    for one in running:
        one.cancel()
    scheduler.step(running)
    return times_ms


def _memory(voice: Voice) -> dict[str, Any]:
    """Bytes of weights and of a stream, and how many streams fit."""
    slot_bytes = voice.slot_bytes()
    plan = {"stream_mib": slot_bytes / 2**20, "set_up": len(voice.free_slots)}
    if voice.device.type == "cuda":
        plan["streams"] = len(voice.free_slots) + int(0.9 * free_bytes(voice.device) / slot_bytes)
    return plan


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    device = out["device"]
    checks = [[one["what"], f"{one['error']:.2g}", one["limit"], one["passed"]] for one in out["checks"]]
    print_table(f"Checks on {device.get('name', device['type'])}", ("check", "error", "limit", "passed"), checks, "")
    rows = [
        [
            f"{one['size']}, {one['vocoder']}",
            one["rows"],
            f"{one['decode_ms']['p50']:.2f}",
            f"{one['decode_device_ms']:.2f}",
            f"{one['floor_ms']:.2f}",
            f"{100 * one['of_bandwidth']:.0f}%",
            f"{one['vocode_ms']['p50']:.2f}",
            f"{load['streams']:.0f}",
            f"{load['first_sound_ms']['p50']:.1f}",
            f"{load['first_sound_ms']['p99']:.1f}",
        ]
        for one, load in zip(out["steps"], out["load"], strict=True)
    ]
    columns = (
        "voice",
        "rows",
        "decode",
        "device alone",
        "floor",
        "of copy",
        "vocoder",
        "streams",
        "first sound p50",
        "p99",
    )
    print_table(
        f"A step, ms, {CONTEXT_TOKENS} tokens held; a copy reaches {device['copy_gb_s']:.0f} GB/s",
        columns,
        rows,
        "streams: frames a second, host included, over 40; first sound: among 80% of the rows, prefill included",
    )


def main() -> None:
    """Run everything and write one JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 64, 512])
    parser.add_argument("--size", nargs="*", default=["paper", "small"])
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    out = run_gpu_bench(device, arguments.rows, arguments.size)
    arguments.out.write_text(json.dumps(out, indent=1), encoding="utf-8")
    show(out)
    raise SystemExit(bool(out["failures"]))


if __name__ == "__main__":
    main()
