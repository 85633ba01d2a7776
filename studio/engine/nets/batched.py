"""One token of each row through a folded decoder, in one batch: for a GPU, where a batch costs what a row does.

Nothing here asks the device for a number, and for so many rows and such a span of context every shape is the same: a
step can be recorded as a CUDA graph (``studio.engine.nets.recorded``).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.nets.slots import KeyValueSlots
from studio.engine.nets.transformer import DecoderConfig

_LEAST_SPAN = 128

# What stands between a layer's self-attention and its feed-forward: (layer, [N, D]) -> [N, D].
Between = Callable[[int, Tensor], Tensor]


class Layer(Protocol):
    """One block's folded weights: see ``lean.LeanLayer``."""

    qkv: Callable[[Tensor], Tensor]
    gains: Tensor
    out: Callable[[Tensor], Tensor]
    up: Callable[[Tensor], Tensor]
    down: Callable[[Tensor], Tensor]


def span_of(held: int, capacity: int) -> int:
    """The fewest tokens, of few different numbers, that a step looks back over where a row holds ``held``."""
    span = _LEAST_SPAN
    while span < held:
        span *= 2
    return min(span, capacity)


class BatchedStep:
    """Runs folded layers over slots, one token of each row at a time; ``rates`` are for ``turns_at``."""

    def __init__(self, layers: Sequence[Layer], config: DecoderConfig, rates: Tensor) -> None:
        self._layers, self._config, self._rates = layers, config, rates

    def extend(self, h: Tensor, slots: KeyValueSlots, rows: Sequence[int], between: Between | None = None) -> Tensor:
        """Run a token of each row, [B, D], over what its slot holds, and keep its keys and values.

        Returns:
            The tokens' hidden states divided by their lengths, [B, D].

        Raises:
            ContextFull: a slot has no room for one more.
        """
        index, span = self.planned(slots, rows)
        found = self.step(h, slots, index.to(h.device), span, between)
        slots.length[list(rows)] += 1
        return found

    def planned(self, slots: KeyValueSlots, rows: Sequence[int]) -> tuple[Tensor, int]:
        """What ``step`` is to be given: int64 [3, B] on the host, and the span. Raises ContextFull."""
        index = torch.tensor(rows, dtype=torch.int64)
        at, start = slots.length[index], slots.start[index]
        held = int((at - start).max()) + 1
        slots.check_room(0, held)
        return torch.stack((index, at, start)), span_of(held, slots.capacity)

    def step(self, h: Tensor, slots: KeyValueSlots, index: Tensor, span: int, between: Between | None = None) -> Tensor:
        """The same without its bookkeeping: lengths are the caller's.

        Args:
            index: int64 [3, B] on the device: slots, where each one's token goes, and the first token that each holds.
            span: at least as many tokens as the longest row holds, with the new one.
        """
        c, (slot, at, start) = self._config, index
        tokens = at[:, None] + torch.arange(1 - span, 1, device=h.device)
        held = tokens >= start[:, None]
        # What a row does not hold may be NaN: in its place the new token is read, and masked.
        places = torch.where(held, tokens, at[:, None]) % slots.capacity
        rows, mask, here = slot[:, None], held[:, None, None], at % slots.capacity
        turns = turns_at(at, self._rates)[:, None, None]
        for number, layer in enumerate(self._layers):
            qkv = layer.qkv(unit(h)).view(len(h), 3, c.heads, c.head_width)
            pairs = torch.view_as_complex((unit(qkv[:, :2]) * layer.gains).unflatten(-1, (-1, 2))) * turns
            qk = torch.view_as_real(pairs).flatten(-2)
            keys, values = slots.keys[number], slots.values[number]
            keys[slot, :, here], values[slot, :, here] = qk[:, 1].to(keys.dtype), qkv[:, 2].to(values.dtype)
            near = (keys[rows, :, places].transpose(1, 2), values[rows, :, places].transpose(1, 2))
            query = qk[:, 0, :, None].to(keys.dtype)
            mixed = F.scaled_dot_product_attention(query, *near, attn_mask=mask, scale=1.0)
            h = h + layer.out(mixed.flatten(1).to(h.dtype))
            if between is not None:
                h = between(number, h)
            fed = F.relu(layer.up(unit(h)))
            h = h + layer.down(fed * fed)
        return unit(h)


def turns_at(positions: Tensor, rates: Tensor) -> Tensor:
    """Turns of positions int64 [N] by rates float64 [d / 2], complex64 [N, d / 2].

    Angles are made in float64, so that a stream may run for hours.
    """
    angles = positions.to(torch.float64).unsqueeze(-1) * rates
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


def unit(x: Tensor) -> Tensor:
    """Vectors [..., D] divided by their lengths."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)
