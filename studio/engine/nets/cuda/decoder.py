"""A trained decoder's layers on a GPU, over N tokens in the slots of a KV cache.

A decoding row brings one token, a new row brings its whole prefill, and all of them run in one step. For 1 to 8 tokens
each product is one kernel with the norm, the activation and the residual inside; above that, cuBLAS multiplies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from studio.engine.nets.cuda import kernels
from studio.engine.nets.kv_cache import KVCache
from studio.engine.nets.transformer import Block, CrossAttention, Decoder, DecoderConfig

GEMV_ROWS = 8  # above this, tensor cores pay
_MAX_SPLITS = 8


def compute_dtype(device: torch.device) -> torch.dtype:
    """Number format of weights and KV cache: bfloat16 on a GPU, float32 in Triton's interpreter."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def processors(device: torch.device) -> int:
    """Number of multiprocessors of a GPU; the interpreter gets few, and runs few programs."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4


def supports_pdl(device: torch.device) -> bool:
    """Whether the device has programmatic dependent launch."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def next_power(count: int) -> int:
    """The smallest power of two that is at least ``count``."""
    return 1 << (count - 1).bit_length()


@dataclass(frozen=True)
class TokenIndex:
    """Where the tokens of a step are, int32 [max_tokens] each, on the device.

    Attributes:
        slot: KV slot.
        position: position of the token in its slot's stream.
        start: first token that the slot holds.
        visible: encoder steps that the token may attend to (cross-attention).
    """

    slot: Tensor
    position: Tensor
    start: Tensor
    visible: Tensor


class CudaLinear:
    """A weight [O, K] for ``gemv`` and for cuBLAS."""

    def __init__(self, weight: Tensor, dtype: torch.dtype, *, pdl: bool = False) -> None:
        self.weight = weight.detach().to(dtype).contiguous()
        self.transposed = self.weight.T
        self.outputs, self._inputs = self.weight.shape
        self._padded = next_power(self._inputs)
        budget = 4096 if self._padded <= 1024 else 8192  # numbers of a tile: measured on an H100
        self._block = max(1, min(budget // self._padded, next_power(self.outputs)))
        self._launch: dict[str, Any] = {"num_warps": 4 if budget == 4096 else 8}
        self._pdl = pdl
        if pdl:
            self._launch["launch_pdl"] = True

    def gemv(
        self, x: Tensor, out: Tensor, rows: int, *, norm: bool = False, relu2: bool = False, add: bool = False
    ) -> None:
        """The first ``rows`` of x [N, K] into out [N, O]: see ``kernels.gemv``."""
        grid = (triton.cdiv(self.outputs, self._block),)
        kernels.gemv[grid](
            x, self.weight, out, self.outputs, self._inputs, self._padded, self._block, rows, norm, relu2, add,
            self._pdl, **self._launch,
        )  # fmt: skip


class _Layer:
    """One block's weights; gains of norms are folded in."""

    def __init__(
        self, block: Block, cross: CrossAttention | None, config: DecoderConfig, dtype: torch.dtype, *, pdl: bool
    ):
        root = config.width**0.5  # x / |x| * sqrt(D) is the RMS norm

        def linear(weight: Tensor) -> CudaLinear:
            return CudaLinear(weight, dtype, pdl=pdl)

        self.qkv = linear(block.qkv.weight * (block.norm_attention.weight * root))
        self.query_gain = block.norm_query.weight.detach().float().contiguous()  # 1 / sqrt(d) of the scores * sqrt(d)
        self.key_gain = (block.norm_key.weight * config.head_width**0.5).detach().float().contiguous()
        self.out = linear(block.out.weight)
        self.up = linear(block.up.weight * (block.norm_feed.weight * root))
        self.down = linear(block.down.weight)
        self.cross = None if cross is None else _CrossLayer(cross, dtype, pdl=pdl)


class _CrossLayer:
    """A cross-attention's weights. The norm's root of d and the scores' 1 / root cancel."""

    def __init__(self, cross: CrossAttention, dtype: torch.dtype, *, pdl: bool) -> None:
        root = (cross.heads * cross.head_width) ** 0.5
        self.query = CudaLinear(cross.query.weight * (cross.norm.weight * root), dtype, pdl=pdl)
        self.gain = cross.norm_query.weight.detach().float().contiguous()
        self.out = CudaLinear(cross.out.weight, dtype, pdl=pdl)


def _cross_values(layer: _Layer) -> list[Any]:
    return [] if layer.cross is None else [*vars(layer.cross).values()]


class CudaDecoder:
    """Runs a trained decoder over at most ``max_tokens`` tokens a step, in place.

    Args:
        crossings: the cross-attention of each layer, if any.

    Attributes:
        x: float32 [max_tokens, D], the input, and the residual stream.
        hidden: [max_tokens, D], the output: hidden states divided by their length (``normalise``).
        shares: float32 [max_tokens, H, S], the cross-attention, summed over the layers, if it is asked for.
    """

    @torch.no_grad()
    def __init__(
        self,
        decoder: Decoder,
        max_tokens: int,
        dtype: torch.dtype | None = None,
        crossings: Sequence[CrossAttention] = (),
    ) -> None:
        self.config = c = decoder.config
        device = decoder.norm.weight.device
        self.device, self.dtype = device, dtype or compute_dtype(device)
        self.pdl, self._processors = supports_pdl(device), processors(device)
        crosses = [*crossings] or [None] * c.layers
        pairs = zip(decoder.layers(), crosses, strict=True)
        self._layers = [_Layer(block, cross, c, self.dtype, pdl=self.pdl) for block, cross in pairs]
        self._final_gain = decoder.norm.weight.detach() * c.width**0.5
        half = c.head_width // 2
        powers = -torch.arange(0, c.head_width, 2, dtype=torch.float64, device=device) / c.head_width
        self._rates = c.rotary_base**powers / (2 * torch.pi)  # turns per position

        def buffer(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(max_tokens, *shape, dtype=dtype, device=device)

        self.x, self._added = buffer(c.width), buffer(c.width, dtype=self.dtype)
        self.hidden, self._mixed = (buffer(c.width, dtype=self.dtype) for _ in range(2))
        self._qkv, self._wide = buffer(3 * c.width, dtype=self.dtype), buffer(c.hidden, dtype=self.dtype)
        self._angles = buffer(2, half)
        pieces = max(self._splits(n) * n for n in range(1, min(max_tokens, 2 * self._processors) + 1))
        self._tops, self._totals = (torch.zeros(pieces, c.heads, device=device) for _ in range(2))
        self._parts = torch.zeros(pieces, c.heads, c.head_width, device=device)
        self.shares = self._scores = None

    @property
    def weights(self) -> list[Tensor]:
        """The weights of all layers."""
        linears = [value for layer in self._layers for value in (*vars(layer).values(), *_cross_values(layer))]
        return [one.weight for one in linears if isinstance(one, CudaLinear)]

    def keep_shares(self, steps: int) -> None:
        """Store the shares of the cross-attention over ``steps`` encoder steps in ``shares``."""
        self.shares, self._scores = (
            torch.zeros(len(self.x), self.config.heads, steps, device=self.device) for _ in range(2)
        )

    def head(self, weight: Tensor) -> CudaLinear:
        """A head [O, D] over ``hidden``, with the final norm folded in."""
        return CudaLinear(weight * self._final_gain, self.dtype, pdl=self.pdl)

    def _splits(self, tokens: int) -> int:
        """How many programs share a head's context: several while there are fewer heads than processors."""
        return max(1, min(_MAX_SPLITS, 2 * self._processors // (tokens * self.config.heads)))

    def run(self, count: int, at: TokenIndex, cache: KVCache, *, mixed: bool, encoded: KVCache | None = None) -> None:
        """Run the first ``count`` tokens of ``x`` through all layers, and append their K and V.

        Args:
            mixed: whether a row may bring several tokens; then all of them are written before any attends.
            encoded: K and V of the encoder steps, for cross-attention.
        """
        c = self.config
        kernels.compute_angles[(count,)](
            at.position, self._rates, self._angles, c.head_width // 2, next_power(c.head_width // 2), num_warps=1
        )
        small = count <= GEMV_ROWS
        if not small:
            self._normalise(count)
        for number, layer in enumerate(self._layers):
            self._project(layer.qkv, self._qkv, count)
            self._attend(layer, number, count, at, cache, mixed=mixed)
            if layer.cross is not None:
                assert encoded is not None, "cross-attention needs an encoder's K and V"
                self._attend_across(layer.cross, number, count, at, encoded)
            if small:
                layer.up.gemv(self.x, self._wide, count, norm=True, relu2=True)
                layer.down.gemv(self._wide, self.x, count, add=True)
            else:
                self._project(layer.up, self._wide, count)
                numbers = count * c.hidden
                kernels.square_relu[(triton.cdiv(numbers, 1024),)](self._wide, numbers, 1024)
                self._add(layer.down, self._wide, count)

    def normalise(self, count: int) -> None:
        """Set ``hidden`` from ``x``."""
        if count <= GEMV_ROWS:  # else it was set with the last residual
            self._normalise(count)

    def project(self, linear: CudaLinear, out: Tensor, low: Tensor, count: int) -> Tensor:
        """A head of the first ``count`` tokens, into ``out`` float32 [N, O] or, by cuBLAS, ``low`` [N, O]."""
        if count <= GEMV_ROWS:
            linear.gemv(self.x, out, count, norm=True)
            return out
        torch.mm(self.hidden[:count], linear.transposed, out=low[:count])
        return low

    def _project(self, linear: CudaLinear, out: Tensor, count: int) -> None:
        if count <= GEMV_ROWS:
            linear.gemv(self.x, out, count, norm=True)
        else:
            torch.mm(self.hidden[:count], linear.transposed, out=out[:count])

    def _add(self, linear: CudaLinear, source: Tensor, count: int) -> None:
        """Add a product to the residual stream."""
        if count <= GEMV_ROWS:
            linear.gemv(source, self.x, count, add=True)
        else:
            torch.mm(source[:count], linear.transposed, out=self._added[:count])
            self._normalise(count, add=True)

    def _normalise(self, count: int, *, add: bool = False) -> None:
        width = self.config.width
        warps = max(1, min(4, width // 128))  # no thread may load what another one stores
        kernels.add_and_normalise[(count,)](
            self.x, self._added, self.hidden, width, next_power(width), add, num_warps=warps
        )

    def _attend(self, layer: _Layer, number: int, count: int, at: TokenIndex, cache: KVCache, *, mixed: bool) -> None:
        c, splits = self.config, self._splits(count)
        heads, width, padded = c.heads, c.head_width, next_power(c.head_width)
        keys, values, out = cache.keys[number], cache.values[number], self._mixed if splits == 1 else self._parts
        grid, block = (count, heads, splits), (128 if splits == 1 else 64) * 64 // max(64, padded)
        pdl = self.pdl and count <= GEMV_ROWS and not mixed
        launch: dict[str, Any] = {"launch_pdl": True} if pdl else {}
        gains = layer.query_gain, layer.key_gain
        if mixed:
            kernels.write_tokens[(count, heads)](
                self._qkv, *gains, self._angles, keys, values, at.slot, at.position, cache.capacity, heads, width,
                padded, num_warps=1,
            )  # fmt: skip
            kernels.mixed_attention[grid](
                self._qkv, keys, values, at.slot, at.position, at.start, out, self._tops, self._totals, cache.capacity,
                heads, width, padded, block, splits, num_stages=2,
            )  # fmt: skip
        else:
            kernels.decode_attention[grid](
                self._qkv, *gains, self._angles, keys, values, at.slot, at.position, at.start, out, self._tops,
                self._totals, cache.capacity, heads, width, padded, block, splits, pdl, num_stages=2, **launch,
            )  # fmt: skip
        if splits > 1 and count == 1:
            block = max(1, min(16, 16384 // (next_power(heads) * padded)))
            kernels.join_gemv[(triton.cdiv(c.width, block),)](
                self._tops, self._totals, self._parts, layer.out.weight, self.x, c.width, heads, next_power(heads),
                width, padded, splits, block, pdl, **launch,
            )  # fmt: skip
            return
        if splits > 1:
            kernels.join_splits[(count,)](
                self._tops, self._totals, self._parts, self._mixed, heads, next_power(heads), width, padded, splits,
                pdl, **launch,
            )  # fmt: skip
        self._add(layer.out, self._mixed, count)

    def _attend_across(self, layer: _CrossLayer, number: int, count: int, at: TokenIndex, encoded: KVCache) -> None:
        c, keep = self.config, self.shares is not None
        self._project(layer.query, self._query, count)
        kernels.cross_attention[(count, c.heads)](
            self._query, layer.gain, encoded.keys[number], encoded.values[number], at.slot, at.visible, self._mixed,
            self._scores if keep else self.x, self.shares if keep else self.x, encoded.capacity, c.heads,
            c.head_width, next_power(c.head_width), 64, keep, number == 0,
        )  # fmt: skip
        self._add(layer.out, self._mixed, count)

    @property
    def _query(self) -> Tensor:
        """Memory for the queries of a cross-attention: that of the residual's products is free meanwhile."""
        return self._added
