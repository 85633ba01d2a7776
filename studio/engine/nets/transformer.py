"""A lean pre-norm decoder: RMSNorm, rotary positions, query-key norm, squared-ReLU feed-forward.

Trained on whole sequences; ``lean.LeanDecoder`` runs what was trained a few tokens at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadOption

BLOCK_QUERIES = 256
Between = Callable[[int, Tensor], Tensor]
Watch = Callable[[int, Tensor, Tensor], None]


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder stack. ``hidden`` is the feed-forward width."""

    layers: int
    width: int
    heads: int
    hidden: int
    rotary_base: float = 10_000.0

    def __post_init__(self) -> None:
        if self.width % (2 * self.heads):
            raise BadOption(
                f"{self.heads} heads cannot share a width of {self.width}",
                "the width of each is an even whole number: its channels are turned in pairs",
            )

    @property
    def head_width(self) -> int:
        """Width of one head."""
        return self.width // self.heads


def rotary(positions: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines for absolute positions, int [...] -> two float32 [..., width / 2].

    Angles are made in float64, so that a stream may run for hours.
    """
    rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width)
    angles = positions.to(torch.float64).unsqueeze(-1) * rates
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs of channels of [..., T, width] by angles [..., T, width / 2]."""
    a, b = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Block(nn.Module):
    """One layer: attention and feed-forward, each on the normalised residual stream."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads, self.head_width = config.heads, config.head_width
        self.norm_attention = nn.RMSNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.norm_query = nn.RMSNorm(config.head_width)
        self.norm_key = nn.RMSNorm(config.head_width)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.norm_feed = nn.RMSNorm(config.width)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)
        nn.init.zeros_(self.out.weight)  # every layer begins as the identity
        nn.init.zeros_(self.down.weight)

    def project(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of [B, T, D], each [B, H, T, D / H]."""
        q, k, v = self.qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, self.head_width)).unbind(-3)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return rotate(self.norm_query(q), cos, sin), rotate(self.norm_key(k), cos, sin), v

    def mix(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add the attention's answer [B, H, T, D / H] to [B, T, D]."""
        return x + self.out(mixed.transpose(1, 2).flatten(2))

    def feed(self, x: Tensor) -> Tensor:
        """Add the feed-forward to [B, T, D]."""
        return x + self.down(F.relu(self.up(self.norm_feed(x))).square())

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add the attention's answer [B, H, T, D / H] and the feed-forward to [B, T, D]."""
        return self.feed(self.mix(x, mixed))


class Decoder(nn.Module):
    """A stack of blocks with a last norm."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)

    def layers(self) -> Iterator[Block]:
        """The blocks, in order."""
        for block in self.blocks:
            assert isinstance(block, Block)
            yield block

    def forward(self, x: Tensor, between: Between | None = None, watch: Watch | None = None) -> Tensor:
        """Causal pass over whole sequences, [B, T, D] -> [B, T, D].

        Args:
            between: what a family does between a layer's attention and its feed-forward, by the layer's number.
            watch: is told each layer's number, queries and keys [B, H, T, D / H].
        """
        positions = torch.arange(x.shape[1], device=x.device)
        cos, sin = rotary(positions, self.config.head_width, self.config.rotary_base)
        for number, block in enumerate(self.layers()):
            q, k, v = block.project(x, cos, sin)
            if watch is not None:
                watch(number, q, k)
            x = block.mix(x, attend_whole(q, k, v))
            x = block.feed(x if between is None else between(number, x))
        return self.norm(x)


def attend_whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention over whole sequences, [B, H, T, d] each.

    Training in bfloat16 on a CPU takes it in blocks of queries: a quarter to a half quicker than torch's kernel there.
    """
    if q.device.type != "cpu" or q.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    length = q.shape[2]
    ahead = torch.full((BLOCK_QUERIES, BLOCK_QUERIES), float("-inf"), dtype=q.dtype).triu(1)
    q = q * q.shape[-1] ** -0.5
    out = []
    for first in range(0, length, BLOCK_QUERIES):
        past = min(first + BLOCK_QUERIES, length)
        scores = q[:, :, first:past] @ k[:, :, :past].transpose(2, 3)
        scores[..., first:] += ahead[: past - first, : past - first]
        out.append(scores.softmax(-1) @ v[:, :, :past])
    return torch.cat(out, 2)
