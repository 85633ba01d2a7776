"""IST-LM's model (paper 003, section 4.3): one decoder-only stream of text tokens and dMel frames."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.families.ist.policy import FRAME, RATIOS, IstLayout, IstSymbols
from studio.engine.nets.frame_decoder import init_levels
from studio.engine.nets.loading import NetConfig
from studio.engine.nets.transformer import Decoder, DecoderConfig
from studio.engine.tokenizers import dmel


@dataclass(frozen=True)
class IstConfig(NetConfig):
    """NetConfig.

    Attributes:
        text_tokens: of the byte-pair encoding.
        prompt_frames, prompt_tokens: maximum size of a speaker's prompt.
        letter_frames and the following fields: see ``row.IstLimits``.
    """

    BOUNDS: ClassVar = {"letter_frames": (0.1, 100.0)}

    layers: int
    width: int
    heads: int
    hidden: int
    text_tokens: int
    speakers: int
    level_width: int = 8
    prompt_frames: int = 160
    prompt_tokens: int = 96
    letter_frames: float = 2.3
    context_frames: int = 400
    longest_word_frames: int = 60
    stretch_words: int = 24
    most_words: int = 48
    most_tokens: int = 400

    @staticmethod
    def named(name: str, speakers: int = 2) -> "IstConfig":
        """``paper``, ``small`` (at most 3M parameters) or ``tiny`` (at most 1M).

        ``paper`` has the printed sizes (section 5.1.2: 161.8M). What depends on the alphabet is ours: its tables of
        4,096 speech tokens, in and out, had 8.4M; here frames go in by 6.6M (levels 64 wide) and out by 1.3M.
        """
        sizes = {
            "paper": IstConfig(12, 1024, 16, 4096, 2000, speakers, level_width=64),
            "small": IstConfig(5, 192, 3, 768, 500, speakers),
            "tiny": IstConfig(3, 128, 2, 512, 500, speakers),
        }
        return IstConfig.pick(name, sizes)

    @property
    def symbols(self) -> IstSymbols:
        """Ids behind the encoding's."""
        return IstSymbols.after(self.text_tokens)


class Ist(nn.Module):
    """Maps text tokens and dMel frames to the next frame's 80 channels and p_eos."""

    def __init__(self, config: IstConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(config.symbols.count, width)
        self.ratio = nn.Embedding(len(RATIOS), width)
        self.level = nn.Embedding(dmel.SYMBOLS, config.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * config.level_width, width)
        # Text and speech have separate positions (section 4.3) and scales of the sinusoids.
        self.text_place = nn.Parameter(torch.full((width,), 0.3))
        self.speech_place = nn.Parameter(torch.full((width,), 0.3))
        self.decoder = Decoder(DecoderConfig(config.layers, width, config.heads, config.hidden))
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.eos_out = nn.Linear(width, 1)
        # Each speaker's speech prompt and its transcript (section 3), padded.
        self.prompt: Tensor
        self.prompt_text: Tensor
        shape = (config.speakers, config.prompt_frames, dmel.CHANNELS)
        self.register_buffer("prompt", torch.full(shape, dmel.PAD, dtype=torch.uint8))
        self.register_buffer("prompt_text", torch.full((config.speakers, config.prompt_tokens), -1))
        for table in (self.symbol, self.ratio):
            nn.init.normal_(table.weight, std=0.5)
        init_levels(self.level)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.eos_out.weight)
        nn.init.constant_(self.eos_out.bias, -3.0)

    def set_prompt(self, speaker: int, tokens: Sequence[int], frames: Tensor) -> None:
        """Set a speaker's prompt: text tokens without the closing symbol, and frames uint8 [S, 80]."""
        self.prompt[speaker], self.prompt_text[speaker] = dmel.PAD, -1
        self.prompt[speaker, : len(frames)] = frames.to(self.prompt.device)
        self.prompt_text[speaker, : len(tokens)] = torch.tensor([*tokens])

    def prompts(self) -> list[tuple[list[int], np.ndarray]]:
        """Each speaker's text tokens, and frames uint8 [S, 80]."""
        texts = [[token for token in row if token >= 0] for row in self.prompt_text.tolist()]
        return [
            (text, frames[frames[:, 0] != dmel.PAD].cpu().numpy())
            for text, frames in zip(texts, self.prompt, strict=True)
        ]

    def embed_symbols(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Text tokens at positions, int64 [N] each -> [N, D]; the ratio of a passage's start is added elsewhere."""
        return self.symbol(ids) + self.text_place * sinusoids(positions, self.config.width).to(self.text_place.dtype)

    def embed_frames(self, levels: Tensor, positions: Tensor) -> Tensor:
        """Frames (or the end frame, id 18 in every channel) at their positions: uint8 [N, 80], int64 [N] -> [N, D]."""
        embedded = self.frame(self.level(levels.long()).flatten(1))
        return embedded + self.speech_place * sinusoids(positions, self.config.width).to(self.speech_place.dtype)

    def embed_layout(self, layout: IstLayout, ratio: int, embed_frames: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """All tokens of a layout [T, D]; ``embed_frames`` is that of this net, or a faster one."""
        device = self.ratio.weight.device
        symbols, positions = (torch.tensor(one, device=device) for one in (layout.symbols, layout.positions))
        is_frame = symbols == FRAME
        x = torch.zeros(len(layout), self.config.width, device=device)
        x[~is_frame] = self.embed_symbols(symbols[~is_frame], positions[~is_frame])
        x[symbols == self.config.symbols.start] += self.ratio.weight[ratio]
        if layout.frames:
            x[is_frame] = embed_frames(torch.from_numpy(layout.stacked()).to(device), positions[is_frame])
        return x

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [B, ..., 80, 16] and of the end [B, ...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.eos_out(hidden).squeeze(-1)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Sinusoidal embeddings (Vaswani et al. 2017, section 3.5), int64 [N] -> float32 [N, width]."""
    rates = 10_000.0 ** (-torch.arange(0, width, 2, device=positions.device) / width)
    angles = positions.unsqueeze(-1) * rates
    return torch.cat((angles.sin(), angles.cos()), -1)
