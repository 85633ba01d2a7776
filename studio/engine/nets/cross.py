"""Cross-attention of a decoder to an encoder's steps; and the same made ready to run over slots."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from studio.engine.compiled.panels import Panels
from studio.engine.nets.one_token import TokenCross
from studio.engine.nets.products import NumberFormat, Product
from studio.engine.nets.slots import KeyValueSlots


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

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of an encoder's steps [B, T, D], each [B, H, T, D / H]."""
        k, v = self.key_value(memory).unflatten(-1, (2, self.heads, self.head_width)).unbind(-3)
        return self.norm_key(k).transpose(1, 2), v.transpose(1, 2)

    def forward(self, x: Tensor, memory: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from [B, S, D] to [B, T, D], where bool [B, S, T] allows it.

        Returns:
            [B, S, D], and the shares of attention, mean of the heads, float32 [B, S, T].
        """
        q = self.norm_query(self.query(self.norm(x)).unflatten(-1, (self.heads, self.head_width))).transpose(1, 2)
        k, v = self.keys_values(memory)
        scores = (q @ k.transpose(2, 3)).float() * self.head_width**-0.5
        shares = scores.masked_fill(~seen.unsqueeze(1), float("-inf")).softmax(-1)
        return x + self.out((shares.to(v.dtype) @ v).transpose(1, 2).flatten(2)), shares.mean(1)


class LeanCross:
    """Runs a trained cross-attention for tokens whose encoders' steps lie in slots; rows do not know each other."""

    @torch.no_grad()
    def __init__(self, layer: int, trained: CrossAttention, number_format: NumberFormat = "float32") -> None:
        self._layer, self._heads, self._width = layer, trained.heads, trained.head_width
        root = (trained.heads * trained.head_width) ** 0.5
        self._trained, self._norm_gain = trained, trained.norm.weight * root
        self._query = Product(trained.query.weight * self._norm_gain, None, number_format)
        self._gain = trained.norm_query.weight.detach().clone()  # the norm's root of d and the scores' 1 / root cancel
        self._out = Product(trained.out.weight, None, number_format)

    def for_tokens(self) -> TokenCross:
        """The same for one token of each row, on a CPU in float32, all of what a slot holds being seen."""
        query = Panels(self._trained.query.weight, gain=self._norm_gain)
        return TokenCross(self._layer, query, self._gain.numpy(), Panels(self._trained.out.weight))

    def __call__(
        self, h: Tensor, slots: KeyValueSlots, rows: Sequence[int], seen: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Attend from [N, D], one token of each row or N tokens of one row, to what the rows' slots hold.

        Args:
            seen: bool [N, T], which of it the tokens of one row may attend to; all of it unless given.

        Returns:
            [N, D], and each row's shares of its last token, mean of the heads, [T].
        """
        one_row = len(rows) == 1 and len(h) > 1
        q = h / torch.linalg.vector_norm(h, dim=1, keepdim=True)
        q = (self._query(q.unsqueeze(0))[0] if one_row else self._query(q)).view(len(h), self._heads, self._width)
        q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True) * self._gain
        mixed, found = torch.empty_like(h), list[Tensor]()
        for b, row in enumerate(rows):
            mine = q if one_row else q[b : b + 1]
            ((keys, values),) = slots.held(self._layer, row, int(slots.length[row]))
            scores = torch.bmm(mine.transpose(0, 1), keys.transpose(1, 2))
            shares = (scores if seen is None else scores.masked_fill(~seen, float("-inf"))).softmax(-1)
            answer = torch.bmm(shares, values).transpose(0, 1).flatten(1)
            mixed[slice(None) if one_row else slice(b, b + 1)] = answer
            found.append(shares[:, -1].mean(0))
        return h + (self._out(mixed.unsqueeze(0))[0] if one_row else self._out(mixed)), found
