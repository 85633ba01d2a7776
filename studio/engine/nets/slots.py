"""Where utterances' memory lives: preallocated, first dimension = slot, reused by one owner after another."""

import functools
import os
from typing import Any

import numpy as np
import torch
from torch import Tensor

from studio.core.errors import StudioError

POISON = "STUDIO_POISON"  # in the environment: slots begin as NaN, so that a read of what nobody wrote is loud


class ContextFull(StudioError):
    """One segment alone does not fit into the context."""

    code = "context_full"


class KeyValueSlots:
    """Keys and values of a decoder's layers: a ring in each slot.

    Token p of a slot lies at p modulo the capacity; a slot holds the tokens [start, length). To forget the oldest is to
    move ``start``, to go back is to lower ``length``: nothing is copied. Keys were rotated where they stood, so only
    differences of positions matter.

    Attributes:
        keys, values: for each layer [slots, heads, capacity, head_width].
        start, length: int64 [slots] on the host, the first token held, and how many were ever written.
        epoch: int64 [slots] on the host, how many owners a slot has had.
        poison: fill a slot's memory with NaN when it changes hands (filling takes long: for tests, which all do).
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
        fill = float("nan") if poison else 0.0
        self.keys = [torch.full(shape, fill, device=device, dtype=dtype) for _ in range(layers)]
        self.values = [torch.full(shape, fill, device=device, dtype=dtype) for _ in range(layers)]
        # On the host whatever the device: who plans a step asks for them, and a GPU would have to be waited for.
        self.start, self.length, self.epoch = (torch.zeros(slots, dtype=torch.int64) for _ in range(3))
        self.capacity, self.poison = capacity, poison

    @functools.cached_property
    def on_host(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Keys and values of each layer as arrays over the same memory, on a CPU."""
        return [(keys.numpy(), values.numpy()) for keys, values in zip(self.keys, self.values, strict=True)]

    @functools.cached_property
    def bounds_on_host(self) -> tuple[np.ndarray, np.ndarray]:
        """``start`` and ``length`` as arrays over the same memory."""
        return self.start.numpy(), self.length.numpy()

    def __getstate__(self) -> dict[str, Any]:
        """A copy's arrays lie over its own memory."""
        return {name: one for name, one in vars(self).items() if name not in ("on_host", "bounds_on_host")}

    def reset(self, slot: int) -> None:
        """Make a slot new for another owner."""
        self.start[slot] = self.length[slot] = 0
        self.epoch[slot] += 1
        if self.poison:
            for store in (*self.keys, *self.values):
                store[slot] = float("nan")

    def write(self, layer: int, slot: int, at: int, keys: Tensor, values: Tensor) -> None:
        """Put [H, T, d] at the tokens [at, at + T) of a slot.

        Raises:
            ContextFull: the slot has no room for them beside what it holds.
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
        """Raises ContextFull where the tokens [start, until) are more than a slot holds."""
        if until - start > self.capacity:
            raise ContextFull(
                f"a stretch of speech needs more than the {self.capacity} tokens of context that a slot holds",
                "use a smaller hop or window",
            )

    def held(self, layer: int, slot: int, until: int) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the tokens [start, until), oldest first: [H, S, d] each, in one piece or in two."""
        start = int(self.start[slot])
        first, count = start % self.capacity, until - start
        fitting = min(count, self.capacity - first)
        keys, values = self.keys[layer][slot], self.values[layer][slot]
        pieces = [(keys[:, first : first + fitting], values[:, first : first + fitting])]
        if fitting < count:
            pieces.append((keys[:, : count - fitting], values[:, : count - fitting]))
        return pieces
