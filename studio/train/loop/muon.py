"""Muon in float32, where a CPU is slow in bfloat16."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Float32Muon(torch.optim.Muon):
    """torch's Muon, whose iteration in bfloat16 takes longer than all the rest of a step on a CPU without AVX-512.

    The same settings, state and steps, within what bfloat16 rounds.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; answers what ``closure`` does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)
        return loss

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if group["adjust_lr_fn"] != "match_rms_adamw":
            raise ValueError("only adjust_lr_fn='match_rms_adamw' is written here")
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        past, momentum = state["momentum_buffer"], group["momentum"]
        past.lerp_(gradient, 1 - momentum)
        update = gradient.lerp(past, momentum) if group["nesterov"] else past
        update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-group["lr"] * 0.2 * max(weight.shape) ** 0.5)


def orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix [A, B] with singular values that are all near 1, by a quintic Newton-Schulz iteration."""
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix) / matrix.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
