"""One token of each row in one batch: for a GPU, where a batch costs what a row does.

Nothing here reads a number back from the device, and for a given number of rows and attention span every shape is the
same, so a step can be captured as a CUDA graph (``studio.engine.nets.cuda.graphs``).
"""

from collections.abc import Sequence

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
        """Run a token of each row, [B, D], and append its keys and values.

        Returns:
            The tokens' hidden states divided by their lengths, [B, D].

        Raises:
            ContextFull: a slot is full.
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
