"""A linear layer by the compiled kernels."""

import numpy as np
from torch import Tensor

from studio.engine.nets.cpu import kernels


class PanelLinear:
    """A linear layer whose rows do not depend on each other (law 3), float32 in and out.

    A weight that is exact in bfloat16, as in most voices' files, is stored so: half the bytes to read, which is what a
    single row costs. The arithmetic is float32 either way.

    Args:
        weight: float32 [O, D].
        bias: [O]; none unless given.
        gain: [D], of the norm before it, applied to the input: folded into the weight, it would not be exact in
            bfloat16.

    Attributes:
        depth: D.
        weight_bytes: bytes to read for a row, without padding.
        panels: the weight as [panels, D, 32], float32, or bfloat16 as uint16; columns beyond O are 0.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, gain: Tensor | None = None) -> None:
        self._outputs, self.depth = weight.shape
        columns = -(-self._outputs // kernels.PANEL) * kernels.PANEL
        padded = np.zeros((columns, self.depth), np.float32)
        padded[: self._outputs] = weight.detach().numpy()
        bits = padded.view(np.uint32)
        is_half = not (bits & 0xFFFF).any()
        panels = (bits >> 16).astype(np.uint16) if is_half else padded
        panels = panels.reshape(-1, kernels.PANEL, self.depth).swapaxes(1, 2)
        if is_half:  # of sixteen columns, each of the first eight is next to one of the others: a word holds both
            panels = panels.reshape(*panels.shape[:2], -1, 2, 8).swapaxes(3, 4).reshape(panels.shape)
        self.panels = np.ascontiguousarray(panels)
        biases = 0 if bias is None else self._outputs
        self.weight_bytes = self._outputs * self.depth * panels.itemsize + 4 * biases
        self.bias = np.zeros(self._outputs, np.float32) if bias is None else bias.detach().numpy().copy()
        self.gain = np.ones(self.depth, np.float32) if gain is None else gain.detach().numpy().copy()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """float32 [..., D] -> [..., O]."""
        rows = np.ascontiguousarray(x.reshape(-1, x.shape[-1]))
        return kernels.linear(rows, self.gain, self.panels, self.bias).reshape(*x.shape[:-1], self._outputs)
