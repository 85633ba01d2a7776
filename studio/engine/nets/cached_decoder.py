"""A trained decoder with a KV cache on a CPU: compiled in float32, else by torch's products in int8."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from studio.engine.nets.cpu.decoder import CpuCrossAttention, CpuDecodeStep, CpuPrefill
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.folded import FoldedLayer, RotaryTable, unit
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.linear import NumberFormat, RowwiseLinear
from studio.engine.nets.transformer import Between, CrossAttention, Decoder


class CachedDecoder:
    """Runs a trained decoder over the slots of a KV cache; equal to ``Decoder.forward`` within rounding.

    Attributes:
        cpu_decode: one token of each row, in float32; None in int8.
        cpu_prefill: many tokens of one row, without cross-attention, in float32; None in int8.
    """

    @torch.no_grad()
    def __init__(self, decoder: Decoder, number_format: NumberFormat = "float32") -> None:
        self.config = c = decoder.config
        self._layers = [FoldedLayer(block, c, number_format) for block in decoder.layers()]
        self._rotary = RotaryTable(c.head_width, c.rotary_base)
        self.cpu_decode: CpuDecodeStep | None = None
        self.cpu_prefill: CpuPrefill | None = None
        if number_format == "float32":
            decode_layers = [layer.for_decode() for layer in self._layers]
            prefill_layers = [layer.for_prefill(one) for layer, one in zip(self._layers, decode_layers, strict=True)]
            self.cpu_decode = CpuDecodeStep(decode_layers, self._rotations)
            self.cpu_prefill = CpuPrefill(prefill_layers, c.heads, self._rotations)

    def _rotations(self, position: int, count: int) -> np.ndarray:
        return self._rotary.at(position, count).numpy()

    @torch.no_grad()
    def cpu_head(self, decoder: Decoder, weight: Tensor, bias: Tensor) -> PanelLinear:
        """A head with the last norm folded in, for hidden states as returned by ``extend``, on a CPU."""
        return PanelLinear(weight, bias, decoder.norm.weight * self.config.width**0.5)

    @torch.no_grad()
    def folded_head(self, decoder: Decoder, weight: Tensor) -> Tensor:
        """A head's weight [O, D] with the last norm folded in, for hidden states as returned by ``extend``."""
        return (weight * (decoder.norm.weight * self.config.width**0.5)).contiguous()

    def extend(self, x: Tensor, slots: KVCache, rows: Sequence[int], between: Between | None = None) -> Tensor:
        """Run T new tokens of each row, and append their K and V to its slot.

        Either one row with any number of tokens, or several rows with one token each. Attention runs row by row over
        exactly the tokens of the row, so a row's result does not depend on its batch.

        Args:
            x: [B, T, D]; row b continues slot ``rows[b]`` at its length.
            slots: lengths grow when every layer has run.
            between: the decoder's cross-attention, if any; N = tokens of one row, or rows of one token.

        Returns:
            The last token's hidden state divided by its length, [B, D].
        """
        count, tokens = x.shape[:2]
        assert count == 1 or tokens == 1, "several rows take one token each"
        if tokens == 1 and self.cpu_decode is not None:
            cross = None if between is None else _on_arrays(between)
            return torch.from_numpy(self.cpu_decode.extend(x[:, 0].numpy(), slots, rows, cross))
        if self.cpu_prefill is not None and between is None:
            return torch.from_numpy(self.cpu_prefill.extend(x[0].numpy(), slots, rows[0]))
        at = [int(slots.length[row]) for row in rows]
        if count == 1:
            rotations = self._rotary.at(at[0], tokens)
        else:
            rotations = torch.cat([self._rotary.at(position, 1) for position in at])
        h = self._run(x.reshape(count * tokens, -1), rotations[:, None, None], slots, rows, at, tokens, between)
        for row in rows:
            slots.length[row] += tokens
        last = h[-count:]
        return unit(last)

    def _run(
        self,
        h: Tensor,
        rotations: Tensor,
        slots: KVCache,
        rows: Sequence[int],
        at: list[int],
        tokens: int,
        between: Between | None,
    ) -> Tensor:
        """All layers over [N, D], N = tokens of one row or rows of one token; only the last tokens need be right.

        Args:
            rotations: [N, 1, 1, d / 2].
        """
        c, mask = self.config, None

        def project(product: RowwiseLinear, rows: Tensor) -> Tensor:
            return product(rows.unsqueeze(0))[0] if tokens > 1 else product(rows)

        for number, layer in enumerate(self._layers):
            qkv = project(layer.qkv, unit(h))
            qkv = qkv.view(len(h), 3, c.heads, c.head_width)
            qk = unit(qkv[:, :2]) * layer.gains
            pairs = torch.view_as_complex(qk.unflatten(-1, (-1, 2))) * rotations
            qk = torch.view_as_real(pairs).flatten(-2)
            if tokens > 1:
                if mask is None:
                    mask = _causal_mask(tokens, at[0] + tokens - int(slots.start[rows[0]]), h.device)
                q, k, v = qk[:, 0].transpose(0, 1), qk[:, 1].transpose(0, 1), qkv[:, 2].transpose(0, 1)
                slots.write(number, rows[0], at[0], k, v)
                if between is None and layer is self._layers[-1]:  # the other tokens' results are not used
                    h, q, mask = h[-1:], q[:, -1:], None
                mixed = attend(q, slots.read(number, rows[0], at[0] + tokens), mask).transpose(0, 1).flatten(1)
            else:
                mixed = torch.empty_like(h)
                for b, row in enumerate(rows):
                    slots.write(number, row, at[b], qk[b, 1, :, None], qkv[b, 2, :, None])
                    cached = slots.read(number, row, at[b] + 1)
                    mixed[b] = attend(qk[b, 0, :, None], cached, None).flatten()
            h = h + project(layer.out, mixed)
            if between is not None:
                h = between(number, h)
            inner = F.relu(project(layer.up, unit(h)))
            h = h + project(layer.down, inner * inner)
        return h


def _on_arrays(between: Between) -> Callable[[int, np.ndarray], np.ndarray]:
    return lambda layer, rows: between(layer, torch.from_numpy(rows)).numpy()


def _causal_mask(tokens: int, cached: int, device: torch.device) -> Tensor:
    """True where a later token must not be seen, bool [T, S]."""
    return torch.ones(tokens, cached, dtype=torch.bool, device=device).triu(cached - tokens + 1)


def attend(q: Tensor, cached: list[tuple[Tensor, Tensor]], mask: Tensor | None) -> Tensor:
    """Attention of scaled queries [H, T, d] over K and V in one or two pieces [H, S, d] -> [H, T, d]."""
    parts = [torch.bmm(q, keys.transpose(1, 2)) for keys, _ in cached]
    scores = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    if mask is not None:
        scores = scores.masked_fill_(mask, float("-inf"))
    shares = scores.softmax(dim=-1)
    if len(cached) == 1:
        return torch.bmm(shares, cached[0][1])
    first, second = shares.split([keys.shape[1] for keys, _ in cached], dim=2)
    return torch.bmm(first, cached[0][1]) + torch.bmm(second, cached[1][1])


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
