"""Linear layers whose rows do not depend on each other (law 3), in float32 or int8."""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadVoice

NumberFormat = Literal["float32", "int8"]
FORMATS: tuple[NumberFormat, ...] = ("float32", "int8")
_TYPICAL_ROWS = 32  # oneDNN picks a layout for this number; any other works as well


def check_format(name: str) -> NumberFormat:
    """A card's number format. Raises BadVoice."""
    for one in FORMATS:
        if name == one:
            return one
    raise BadVoice(f"there is no number format {name!r}", f"a card names one of {', '.join(FORMATS)}")


class RowwiseLinear(nn.Module):
    """A linear layer [B, ..., D] -> [B, ..., O], float32 in and out, for inference.

    ``float32`` runs row by row on a CPU, because a BLAS rounds differently for another number of rows. It costs little:
    reading the weights takes most of the time, and they are cached after the first row. On a GPU a batch runs at once.
    ``int8`` stores weights as int8 with a scale per output and takes rows in bfloat16: a quarter of the bytes to read.
    Torch's kernel for it runs row by row. Its samples differ from those of float32.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, number_format: NumberFormat = "float32") -> None:
        super().__init__()
        if weight.shape[1] % 16:
            number_format = "float32"  # torch's int8 kernel reads past the row there and crashes
        self._format = number_format
        weight, scales = weight.detach(), None
        if number_format == "int8":
            scales = (weight.abs().amax(1) / 127).clamp_min(1e-12).to(torch.bfloat16)
            weight = (weight / scales.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
        self._weight: Tensor
        self._scales: Tensor | None
        self._bias: Tensor | None
        self.register_buffer("_weight", weight.contiguous(), persistent=False)
        self.register_buffer("_scales", scales, persistent=False)
        self.register_buffer("_bias", None if bias is None else bias.detach(), persistent=False)

    @property
    def weight(self) -> Tensor:
        """The weight [O, D], in float32 only."""
        assert self._format == "float32"
        return self._weight

    def forward(self, x: Tensor) -> Tensor:
        """Each entry of the first dimension is a row of its own."""
        if self._format == "int8":
            rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
            out = torch.ops.aten._weight_int8pack_mm(rows, self._weight, self._scales).float().view(*x.shape[:-1], -1)
            return out if self._bias is None else out.add_(self._bias)
        if len(x) == 1 or x.device.type != "cpu" or torch.is_grad_enabled():
            return F.linear(x, self._weight, self._bias)
        return torch.cat([F.linear(row, self._weight, self._bias) for row in x.split(1)])


class PackedLinear:
    """A linear layer for many tokens of one row, on a CPU in float32, by oneDNN.

    oneDNN packs the weight once and picks kernels by CPU features. BLAS libraries go by the CPU's name: on a virtual
    AMD with AVX-512 they pick those of AVX2, half as fast. One row is faster in numpy, where a call costs less.

    Args:
        weight: [O, D].
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach().contiguous()
        self._packed = None
        if torch.backends.mkldnn.is_available():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._weight, _TYPICAL_ROWS)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[N, D] -> [N, O]."""
        if self._packed is None:
            return x @ self._weight.numpy().T
        return torch.ops.mkldnn._linear_pointwise(torch.from_numpy(x), self._packed, None, "none", [], "").numpy()


def use_rowwise_linear(net: nn.Module) -> None:
    """Replace every linear layer of a net by a ``RowwiseLinear``, for inference."""
    for name, child in list(net.named_children()):
        if isinstance(child, nn.Linear):
            setattr(net, name, RowwiseLinear(child.weight, child.bias))
        else:
            use_rowwise_linear(child)
