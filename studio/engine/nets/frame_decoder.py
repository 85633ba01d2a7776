"""A decoder over one stream of symbols and dMel frames (paper 000, section III.B), and embedding tables of frames."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.nets.transformer import Decoder, DecoderConfig
from studio.engine.tokenizers import dmel


def init_levels(level: nn.Embedding) -> None:
    """Initialise an embedding of levels; levels are ordered, and so are their first coordinates."""
    nn.init.normal_(level.weight, std=1.0)
    with torch.no_grad():
        level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)


class FrameDecoder(nn.Module):
    """Symbols and dMel frames in, the next frame's 80 channels and the probability of s_eos out.

    Args:
        symbols: number of characters and control symbols.
        level_width: width of a level's embedding.
    """

    def __init__(self, sizes: DecoderConfig, symbols: int, speakers: int, level_width: int) -> None:
        super().__init__()
        width = sizes.width
        self.symbol = nn.Embedding(symbols, width)
        self.level = nn.Embedding(dmel.SYMBOLS, level_width)
        self.frame = nn.Linear(dmel.CHANNELS * level_width, width)
        self.speaker = nn.Embedding(speakers, width)
        self.decoder = Decoder(sizes)
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.eos_out = nn.Linear(width, 1)
        # silence of each speaker: the prompt of 200-400 ms after the first s_bos (section IV.D)
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.speaker):
            nn.init.normal_(table.weight, std=0.5)
        init_levels(self.level)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor, speaker: Tensor) -> Tensor:
        """Symbol ids [B, T] and speakers [B] -> [B, T, D]."""
        return self.symbol(ids) + self.speaker(speaker).unsqueeze(1)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames (or s_eos, id 18 in every channel): uint8 [N, 80] and [N] -> [N, D]."""
        return self.frame(self.level(levels.long()).flatten(1)) + self.speaker(speaker)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [B, ..., 80, 16] and of s_eos [B, ...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.eos_out(hidden).squeeze(-1)


class FrameEmbeddingTable:
    """``frame(level(levels))`` without its bias, as a sum of rows of a table: [N, C] -> [N, D].

    Args:
        level: embedding of a level or of a whole frame's id, [SYMBOLS, W].
        frame: linear layer over the embeddings of C channels of a frame, [D, C * W].
    """

    @torch.no_grad()
    def __init__(self, level: nn.Embedding, frame: nn.Linear) -> None:
        parts = frame.weight.view(frame.out_features, -1, level.embedding_dim)
        table = torch.einsum("dcl,sl->csd", parts, level.weight)  # contribution of each level of each channel
        self.table = table.reshape(-1, frame.out_features).contiguous()
        self._first = torch.arange(parts.shape[1], device=parts.device) * dmel.SYMBOLS

    def for_cpu(self) -> "CpuFrameEmbeddingTable":
        """The numpy form."""
        return CpuFrameEmbeddingTable(self.table.numpy(), self._first.numpy())

    def __call__(self, levels: Tensor) -> Tensor:
        """Levels uint8 [N, C] -> [N, D]."""
        return F.embedding_bag(levels + self._first, self.table, mode="sum")


class CpuFrameEmbeddingTable:
    """A ``FrameEmbeddingTable`` in numpy.

    Args:
        table: contribution of each level of each channel, float32 [C * SYMBOLS, D].
        first: first row of each channel, [C].
    """

    def __init__(self, table: np.ndarray, first: np.ndarray) -> None:
        self._table, self._first = table, first

    def __call__(self, levels: np.ndarray) -> np.ndarray:
        """Levels uint8 [N, C] -> float32 [N, D]."""
        return self._table[levels + self._first].sum(1)
