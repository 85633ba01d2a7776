"""Cross-attention of a decoder to an encoder's steps: for training, and over the slots of a KV cache."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from studio.engine.nets.cpu.decode import CpuCrossAttention
from studio.engine.nets.cpu.linear import PanelLinear
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear


class CrossAttention(nn.Module):
    """Attends from the normalised residual stream to an encoder's steps, with normalised queries and keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.norm = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.norm_query = nn.RMSNorm(self.head_width)
        self.norm_key = nn.RMSNorm(self.head_width)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)  # every layer begins as the identity

    def keys_values(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of an encoder's steps [B, T, D], each [B, H, T, D / H]."""
        k, v = self.key_value(steps).unflatten(-1, (2, self.heads, self.head_width)).unbind(-3)
        return self.norm_key(k).transpose(1, 2), v.transpose(1, 2)

    def forward(self, x: Tensor, steps: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from [B, S, D] to [B, T, D], where bool [B, S, T] allows it.

        Returns:
            [B, S, D], and the attention shares, mean of the heads, float32 [B, S, T].
        """
        q = self.norm_query(self.query(self.norm(x)).unflatten(-1, (self.heads, self.head_width))).transpose(1, 2)
        k, v = self.keys_values(steps)
        scores = (q @ k.transpose(2, 3)).float() * self.head_width**-0.5
        shares = scores.masked_fill(~visible.unsqueeze(1), float("-inf")).softmax(-1)
        return x + self.out((shares.to(v.dtype) @ v).transpose(1, 2).flatten(2)), shares.mean(1)


class CachedCrossAttention:
    """Runs a trained cross-attention to encoder steps in the slots of a KV cache; rows do not depend on each other."""

    @torch.no_grad()
    def __init__(self, layer: int, trained: CrossAttention, number_format: NumberFormat = "float32") -> None:
        self._layer, self._heads, self._width = layer, trained.heads, trained.head_width
        root = (trained.heads * trained.head_width) ** 0.5
        self._trained, self._norm_gain = trained, trained.norm.weight * root
        self._query = RowwiseLinear(trained.query.weight * self._norm_gain, None, number_format)
        self._gain = trained.norm_query.weight.detach().clone()  # the norm's root of d and the scores' 1 / root cancel
        self._out = RowwiseLinear(trained.out.weight, None, number_format)

    def for_decode(self) -> CpuCrossAttention:
        """The layer for one token of each row, on a CPU in float32, attending to all that a slot holds."""
        query = PanelLinear(self._trained.query.weight, gain=self._norm_gain)
        return CpuCrossAttention(self._layer, query, self._gain.numpy(), PanelLinear(self._trained.out.weight))

    def __call__(
        self, h: Tensor, slots: KVCache, rows: Sequence[int], visible: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Attend from [N, D], one token of each row or N tokens of one row, to the rows' slots.

        Args:
            visible: bool [N, T], where the tokens of one row may attend; everywhere unless given.

        Returns:
            [N, D], and each row's shares of its last token, mean of the heads, [T].
        """
        is_one_row = len(rows) == 1 and len(h) > 1
        q = h / torch.linalg.vector_norm(h, dim=1, keepdim=True)
        q = (self._query(q.unsqueeze(0))[0] if is_one_row else self._query(q)).view(len(h), self._heads, self._width)
        q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True) * self._gain
        mixed, row_shares = torch.empty_like(h), list[Tensor]()
        for b, row in enumerate(rows):
            mine = slice(None) if is_one_row else slice(b, b + 1)
            ((keys, values),) = slots.read(self._layer, row, int(slots.length[row]))
            scores = torch.bmm(q[mine].transpose(0, 1), keys.transpose(1, 2))
            shares = (scores if visible is None else scores.masked_fill(~visible, float("-inf"))).softmax(-1)
            mixed[mine] = torch.bmm(shares, values).transpose(0, 1).flatten(1)
            row_shares.append(shares[:, -1].mean(0))
        return h + (self._out(mixed.unsqueeze(0))[0] if is_one_row else self._out(mixed)), row_shares
