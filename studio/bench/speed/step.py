"""Step time by batch and context, beside the memory-bandwidth floor of this machine.

A step reads every weight once and each row's KV cache once. The floor is those bytes over the bandwidth that a copy
reaches in the same run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import numpy as np
import torch
from rich.progress import Progress

from studio.bench.settings import StepSetting
from studio.bench.speed.device import copy_bandwidth, seconds
from studio.bench.speed.step_baselines import Stock, bench_pool, stock_loop
from studio.bench.speed.step_baselines import show as show_pool
from studio.core.errors import BadOption
from studio.core.options import default_options
from studio.core.terminal import print_line
from studio.engine.families.base import Row
from studio.engine.families.speakstream.policy import SegmentPrefill
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import RowwiseLinear
from studio.engine.voices import Voice
from studio.measure.latency import percentiles
from studio.measure.report import no_bar, print_table

_WORDS = "several ordinary words that a voice may speak for a while without coming to an end".split()


def bench_step(setting: StepSetting) -> dict[str, Any]:
    """Step times by context and batch size, the copy bandwidth, the gain of batching, and a stock loop's times.

    Raises:
        BadOption: the voice is not a SpeakStream voice, whose prefill sets the context.
    """
    torch.set_num_threads(setting.threads)
    with Progress(disable=no_bar(setting.quiet), transient=True) as progress, torch.inference_mode():
        bar = progress.add_task("steps", total=len(setting.contexts) * len(setting.rows) + 2)
        voice = setting.subject.loaded(max(setting.pooled, *setting.rows))
        bandwidth = copy_bandwidth(voice.device)
        runs = []
        for context in setting.contexts:
            for rows in setting.rows:
                runs.append(_timed(voice, rows, context, setting) | {"bytes_per_s": bandwidth})
                progress.advance(bar)
        pool = bench_pool(voice, setting.pooled, setting.steps, setting.warm)
        progress.advance(bar)
        stock = stock_loop(Stock.of(voice), setting.contexts, setting.steps) if setting.stock else None
        progress.advance(bar)
    rows = [_with_floors(run, _alone(runs, run["context"])) for run in runs]
    out = setting.subject.about() | {"bandwidth_gb_s": bandwidth / 1e9, "steps": setting.steps}
    return out | {"runs": rows, "pool": pool, "stock": stock}


def _timed(voice: Voice, rows: int, context: int, setting: StepSetting) -> dict[str, Any]:
    opened = [_at_context(voice, context, seed) for seed in range(rows)]
    slots = [row.slots for row in opened]
    module_name, inputs = _next(opened)
    module, device = voice.family.modules[module_name], voice.device
    vocode, frames = voice.vocode, [np.zeros((1, *_frame(voice).shape), _frame(voice).dtype)] * rows
    decode_ms, vocode_ms = [], []
    for _ in range(setting.warm + setting.steps):
        decode_ms.append(1000.0 * seconds(lambda: _in_batches(module, voice.family.slots, slots, inputs), device))
        vocode_ms.append(1000.0 * seconds(lambda: _in_batches(vocode, vocode.slots, slots, frames), device))
    for row in opened:
        voice.release(row)
    keys = _kv_cache(voice.family.slots)
    per_token = sum(2 * one.shape[1] * one.shape[3] * one.element_size() for one in keys.keys)
    return {
        "rows": rows,
        "context": context,
        "module": module_name,
        "decode_ms": percentiles(decode_ms[setting.warm :]),
        "vocode_ms": percentiles(vocode_ms[setting.warm :]),
        "decode_bytes": weight_bytes(module) + rows * context * per_token,
        "vocode_bytes": weight_bytes(vocode),
    }


def _alone(runs: Sequence[Mapping[str, Any]], context: int) -> Mapping[str, Any] | None:
    """The run of one row with this context, if any."""
    return next((run for run in runs if (run["rows"], run["context"]) == (1, context)), None)


def _with_floors(run: Mapping[str, Any], alone: Mapping[str, Any] | None) -> dict[str, Any]:
    """A run with its floors, the share of bandwidth reached, and its gain over single rows."""
    figures = dict(run)
    bandwidth = figures.pop("bytes_per_s")
    for name in ("decode", "vocode"):
        floor_ms = 1000.0 * figures[f"{name}_bytes"] / bandwidth
        figures[f"{name}_floor_ms"] = floor_ms
        figures[f"{name}_of_bandwidth"] = floor_ms / figures[f"{name}_ms"]["p50"]
    if alone is not None:
        figures["decode_gain"] = run["rows"] * alone["decode_ms"]["p50"] / run["decode_ms"]["p50"]
        figures["gain"] = run["rows"] * _both_ms(alone) / _both_ms(run)
    return figures


def _both_ms(run: Mapping[str, Any]) -> float:
    return run["decode_ms"]["p50"] + run["vocode_ms"]["p50"]


def _in_batches(module: Any, state: Any, slots: Sequence[tuple[int, ...]], inputs: Sequence[Any]) -> None:
    """Run a module as the scheduler does."""
    for first in range(0, len(slots), module.max_rows):
        last = first + module.max_rows
        module.run(state, slots[first:last], inputs[first:last])


def _at_context(voice: Voice, context: int, seed: int) -> Row:
    """A row with ``context`` tokens in its KV cache: its prefill, padded with frames."""
    row = voice.open(seed % len(voice.card.speakers), default_options(voice.card.options), voice.card.temperature, seed)
    row.commit(_WORDS)
    next_input = row.next_input()
    assert next_input is not None, "too few words"
    if not isinstance(first := next_input.inputs, SegmentPrefill):
        raise BadOption(f"cannot set a context for the family {voice.card.family}", "choose a SpeakStream voice")
    own = first.segments[-1]
    missing = max(0, context - (first.tokens - len(own.frames)))
    frames = np.resize(_frame(voice), (missing, *_frame(voice).shape))
    inputs = replace(first, segments=[*first.segments[:-1], replace(own, frames=frames)])
    (output,) = voice.family.modules[next_input.module].run(voice.family.slots, [row.slots], [inputs])
    row.on_output(output)
    return row


def _frame(voice: Voice) -> np.ndarray:
    return voice.family.prompt(0)[0]


def _next(rows: Sequence[Row]) -> tuple[str, list[Any]]:
    """The module that all rows run after their prefill, and its inputs."""
    module_inputs = [row.next_input() for row in rows]
    modules = {next_input.module for next_input in module_inputs if next_input is not None}
    assert len(modules) == 1 and None not in module_inputs, "the rows differ"
    return modules.pop(), [next_input.inputs for next_input in module_inputs if next_input is not None]


def weight_bytes(net: Any) -> int:
    """Bytes of weights that a run reads: of the compiled kernels, or else of every product and plain module."""
    if panels := [*_instances(net, PanelLinear, set())]:
        return sum(one.weight_bytes for one in panels)
    products = [*_instances(net, RowwiseLinear, set())]
    held = {id(product) for product in products}
    total = sum(t.numel() * t.element_size() for product in products for t in product.buffers())
    if isinstance(net, torch.nn.Module):
        inside = {id(p) for module in net.modules() if id(module) in held for p in module.parameters()}
        total += sum(p.numel() * p.element_size() for p in net.parameters() if id(p) not in inside)
    return total


def _kv_cache(slots: Any) -> KVCache:
    cache = next(_instances(slots, KVCache, set()), None)
    if cache is None:
        raise BadOption("this family has no KV cache", "choose a SpeakStream voice")
    return cache


def _instances(tree: Any, kind: type, seen: set[int]) -> Iterator[Any]:
    """Every object of a type within a tree of this package's objects."""
    if isinstance(tree, MethodType):
        tree = tree.__self__
    if isinstance(tree, Mapping):
        tree = [*tree.values()]
    if isinstance(tree, list | tuple):
        for one in tree:
            yield from _instances(one, kind, seen)
    elif id(tree) not in seen and type(tree).__module__.startswith(("studio.", "torch.nn")):
        seen.add(id(tree))
        if isinstance(tree, kind):
            yield tree
        else:
            yield from _instances([*vars(tree).values()], kind, seen)


def show(out: Mapping[str, Any]) -> None:
    rows = [
        [
            f"{run['context']} tokens",
            run["rows"],
            *(f"{run['decode_ms'][point]:.2f}" for point in ("p50", "iqr")),
            f"{run['decode_floor_ms']:.3f}",
            f"{100 * run['decode_of_bandwidth']:.0f}%",
            *(f"{run['vocode_ms'][point]:.2f}" for point in ("p50", "iqr")),
            f"{_both_ms(run):.2f}",
            *(f"{run[name]:.1f}x" if name in run else None for name in ("decode_gain", "gain")),
        ]
        for run in out["runs"]
    ]
    columns = ("context", "rows", "decode", "IQR", "floor", "of bandwidth", "vocoder", "IQR", "both", "gain", "of both")
    title = (
        f"A step of {out['voice']} ({out['weights']} weights, {out['vocoder']}) on {out['device']}, "
        f"{out['threads']} threads, ms; a copy reaches {out['bandwidth_gb_s']:.1f} GB/s"
    )
    floor = "floor: weights once and each row's KV cache once, at that bandwidth"
    gain = "gain: over single rows, of the decode and of both"
    print_table(title, columns, rows, f"{floor}; {gain}")
    if pool := out.get("pool"):
        show_pool(pool)
    if (stock := out["stock"]) and "left_out" in stock:
        print_line(stock["left_out"], err=True)
    elif stock:
        about = f"transformers {stock['version']}, {stock['model']}, static cache"
        _show_beside(out, stock, f"The same decoder in a stock generate loop ({about})", "stock, ms a token")


def _show_beside(out: Mapping[str, Any], other: Mapping[str, Any], title: str, column: str) -> None:
    """A single row's step time beside another implementation's."""
    ours = {run["context"]: run["decode_ms"]["p50"] for run in out["runs"] if run["rows"] == 1}
    rows = []
    for one in other["runs"]:
        if mine := ours.get(one["context"]):
            times = [f"{mine:.2f}", f"{one['ms']:.2f}", f"{one['ms'] / mine:.1f}x"]
            rows.append([f"{one['context']} tokens", *times])
    print_table(title, ("context", "ours, ms a frame", column, "ratio"), rows, other["note"])
