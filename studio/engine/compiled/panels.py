"""A trained weight as the compiled kernels take it."""

import numpy as np
from torch import Tensor

from studio.engine.compiled import kernels


class Panels:
    """Rows times a weight, each row alone: a row's result does not depend on how many there are (law 3).

    A weight that loses nothing in bfloat16, as those of most voices' files, is kept so: half the bytes to read, which
    is what a single row costs. The arithmetic is float32 either way.

    Args:
        weight: float32 [O, D].
        bias: [O]; none unless given.
        gain: [D], of the norm before it, which scales what comes; none unless given. It is not folded into the weight,
            which would not be in bfloat16 any more.

    Attributes:
        depth: D.
        weight_bytes: what there is to read for a row, without columns that only fill a panel.
        numbers: [panels, D, 32], float32, or bfloat16 as uint16; columns beyond O are 0.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, gain: Tensor | None = None) -> None:
        self._outputs, self.depth = weight.shape
        columns = -(-self._outputs // kernels.PANEL) * kernels.PANEL
        whole = np.zeros((columns, self.depth), np.float32)
        whole[: self._outputs] = weight.detach().numpy()
        bits = whole.view(np.uint32)
        is_half = not (bits & 0xFFFF).any()
        numbers = (bits >> 16).astype(np.uint16) if is_half else whole
        numbers = numbers.reshape(-1, kernels.PANEL, self.depth).swapaxes(1, 2)
        if is_half:  # of sixteen columns each of the first eight beside one of the others: a word holds both
            numbers = numbers.reshape(*numbers.shape[:2], -1, 2, 8).swapaxes(3, 4).reshape(numbers.shape)
        self.numbers = np.ascontiguousarray(numbers)
        biases = 0 if bias is None else self._outputs
        self.weight_bytes = self._outputs * self.depth * numbers.itemsize + 4 * biases
        self.bias = np.zeros(self._outputs, np.float32) if bias is None else bias.detach().numpy().copy()
        self.gain = np.ones(self.depth, np.float32) if gain is None else gain.detach().numpy().copy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """float32 [..., D] -> [..., O]."""
        rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
        return kernels.linear(rows, self.gain, self.numbers, self.bias).reshape(*x.shape[:-1], self._outputs)
