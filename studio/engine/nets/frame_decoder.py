"""A decoder over one stream of symbols and dMel frames (paper 000, section III.B), whatever order they come in."""

import torch
from torch import Tensor, nn

from studio.engine.alphabets import dmel
from studio.engine.nets.transformer import Decoder, DecoderConfig


class FrameDecoder(nn.Module):
    """Symbols and dMel frames in, the next frame's 80 channels and the probability of s_eos out.

    Args:
        symbols: how many there are, characters and marks together.
        level_width: of a level's embedding.
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
        # frames of each speaker's silence: the prompt of 200-400 ms after the first s_bos (section IV.D)
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.speaker):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor, speaker: Tensor) -> Tensor:
        """Characters and marks: [B, T] of ids and [B] of speakers -> [B, T, D]."""
        return self.symbol(ids) + self.speaker(speaker).unsqueeze(1)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames (or s_eos, id 18 in every channel): uint8 [N, 80] and [N] -> [N, D]."""
        return self.frame(self.level(levels.long()).flatten(1)) + self.speaker(speaker)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [B, ..., 80, 16] and of s_eos [B, ...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.eos_out(hidden).squeeze(-1)
