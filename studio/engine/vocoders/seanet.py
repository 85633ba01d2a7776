"""SEANet, the convolutions of Mimi between latents and samples (Tagliasacchi et al. 2020, causal in Défossez et al.).

The state of a layer is its last inputs, also of a transposed convolution, so that samples do not depend on how frames
are split into calls. Modules are named as in Kyutai's files, whose numbers count activations, too.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class CausalConv(nn.Module):
    """A convolution over new inputs and the last ones."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, *, bias: bool = True) -> None:
        super().__init__()
        self.conv = nn.ModuleDict({"conv": nn.Conv1d(inputs, outputs, kernel, stride, bias=bias)})
        self.tail_shape = (inputs, kernel - stride)

    @property
    def inner(self) -> nn.Conv1d:
        """The convolution itself."""
        return cast(nn.Conv1d, self.conv["conv"])

    def forward(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """`x [B, inputs, T]` after `tail [B, *tail_shape]`: [B, outputs, T / stride], and the next tail."""
        past = torch.cat((tail, x), 2)
        return self.inner(past), past[:, :, past.shape[2] - self.tail_shape[1] :]


class CausalUpsampling(nn.Module):
    """A transposed convolution with ``factor`` outputs from each input and the one before it."""

    def __init__(self, inputs: int, outputs: int, factor: int, *, groups: int = 1, bias: bool = True) -> None:
        super().__init__()
        inner = nn.ConvTranspose1d(inputs, outputs, 2 * factor, factor, groups=groups, bias=bias)
        self.convtr = nn.ModuleDict({"convtr": inner})
        self.tail_shape, self.factor = (inputs, 1), factor

    @property
    def inner(self) -> nn.ConvTranspose1d:
        """The convolution itself."""
        return cast(nn.ConvTranspose1d, self.convtr["convtr"])

    def forward(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """`x [B, inputs, T]` after `tail [B, inputs, 1]`: [B, outputs, T * factor], and the next tail."""
        past = torch.cat((tail, x), 2)
        return self.inner(past)[:, :, self.factor : -self.factor], past[:, :, -1:]


class ResidualUnit(nn.Module):
    """A narrow convolution and one over channels, added to the input."""

    def __init__(self, width: int, narrow_width: int, kernel: int) -> None:
        super().__init__()
        self.block = nn.ModuleDict(
            {"1": CausalConv(width, narrow_width, kernel), "3": CausalConv(narrow_width, width, 1)}
        )
        self.tail_shape = self.narrow.tail_shape

    @property
    def narrow(self) -> CausalConv:
        """The convolution over time."""
        return cast(CausalConv, self.block["1"])

    @property
    def wide(self) -> CausalConv:
        """The convolution over channels."""
        return cast(CausalConv, self.block["3"])

    def forward(self, x: Tensor, tail: Tensor) -> tuple[Tensor, Tensor]:
        """`x [B, width, T]` after `tail [B, *tail_shape]`, of activations: the same shapes."""
        inner, after = self.narrow(F.elu(x), tail)
        outer, _ = self.wide(F.elu(inner), inner[:, :, :0])
        return x + outer, after


Layer = CausalConv | CausalUpsampling | ResidualUnit


class Seanet(nn.Module):
    """Layers by their numbers in Kyutai's files, with ELU before all but the first and residual units."""

    def __init__(self, layers: Mapping[int, Layer]) -> None:
        super().__init__()
        self.model = nn.ModuleDict({str(number): layer for number, layer in layers.items()})
        self.layers = tuple(layers.values())

    def init_tails(self, rows: int, device: torch.device | str) -> list[Tensor]:
        """Zeros before the first input."""
        return [torch.zeros(rows, *layer.tail_shape, device=device) for layer in self.layers]

    def forward(self, x: Tensor, tails: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`x [B, C, T]`; returns the outputs and the next tails."""
        after = list[Tensor]()
        for layer, tail in zip(self.layers, tails, strict=True):
            if after and not isinstance(layer, ResidualUnit):
                x = F.elu(x)
            x, new = layer(x, tail)
            after.append(new)
        return x, after


def seanet_decoder(
    *, width: int, filters: int, ratios: Sequence[int], kernel: int, residual_kernel: int, last_kernel: int
) -> Seanet:
    """Latents [B, width, T] to samples [B, 1, T * product of ratios]; ``filters`` channels at the samples' rate."""
    widths = [filters << number for number in range(len(ratios), -1, -1)]
    layers: dict[int, Layer] = {0: CausalConv(width, widths[0], kernel)}
    for number, (factor, (wide, narrow)) in enumerate(zip(ratios, pairwise(widths), strict=True)):
        layers[3 * number + 2] = CausalUpsampling(wide, narrow, factor)
        layers[3 * number + 3] = ResidualUnit(narrow, narrow // 2, residual_kernel)
    layers[3 * len(ratios) + 2] = CausalConv(filters, 1, last_kernel)
    return Seanet(layers)


def seanet_encoder(
    *, width: int, filters: int, ratios: Sequence[int], kernel: int, residual_kernel: int, last_kernel: int
) -> Seanet:
    """Samples [B, 1, T * product of ratios] to latents [B, width, T]; arguments are those of the decoder."""
    widths = [filters << number for number in range(len(ratios) + 1)]
    layers: dict[int, Layer] = {0: CausalConv(1, filters, kernel)}
    for number, (factor, (narrow, wide)) in enumerate(zip(reversed(ratios), pairwise(widths), strict=True)):
        layers[3 * number + 1] = ResidualUnit(narrow, narrow // 2, residual_kernel)
        layers[3 * number + 3] = CausalConv(narrow, wide, 2 * factor, factor)
    layers[3 * len(ratios) + 2] = CausalConv(widths[-1], width, last_kernel)
    return Seanet(layers)
