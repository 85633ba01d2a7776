"""S5-TTS's net (paper 001): a parallel encoder of phonemes, an autoregressive decoder of frames that attends to it.

A frame's eight codebooks are dMel's groups of ten channels: their embeddings are summed, and all are predicted at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine.alphabets import dmel
from studio.engine.families.s5.alignment import AuxiliaryAttention, log_diagonal_prior, monotonic_alignment
from studio.engine.families.s5.rule import LARGEST_LOOK_AHEAD
from studio.engine.families.spelling import STRESSED, SYMBOLS
from studio.engine.nets.cross import CrossAttention
from studio.engine.nets.transformer import Decoder, DecoderConfig, attend_whole, rotary
from studio.engine.weights.sizes import Sizes

_PLACES = 16  # sines of an encoder step's place, and as many cosines
_PERIODS = (4.0, 2048.0)  # the shortest and the longest, in encoder steps


@dataclass(frozen=True)
class Config(Sizes):
    """Sizes.

    Attributes:
        encoder_mask, decoder_mask: the two look-ahead-causal masks; without one its attention sees all that is there.
        alignment_width, alignment_scale: C and delta of the auxiliary attention.
        context_frames: what a slot remembers at a word's start; ``kept_frames`` what a drop leaves.
        longest_word_frames: a word that does not end is cut at so many frames.
        reference_frames: the longest reference recording; 0 where an embedding tells the speaker instead.
    """

    BOUNDS: ClassVar = {"reference_frames": (0, 10_000), "alignment_scale": (1e-9, 1.0)}

    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    hidden: int
    speakers: int
    level_width: int = 8
    encoder_mask: bool = True
    decoder_mask: bool = True
    alignment_width: int = 80
    alignment_scale: float = 5e-5
    context_frames: int = 600
    kept_frames: int = 360
    longest_word_frames: int = 60
    reference_frames: int = 0

    @staticmethod
    def named(name: str, speakers: int = 2) -> "Config":
        """``paper`` (4 and 8 layers, width 768), ``small`` (to be shipped) or ``tiny`` (for tables)."""
        sizes = {
            "paper": Config(4, 8, 768, 8, 4096, speakers),
            "small": Config(2, 3, 192, 3, 640, speakers),
            "tiny": Config(2, 2, 128, 2, 288, speakers, level_width=4),
        }
        if name not in sizes:
            raise BadOption(f"there is no config {name!r}", f"there are {', '.join(sizes)}")
        return sizes[name]


class S5(nn.Module):
    """Phonemes and dMel frames in; the next frame's 80 channels, p_stop and where the decoder attends out."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.stress = nn.Embedding(STRESSED, width)
        self.place = nn.Linear(2 * _PLACES, width, bias=False)
        self.encoder = Decoder(DecoderConfig(config.encoder_layers, width, config.heads, config.hidden))
        self.level = nn.Embedding(dmel.SYMBOLS, config.level_width)
        self.frame = nn.Linear(dmel.CHANNELS * config.level_width, width)
        self.bos = nn.Parameter(torch.randn(width) * 0.5)
        self.speaker = None if config.reference_frames else nn.Embedding(config.speakers, width)
        self.look_ahead = nn.Embedding(LARGEST_LOOK_AHEAD + 1, width)
        self.decoder = Decoder(DecoderConfig(config.decoder_layers, width, config.heads, config.hidden))
        self.cross = nn.ModuleList(CrossAttention(width, config.heads) for _ in range(config.decoder_layers))
        self.levels_out = nn.Linear(width, dmel.CHANNELS * dmel.LEVELS)
        self.stop_out = nn.Linear(width, 1)
        self.aligner = AuxiliaryAttention(width, config.alignment_width, config.alignment_scale)
        # frames of each speaker's silence, which precede every utterance, so that speech starts in the first frame
        self.silence: Tensor
        self.register_buffer(
            "silence", torch.zeros(config.speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8)
        )
        # what each speaker said once, and the ids of its phonemes: the net goes on as it began
        self.reference: Tensor
        self.transcript: Tensor
        if longest := config.reference_frames:
            frames = torch.full((config.speakers, longest, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8)
            self.register_buffer("reference", frames)
            self.register_buffer("transcript", torch.full((config.speakers, longest), -1))
        for table in (self.symbol, self.stress, self.speaker, self.look_ahead):
            if table is not None:
                nn.init.normal_(table.weight, std=0.5)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.stop_out.weight)
        nn.init.constant_(self.stop_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor) -> Tensor:
        """Phonemes, each with its stress: int64 [B, T] -> [B, T, D]."""
        return self.symbol(ids % SYMBOLS) + self.stress(ids // SYMBOLS)

    def embed_frames(self, levels: Tensor) -> Tensor:
        """Frames uint8 [..., 80] -> [..., D]."""
        return self.frame(self.level(levels.long()).flatten(-2))

    def embed_row(self, speaker: Tensor, k: Tensor) -> Tensor:
        """What every step of a row's decoder hears: speakers and look-aheads, int64 [B] each -> [B, D].

        Where a reference tells the speaker, nothing else does.
        """
        return self.look_ahead(k) if self.speaker is None else self.speaker(speaker) + self.look_ahead(k)

    def set_reference(self, speaker: int, symbols: Sequence[int], frames: Tensor) -> None:
        """Give a speaker a reference: its phonemes' ids, and frames uint8 [R, 80], at least as many."""
        self.reference[speaker], self.transcript[speaker] = dmel.PAD, -1
        self.reference[speaker, : len(frames)] = frames.to(self.reference.device)
        self.transcript[speaker, : len(symbols)] = torch.tensor([*symbols])

    def reference_of(self, speaker: int) -> tuple[list[int], Tensor]:
        """The ids of a speaker's transcript, and frames uint8 [R, 80]; none where an embedding tells the speaker."""
        if not self.config.reference_frames:
            return [], self.silence[speaker, :0]
        symbols, frames = self.transcript[speaker], self.reference[speaker]
        return symbols[symbols >= 0].tolist(), frames[frames[:, 0] != dmel.PAD]

    @torch.no_grad()
    def align(self, symbols: Sequence[int], frames: Tensor) -> np.ndarray:
        """The phoneme of each frame uint8 [R, 80], R >= T, by the auxiliary attention: int64 [R]."""
        ids = torch.tensor([[*symbols]], device=frames.device)
        real = torch.ones_like(ids, dtype=torch.bool)
        found = self.aligner(self.embed_frames(frames).unsqueeze(0), self.embed_symbols(ids), real)
        log_shares = found.cpu() + log_diagonal_prior(len(frames), len(symbols))
        return monotonic_alignment(log_shares.numpy(), np.array([len(frames)]), np.array([len(symbols)]))[0]

    def encode(self, embedded: Tensor, places: Tensor, seen: Tensor) -> Tensor:
        """Encode phonemes in parallel.

        Args:
            embedded: [B, T, D], from ``embed_symbols``.
            places: int64 [B, T], of each step since the text began; only differences mean something.
            seen: bool [B, T, T], who may see whom.

        Returns:
            [B, T, D], with what tells a step's place, so that the decoder can go on from where it is.
        """
        cos, sin = rotary(torch.arange(embedded.shape[1], device=embedded.device), self.encoder.config.head_width, 1e4)
        x, mask = embedded, seen.unsqueeze(1)
        for block in self.encoder.layers():
            q, k, v = block.project(x, cos, sin)
            x = block.finish(x, nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return self.encoder.norm(x) + self.place(sines(places).to(x.dtype))

    def decode(self, x: Tensor, memory: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Decode whole sequences.

        Args:
            x: [B, S, D], embedded frames.
            memory: [B, T, D], from ``encode``.
            seen: bool [B, S, T], which encoder steps each decoder step may attend to.

        Returns:
            Hidden states [B, S, D], and the cross-attention's shares, mean of all layers' heads, [B, S, T].
        """
        config = self.decoder.config
        cos, sin = rotary(torch.arange(x.shape[1], device=x.device), config.head_width, config.rotary_base)
        total: Tensor | None = None
        for block, cross in zip(self.decoder.layers(), self.crossings(), strict=True):
            q, k, v = block.project(x, cos, sin)
            x = block.mix(x, attend_whole(q, k, v))
            x, shares = cross(x, memory, seen)
            x = block.feed(x)
            total = shares if total is None else total + shares
        assert total is not None, "a decoder has layers"
        return self.decoder.norm(x), total / config.layers

    def crossings(self) -> list[CrossAttention]:
        """The cross-attention of each decoder layer."""
        return [one for one in self.cross if isinstance(one, CrossAttention)]

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [..., 80, 16] and of the stop token [...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.stop_out(hidden).squeeze(-1)


def sines(places: Tensor) -> Tensor:
    """Sines and cosines of places, int64 [...] -> float32 [..., 32]; angles are made in float64."""
    shortest, longest = _PERIODS
    steps = torch.linspace(0.0, 1.0, _PLACES, dtype=torch.float64, device=places.device)
    angles = places.to(torch.float64).unsqueeze(-1) * (2 * torch.pi / shortest) * (shortest / longest) ** steps
    return torch.cat((angles.sin(), angles.cos()), dim=-1).float()


def seen_steps(asking: Tensor, words: Tensor, k: Tensor) -> Tensor:
    """``rule.look_ahead_mask`` of tensors: words int64 [B, S] and [B, T], look-aheads [B] -> bool [B, S, T]."""
    return words.unsqueeze(1) <= (asking + k.unsqueeze(1)).unsqueeze(2)
