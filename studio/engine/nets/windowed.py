"""Kyutai's streaming transformer: every token attends to a sliding window of the last tokens.

Pre-norm blocks with LayerScale and rotary positions, as in Mimi (Défossez et al. 2024). Modules are named as in
Kyutai's files. K and V of a stream are a ring, so that a stream runs for ever in constant memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.nets.folded import rotations_at

Ring = tuple[Tensor, Tensor]  # K and V of a layer, [B, heads, window, head_width] each


@dataclass(frozen=True)
class Places:
    """Positions of T new tokens of each stream, the same for every layer.

    Attributes:
        rotations: complex64 [B, 1, T, head_width / 2].
        visible: bool [B, 1, T, window + T], which tokens of the ring and of the new ones each token attends to.
        kept: int64 [T'], the new tokens that remain in the ring; ``slots`` [B, T'], their places there.
    """

    rotations: Tensor
    visible: Tensor
    kept: slice
    slots: Tensor


class LayerScale(nn.Module):
    """A learned gain of each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.01))

    def forward(self, x: Tensor) -> Tensor:
        """[..., width]."""
        return self.scale * x


class WindowedAttention(nn.Module):
    """Self-attention of new tokens to those of a ring and to each other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width).normal_(std=width**-0.5))
        self.out_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, ring: Ring, places: Places) -> tuple[Tensor, Ring]:
        """`x [B, T, width]`; returns the same shape and the next ring."""
        rows, tokens, width = x.shape
        shape = (rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = F.linear(x, self.in_proj_weight).view(shape).permute(2, 0, 3, 1, 4)
        q, k = (_rotate(one, places.rotations) for one in (q, k))
        keys, values = (torch.cat((stored, new), 2) for stored, new in zip(ring, (k, v), strict=True))
        mixed = F.scaled_dot_product_attention(q, keys, values, places.visible)
        after = tuple(_store(stored, new, places) for stored, new in zip(ring, (k, v), strict=True))
        return self.out_proj(mixed.transpose(1, 2).flatten(2)), (after[0], after[1])


def _rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Rotate the adjacent channel pairs of [B, heads, T, d]."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotations).flatten(-2).to(x.dtype)


def _store(stored: Tensor, new: Tensor, places: Places) -> Tensor:
    """A ring with the new tokens."""
    new = new[:, :, places.kept]
    return stored.scatter(2, places.slots[:, None, :, None].expand_as(new), new)


class WindowedBlock(nn.Module):
    """One layer."""

    def __init__(self, width: int, heads: int, feed_width: int) -> None:
        super().__init__()
        self.self_attn = WindowedAttention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, feed_width, bias=False)
        self.linear2 = nn.Linear(feed_width, width, bias=False)
        self.layer_scale_1, self.layer_scale_2 = LayerScale(width), LayerScale(width)

    def forward(self, x: Tensor, ring: Ring, places: Places) -> tuple[Tensor, Ring]:
        """`x [B, T, width]`; returns the same shape and the next ring."""
        mixed, after = self.self_attn(self.norm1(x), ring, places)
        x = x + self.layer_scale_1(mixed)
        return x + self.layer_scale_2(self.linear2(F.gelu(self.linear1(self.norm2(x))))), after


class WindowedTransformer(nn.Module):
    """A stack of blocks.

    Args:
        blocks: ``WindowedBlock`` or others with its arguments.
        heads: of ``head_width`` each.
        window: tokens that a token attends to, itself included.
        rotary_base: of the rotary positions.
    """

    def __init__(
        self, blocks: Iterable[nn.Module], *, heads: int, head_width: int, window: int, rotary_base: float
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.window, self.rotary_base = heads, head_width, window, rotary_base
        self.layers = nn.ModuleList(blocks)

    def init_rings(self, rows: int, device: torch.device | str) -> list[Tensor]:
        """Empty rings: K and V of each layer in turn, [B, heads, window, head_width]."""
        shape = (rows, self.heads, self.window, self.head_width)
        return [torch.zeros(shape, device=device) for _ in range(2 * len(self.layers))]

    def forward(
        self, x: Tensor, rings: list[Tensor], position: Tensor, others: Sequence[Ring] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Run T new tokens of each stream.

        Args:
            x: [B, T, width].
            rings: as from ``init_rings``; they are not changed.
            position: int64 [B], tokens that each stream has had.
            others: K and V of each layer's cross-attention, for blocks that have one.

        Returns:
            [B, T, width] and the next rings.
        """
        places, after = self._places(position, x.shape[1]), list[Tensor]()
        for number, block in enumerate(self.layers):
            ring = rings[2 * number], rings[2 * number + 1]
            x, ring = block(x, ring, places) if others is None else block(x, ring, places, others[number])
            after += ring
        return x, after

    def _places(self, position: Tensor, tokens: int) -> Places:
        device, window = position.device, self.window
        at = position[:, None] + torch.arange(tokens, device=device)  # [B, T]
        last = position[:, None] - 1
        stored = last - (last - torch.arange(window, device=device)) % window  # [B, window], negative where empty
        held = torch.cat((stored, at), 1)[:, None]
        age = at[:, :, None] - held
        rates = self.rotary_base ** (
            -torch.arange(0, self.head_width, 2, dtype=torch.float64, device=device) / self.head_width
        )
        kept = slice(max(0, tokens - window), tokens)
        return Places(
            rotations=rotations_at(at, rates)[:, None],
            visible=((held >= 0) & (age >= 0) & (age < window))[:, None],
            kept=kept,
            slots=at[:, kept] % window,
        )
