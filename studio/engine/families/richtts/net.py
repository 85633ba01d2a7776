"""RichTTS's net (paper 000, section III.B): SpeakStream's decoder over a text and then its speech, not interleaved.

What SpeakStream's net has beyond it tells a segment's window; here there is none.
"""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine import dmel
from studio.engine.families.richtts.rule import SYMBOLS
from studio.engine.nets.transformer import Decoder, DecoderConfig

SILENCE_FRAMES = 10


@dataclass(frozen=True)
class Config:
    """Sizes; ``longest_word_frames`` for each word of a piece is where one without an end is cut."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    longest_word_frames: int = 60

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper`` (36 layers, 258M parameters: section IV.A), ``small`` (at most 3M) or ``tiny`` (at most 1M)."""
        sizes = {
            "paper": Config(36, 768, 12, 3072, speakers),
            "small": Config(5, 192, 3, 768, speakers),
            "tiny": Config(3, 128, 2, 512, speakers),
        }
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]

    def to_dict(self) -> dict[str, Any]:
        """The card's form."""
        return asdict(self)


class RichTts(nn.Module):
    """Characters and dMel frames in, the next frame's 80 channels and the probability of s_eos out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.level = nn.Embedding(dmel.SYMBOLS, config.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * config.level_width, width)
        self.speaker = nn.Embedding(config.speakers, width)
        self.decoder = Decoder(DecoderConfig(config.layers, width, config.heads, config.hidden))
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.eos_out = nn.Linear(width, 1)
        # frames of each speaker's silence, which follow s_bos (section IV.D)
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(config.speakers, SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.speaker):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor, speaker: Tensor) -> Tensor:
        """Characters and the marks of texts and speech: [B, T] of ids and [B] of speakers -> [B, T, D]."""
        return self.symbol(ids) + self.speaker(speaker).unsqueeze(1)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames: uint8 [N, 80] and [N] -> [N, D]."""
        return self.frame(self.level(levels.long()).flatten(1)) + self.speaker(speaker)
