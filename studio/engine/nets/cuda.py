"""A decoder's step on a GPU: one token of each row in one batch, and steps captured as CUDA graphs.

A step reads no number back from the device, and for a given number of rows and attention span every shape is the same.
So it can be captured as a CUDA graph, one launch for hundreds of kernels. Graphs are off unless STUDIO_GRAPHS=1 is set.
"""

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.nets.folded import FoldedLayer, rotations_at, unit
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.transformer import Between, DecoderConfig

_MIN_SPAN = 128


def attention_span(cached: int, capacity: int) -> int:
    """The span of tokens that a step attends to: a power of two times 128 that covers ``cached``, or the capacity."""
    span = _MIN_SPAN
    while span < cached:
        span *= 2
    return min(span, capacity)


class BatchedDecodeStep:
    """Runs folded layers over one token of each row; ``rates`` are those of ``rotations_at``."""

    def __init__(self, layers: Sequence[FoldedLayer], config: DecoderConfig, rates: Tensor) -> None:
        self._layers, self._config, self._rates = layers, config, rates

    def extend(self, h: Tensor, slots: KVCache, rows: Sequence[int], between: Between | None = None) -> Tensor:
        """Run a token of each row, [B, D], and append its keys and values. Raises ContextFull: a slot is full.

        Returns:
            The tokens' hidden states divided by their lengths, [B, D].
        """
        index, span = self.plan(slots, rows)
        hidden = self.step(h, slots, index.to(h.device), span, between)
        slots.length[list(rows)] += 1
        return hidden

    def plan(self, slots: KVCache, rows: Sequence[int]) -> tuple[Tensor, int]:
        """The arguments of ``step``: int64 [3, B] on the CPU, and the span. Raises ContextFull."""
        index = torch.tensor(rows, dtype=torch.int64)
        at, start = slots.length[index], slots.start[index]
        cached = int((at - start).max()) + 1
        slots.check_room(0, cached)
        return torch.stack((index, at, start)), attention_span(cached, slots.capacity)

    def step(self, h: Tensor, slots: KVCache, index: Tensor, span: int, between: Between | None = None) -> Tensor:
        """``extend`` without updating lengths.

        Args:
            index: int64 [3, B] on the device: slots, positions of the new tokens, and first tokens held.
            span: at least the number of tokens of the longest row, with the new one.
        """
        c, (slot, at, start) = self._config, index
        tokens = at[:, None] + torch.arange(1 - span, 1, device=h.device)
        is_held = tokens >= start[:, None]
        # Tokens that a row does not hold may be NaN: the new token is read in their place, and masked.
        places = torch.where(is_held, tokens, at[:, None]) % slots.capacity
        rows, mask, here = slot[:, None], is_held[:, None, None], at % slots.capacity
        rotations = rotations_at(at, self._rates)[:, None, None]
        for number, layer in enumerate(self._layers):
            qkv = layer.qkv(unit(h)).view(len(h), 3, c.heads, c.head_width)
            pairs = torch.view_as_complex((unit(qkv[:, :2]) * layer.gains).unflatten(-1, (-1, 2))) * rotations
            qk = torch.view_as_real(pairs).flatten(-2)
            keys, values = slots.keys[number], slots.values[number]
            keys[slot, :, here], values[slot, :, here] = qk[:, 1].to(keys.dtype), qkv[:, 2].to(values.dtype)
            cached = (keys[rows, :, places].transpose(1, 2), values[rows, :, places].transpose(1, 2))
            query = qk[:, 0, :, None].to(keys.dtype)
            mixed = F.scaled_dot_product_attention(query, *cached, attn_mask=mask, scale=1.0)
            h = h + layer.out(mixed.flatten(1).to(h.dtype))
            if between is not None:
                h = between(number, h)
            inner = F.relu(layer.up(unit(h)))
            h = h + layer.down(inner * inner)
        return unit(h)


GRAPHS = "STUDIO_GRAPHS"
_WARM_UPS = 2  # libraries allocate workspaces in the first runs, which must not be captured

MAX_CUDA_ROWS = 128  # of a batch

Step = Callable[..., Tensor]


def padded_rows(rows: int) -> int:
    """Batch size with padding, a power of two: each size is captured once."""
    return 1 << (rows - 1).bit_length()


class GraphRunner:
    """Runs steps on a device, with one copy of the inputs there and one of the result back.

    Args:
        graphs: whether steps are captured; by the environment unless given.
    """

    def __init__(self, device: torch.device, *, graphs: bool | None = None) -> None:
        is_wanted = os.environ.get(GRAPHS) == "1" if graphs is None else graphs
        self._device, self._captures = device, is_wanted and device.type == "cuda"
        self._graphs: dict[Hashable, _Graph] = {}
        self._pool: Any = None  # memory that all graphs share: one runs at a time

    def run(self, key: Hashable, step: Step, inputs: Sequence[Tensor], dummy: Callable[[], Sequence[Tensor]]) -> Tensor:
        """The result of a step, on the CPU.

        Args:
            key: identifies the step and the shapes of everything it touches.
            step: takes the inputs on the device; it may change other tensors there. It must neither read a number
                back from the device nor do anything else on the CPU.
            inputs: on the CPU.
            dummy: makes inputs of the same shapes for an unused slot, for the warm-up runs.
        """
        if not self._captures:
            return step(*(one.to(self._device) for one in inputs)).cpu()
        if key not in self._graphs:
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._graphs[key] = _Graph(step, dummy(), self._device, self._pool)
        return self._graphs[key].replay(inputs)


class _Graph:
    """One captured step."""

    def __init__(self, step: Step, dummy: Sequence[Tensor], device: torch.device, pool: Any) -> None:
        self._pinned = [one.pin_memory() for one in dummy]
        self._inputs = [one.to(device) for one in dummy]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                step(*self._inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._output = step(*self._inputs)
        self._pinned_output = torch.empty(self._output.shape, dtype=self._output.dtype, pin_memory=True)

    def replay(self, inputs: Sequence[Tensor]) -> Tensor:
        """Run the step on other inputs."""
        for new, pinned, on_device in zip(inputs, self._pinned, self._inputs, strict=True):
            pinned.copy_(new)
            on_device.copy_(pinned, non_blocking=True)
        self._graph.replay()
        self._pinned_output.copy_(self._output, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        return self._pinned_output.clone()
