"""S5-TTS's net (paper 001): a parallel phoneme encoder and an autoregressive frame decoder with cross-attention.

The paper's eight codebooks are dMel's groups of ten channels: embeddings are summed, and all are predicted at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from studio.core.cards import Card
from studio.core.errors import BadVoice
from studio.engine.families.common.text_tokens import IDS, SPACE, STRESSED, SYMBOLS
from studio.engine.families.s5.policy import LARGEST_LOOK_AHEAD, S5StepInput, SpeakerReference
from studio.engine.nets.frame_decoder import init_levels
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.loading import NetConfig, load_weights
from studio.engine.nets.transformer import CrossAttention, Decoder, DecoderConfig, attend_whole, rotary
from studio.engine.tokenizers import dmel
from studio.text import phonemes

_NEVER = -1e30


class AuxiliaryAttention(nn.Module):
    """Aligns frames to phonemes by the distance of two convolutional embeddings.

    Trained jointly with the decoder; at inference it aligns a reference recording once.

    Args:
        width: D, of embedded frames and phonemes.
        common: C, of the common embedding space.
        scale: delta of the softmax.
    """

    def __init__(self, width: int, common: int, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.query = _projection(width, common)
        self.key = _projection(width, common)

    def forward(self, frames: Tensor, symbols: Tensor, real: Tensor) -> Tensor:
        """log e of embedded frames [B, S, D] and phonemes [B, T, D] with padding mask bool [B, T] -> [B, S, T].

        e[s, t] = softmax over t of -delta * sum over c of (Q'[c, s] - K'[c, t])^2.
        """
        q = self.query(frames.transpose(1, 2)).float()
        k = self.key(symbols.transpose(1, 2)).float()
        distance = q.square().sum(1).unsqueeze(2) + k.square().sum(1).unsqueeze(1) - 2 * q.transpose(1, 2) @ k
        return (-self.scale * distance).masked_fill(~real.unsqueeze(1), _NEVER).log_softmax(-1)


def _projection(width: int, common: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(width, common, 3, padding=1), nn.ReLU(), nn.Conv1d(common, common, 1))


def monotonic_alignment(log_shares: np.ndarray, frames: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Monotonic alignment search: the best path through every symbol (Kim et al. 2020, algorithm 1).

    Args:
        log_shares: float [B, S, T].
        frames, symbols: int [B], valid lengths of S and T; frames >= symbols.

    Returns:
        phi: int64 [B, S], the symbol of each frame; padding frames get the last symbol.
    """
    batch, steps, _ = log_shares.shape
    score = np.full(log_shares.shape, _NEVER)
    score[:, 0, 0] = log_shares[:, 0, 0]
    for s in range(1, steps):
        came = np.pad(score[:, s - 1, :-1], ((0, 0), (1, 0)), constant_values=_NEVER)
        score[:, s] = np.maximum(score[:, s - 1], came) + log_shares[:, s]
    path = np.repeat(symbols[:, None] - 1, steps, axis=1).astype(np.int64)
    rows, at = np.arange(batch), symbols.astype(np.int64) - 1
    for s in range(steps - 1, 0, -1):
        inside = s < frames
        path[:, s] = at
        before = np.where(at > 0, score[rows, s - 1, np.maximum(at - 1, 0)], -np.inf)
        moves = inside & (at > 0) & (before >= score[rows, s - 1, at])
        at = at - moves
    path[:, 0] = at
    return path


def log_diagonal_prior(frames: int, symbols: int, width: float = 0.15) -> Tensor:
    """Diagonal prior of the alignment, log, float32 [S, T]."""
    s = (torch.arange(frames) + 0.5) / frames
    t = (torch.arange(symbols) + 0.5) / symbols
    return -0.5 * ((s[:, None] - t[None]) / width).square()


_SINES = 16  # and as many cosines, of an encoder step's position
_PERIODS = (4.0, 2048.0)  # the shortest and the longest, in encoder steps


@dataclass(frozen=True)
class S5Config(NetConfig):
    """Sizes.

    Attributes:
        encoder_mask, decoder_mask: whether the look-ahead-causal masks are on.
        alignment_width, alignment_scale: C and delta of the auxiliary attention.
        context_frames, kept_frames, longest_word_frames: see ``RowLimits``.
        reference_frames: the longest reference recording; 0 if an embedding gives the speaker.
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
    def named(name: str, speakers: int = 2) -> "S5Config":
        """``paper`` (4 and 8 layers, width 768), ``small`` (shipped) or ``tiny``."""
        sizes = {
            "paper": S5Config(4, 8, 768, 8, 4096, speakers),
            "small": S5Config(2, 3, 192, 3, 640, speakers),
            "tiny": S5Config(2, 2, 128, 2, 288, speakers, level_width=4),
        }
        return S5Config.pick(name, sizes)


class S5(nn.Module):
    """Phonemes and dMel frames -> the next frame's 80 channels, p_stop and cross-attention."""

    def __init__(self, config: S5Config) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.stress = nn.Embedding(STRESSED, width)
        self.place = nn.Linear(2 * _SINES, width, bias=False)
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
        # a silence prompt of each speaker, so that speech starts in the first frame
        self.silence: Tensor
        self.register_buffer(
            "silence", torch.zeros(config.speakers, dmel.SILENCE_FRAMES, dmel.CHANNELS, dtype=torch.uint8)
        )
        # a recording of each speaker with its phoneme ids, which the net continues
        self.reference: Tensor
        self.transcript: Tensor
        if longest := config.reference_frames:
            frames = torch.full((config.speakers, longest, dmel.CHANNELS), dmel.PAD, dtype=torch.uint8)
            self.register_buffer("reference", frames)
            self.register_buffer("transcript", torch.full((config.speakers, longest), -1))
        for table in (self.symbol, self.stress, self.speaker, self.look_ahead):
            if table is not None:
                nn.init.normal_(table.weight, std=0.5)
        init_levels(self.level)
        nn.init.zeros_(self.levels_out.weight)
        nn.init.zeros_(self.stop_out.weight)
        nn.init.constant_(self.stop_out.bias, -3.0)

    def embed_symbols(self, ids: Tensor) -> Tensor:
        """Phoneme ids with stress: int64 [B, T] -> [B, T, D]."""
        return self.symbol(ids % SYMBOLS) + self.stress(ids // SYMBOLS)

    def embed_frames(self, levels: Tensor) -> Tensor:
        """Frames uint8 [..., 80] -> [..., D]."""
        return self.frame(self.level(levels.long()).flatten(-2))

    def embed_row(self, speaker: Tensor, k: Tensor) -> Tensor:
        """Embedding of every decoder step: speakers and look-aheads, int64 [B] each -> [B, D].

        Without the speaker if a reference gives it.
        """
        return self.look_ahead(k) if self.speaker is None else self.speaker(speaker) + self.look_ahead(k)

    def set_reference(self, speaker: int, symbols: Sequence[int], frames: Tensor) -> None:
        """Set a speaker's reference: phoneme ids [T] and frames uint8 [R, 80], R >= T."""
        self.reference[speaker], self.transcript[speaker] = dmel.PAD, -1
        self.reference[speaker, : len(frames)] = frames.to(self.reference.device)
        self.transcript[speaker, : len(symbols)] = torch.tensor([*symbols])

    def reference_of(self, speaker: int) -> tuple[list[int], Tensor]:
        """A speaker's phoneme ids and frames uint8 [R, 80]; empty if an embedding gives the speaker."""
        if not self.config.reference_frames:
            return [], self.silence[speaker, :0]
        symbols, frames = self.transcript[speaker], self.reference[speaker]
        return symbols[symbols >= 0].tolist(), frames[frames[:, 0] != dmel.PAD]

    def align(self, symbols: Sequence[int], frames: Tensor) -> np.ndarray:
        """The phoneme of each frame uint8 [R, 80], R >= T, by the auxiliary attention: int64 [R]."""
        return self.align_scored(symbols, frames)[0]

    @torch.no_grad()
    def align_scored(self, symbols: Sequence[int], frames: Tensor) -> tuple[np.ndarray, float]:
        """``align``, and the mean log attention weight along the path, without the prior."""
        ids = torch.tensor([[*symbols]], device=frames.device)
        real = torch.ones_like(ids, dtype=torch.bool)
        log_e = self.aligner(self.embed_frames(frames).unsqueeze(0), self.embed_symbols(ids), real).cpu()
        log_shares = log_e + log_diagonal_prior(len(frames), len(symbols))
        path = monotonic_alignment(log_shares.numpy(), np.array([len(frames)]), np.array([len(symbols)]))[0]
        return path, float(log_e[0, torch.arange(len(frames)), torch.from_numpy(path)].mean())

    def encode(self, embedded: Tensor, positions: Tensor, seen: Tensor) -> Tensor:
        """Encode phonemes in parallel.

        Args:
            embedded: [B, T, D], from ``embed_symbols``.
            positions: int64 [B, T], of each step in the text; only differences matter.
            seen: bool [B, T, T], the attention mask.

        Returns:
            [B, T, D], including the embedding of the position.
        """
        cos, sin = rotary(torch.arange(embedded.shape[1], device=embedded.device), self.encoder.config.head_width, 1e4)
        x, mask = embedded, seen.unsqueeze(1)
        for block in self.encoder.layers():
            q, k, v = block.project(x, cos, sin)
            x = block.finish(x, nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return self.encoder.norm(x) + self.place(sines(positions).to(x.dtype))

    def decode(self, x: Tensor, encoded: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Decode whole sequences.

        Args:
            x: [B, S, D], embedded frames.
            encoded: [B, T, D], from ``encode``.
            seen: bool [B, S, T], which encoder steps each decoder step may attend to.

        Returns:
            Hidden states [B, S, D], and the cross-attention, mean of all layers and heads, [B, S, T].
        """
        config = self.decoder.config
        cos, sin = rotary(torch.arange(x.shape[1], device=x.device), config.head_width, config.rotary_base)
        total: Tensor | None = None
        for block, cross in zip(self.decoder.layers(), self.crossings(), strict=True):
            q, k, v = block.project(x, cos, sin)
            x = block.mix(x, attend_whole(q, k, v))
            x, shares = cross(x, encoded, seen)
            x = block.feed(x)
            total = shares if total is None else total + shares
        assert total is not None, "no layers"
        return self.decoder.norm(x), total / config.layers

    def crossings(self) -> list[CrossAttention]:
        """The cross-attention of each decoder layer."""
        return [one for one in self.cross if isinstance(one, CrossAttention)]

    def heads(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the next frame's levels [..., 80, 16] and of the stop token [...]."""
        levels = self.levels_out(hidden).unflatten(-1, (dmel.CHANNELS, dmel.LEVELS))
        return levels, self.stop_out(hidden).squeeze(-1)


def sines(positions: Tensor) -> Tensor:
    """Sines and cosines of positions, int64 [...] -> float32 [..., 32]; angles in float64."""
    shortest, longest = _PERIODS
    steps = torch.linspace(0.0, 1.0, _SINES, dtype=torch.float64, device=positions.device)
    angles = positions.to(torch.float64).unsqueeze(-1) * (2 * torch.pi / shortest) * (shortest / longest) ** steps
    return torch.cat((angles.sin(), angles.cos()), dim=-1).float()


def encode_input(net: "S5", step_input: S5StepInput, device: torch.device) -> Tensor:
    """Encode the words in view of one step: [1, T, D]."""
    symbols, words = (torch.tensor([[*values]], device=device) for values in (step_input.symbols, step_input.words))
    seen = seen_steps(words, words, torch.tensor([step_input.k], device=device))
    if not net.config.encoder_mask:
        seen = torch.ones_like(seen)
    positions = step_input.position + torch.arange(symbols.shape[1], device=device).unsqueeze(0)
    return net.encode(net.embed_symbols(symbols), positions, seen)


def encode_text(net: "S5", step_input: S5StepInput, text: KVCache, slot: int) -> None:
    """Encode the words in view of a step, and write the cross-attention's K and V into a slot."""
    encoded = encode_input(net, step_input, text.device)
    text.start[slot] = 0
    for layer, cross in enumerate(net.crossings()):
        keys, values = cross.keys_values(encoded)
        text.write(layer, slot, 0, keys[0], values[0])
    text.length[slot] = encoded.shape[1]


def decoder_mask(net: "S5", step_input: S5StepInput, device: torch.device) -> Tensor | None:
    """Encoder steps that each token of a step's input may attend to, bool [S, T]; None if it may attend to all."""
    if not (net.config.decoder_mask and step_input.spoken):
        return None
    asking, words = (torch.tensor([[*values]], device=device) for values in (step_input.spoken, step_input.words))
    return seen_steps(asking, words, torch.tensor([step_input.k], device=device))[0]


def seen_steps(asking: Tensor, words: Tensor, k: Tensor) -> Tensor:
    """Attention mask M[S][T]: whether the word of t is at most k words after that of s.

    M_enc of the paper with the encoder's words on both sides; M_dec with the words of the decoder's steps, A(s).

    Args:
        asking, words: int64 [B, S] and [B, T].
        k: look-aheads, int64 [B].
    """
    return words.unsqueeze(1) <= (asking + k.unsqueeze(1)).unsqueeze(2)


_LONGEST_REFERENCE = 400  # frames


def speaker_reference(net: S5, speaker: int) -> SpeakerReference:
    """A speaker's reference, split into words; empty if an embedding gives the speaker."""
    symbols, frames = net.reference_of(speaker)
    if not symbols:
        return SpeakerReference([], frames.cpu().numpy(), [])
    spoken = words_by_frame(net, symbols, frames) if net.config.decoder_mask else []
    return SpeakerReference(split_words(symbols), frames.cpu().numpy(), spoken)


def split_words(symbols: Sequence[int]) -> list[list[int]]:
    """Phoneme ids of each word; a word begins with a space."""
    words = [*accumulate(int(symbol == SPACE) for symbol in symbols)]
    return [[s for s, w in zip(symbols, words, strict=True) if w == word] for word in range(1, words[-1] + 1)]


def words_by_frame(net: S5, symbols: Sequence[int], frames: Tensor) -> list[int]:
    """The word of each frame of a reference, phoneme ids [T] and frames uint8 [R, 80]."""
    words = [*accumulate(int(symbol == SPACE) for symbol in symbols)]
    return [words[t] - 1 for t in net.align(symbols, frames)]


def load_s5_weights(net: S5, card: Card, folder: Path) -> None:
    """Load the verified weights of a card, and the lexicon. Raises BadVoice, NeedsPackage."""
    phonemes.load()
    load_weights(net, folder, card, f"{card.family}.safetensors")
    check_references(card, net)


def check_references(card: Card, net: S5) -> None:
    """Raises BadVoice if a reference is used and a speaker's recording or transcript is missing or invalid."""
    if net.config.reference_frames > _LONGEST_REFERENCE:
        raise BadVoice(f"a reference has {net.config.reference_frames} frames", f"at most {_LONGEST_REFERENCE} fit")
    for number, speaker in enumerate(card.speakers if net.config.reference_frames else ()):
        symbols, frames = net.reference_of(number)
        if not is_reference(symbols, frames):
            raise BadVoice(
                f"the reference of {speaker} has {len(symbols)} phonemes and {len(frames)} frames",
                "a reference is speech with its transcript; pack the voice again",
            )


def is_reference(symbols: Sequence[int], frames: Tensor) -> bool:
    """Whether phoneme ids [T] and frames uint8 [R, 80] are a transcript and its speech."""
    begins = len(symbols) > 0 and symbols[0] == SPACE and min(symbols) >= 0 and max(symbols) < IDS
    return begins and len(frames) >= len(symbols) and int(frames.max()) < dmel.LEVELS
