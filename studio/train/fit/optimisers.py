"""Optimisers of a training: Muon for hidden matrices, AdamW for the rest, and their learning rate schedule."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from studio.train.fit.resources import training_dtype
from studio.train.fit.training import TrainingModule
from studio.train.recipes.fits import FitRecipe


def build_optimisers(module: TrainingModule, recipe: FitRecipe) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for tables, heads and norms."""
    matrices = module.matrices()
    chosen = {id(p) for p in matrices}
    others = [p for p in module.parameters() if id(p) not in chosen]
    muon = torch.optim.Muon if training_dtype(matrices[0].device) == torch.bfloat16 else Float32Muon
    return [
        muon(matrices, lr=recipe.peak_rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=recipe.peak_rate, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def rate_share(progress: float, recipe: FitRecipe) -> float:
    """Share of the peak learning rate at a progress from 0 to 1: warm-up, flat, linear decay."""
    if progress < recipe.warmup_share:
        return max(progress / recipe.warmup_share, 0.02)
    if not recipe.decay_share:
        return 1.0
    return min(1.0, max(0.0, (1.0 - progress) / recipe.decay_share))


class Float32Muon(torch.optim.Muon):
    """torch's Muon with its iteration in float32.

    On a CPU without AVX-512 the bfloat16 iteration takes longer than the rest of a step. Settings, state and steps are
    the same, up to bfloat16 rounding.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; returns the loss of ``closure``."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
        return loss

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        if group["adjust_lr_fn"] != "match_rms_adamw":
            raise ValueError("only adjust_lr_fn='match_rms_adamw' is implemented")
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
    """Orthogonalise a matrix [A, B]: singular values near 1, by a quintic Newton-Schulz iteration."""
    a, b, c = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if is_tall else matrix) / matrix.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
