"""DSM-TTS's model (paper 002): a backbone over summed streams, cross-attention to speakers, a depth transformer."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from studio.engine.families.dsm.depth import DepthTransformer
from studio.engine.families.dsm.policy import MOST_SPEAKERS, DsmSymbols
from studio.engine.nets.frame_decoder import init_levels
from studio.engine.nets.loading import NetConfig
from studio.engine.nets.transformer import AttentionHook, CrossAttention, Decoder, DecoderConfig
from studio.engine.tokenizers import dmel


@dataclass(frozen=True)
class DsmConfig(NetConfig):
    """NetConfig.

    Attributes:
        depth_shared: one set of depth layers for all groups of channels; else each has its own.
        text_tokens: of the byte-pair encoding.
        delay_s: between a word in the text stream and its sound.
        acoustic_delay_frames: between the first group of channels and the others.
        look_ahead_words: l, between the text stream and the look-ahead stream.
        extract_frames: maximum length of a speaker's recording.
        context_frames, longest_word_frames, tail_frames: see ``row.DsmDelays``.
    """

    BOUNDS: ClassVar = {
        "delay_s": (0.0, 60.0),
        "acoustic_delay_frames": (0, 400),
        "look_ahead_words": (0, 20),
        "tail_frames": (0, 400),
    }

    layers: int
    width: int
    heads: int
    hidden: int
    depth_layers: int
    depth_width: int
    depth_heads: int
    depth_hidden: int
    text_tokens: int
    speakers: int
    depth_shared: bool = True
    level_width: int = 8
    encoder_width: int = 64
    delay_s: float = 1.28
    acoustic_delay_frames: int = 2
    look_ahead_words: int = 2
    extract_frames: int = 240
    context_frames: int = 600
    longest_word_frames: int = 60
    tail_frames: int = 4

    @staticmethod
    def named(name: str, speakers: int = 2) -> "DsmConfig":
        """``paper``, ``small`` (at most 3M parameters) or ``tiny`` (at most 1M).

        ``paper`` has the printed sizes: 16 layers, width 2,048, 16 heads; 4 depth layers of width 1,024 for each group
        of its own. The feed-forwards' widths and the text's tokens are not printed and are ours.
        """
        sizes = {
            "paper": DsmConfig(
                16, 2048, 16, 8448, 4, 1024, 16, 4224, 8000, speakers, False, 64, 512, extract_frames=400
            ),
            "small": DsmConfig(4, 192, 3, 608, 2, 96, 2, 256, 500, speakers),
            "tiny": DsmConfig(2, 128, 2, 384, 1, 64, 2, 192, 500, speakers, encoder_width=32),
        }
        return DsmConfig.pick(name, sizes)

    @property
    def delay_frames(self) -> int:
        """``delay_s`` at the alphabet's frame rate."""
        return dmel.TIME_BASE.frame_of_time(self.delay_s)

    @property
    def symbols(self) -> DsmSymbols:
        """Ids behind the encoding's."""
        return DsmSymbols.after(self.text_tokens)


class SpeakerEncoder(nn.Module):
    """Speaker embedding of a recording: two convolutions over frames, then mean and deviation over time."""

    def __init__(self, inner: int, width: int) -> None:
        super().__init__()
        self.frame = nn.Linear(dmel.CHANNELS, inner)
        self.convolutions = nn.ModuleList(nn.Conv1d(inner, inner, 5, stride=2, padding=2) for _ in range(2))
        self.out = nn.Linear(2 * inner, width)

    def forward(self, frames: Tensor) -> Tensor:
        """Recordings uint8 [K, E, 80], padded, to embeddings [K, D]."""
        real = frames[:, :, 0] != dmel.PAD
        centred = (frames.to(self.out.weight.dtype) - (dmel.LEVELS - 1) / 2) / 4.0
        x = nn.functional.gelu(self.frame(centred)) * real.unsqueeze(2)
        for convolution in self.convolutions:
            real = real[:, ::2]
            x = nn.functional.gelu(convolution(x.transpose(1, 2))).transpose(1, 2) * real.unsqueeze(2)
        count = real.sum(1, keepdim=True).clamp_min(1).to(x.dtype)
        mean = x.sum(1) / count
        spread = (((x - mean.unsqueeze(1)) * real.unsqueeze(2)).square().sum(1) / count + 1e-4).sqrt()
        return self.out(torch.cat((mean, spread), 1))


class Dsm(nn.Module):
    """Maps text, look-ahead and levels of the step before to the action and the step's levels."""

    def __init__(self, config: DsmConfig) -> None:
        super().__init__()
        self.config = c = config
        self.text = nn.Embedding(c.symbols.count, c.width)
        self.ahead = nn.Embedding(c.symbols.count, c.width)
        self.level = nn.Embedding(dmel.SYMBOLS, c.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * c.level_width, c.width)
        self.decoder = Decoder(DecoderConfig(c.layers, c.width, c.heads, c.hidden))
        self.cross = nn.ModuleList(CrossAttention(c.width, c.heads) for _ in range(c.layers))
        self.action_out = nn.Linear(c.width, 1)
        sizes = DecoderConfig(c.depth_layers, c.depth_width, c.depth_heads, c.depth_hidden)
        self.depth = DepthTransformer(c.width, c.level_width, sizes, is_shared=c.depth_shared)
        self.encoder = SpeakerEncoder(c.encoder_width, c.width)
        # Cross-attention inputs: up to five speakers, learnt padding for fewer, and an embedding of their order.
        self.nobody = nn.Parameter(torch.randn(c.width) * 0.5)
        self.speaker_place = nn.Parameter(torch.randn(MOST_SPEAKERS, c.width) * 0.5)
        # Each speaker's recording, padded; and the silence that the vocoder starts from.
        self.extract: Tensor
        self.silence: Tensor
        shape = (c.speakers, c.extract_frames, dmel.CHANNELS)
        self.register_buffer("extract", torch.full(shape, dmel.PAD, dtype=torch.uint8))
        self.register_buffer("silence", torch.zeros(c.speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8))
        for table in (self.text, self.ahead):
            nn.init.normal_(table.weight, std=0.5)
        init_levels(self.level)
        nn.init.zeros_(self.action_out.weight)
        nn.init.constant_(self.action_out.bias, -2.0)

    def set_extract(self, speaker: int, frames: Tensor) -> None:
        """Set a speaker's recording, uint8 [S, 80], cut to ``extract_frames``."""
        frames = frames[: self.config.extract_frames].to(self.extract.device)
        self.extract[speaker] = dmel.PAD
        self.extract[speaker, : len(frames)] = frames

    def embed(self, text: Tensor, ahead: Tensor, levels: Tensor) -> Tensor:
        """The sum of a step's streams [..., D]: symbols int64 [...] each, levels uint8 [..., 80] of the step before."""
        return self.text(text) + self.ahead(ahead) + self.frame(self.level(levels.long()).flatten(-2))

    def speakers(self, embedded: Tensor, which: Tensor) -> Tensor:
        """The inputs of the cross-attention.

        Args:
            embedded: [K, D], from the encoder.
            which: int64 [B, 5], indices into ``embedded``; -1 for none.

        Returns:
            [B, 5, D].
        """
        padded = torch.cat((self.nobody.unsqueeze(0), embedded.to(self.nobody.dtype)))
        return padded[which + 1] + self.speaker_place

    def hidden(self, x: Tensor, speakers: Tensor, watch: AttentionHook | None = None) -> Tensor:
        """The backbone over whole sequences: [B, T, D] and [B, 5, D] -> [B, T, D]; ``watch`` as in ``Decoder``."""
        seen, crossings = torch.ones(1, 1, MOST_SPEAKERS, dtype=torch.bool, device=x.device), self.crossings()
        return self.decoder(x, lambda layer, x: crossings[layer](x, speakers, seen)[0], watch)

    def crossings(self) -> list[CrossAttention]:
        """The cross-attention of each layer."""
        return [cast("CrossAttention", one) for one in self.cross]
