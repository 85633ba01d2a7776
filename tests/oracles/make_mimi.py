"""Make the references of ``mimi/`` with Kyutai's own code: a tiny random Mimi, and the names of the published one.

    python tests/oracles/make_mimi.py

The package ``moshi`` pins other releases than the studio needs, so it gets a folder of its own and takes torch, numpy,
einops and safetensors from the studio's environment:

    pip install --no-deps --target FOLDER moshi==0.2.13 "sphn<0.3" "sentencepiece<0.3" "huggingface-hub<1"
    PYTHONPATH=FOLDER NO_TORCH_COMPILE=1 python tests/oracles/make_mimi.py

Files: ``tiny.json`` (sizes, as in ``MimiConfig``), ``tiny.safetensors`` (weights under the published names),
``reference.safetensors`` (codes, samples, codes of samples) and ``published.json`` (names and shapes at full size).
"""

import json
from pathlib import Path
from typing import Any

import torch
from moshi.models import loaders
from moshi.models.compression import MimiModel
from safetensors.torch import save_file
from torch import Tensor

FOLDER = Path(__file__).with_name("mimi")
TINY: dict[str, Any] = {
    "channels": 6,
    "frame_samples": 24,
    "sample_rate_hz": 24_000,
    "codebook_size": 16,
    "codebook_width": 8,
    "width": 16,
    "filters": 4,
    "ratios": [4, 3],
    "kernel": 7,
    "residual_kernel": 3,
    "last_kernel": 3,
    "layers": 2,
    "heads": 2,
    "feed_width": 24,
    "window_tokens": 16,
    "rotary_base": 10_000.0,
}
FRAMES, RESTART = 30, 3
# The published file has the names of an earlier release, which this one still reads.
PUBLISHED = {".in_projs.0.weight": ".in_proj_weight", ".out_projs.0.weight": ".out_proj.weight"}


def build(c: dict[str, Any]) -> MimiModel:
    """Kyutai's model of these sizes, with untrained weights."""
    seanet = loaders._seanet_kwargs | {
        "dimension": c["width"],
        "n_filters": c["filters"],
        "ratios": c["ratios"],
        "kernel_size": c["kernel"],
        "residual_kernel_size": c["residual_kernel"],
        "last_kernel_size": c["last_kernel"],
    }
    quantizer = {"dimension": c["codebook_width"], "n_q": c["channels"], "bins": c["codebook_size"]}
    transformer = loaders._transformer_kwargs | {
        "d_model": c["width"],
        "num_heads": c["heads"],
        "num_layers": c["layers"],
        "context": c["window_tokens"],
        "max_period": c["rotary_base"],
        "dim_feedforward": c["feed_width"],
        "input_dimension": c["width"],
        "output_dimensions": [c["width"]],
    }
    config = {
        "sample_rate": c["sample_rate_hz"],
        "channels": 1,
        "frame_rate": c["sample_rate_hz"] / c["frame_samples"],
        "seanet": seanet,
        "quantizer": quantizer | {"input_dimension": c["width"], "output_dimension": c["width"]},
        "transformer": transformer,
    }
    return loaders.get_mimi(None, config, num_codebooks=c["channels"])


def published_name(name: str) -> str:
    """The name of a parameter in the published file."""
    for new, old in PUBLISHED.items():
        name = name.replace(new, old)
    return name


def randomise(model: MimiModel) -> None:
    """Weights with which every part matters, and samples are in [-1, 1]."""
    for name, one in model.state_dict().items():
        if name.endswith("cluster_usage"):
            one.uniform_(0.5, 2)
            one[3] = 0  # a code that was never used
        elif name.endswith("embedding_sum"):
            one.normal_()
            one[3] *= 1e-5
        elif name.endswith("_initialized"):
            one.fill_(1)
        elif name.endswith(".scale"):
            one.uniform_(0.3, 0.9)
        elif "norm" in name:
            one.add_(torch.randn_like(one) * 0.2)
        elif one.ndim == 1:
            one.normal_(std=0.1)
        elif one.ndim == 3:
            one.mul_(1.5)


@torch.no_grad()
def references(model: MimiModel) -> dict[str, Tensor]:
    """Codes [B, K, T] and their samples [B, T], at once and streaming; sound and its codes."""
    codes = torch.randint(model.cardinality, (3, model.num_codebooks, FRAMES))
    whole = model.decode(codes)[:, 0]
    few = model.decode(codes[:, :3])[:, 0]
    streamed = []
    with model.streaming(3):
        for number, frame in enumerate(codes.split(1, dim=2)):
            if number == RESTART:  # the second row begins anew
                model.reset_streaming(torch.tensor([False, True, False]))
            streamed.append(model.decode(frame)[:, 0])
    sound = torch.randn(2, TINY["frame_samples"] * FRAMES).cumsum(1) * 0.02
    found = {"codes": codes, "whole": whole, "few": few, "streamed": torch.cat(streamed, 1)}
    return found | {"sound": sound, "encoded": model.encode(sound[:, None])}


def main() -> None:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    model = build(TINY)
    randomise(model)
    made = references(model)
    peak = float(torch.stack([made[name].abs().max() for name in ("whole", "few", "streamed")]).max())
    last = model.decoder.model[-1].conv.conv
    last.weight.data.mul_(0.7 / peak)
    last.bias.data.mul_(0.7 / peak)
    torch.manual_seed(8)
    made = references(model)
    weights = {published_name(name): one.contiguous() for name, one in model.state_dict().items()}
    save_file(weights, FOLDER / "tiny.safetensors")
    save_file({name: one.contiguous() for name, one in made.items()}, FOLDER / "reference.safetensors")
    (FOLDER / "tiny.json").write_text(json.dumps(TINY, indent=2) + "\n")
    with torch.device("meta"):
        full = loaders.get_mimi(None, device="meta")
    shapes = {published_name(name): list(one.shape) for name, one in full.state_dict().items()}
    lines = ",\n".join(f"  {json.dumps(name)}: {shape}" for name, shape in sorted(shapes.items()))
    (FOLDER / "published.json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
