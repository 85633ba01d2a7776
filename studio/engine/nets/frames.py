"""dMel frames into a net: a table instead of a product, where a frame's levels choose."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine import dmel


class FrameTable:
    """What ``frame(level(levels))`` says, without its bias, as a sum of rows of a table: [N, 80] -> [N, D].

    Args:
        level: embedding of a level or of a whole frame's id, [SYMBOLS, W].
        frame: linear layer over all channels' embeddings, [D, 80 * W].
    """

    @torch.no_grad()
    def __init__(self, level: nn.Embedding, frame: nn.Linear) -> None:
        parts = frame.weight.view(frame.out_features, dmel.CHANNELS, -1)
        table = torch.einsum("dcl,sl->csd", parts, level.weight)  # what each level of each channel adds
        self._table = table.reshape(-1, frame.out_features).contiguous()
        self._first = torch.arange(dmel.CHANNELS, device=parts.device) * dmel.SYMBOLS

    @property
    def table(self) -> Tensor:
        """What each level of each channel adds, [80 * SYMBOLS, D]."""
        return self._table

    def __call__(self, levels: Tensor) -> Tensor:
        """Frames uint8 [N, 80] -> [N, D]."""
        return F.embedding_bag(levels + self._first, self._table, mode="sum")
