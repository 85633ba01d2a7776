"""Matrices kept in files in eight bits: whole numbers, and for each row what one of them is worth.

Files only: a net is loaded from them as from any other and computes as its card says. Half the size of bfloat16.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".row_scale"  # follows the name of a tensor kept so
_LARGEST = 127
_FEWEST_NUMBERS = 4096  # smaller tensors gain nothing


def in_eight_bits(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as a file keeps them: matrices [R, ...] as int8 with a scale float32 [R] each, the rest in bfloat16."""
    kept: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            kept[name] = tensor
        elif tensor.ndim < 2 or tensor.numel() < _FEWEST_NUMBERS:
            kept[name] = tensor.bfloat16()
        else:
            rows = tensor.float().flatten(1)
            scale = rows.abs().amax(1).clamp_min(1e-12) / _LARGEST
            kept[name] = (rows / scale[:, None]).round().to(torch.int8).view_as(tensor)
            kept[name + SCALE] = scale
    return kept


def restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as a net takes them, whatever a file keeps them in: numbers as float32.

    Raises:
        ValueError: a tensor in eight bits has no scale that fits, or a scale has no tensor.
    """
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE):
            if tensors.get(name.removesuffix(SCALE), tensor).dtype != torch.int8:
                raise ValueError(f"{name:.80} belongs to nothing")
        elif tensor.dtype == torch.int8:
            scale = tensors.get(name + SCALE)
            if scale is None or tensor.ndim < 2 or scale.shape != tensor.shape[:1]:
                raise ValueError(f"{name:.80} has no scale for each of its rows")
            made[name] = tensor.float() * scale.float().view(-1, *[1] * (tensor.ndim - 1))
        else:
            made[name] = tensor.float() if tensor.is_floating_point() else tensor
    return made
