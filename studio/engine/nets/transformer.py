"""A lean pre-norm decoder: RMSNorm, rotary positions, query-key norm, squared-ReLU feed-forward.

Trained on whole sequences (``forward``), run a few tokens at a time over cached keys and values (``extend``).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.slots import KeyValueSlots

T = TypeVar("T")
TILE_ROWS = 4
BLOCK_QUERIES = 256


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder stack. ``hidden`` is the feed-forward width."""

    layers: int
    width: int
    heads: int
    hidden: int
    rotary_base: float = 10_000.0

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


def by_tiles(run: Callable[[Tensor], T], x: Tensor) -> list[T]:
    """What ``run`` answers for each tile of rows of [B, ...], in order.

    On a CPU a tile has four rows: a BLAS takes another kernel, with other roundings, for other numbers of rows, and a
    row's result must not depend on how many neighbours it has (law 3). On a GPU the batch goes in one piece.
    """
    return [run(tile) for tile in (x.split(TILE_ROWS) if x.device.type == "cpu" else (x,))]


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

    def finish(self, x: Tensor, mixed: Tensor) -> Tensor:
        """Add the attention's answer [B, H, T, D / H] and the feed-forward to [B, T, D]."""
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norm_feed(x))).square())


class Decoder(nn.Module):
    """A stack of blocks with a last norm."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width)

    def _typed(self) -> Iterator[Block]:
        for block in self.blocks:
            assert isinstance(block, Block)
            yield block

    def forward(self, x: Tensor) -> Tensor:
        """Causal pass over whole sequences, [B, T, D] -> [B, T, D]."""
        positions = torch.arange(x.shape[1], device=x.device)
        cos, sin = rotary(positions, self.config.head_width, self.config.rotary_base)
        for block in self._typed():
            q, k, v = block.project(x, cos, sin)
            x = block.finish(x, attend_whole(q, k, v))
        return self.norm(x)

    def extend(self, x: Tensor, slots: KeyValueSlots, rows: list[int]) -> Tensor:
        """Run T new tokens of each row over what its slot holds, and keep their keys and values.

        The linear layers run on tiles of rows; attention runs row by row over exactly what the row holds, so
        a row's result depends neither on how many neighbours it has nor on how long they are.

        Args:
            x: [B, T, D]; row b continues slot ``rows[b]`` at its length. A slot of -1 is padding: computed, never kept.
            slots: where keys and values live; lengths grow when every layer has run.
        """
        left = iter(rows)
        return torch.cat(by_tiles(lambda tile: self._extend(tile, slots, list(islice(left, len(tile)))), x))

    def _extend(self, x: Tensor, slots: KeyValueSlots, rows: list[int]) -> Tensor:
        tokens = x.shape[1]
        at = [int(slots.length[row]) if row >= 0 else 0 for row in rows]
        positions = torch.tensor(at, device=x.device).unsqueeze(1) + torch.arange(tokens, device=x.device)
        cos, sin = rotary(positions, self.config.head_width, self.config.rotary_base)
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        for layer, block in enumerate(self._typed()):
            q, k, v = block.project(x, cos, sin)
            mixed = []
            for b, row in enumerate(rows):
                if row < 0:
                    mixed.append(v[b])
                    continue
                slots.write(layer, row, at[b], k[b], v[b])
                mixed.append(_attend(q[b], slots.held(layer, row, at[b] + tokens)))
            x = block.finish(x, torch.stack(mixed))
        for row in rows:
            if row >= 0:
                slots.length[row] += tokens
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


def _attend(q: Tensor, held: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Attention of the last T tokens [H, T, d] over all that is held, in pieces of [H, S, d] -> [H, T, d]."""
    tokens, count = q.shape[1], sum(keys.shape[1] for keys, _ in held)
    found = [q @ keys.transpose(1, 2) * q.shape[-1] ** -0.5 for keys, _ in held]
    scores = found[0] if len(found) == 1 else torch.cat(found, dim=2)
    if tokens > 1:
        allowed = torch.ones(tokens, count, dtype=torch.bool, device=q.device).tril(count - tokens)
        scores = scores.masked_fill(~allowed, float("-inf"))
    shares = scores.softmax(dim=-1).split([keys.shape[1] for keys, _ in held], dim=2)
    mixed = [share @ values for share, (_, values) in zip(shares, held, strict=True)]
    return mixed[0] if len(mixed) == 1 else mixed[0] + mixed[1]
