"""Kyutai's language model of delayed streams (paper 002), as published: ``kyutai/tts-1.6b-en_fr`` and its siblings.

A step of the backbone takes the sum of a text token and the codes of a frame of Mimi and of the conditions, attends to
the last 500 steps and to the speakers, and yields text logits. The depth transformer then yields the step's codes one
by one. ``kyutai/tts-0.75b-en-public`` has no conditions and no speakers to attend to: a recording precedes its speech.
Modules are named as in Kyutai's files.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.nets.loading import load_published
from studio.engine.nets.windowed import Places, Ring, WindowedAttention, WindowedTransformer

ZERO = -1  # token without an embedding
_RENAMED = {".in_projs.0.weight": ".in_proj_weight", ".out_projs.0.weight": ".out_proj.weight"}


class RmsNorm(nn.Module):
    """Root mean square norm in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, width]."""
        wide = x.float()
        return (wide * self.alpha.float() * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-8)).to(x.dtype)


class GatedFeed(nn.Module):
    """Feed-forward of which one half gates the other by SiLU."""

    def __init__(self, width: int, feed_width: int) -> None:
        super().__init__()
        hidden = (
            21 * width // 8 if feed_width == 4 * width else 2 * feed_width // 3
        )  # as many numbers as without a gate
        self.linear_in = nn.Linear(width, 2 * hidden, bias=False)
        self.linear_out = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., width]."""
        gate, value = self.linear_in(x).chunk(2, -1)
        return self.linear_out(F.silu(gate) * value)


class CrossAttention(nn.Module):
    """Attention to vectors that do not change during a stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width).normal_(std=width**-0.5))
        self.out_proj = nn.Linear(width, width, bias=False)

    def keys_values(self, source: Tensor) -> Ring:
        """K and V [B, heads, S, head_width] of [B, S, width]."""
        weight = self.in_proj_weight[source.shape[-1] :].to(source.dtype)
        both = F.linear(source, weight).unflatten(-1, (2, self.heads, -1))
        keys, values = both.permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(self, x: Tensor, other: Ring) -> Tensor:
        """[B, T, width]."""
        q = F.linear(x, self.in_proj_weight[: x.shape[-1]]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return self.out_proj(F.scaled_dot_product_attention(q, *other).transpose(1, 2).flatten(2))


class BackboneBlock(nn.Module):
    """A layer of the backbone, with or without attention to speakers."""

    def __init__(self, width: int, heads: int, feed_width: int, *, has_cross: bool) -> None:
        super().__init__()
        self.self_attn, self.gating = WindowedAttention(width, heads), GatedFeed(width, feed_width)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.cross_attention = CrossAttention(width, heads) if has_cross else None
        self.norm_cross = nn.LayerNorm(width) if has_cross else None

    def forward(self, x: Tensor, ring: Ring, places: Places, other: Ring | None = None) -> tuple[Tensor, Ring]:
        """See ``WindowedTransformer``."""
        mixed, after = self.self_attn(self.norm1(x), ring, places)
        x = x + mixed
        if other is not None and self.cross_attention is not None and self.norm_cross is not None:
            x = x + self.cross_attention(self.norm_cross(x), other)
        return x + self.gating(self.norm2(x)), after


class TokenEmbedding(nn.Module):
    """Vectors of tokens, 0 for ``ZERO``.

    Args:
        rank: of a factorised table; None for a whole one.
        is_pair: a token is ``first + size * (1 + second)``, with a second one that may be absent.
    """

    def __init__(self, size: int, width: int, *, rank: int | None = None, is_pair: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size, rank or width).normal_(std=(rank or width) ** -0.5))
        self.low_rank = None if rank is None else nn.Linear(rank, width, bias=False)
        self.out1, self.out2 = (nn.Linear(rank or width, width, bias=False) if is_pair else None for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        """[...] int64 -> [..., width]."""
        size, known = len(self.weight), (tokens != ZERO)[..., None]
        tokens = tokens.clamp(min=0)
        if self.out1 is None or self.out2 is None:
            vectors = F.embedding(tokens, self.weight) * known
            return vectors if self.low_rank is None else self.low_rank(vectors)
        first, second = tokens % size, tokens // size - 1
        others = self.out2(F.embedding(second.clamp(min=0), self.weight)) * (second >= 0)[..., None]
        return (self.out1(F.embedding(first, self.weight)) + others) * known


class DepthAttention(nn.Module):
    """Causal attention over the codebooks of a step, with weights for each of ``sets``."""

    def __init__(self, width: int, heads: int, sets: int) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(sets * 3 * width, width).normal_(std=width**-0.5))
        self.out_proj = nn.Linear(width, sets * width, bias=False)
        self._heads, self._sets = heads, sets

    def forward(self, x: Tensor, chosen: int, past: Ring | None) -> tuple[Tensor, Ring]:
        """One codebook `x [N, 1, width]` after the earlier ones, by the chosen set of weights."""
        qkv = F.linear(x, self.in_proj_weight.chunk(self._sets)[chosen]).unflatten(-1, (3, self._heads, -1))
        q, keys, values = qkv.permute(2, 0, 3, 1, 4)
        if past is not None:
            keys, values = torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2)
        mixed = F.scaled_dot_product_attention(q, keys, values).transpose(1, 2).flatten(2)
        return F.linear(mixed, self.out_proj.weight.chunk(self._sets)[chosen]), (keys, values)


class DepthBlock(nn.Module):
    """A layer of the depth transformer, whose norms all sets share."""

    def __init__(self, width: int, heads: int, feed_width: int, sets: int) -> None:
        super().__init__()
        self.self_attn = DepthAttention(width, heads, sets)
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.gating = nn.ModuleList(GatedFeed(width, feed_width) for _ in range(sets))

    def forward(self, x: Tensor, chosen: int, past: Ring | None) -> tuple[Tensor, Ring]:
        """See ``DepthAttention``."""
        mixed, after = self.self_attn(self.norm1(x), chosen, past)
        x = x + mixed
        return x + self.gating[chosen](self.norm2(x)), after


class Condition(nn.Module):
    """Vectors of a condition, and what stands where there are none.

    Args:
        values: labels that it may have; None where it is given as vectors.
    """

    def __init__(self, width: int, outer_width: int, values: int | None) -> None:
        super().__init__()
        self.learnt_padding = nn.Parameter(torch.zeros(1, 1, outer_width))
        self.output_proj = nn.Linear(width, outer_width, bias=False)
        self.embed = None if values is None else nn.Embedding(values + 1, width)

    def forward(self, given: Tensor, present: Tensor) -> Tensor:
        """Vectors [B, S, width] or labels int64 [B, S], present [B, S] -> [B, S, outer_width]."""
        vectors = self.output_proj(given if self.embed is None else self.embed(given))
        return torch.where(present[..., None], vectors, self.learnt_padding)


@dataclass
class KyutaiState:
    """State of streams.

    Attributes:
        position: int64 [B], steps so far.
        rings: K and V of the backbone's layers in turn.
        others: K and V of the speakers for each layer; empty without cross-attention.
        offset: sum of the conditions that every step gets, [B, 1, dim].
    """

    position: Tensor
    rings: list[Tensor]
    others: list[Ring]
    offset: Tensor

    def take(self, rows: Tensor) -> "KyutaiState":
        """A copy of some rows (int64 indices)."""
        rings = [one[rows] for one in self.rings]
        others = [(keys[rows], values[rows]) for keys, values in self.others]
        return KyutaiState(self.position[rows], rings, others, self.offset[rows])

    def put(self, rows: Tensor, after: "KyutaiState") -> None:
        """Overwrite what a step changes of some rows."""
        self.position[rows] = after.position
        for mine, theirs in zip(self.rings, after.rings, strict=True):
            mine[rows] = theirs


class KyutaiLM(nn.Module):
    """Backbone and depth transformer."""

    def __init__(self, config: KyutaiConfig) -> None:
        super().__init__()
        self.config = c = config
        depth, rank = c.depformer_dim, c.depformer_low_rank_embeddings
        self.emb = nn.ModuleList(TokenEmbedding(c.card + 1, c.dim) for _ in range(c.n_q))
        self.text_emb = TokenEmbedding(c.text_card + 1, c.dim, is_pair=c.demux_second_stream)
        self.text_linear = nn.Linear(c.dim, c.text_card_out, bias=False)
        feed_width = int(c.hidden_scale * c.dim)
        blocks = (
            BackboneBlock(c.dim, c.num_heads, feed_width, has_cross=c.cross_attention) for _ in range(c.num_layers)
        )
        self.transformer = WindowedTransformer(
            blocks,
            heads=c.num_heads,
            head_width=c.dim // c.num_heads,
            window=c.context,
            rotary_base=c.max_period,
        )
        self.out_norm = RmsNorm(c.dim)
        self.depformer_in = nn.ModuleList(nn.Linear(c.dim, depth, bias=False) for _ in range(c.depth_sets))
        self.depformer_emb = nn.ModuleList(TokenEmbedding(c.card + 1, depth, rank=rank) for _ in range(c.dep_q - 1))
        self.depformer_text_emb = TokenEmbedding(c.text_card + 1, depth, rank=rank, is_pair=c.demux_second_stream)
        layers = (
            DepthBlock(depth, c.depformer_num_heads, c.depformer_dim_feedforward, c.depth_sets)
            for _ in range(c.depformer_num_layers)
        )
        self.depformer = nn.ModuleDict({"layers": nn.ModuleList(layers)})
        self.linears = nn.ModuleList(nn.Linear(depth, c.card, bias=False) for _ in range(c.dep_q))
        conditions = dict[str, nn.Module]()
        if c.cross_attention:
            conditions = {
                "speaker_wavs": Condition(c.speaker_width, c.dim, None),
                "cfg": Condition(c.cfg_width, c.dim, c.cfg_values),
                "control": Condition(c.control_width, c.dim, c.control_values),
            }
        self.condition_provider = nn.ModuleDict({"conditioners": nn.ModuleDict(conditions)})

    @property
    def device(self) -> torch.device:
        """Of the weights."""
        return self.out_norm.alpha.device

    def condition(self, name: str) -> Condition:
        """``speaker_wavs``, ``cfg`` or ``control``."""
        return cast(Condition, cast(nn.ModuleDict, self.condition_provider["conditioners"])[name])

    def init_state(self, rows: int, vectors: int = 0) -> "KyutaiState":
        """Zeros, for streams that attend to so many vectors of speakers."""
        c, like = self.config, self.out_norm.alpha
        attending = self.transformer.layers if c.cross_attention else ()
        rings = [one.to(like.dtype) for one in self.transformer.init_rings(rows, like.device)]
        shape = (rows, c.num_heads, vectors, c.dim // c.num_heads)
        return KyutaiState(
            position=torch.zeros(rows, dtype=torch.int64, device=like.device),
            rings=rings,
            others=[(like.new_zeros(shape), like.new_zeros(shape)) for _ in attending],
            offset=like.new_zeros(rows, 1, c.dim),
        )

    def attend(self, speakers: Tensor, present: Tensor) -> list[Ring]:
        """K and V of each layer's cross-attention.

        Args:
            speakers: [B, S, speaker_width], and where there is one, bool [B, S].
        """
        source = self.condition("speaker_wavs")(speakers, present)
        source = source + _sine_positions(source.shape[1], source.shape[2], source.device).to(source.dtype)
        blocks = (cast(BackboneBlock, one) for one in self.transformer.layers)
        return [cast(CrossAttention, one.cross_attention).keys_values(source) for one in blocks]

    def offset(self, labels: Mapping[str, Tensor]) -> Tensor:
        """What the conditions add to every step, [B, 1, dim].

        Args:
            labels: int64 [B, 1] of each condition, ``ZERO`` for none.
        """
        return torch.stack([self.condition(name)(one.clamp(min=0), one != ZERO) for name, one in labels.items()]).sum(0)

    def step(self, tokens: Tensor, state: KyutaiState) -> tuple[Tensor, Tensor, KyutaiState]:
        """Run steps of the backbone.

        Args:
            tokens: int64 [B, T, 1 + n_q], text and codes.

        Returns:
            Hidden states [B, T, dim] for ``depth``, text logits [B, T, text_card_out], and the next state.
        """
        audio = zip(self.emb, tokens[..., 1:].unbind(-1), strict=True)
        x = torch.stack([embed(one) for embed, one in audio]).sum(0) + self.text_emb(tokens[..., 0]) + state.offset
        x, rings = self.transformer(x, state.rings, state.position, state.others or None)
        hidden = self.out_norm(x)
        after = KyutaiState(state.position + tokens.shape[1], rings, state.others, state.offset)
        return hidden, self.text_linear(hidden), after

    def advance(self, tokens: Tensor, state: KyutaiState, rows: Tensor) -> tuple[Tensor, Tensor]:
        """``step`` of some rows (int64 indices), which changes the state: hidden states and text logits."""
        hidden, logits, after = self.step(tokens, state.take(rows))
        state.put(rows, after)
        return hidden, logits

    def depth(self, hidden: Tensor, text: Tensor, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The codes of a step, one after another.

        Args:
            hidden: [N, dim]; ``text`` int64 [N], the step's text tokens.
            choose: (codebook, logits [N, card]) -> its codes int64 [N].

        Returns:
            int64 [N, dep_q].
        """
        layers = cast(nn.ModuleList, self.depformer["layers"])
        past, codes = list[Ring | None]([None] * len(layers)), [text]
        embeddings = (self.depformer_text_emb, *self.depformer_emb)
        for codebook, chosen in enumerate(self.config.depformer_weights_per_step_schedule):
            x = (self.depformer_in[chosen](hidden) + embeddings[codebook](codes[-1]))[:, None]
            for number, layer in enumerate(layers):
                x, past[number] = layer(x, chosen, past[number])
            codes.append(choose(codebook, self.linears[codebook](x[:, 0])))
        return torch.stack(codes[1:], -1)


def _sine_positions(count: int, width: int, device: torch.device) -> Tensor:
    """[count, width], cosines before sines."""
    rates = 10_000.0 ** (-torch.arange(width // 2, device=device) / (width // 2 - 1))
    phases = torch.arange(count, device=device)[:, None] * rates
    return torch.cat((phases.cos(), phases.sin()), -1)


def load_kyutai_lm(path: Path, config: KyutaiConfig, dtype: torch.dtype | None = torch.bfloat16) -> KyutaiLM:
    """A published language model, as stored if ``dtype`` is None.

    Raises BadVoice: the file does not hold exactly these parameters.
    """
    with torch.device("meta"):
        net = KyutaiLM(config)
    load_published(net, path, _RENAMED, dtype)
    return net.eval().requires_grad_(False)
