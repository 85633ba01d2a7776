"""The same decoder exported to ONNX and run by ONNX Runtime: what an exported graph would make of a step."""

import io
import time
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from studio.bench.speed.generate import Stock
from studio.engine.alphabets.dmel import CHANNELS, LEVELS
from studio.engine.nets.transformer import Block, Decoder, DecoderConfig, rotary, rotate

_TRIES = 3
NOTE = "random weights of the same sizes; one graph draws a frame, its keys and values are written where they belong"


class _Frame(nn.Module):
    """One frame of one row: the decoder, a level of each channel, and what the next frame is made of."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.width, CHANNELS * LEVELS)
        self.table = nn.Parameter(torch.randn(CHANNELS * LEVELS, config.width))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, noise: Tensor, keys: Tensor, values: Tensor) -> Any:
        """x [1, 1, D], angles [1, D / 2H], noise [C, levels], keys and values [L, 1, H, T, D / H].

        Answers levels [C], the next x, and this frame's keys and values [L, 1, H, 1, D / H].
        """
        found = []
        for block, k_before, v_before in zip(self.decoder.layers(), keys, values, strict=True):
            q, k, v = self._project(block, x, cos, sin)
            found.append((k, v))
            k, v = torch.cat((k_before, k), 2), torch.cat((v_before, v), 2)
            scores = q @ k.transpose(-1, -2) / block.head_width**0.5
            x = block.mix(x, scores.softmax(-1) @ v)
            x = x + block.down(block.up(_normed(x, block.norm_feed)).relu().square())
        logits = self.head(_normed(x, self.decoder.norm)).view(CHANNELS, LEVELS)
        levels = (logits + noise).argmax(-1)
        rows = self.table[levels + LEVELS * torch.arange(CHANNELS)]
        return levels, rows.sum(0).view(1, 1, -1), *(torch.stack(each) for each in zip(*found, strict=True))

    def _project(self, block: Block, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        parts = block.qkv(_normed(x, block.norm_attention)).view(1, 1, 3, block.heads, block.head_width)
        q, k, v = (one.transpose(1, 2) for one in parts.unbind(2))
        return rotate(_normed(q, block.norm_query), cos, sin), rotate(_normed(k, block.norm_key), cos, sin), v


def _normed(x: Tensor, norm: Any) -> Tensor:
    """What RMSNorm does, in operations that every exporter knows."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(torch.float32).eps) * norm.weight


def exported_step(stock: Stock, contexts: Sequence[int], steps: int) -> dict[str, Any]:
    """Time a frame at each context, on one thread; ``left_out`` says why where it cannot be done."""
    if stock.device.type != "cpu":
        return {"left_out": "the exported step is measured on a CPU"}
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        return {"left_out": "onnx and onnxruntime are not installed: pip install 'streaming-tts-studio[train]'"}
    import onnxruntime

    config = DecoderConfig(stock.layers, stock.width, stock.heads, stock.hidden)
    net = _Frame(config).eval()
    runs = [{"context": context, "ms": _timed(net, config, context, steps)} for context in contexts]
    return {"version": onnxruntime.__version__, "note": NOTE, "runs": runs}


def _timed(net: _Frame, config: DecoderConfig, context: int, steps: int) -> float:
    """Milliseconds a frame, the best of a few tries."""
    import onnxruntime

    kept = (config.layers, 1, config.heads, context, config.head_width)
    keys, values = (np.random.default_rng(seed).standard_normal(kept, np.float32) for seed in (0, 1))
    cos, sin = (one.numpy() for one in rotary(torch.tensor([context]), config.head_width, config.rotary_base))
    noise = np.random.default_rng(2).gumbel(size=(CHANNELS, LEVELS)).astype(np.float32)
    fed = {"x": np.zeros((1, 1, config.width), np.float32), "cos": cos, "sin": sin, "noise": noise}
    fed |= {"keys": keys, "values": values}
    graph: Any = io.BytesIO()  # which the exporter takes, whatever its signature says
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the exporter's age: its graph needs no package of its own
        torch.onnx.export(net, tuple(map(torch.from_numpy, fed.values())), graph, input_names=[*fed], dynamo=False)
    asked = onnxruntime.SessionOptions()
    asked.intra_op_num_threads = asked.inter_op_num_threads = 1
    session: Any = onnxruntime.InferenceSession(graph.getvalue(), asked, ["CPUExecutionProvider"])

    def run(count: int) -> float:
        began_s = time.perf_counter()
        for step in range(count):
            _, fed["x"], k, v = session.run(None, fed)
            keys[:, :, :, step % context], values[:, :, :, step % context] = k[:, :, :, 0], v[:, :, :, 0]
        return (time.perf_counter() - began_s) * 1000.0 / count

    run(3)
    return min(run(steps) for _ in range(_TRIES))
