"""Kyutai's language model on a CPU: compiled kernels over the slots' state in place.

Weights stay in bfloat16, as published, which halves the bytes read per step; the arithmetic is float32. A row's
result does not depend on its batch, bit for bit (law 3), and rows of a batch read the weights once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from studio.engine.families.kyutai.model import (
    ZERO,
    BackboneBlock,
    DepthBlock,
    GatedFeed,
    KyutaiLM,
    KyutaiState,
    RmsNorm,
    TokenEmbedding,
)
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.cpu.layers import CpuLayerNorm, attend_fixed, attend_window, gated, product_in_halves
from studio.engine.nets.cpu.threads import limit_blas_to_one_thread
from studio.engine.nets.folded import RotaryTable
from studio.engine.nets.windowed import Ring

_EPS = np.float32(1e-8)


def _product(weight: Tensor, norm: RmsNorm | None = None) -> PanelLinear:
    """A product, after the gain of a norm if one is given."""
    return PanelLinear(weight.float(), gain=None if norm is None else norm.alpha.float().flatten())


def _optional(layer: nn.Linear | None) -> PanelLinear | None:
    return None if layer is None else _product(layer.weight)


def _normalised(x: np.ndarray) -> np.ndarray:
    """``RmsNorm`` of [..., D] without its gain."""
    return x / np.sqrt(np.vecdot(x, x) / np.float32(x.shape[-1]) + _EPS)[..., None]


class _Embedding:
    """A ``TokenEmbedding``; its table stays as it is stored."""

    def __init__(self, trained: TokenEmbedding) -> None:
        self._table = trained.weight.detach()
        self._low_rank, self._first, self._second = map(_optional, (trained.low_rank, trained.out1, trained.out2))

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        """int64 [...] -> float32 [..., width]."""
        size, known = len(self._table), (tokens != ZERO)[..., None]
        tokens = np.maximum(tokens, 0)
        if self._first is None or self._second is None:
            vectors = self._rows(tokens) * known
            return vectors if self._low_rank is None else self._low_rank(vectors)
        second = tokens // size - 1
        others = self._second(self._rows(np.maximum(second, 0))) * (second >= 0)[..., None]
        return (self._first(self._rows(tokens % size)) + others) * known

    def _rows(self, tokens: np.ndarray) -> np.ndarray:
        return self._table[torch.from_numpy(tokens)].float().numpy()


class _Block:
    """Self-attention and feed-forward of a layer, for one set of weights."""

    def __init__(
        self, norms: tuple[RmsNorm, RmsNorm], in_proj: Tensor, out_proj: Tensor, feed: GatedFeed, heads: int
    ) -> None:
        self._qkv, self._out = _product(in_proj, norms[0]), _product(out_proj)
        self._up, self._down = _product(feed.linear_in.weight, norms[1]), _product(feed.linear_out.weight)
        self.products = self._qkv, self._out, self._up, self._down
        self._scale = np.float32(math.sqrt(heads / in_proj.shape[1]))

    def attend(
        self, x: np.ndarray, rings: Sequence[np.ndarray], slots: np.ndarray, tokens: np.ndarray, rotations: np.ndarray
    ) -> np.ndarray:
        """`x [B, T, D]` with self-attention; the other arguments are those of ``attend_window``."""
        qkv, mixed = product_in_halves(self._qkv, _normalised(x)), np.empty_like(x)
        qkv[..., : x.shape[-1]] *= self._scale
        attend_window(qkv, *rings, slots, tokens, rotations, mixed)
        return x + product_in_halves(self._out, mixed)

    def feed(self, x: np.ndarray) -> np.ndarray:
        """[B, T, D] with the feed-forward."""
        wide = product_in_halves(self._up, _normalised(x))
        inner = np.empty((*x.shape[:-1], self._down.depth), np.float32)
        gated(wide.reshape(-1, wide.shape[-1]), inner.reshape(-1, inner.shape[-1]))
        return x + product_in_halves(self._down, inner)


class _Cross:
    """Attention to the speakers."""

    def __init__(self, block: BackboneBlock) -> None:
        assert block.cross_attention is not None and block.norm_cross is not None
        width, attention = block.norm_cross.normalized_shape[0], block.cross_attention
        self._norm = CpuLayerNorm(block.norm_cross)
        self._query, self._out = _product(attention.in_proj_weight[:width]), _product(attention.out_proj.weight)
        self.products = self._query, self._out
        self._scale = np.float32(math.sqrt(attention.heads / width))

    def __call__(self, x: np.ndarray, other: Ring, slots: np.ndarray) -> np.ndarray:
        """`x [B, T, D]` with cross-attention to K and V [slots, H, S, d]."""
        q, mixed = product_in_halves(self._query, self._norm(x)) * self._scale, np.empty_like(x)
        attend_fixed(q, other[0].numpy(), other[1].numpy(), slots, mixed)
        return x + product_in_halves(self._out, mixed)


class CpuKyutaiLM:
    """The methods of ``KyutaiLM`` that run streams.

    Args:
        trained: its layers are converted and deleted one by one; the modules for conditions and speakers remain.
    """

    device = torch.device("cpu")

    @torch.no_grad()
    def __init__(self, trained: KyutaiLM) -> None:
        limit_blas_to_one_thread()
        c = self.config = trained.config
        self._trained = trained
        trained.condition_provider.float()
        self._codes, self._text = (
            [*map(_Embedding, cast("list[TokenEmbedding]", trained.emb))],
            _Embedding(trained.text_emb),
        )
        self._out_gain = trained.out_norm.float().alpha.numpy().reshape(-1)
        self._text_logits = _product(trained.text_linear.weight)
        self._blocks, self._cross = list[_Block](), list[_Cross]()
        for block in cast("list[BackboneBlock]", trained.transformer.layers):
            attention, norms = block.self_attn, (block.norm1, block.norm2)
            self._blocks.append(
                _Block(norms, attention.in_proj_weight, attention.out_proj.weight, block.gating, c.num_heads)
            )
            if c.cross_attention:
                self._cross.append(_Cross(block))
            del block.self_attn, block.gating
        self._rotary = RotaryTable(c.dim // c.num_heads, c.max_period)
        self._depth_in = [_product(cast(nn.Linear, one).weight) for one in trained.depformer_in]
        depth_codes = map(_Embedding, cast("list[TokenEmbedding]", trained.depformer_emb))
        self._depth_tokens = [_Embedding(trained.depformer_text_emb), *depth_codes]
        self._depth_blocks = [self._sets(one) for one in cast("list[DepthBlock]", trained.depformer["layers"])]
        self._logits = [_product(cast(nn.Linear, one).weight) for one in trained.linears]
        del trained.emb, trained.text_emb, trained.text_linear, trained.linears
        del trained.depformer, trained.depformer_in, trained.depformer_emb, trained.depformer_text_emb
        self._unturned = np.tile(np.array([1, 0], np.float32), c.depformer_dim // c.depformer_num_heads // 2)

    def _sets(self, block: DepthBlock) -> list[_Block]:
        c = self.config
        weights = zip(
            block.self_attn.in_proj_weight.chunk(c.depth_sets),
            block.self_attn.out_proj.weight.chunk(c.depth_sets),
            cast("list[GatedFeed]", block.gating),
            strict=True,
        )
        norms = block.norm1, block.norm2
        return [_Block(norms, in_proj, out, feed, c.depformer_num_heads) for in_proj, out, feed in weights]

    @property
    def step_bytes(self) -> int:
        """Bytes of weights that a step of one row reads: each codebook those of its set."""
        backbone = sum(one.weight_bytes for part in (*self._blocks, *self._cross) for one in part.products)
        depth = sum(
            logits.weight_bytes + self._depth_in[chosen].weight_bytes + sum(one.weight_bytes for one in products)
            for chosen, logits in zip(self.config.depformer_weights_per_step_schedule, self._logits, strict=True)
            for products in [[one for sets in self._depth_blocks for one in sets[chosen].products]]
        )
        return backbone + self._text_logits.weight_bytes + depth

    def init_state(self, rows: int, vectors: int = 0) -> KyutaiState:
        """See ``KyutaiLM``."""
        return self._trained.init_state(rows, vectors)

    def attend(self, speakers: Tensor, present: Tensor) -> list[Ring]:
        """See ``KyutaiLM``."""
        return self._trained.attend(speakers, present)

    def offset(self, labels: Mapping[str, Tensor]) -> Tensor:
        """See ``KyutaiLM``."""
        return self._trained.offset(labels)

    @np.errstate(all="ignore")  # NotFinite is raised where results are read
    def advance(self, tokens: Tensor, state: KyutaiState, rows: Tensor) -> tuple[Tensor, Tensor]:
        """See ``KyutaiLM``."""
        slots, inputs = rows.numpy(), tokens.numpy()
        position = state.position.numpy()
        x = self._text(inputs[..., 0]) + state.offset.numpy()[slots]
        for number, embed in enumerate(self._codes):
            x += embed(inputs[..., 1 + number])
        past, count = position[slots], tokens.shape[1]
        turns = [self._rotary.at(int(first), count).numpy().view(np.float32) for first in past]
        rings, rotations = [one.numpy() for one in state.rings], np.stack(turns)
        for number, block in enumerate(self._blocks):
            x = block.attend(x, rings[2 * number : 2 * number + 2], slots, past, rotations)
            if state.others:
                x = self._cross[number](x, state.others[number], slots)
            x = block.feed(x)
        position[slots] = past + count
        hidden = _normalised(x) * self._out_gain
        return torch.from_numpy(hidden), torch.from_numpy(product_in_halves(self._text_logits, hidden))

    @np.errstate(all="ignore")
    def depth(self, hidden: Tensor, text: Tensor, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        """See ``KyutaiLM``."""
        c, rows = self.config, len(hidden)
        heads = c.depformer_num_heads
        shape = (2, len(self._depth_blocks), rows, heads, c.dep_q, c.depformer_dim // heads)
        keys, values = np.empty(shape, np.float32)
        slots, unturned = np.arange(rows), np.broadcast_to(self._unturned, (rows, 1, len(self._unturned)))
        inputs, codes, unturned = hidden.numpy(), [text], np.ascontiguousarray(unturned)
        for codebook, chosen in enumerate(c.depformer_weights_per_step_schedule):
            x = (product_in_halves(self._depth_in[chosen], inputs) + self._depth_tokens[codebook](codes[-1].numpy()))[
                :, None
            ]
            at = np.full(rows, codebook)
            for number, sets in enumerate(self._depth_blocks):
                x = sets[chosen].feed(sets[chosen].attend(x, (keys[number], values[number]), slots, at, unturned))
            codes.append(choose(codebook, torch.from_numpy(self._logits[codebook](x[:, 0]))))
        return torch.stack(codes[1:], -1)
