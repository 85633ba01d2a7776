"""Weights of a trained decoder layer, folded so that a token takes few calls.

At these sizes a frame costs calls, not arithmetic. The gains of norms are folded into the following products, a norm
is a division by a length, and query and key are normalised, scaled and rotated together as complex numbers. Keys in the
KV cache have their channel pairs side by side, unlike those of ``transformer.Decoder``.
"""

from collections import OrderedDict

import torch
from torch import Tensor

from studio.engine.nets.cpu.decoder import CompiledPrefillLayer, CpuDecodeLayer, PackedPrefillLayer, PrefillLayer
from studio.engine.nets.cpu.kernels import PanelLinear
from studio.engine.nets.linear import NumberFormat, PackedLinear, RowwiseLinear
from studio.engine.nets.transformer import Block, DecoderConfig

_TABLE_POSITIONS = 2048
_MAX_TABLES = 64  # far more than streams of different ages need


def unit(x: Tensor) -> Tensor:
    """Vectors [..., D] divided by their lengths."""
    return x / torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def rotations_at(positions: Tensor, rates: Tensor) -> Tensor:
    """Rotations of positions int64 [N] at rates float64 [d / 2], complex64 [N, d / 2].

    Angles are float64, so that a stream may run for hours.
    """
    angles = positions.to(torch.float64).unsqueeze(-1) * rates
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)


class RotaryTable:
    """Rotations of absolute positions, complex64 [positions, width / 2], computed a table at a time."""

    def __init__(self, width: int, base: float) -> None:
        self._rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        self._tables: OrderedDict[int, Tensor] = OrderedDict()

    def at(self, position: int, count: int) -> Tensor:
        """Rotations of ``count`` consecutive positions, [count, width / 2]."""
        first, within = divmod(position, _TABLE_POSITIONS)
        if within + count <= _TABLE_POSITIONS:
            return self._table(first)[within : within + count]
        last = (position + count - 1) // _TABLE_POSITIONS
        joined = torch.cat([self._table(number) for number in range(first, last + 1)])
        return joined[within : within + count]

    def _table(self, number: int) -> Tensor:
        if number not in self._tables:
            first, last = number * _TABLE_POSITIONS, (number + 1) * _TABLE_POSITIONS
            self._tables[number] = rotations_at(torch.arange(first, last), self._rates)
            while len(self._tables) > _MAX_TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(number)
        return self._tables[number]


class FoldedLayer:
    """One block's folded weights: qkv, gains [2, 1, d], out, up, down."""

    def __init__(self, block: Block, config: DecoderConfig, number_format: NumberFormat) -> None:
        self._config, d, width = config, config.width, config.head_width
        # x / |x| * sqrt(D) is the RMS norm; the gain and the root go into the product.
        self._block, self._root = block, d**0.5
        qkv = _paired_qkv(block, config) * (block.norm_attention.weight * self._root)
        self.qkv = RowwiseLinear(qkv, None, number_format)
        gains = torch.stack((block.norm_query.weight, block.norm_key.weight * width**0.5))  # q: 1/sqrt(d) * sqrt(d)
        self.gains = gains.view(2, 2, width // 2).transpose(1, 2).reshape(2, 1, width).contiguous()
        self.out = RowwiseLinear(block.out.weight, None, number_format)
        self.up = RowwiseLinear(block.up.weight * (block.norm_feed.weight * self._root), None, number_format)
        self.down = RowwiseLinear(block.down.weight, None, number_format)

    def for_decode(self) -> CpuDecodeLayer:
        """The layer for one token of each row, on a CPU in float32."""
        block = self._block
        return CpuDecodeLayer(
            PanelLinear(_paired_qkv(block, self._config), gain=block.norm_attention.weight * self._root),
            self.gains[:, 0].contiguous().numpy(),
            PanelLinear(block.out.weight),
            PanelLinear(block.up.weight, gain=block.norm_feed.weight * self._root),
            PanelLinear(block.down.weight),
        )

    def for_prefill(self, decode_layer: CpuDecodeLayer) -> PrefillLayer:
        """The layer for many tokens of one row, on a CPU in float32; on AVX2 it shares the decode layer's weights."""
        if torch.backends.cpu.get_cpu_capability() == "AVX2":  # oneDNN takes a third longer there: docs/adr/0021
            return CompiledPrefillLayer(decode_layer)
        weights = (PackedLinear(one.weight) for one in (self.qkv, self.out, self.up, self.down))
        return PackedPrefillLayer(decode_layer.head_gains, *weights)


def _paired_qkv(block: Block, config: DecoderConfig) -> Tensor:
    """A block's qkv weight [3 D, D] with the channel pairs of queries and keys that rotate together side by side."""
    d, heads, width = config.width, config.heads, config.head_width
    qkv = block.qkv.weight
    paired = qkv.view(3, heads, 2, width // 2, d).transpose(2, 3).reshape(3, heads, width, d)
    return torch.cat((paired[:2], qkv.view(3, heads, width, d)[2:])).reshape(3 * d, d)
