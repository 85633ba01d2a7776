"""Step time of Kyutai's language model on a CPU, with random weights, beside Kyutai's own code and the memory floor.

Both run the same number of rows, alternating step by step, so that other load affects both. A step is a
frame of 80 ms: the backbone, a text token, and all codes of the depth transformer, sampled. Kyutai's code holds its
weights in float32 here: it has no kernels for bfloat16 on a CPU without instructions for it. The floor is the weights
that a step of one row reads, at the bandwidth that a copy reaches in the same run.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from studio.bench.settings import KyutaiSetting
from studio.bench.speed.codec import ABSENT, timed
from studio.bench.speed.device import copy_bandwidth
from studio.core.kyutai import STRENGTHS, TIME_BASE, KyutaiSettings
from studio.core.terminal import print_line
from studio.engine.families.kyutai.config import FIXED, KyutaiConfig
from studio.engine.families.kyutai.cpu import CpuKyutaiLM
from studio.engine.families.kyutai.model import KyutaiLM
from studio.engine.families.kyutai.passages import KyutaiSlots
from studio.engine.families.kyutai.policy import PAD, KyutaiInput
from studio.engine.families.kyutai.runner import KyutaiModule
from studio.measure.latency import percentiles
from studio.measure.report import print_table

_CPU = torch.device("cpu")
_WARM = 2
_SPEAKER_VECTORS = 500
_STD = 0.02  # of the weights


def bench_kyutai(setting: KyutaiSetting, config: KyutaiConfig | None = None) -> dict[str, Any]:
    """Milliseconds of a step by number of rows."""
    torch.set_num_threads(setting.threads)
    torch.manual_seed(0)
    config = config or KyutaiConfig(num_layers=setting.layers)
    bandwidth, ours = copy_bandwidth(_CPU), _ours(config)
    speakers = torch.randn(1, _SPEAKER_VECTORS, config.speaker_width)
    theirs = _theirs(config) if find_spec("moshi") is not None else None
    with torch.inference_mode():
        runs = [_run(rows, setting.steps, ours, theirs, speakers) for rows in setting.rows]
    frame_ms = 1000.0 * TIME_BASE.frame_samples / TIME_BASE.rate_hz
    out: dict[str, Any] = {"threads": setting.threads, "steps": setting.steps, "layers": config.num_layers}
    out |= {"frame_ms": frame_ms, "bandwidth_gb_s": bandwidth / 1e9, "runs": runs}
    out |= {"step_bytes": ours.step_bytes, "floor_ms": 1000.0 * ours.step_bytes / bandwidth}
    if theirs is None:
        out["left_out"] = ABSENT
    return out


def _randomise(net: torch.nn.Module) -> None:
    for one in net.parameters():
        one.data.normal_(0.0, _STD)
    net.eval().requires_grad_(False)


def _ours(config: KyutaiConfig) -> CpuKyutaiLM:
    with torch.device("meta"):
        net = KyutaiLM(config)
    net = net.to(torch.bfloat16).to_empty(device="cpu")  # as published
    _randomise(net)
    return CpuKyutaiLM(net)


def _theirs(config: KyutaiConfig) -> Any:
    """Kyutai's model of these sizes; its loader modifies its arguments, so they are built here."""
    look_up = {
        name: {"type": "lut", "lut": {"n_bins": bins, "dim": width, "tokenizer": "noop"}}
        for name, bins, width in (
            ("cfg", config.cfg_values, config.cfg_width),
            ("control", config.control_values, config.control_width),
        )
    }
    values = {**asdict(config), **FIXED, "delays": [*config.delays], "existing_text_padding_id": 3}
    for name in ("speaker_width", "cfg_values", "cfg_width", "control_values", "control_width", "text_card_out"):
        del values[name]
    values["depformer_weights_per_step_schedule"] = [*config.depformer_weights_per_step_schedule]
    values["conditioners"] = {"speaker_wavs": {"type": "tensor", "tensor": {"dim": config.speaker_width}}, **look_up}
    values["fuser"] = {"cross_attention_pos_emb": True, "cross_attention_pos_emb_scale": 1, "prepend": []}
    values["fuser"] |= {"sum": ["control", "cfg"], "cross": ["speaker_wavs"]}
    model = import_module("moshi.models.loaders").get_moshi_lm(None, values, device="cpu", dtype=torch.float32)
    _randomise(model)
    return model


def _conditions(model: Any, speakers: Tensor, rows: int) -> dict[str, Any]:
    kinds = import_module("moshi.conditioners")
    known = torch.ones(rows, 1, dtype=torch.bool)
    inputs = {
        "speaker_wavs": kinds.TensorCondition(speakers.expand(rows, -1, -1), known.expand(-1, speakers.shape[1])),
        **{name: kinds.ConditionType(torch.zeros(rows, 1, dtype=torch.int64), known) for name in ("cfg", "control")},
    }
    return {name: one(inputs[name]) for name, one in model.condition_provider.conditioners.items()}


def _run(rows: int, steps: int, ours: CpuKyutaiLM, theirs: Any, speakers: Tensor) -> dict[str, Any]:
    slots = KyutaiSlots(ours, rows, speakers.shape[1])
    present = torch.ones(1, speakers.shape[1], dtype=torch.bool)
    settings = KyutaiSettings(max(ours.config.delays), 2, STRENGTHS)
    module = KyutaiModule(ours, settings, [(speakers, present)], slots, None)
    ours_ms, theirs_ms, generator = list[float](), list[float](), None
    with ExitStack() as stack:
        if theirs is not None:
            conditions = _conditions(theirs, speakers, rows)
            generator = import_module("moshi.models.lm").LMGen(theirs, temp=0.6, condition_tensors=conditions)
            stack.enter_context(generator.streaming(rows))
        nothing = torch.zeros(rows, ours.config.n_q - ours.config.dep_q, 1, dtype=torch.int64)
        for step in range(_WARM + steps):
            inputs = [KyutaiInput(step, step, True, PAD, PAD, 0, 1.0, 0.6, row) for row in range(rows)]
            timed(ours_ms, lambda inputs=inputs: module.run(slots, [(row,) for row in range(rows)], inputs))
            if generator is not None:
                timed(theirs_ms, lambda: generator.step(nothing))
    run: dict[str, Any] = {"rows": rows, "ours_ms": percentiles(ours_ms[_WARM:])}
    return run if theirs is None else run | {"kyutai_ms": percentiles(theirs_ms[_WARM:])}


def show(out: Mapping[str, Any]) -> None:
    """Print the figures, fresh or read back from bench/results."""
    rows, frame_ms = [], out["frame_ms"]
    for run in out["runs"]:
        ours, theirs = run["ours_ms"], run.get("kyutai_ms")
        row = [run["rows"], *(f"{ours[point]:.0f}" for point in ("p50", "p95", "iqr"))]
        row += [f"{100 * out['floor_ms'] / ours['p50']:.0f}%", f"{ours['p50'] / (run['rows'] * frame_ms):.2f}"]
        row += [f"{theirs['p50']:.0f}", f"{theirs['p50'] / ours['p50']:.1f}x"] if theirs else [None, None]
        rows.append(row)
    columns = ("rows", "ours, ms", "p95", "IQR", "of bandwidth", "rtf", "Kyutai's, ms", "ratio")
    title = f"A step of Kyutai's language model, {out['layers']} layers, random weights, {out['threads']} CPU threads"
    floor = f"floor {out['floor_ms']:.0f} ms: {out['step_bytes'] / 1e9:.1f} GB at {out['bandwidth_gb_s']:.1f} GB/s"
    print_table(title, columns, rows, f"{floor}; rtf is of each row")
    if "left_out" in out:
        print_line(out["left_out"], err=True)
