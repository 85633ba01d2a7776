"""SpeakStream's net (paper 000, section III.B): one decoder-only stream of characters and dMel frames."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine import dmel
from studio.engine.families.speakstream.rule import BOS, LARGEST_WINDOW, SCHEMES, SYMBOLS
from studio.engine.nets.transformer import Decoder, DecoderConfig


@dataclass(frozen=True)
class Config:
    """Sizes. ``context_frames`` is what a slot remembers at a segment's start, ``kept_frames`` what a drop leaves."""

    layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    context_frames: int = 600
    kept_frames: int = 360
    longest_word_frames: int = 60  # a segment without EOS is cut at this many frames for each of its words

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper`` (36 layers, 258M parameters: section IV.A), ``small`` (shipped) or ``tiny`` (at most 1M)."""
        sizes = {
            "paper": Config(36, 768, 12, 3072, speakers),
            "small": Config(4, 256, 4, 1024, speakers),
            "tiny": Config(3, 128, 2, 512, speakers),
        }
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]

    def to_dict(self) -> dict[str, Any]:
        """The card's form."""
        return asdict(self)


class SpeakStream(nn.Module):
    """Characters and dMel frames in, the next frame's 80 channels and p_eos out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.level = nn.Embedding(dmel.SYMBOLS, config.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * config.level_width, width)
        self.scheme = nn.Embedding(len(SCHEMES), width)
        self.spoken = nn.Embedding(LARGEST_WINDOW + 1, width)
        self.look_ahead = nn.Embedding(2 * LARGEST_WINDOW, width)
        self.speaker = nn.Embedding(config.speakers, width)
        self.decoder = Decoder(DecoderConfig(config.layers, width, config.heads, config.hidden))
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.eos_out = nn.Linear(width, 1)
        # frames of each speaker's silence: the prompt of 200-400 ms after the first BOS (section IV.D)
        self.silence: Tensor
        self.register_buffer("silence", torch.zeros(config.speakers, 10, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.symbol, self.scheme, self.spoken, self.look_ahead, self.speaker):
            nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor, speaker: Tensor) -> Tensor:
        """Characters, w_eos: [B, T] of ids and [B] of speakers -> [B, T, D]."""
        return self.symbol(ids) + self.speaker(speaker).unsqueeze(1)

    def embed_bos(self, windows: Tensor, speaker: Tensor) -> Tensor:
        """s_bos with its window (scheme, words spoken now, look-ahead present): [N, 3] and [N] -> [N, D]."""
        scheme, spoken, look_ahead = windows.unbind(-1)
        look_ahead = look_ahead.clamp(max=self.look_ahead.num_embeddings - 1)
        bos = self.symbol.weight[BOS] + self.scheme(scheme) + self.spoken(spoken) + self.look_ahead(look_ahead)
        return bos + self.speaker(speaker)

    def embed_frames(self, levels: Tensor, speaker: Tensor) -> Tensor:
        """Frames (or s_eos, id 18 in every channel): uint8 [N, 80] and [N] -> [N, D]."""
        return self.frame(self.level(levels.long()).flatten(1)) + self.speaker(speaker)

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [B, ..., 80, 16] and of s_eos [B, ...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.eos_out(hidden).squeeze(-1)
