"""Products of rows with trained weights, in a number format; a row's result never depends on its neighbours (law 3)."""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from studio.core.errors import BadVoice

NumberFormat = Literal["float32", "int8"]
_USUAL_ROWS = 32  # what a layout is chosen for; other numbers are as right
FORMATS: tuple[NumberFormat, ...] = ("float32", "int8")


def check_format(name: str) -> NumberFormat:
    """A card's number format. Raises BadVoice."""
    for one in FORMATS:
        if name == one:
            return one
    raise BadVoice(f"there is no number format {name!r}", f"a card names one of {', '.join(FORMATS)}")


def one_blas_thread() -> None:
    """Hold numpy's products to one thread: those of one row are too small to share, and shares change roundings."""
    threadpool_limits(1, user_api="blas")


class Product(nn.Module):
    """A linear layer [B, ..., D] -> [B, ..., O], float32 in and out, whose rows do not know each other.

    ``float32`` runs row by row on a CPU: a BLAS takes another kernel, with other roundings, for another number of rows.
    It costs little, since what takes long is to read the weights, and after the first row they are near. On a GPU the
    batch goes in one piece.
    ``int8`` keeps weights as whole numbers with a scale for each output and takes rows in bfloat16: a quarter of the
    bytes to read. Torch's kernel for it runs row by row. It is another voice, judged by its word errors; the card names
    it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, number_format: NumberFormat = "float32") -> None:
        super().__init__()
        if weight.shape[1] % 16:
            number_format = "float32"  # torch's kernel for int8 reads beyond the row there, and the process ends
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
        """The weight [O, D], of a product in float32."""
        assert self._format == "float32"
        return self._weight

    def forward(self, x: Tensor) -> Tensor:
        """The products of rows, each of an utterance of its own."""
        if self._format == "int8":
            rows = x.reshape(-1, x.shape[-1]).to(torch.bfloat16)
            out = torch.ops.aten._weight_int8pack_mm(rows, self._weight, self._scales).float().view(*x.shape[:-1], -1)
            return out if self._bias is None else out.add_(self._bias)
        if len(x) == 1 or x.device.type != "cpu" or torch.is_grad_enabled():
            return F.linear(x, self._weight, self._bias)
        return torch.cat([F.linear(row, self._weight, self._bias) for row in x.split(1)])


class Packed:
    """Many rows of one utterance times a weight, on a CPU in float32.

    oneDNN lays the weight out once and takes kernels for what the CPU can do. The BLAS libraries go by its name:
    on a virtual AMD with AVX-512 they take those of AVX2, half as fast. One row is faster in numpy: a call costs less.

    Args:
        weight: [O, D].
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach().contiguous()
        self._packed = None
        if torch.backends.mkldnn.is_available():
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._weight, _USUAL_ROWS)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[N, D] -> [N, O]."""
        if self._packed is None:
            return x @ self._weight.numpy().T
        return torch.ops.mkldnn._linear_pointwise(torch.from_numpy(x), self._packed, None, "none", [], "").numpy()


def rows_apart(net: nn.Module) -> None:
    """Put a ``Product`` in the place of every linear layer of a net that only runs from now on."""
    for name, child in list(net.named_children()):
        if isinstance(child, nn.Linear):
            setattr(net, name, Product(child.weight, child.bias))
        else:
            rows_apart(child)
