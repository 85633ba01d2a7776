"""KV cache: preallocated slots, first dimension = slot, reused by one row after another."""

import functools
import math
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import StudioError

POISON = "STUDIO_POISON"  # environment variable: fill slots with NaN, so that reading unwritten memory shows


class ContextFull(StudioError):
    """One segment alone does not fit into the context."""

    code = "context_full"


class KVCache:
    """K and V of a decoder's layers: a ring in each slot.

    Token p of a slot is stored at p modulo the capacity; a slot holds the tokens [start, length). Dropping the oldest
    tokens raises ``start``, going back lowers ``length``: nothing is copied. Keys are stored rotated; only differences
    of positions matter.

    Attributes:
        keys, values: for each layer [slots, heads, capacity, head_width], on ``device``.
        start, length: int64 [slots] on the CPU, the first token held, and the number ever written.
        epoch: int64 [slots] on the CPU, how many owners a slot has had.
        poison: fill a slot with NaN when it changes owner (slow; used by all tests).
    """

    def __init__(
        self,
        layers: int,
        slots: int,
        heads: int,
        capacity: int,
        head_width: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        poison: bool | None = None,
    ) -> None:
        poison = bool(os.environ.get(POISON)) if poison is None else poison
        shape = (slots, heads, capacity, head_width)
        self.keys = [_store(shape, device, dtype, poison) for _ in range(layers)]
        self.values = [_store(shape, device, dtype, poison) for _ in range(layers)]
        # On the CPU for any device: planning a step must not wait for a GPU.
        self.start, self.length, self.epoch = (torch.zeros(slots, dtype=torch.int64) for _ in range(3))
        self.slots, self.capacity, self.poison = slots, capacity, poison
        self.device = self.keys[0].device

    @functools.cached_property
    def arrays(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """K and V of each layer as numpy views, on a CPU."""
        return [(keys.numpy(), values.numpy()) for keys, values in zip(self.keys, self.values, strict=True)]

    @functools.cached_property
    def bounds_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """``start`` and ``length`` as numpy views."""
        return self.start.numpy(), self.length.numpy()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the views: those of a copy must refer to its own memory."""
        return {name: one for name, one in vars(self).items() if name not in ("arrays", "bounds_arrays")}

    def reset(self, slot: int) -> None:
        """Clear a slot for another owner."""
        self.start[slot] = self.length[slot] = 0
        self.epoch[slot] += 1
        if self.poison:
            for store in (*self.keys, *self.values):
                store[slot] = float("nan")

    def write(self, layer: int, slot: int, at: int, keys: Tensor, values: Tensor) -> None:
        """Store [H, T, d] as the tokens [at, at + T) of a slot.

        Raises:
            ContextFull: they do not fit beside the tokens held.
        """
        tokens = keys.shape[1]
        self.check_room(int(self.start[slot]), at + tokens)
        first = at % self.capacity
        fitting = min(tokens, self.capacity - first)
        for store, new in ((self.keys[layer], keys), (self.values[layer], values)):
            store[slot, :, first : first + fitting] = new[:, :fitting]
            if fitting < tokens:
                store[slot, :, : tokens - fitting] = new[:, fitting:]

    def check_room(self, start: int, until: int) -> None:
        """Raises ContextFull where the tokens [start, until) exceed the capacity."""
        if until - start > self.capacity:
            raise ContextFull(
                f"a segment needs more than the {self.capacity} tokens of context that a slot holds",
                "use a smaller hop or window",
            )

    def read(self, layer: int, slot: int, until: int) -> list[tuple[Tensor, Tensor]]:
        """K and V of the tokens [start, until), oldest first, in one or two pieces of [H, S, d]."""
        start = int(self.start[slot])
        first, count = start % self.capacity, until - start
        fitting = min(count, self.capacity - first)
        keys, values = self.keys[layer][slot], self.values[layer][slot]
        pieces = [(keys[:, first : first + fitting], values[:, first : first + fitting])]
        if fitting < count:
            pieces.append((keys[:, : count - fitting], values[:, : count - fitting]))
        return pieces


def _store(shape: tuple[int, ...], device: torch.device | str, dtype: torch.dtype, poison: bool) -> Tensor:
    """An empty store; on a CPU its zeros take no memory before they are written."""
    if poison:
        return torch.full(shape, float("nan"), device=device, dtype=dtype)
    if torch.device(device).type == "cpu":
        # calloc hands out pages that the kernel zeroes at the first write; torch.zeros writes all of them at once.
        size = math.prod(shape) * dtype.itemsize
        return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).reshape(shape)
    return torch.zeros(shape, device=device, dtype=dtype)
