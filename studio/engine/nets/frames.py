"""dMel frames into a net: a table instead of a product, where a frame's levels choose."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.alphabets import dmel


class FrameTable:
    """What ``frame(level(levels))`` says, without its bias, as a sum of rows of a table: [N, C] -> [N, D].

    Args:
        level: embedding of a level or of a whole frame's id, [SYMBOLS, W].
        frame: linear layer over the embeddings of C channels, all of a frame's or some, [D, C * W].
    """

    @torch.no_grad()
    def __init__(self, level: nn.Embedding, frame: nn.Linear) -> None:
        parts = frame.weight.view(frame.out_features, -1, level.embedding_dim)
        table = torch.einsum("dcl,sl->csd", parts, level.weight)  # what each level of each channel adds
        self._table = table.reshape(-1, frame.out_features).contiguous()
        self._first = torch.arange(parts.shape[1], device=parts.device) * dmel.SYMBOLS

    def on_host(self) -> "FrameTableOnHost":
        """The same on a CPU."""
        return FrameTableOnHost(self._table.numpy(), self._first.numpy())

    def __call__(self, levels: Tensor) -> Tensor:
        """Levels uint8 [N, C] -> [N, D]."""
        return F.embedding_bag(levels + self._first, self._table, mode="sum")


class FrameTableOnHost:
    """A ``FrameTable`` in numpy.

    Args:
        table: what each level of each channel adds, float32 [C * SYMBOLS, D]; ``first`` [C], where a channel's begin.
    """

    def __init__(self, table: np.ndarray, first: np.ndarray) -> None:
        self._table, self._first = table, first

    def __call__(self, levels: np.ndarray) -> np.ndarray:
        """Levels uint8 [N, C] -> float32 [N, D]."""
        return self._table[levels + self._first].sum(1)
