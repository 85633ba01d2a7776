"""Sampling without a generator: the noise is a function of (seed, frame, channel), so a seed repeats an utterance."""

import torch
from torch import Tensor

from studio.engine.hashing import MASK32, hash32


def uniform(seeds: Tensor, frames: Tensor, channels: int) -> Tensor:
    """Numbers in (0, 1), float32 [B, channels], from int64 [B] of seeds and [B] of frame indices."""
    low, high = seeds & MASK32, (seeds >> 32) & MASK32
    row = hash32(hash32(low ^ hash32(high + 0x9E3779B9 & MASK32)) + frames & MASK32)
    column = torch.arange(1, channels + 1, device=seeds.device, dtype=torch.int64) * 0x85EBCA6B & MASK32
    bits = hash32(row.unsqueeze(1) ^ hash32(column))
    return ((bits >> 8).to(torch.float32) + 0.5) * 2.0**-24


def sample_levels(logits: Tensor, temperature: Tensor, noise: Tensor) -> Tensor:
    """Draw one level for each channel by the inverse of its distribution.

    Args:
        logits: [B, C, K].
        temperature: float [B]; 0 takes the most likely level.
        noise: [B, C] in (0, 1), from ``uniform``.

    Returns:
        uint8 [B, C].
    """
    shares = (logits / temperature.clamp(min=1e-3)[:, None, None]).softmax(-1).cumsum(-1)
    drawn = (shares < noise.unsqueeze(-1)).sum(-1).clamp_(max=logits.shape[-1] - 1)
    if (temperature > 0).all():
        return drawn.to(torch.uint8)
    return torch.where((temperature > 0)[:, None], drawn, logits.argmax(-1)).to(torch.uint8)
