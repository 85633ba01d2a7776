"""Where utterances' keys and values live: preallocated, one row a slot, NaN where nothing was written."""

import torch
from torch import Tensor

from studio.core.errors import StudioError


class ContextFull(StudioError):
    """One segment alone does not fit into the context."""

    code = "context_full"


class KeyValueCache:
    """Keys and values of every layer for a number of slots.

    A slot's content is contiguous; dropping its oldest part moves the rest to the front, and positions go on
    counting (keys were rotated where they stood, so only differences matter). Unwritten memory is NaN, so that
    a read of it is loud.
    """

    def __init__(self, layers: int, slots: int, heads: int, capacity: int, head_width: int, **kwargs: object) -> None:
        shape = (layers, slots, heads, capacity, head_width)
        self.keys: Tensor = torch.full(shape, float("nan"), **kwargs)  # type: ignore[arg-type]
        self.values: Tensor = torch.full(shape, float("nan"), **kwargs)  # type: ignore[arg-type]
        self.capacity = capacity
        self.held = [0] * slots  # tokens kept
        self.position = [0] * slots  # tokens ever seen

    def reset(self, slot: int) -> None:
        """Make a slot new for another owner."""
        self.keys[:, slot] = float("nan")
        self.values[:, slot] = float("nan")
        self.held[slot] = self.position[slot] = 0

    def write(self, layer: int, slot: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put [H, T, d] after what is held; answers all that is held with it, [H, S, d] each.

        Raises:
            ContextFull: the slot has no room for them.
        """
        start = self.held[slot]
        end = start + keys.shape[1]
        if end > self.capacity:
            raise ContextFull(
                f"a stretch of speech needs more than the {self.capacity} tokens of context that a slot holds",
                "use a smaller hop or window",
            )
        self.keys[layer, slot, :, start:end] = keys
        self.values[layer, slot, :, start:end] = values
        return self.keys[layer, slot, :, :end], self.values[layer, slot, :, :end]

    def advance(self, slot: int, tokens: int) -> None:
        """Count tokens that every layer has written."""
        self.held[slot] += tokens
        self.position[slot] += tokens

    def drop(self, slot: int, tokens: int) -> None:
        """Forget the oldest tokens of a slot."""
        kept = self.held[slot] - tokens
        assert kept >= 0
        for store in (self.keys, self.values):
            store[:, slot, :, :kept] = store[:, slot, :, tokens : self.held[slot]].clone()
            store[:, slot, :, kept:] = float("nan")
        self.held[slot] = kept
