"""Sampling with counter-based noise, a function of (seed, frame, channel), so that a seed repeats an utterance."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

MASK32 = 0xFFFFFFFF


def hash32(x: Tensor) -> Tensor:
    """A hash of 32-bit numbers, equal on every device (Chris Wellons's lowbias32).

    Args:
        x: int64 of any shape, not negative.

    Returns:
        int64 of the same shape, 32 bits of each.
    """
    x = (x ^ (x >> 16)) * 0x7FEB352D & MASK32
    x = (x ^ (x >> 15)) * 0x846CA68B & MASK32
    return x ^ (x >> 16)


_AHEAD_FRAMES = 64  # computed at once


def uniform(seeds: Tensor, frames: Tensor, channels: int) -> Tensor:
    """Numbers in (0, 1), float32 [B, channels], from int64 [B] of seeds and [B] of frame indices."""
    low, high = seeds & MASK32, (seeds >> 32) & MASK32
    row = hash32(hash32(low ^ hash32(high + 0x9E3779B9 & MASK32)) + frames & MASK32)
    column = torch.arange(1, channels + 1, device=seeds.device, dtype=torch.int64) * 0x85EBCA6B & MASK32
    bits = hash32(row.unsqueeze(1) ^ hash32(column))
    return ((bits >> 8).to(torch.float32) + 0.5) * 2.0**-24


def sample_levels(logits: Tensor, temperature: Tensor, noise: Tensor) -> Tensor:
    """``sample_tokens`` as uint8 [B, C]."""
    return sample_tokens(logits, temperature, noise).to(torch.uint8)


def sample_tokens(logits: Tensor, temperature: Tensor, noise: Tensor, top_k: int | None = None) -> Tensor:
    """Draw one level or token for each channel by the inverse of its distribution. Returns int64 [B, C].

    Args:
        logits: [B, C, K].
        temperature: float [B]; 0 takes the most likely one.
        noise: [B, C] in (0, 1), from ``uniform``.
        top_k: draw one of the most likely ones only.
    """
    if top_k is not None and top_k < logits.shape[-1]:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[..., -1:], -torch.inf)
    shares = (logits / temperature.clamp(min=1e-3)[:, None, None]).softmax(-1).cumsum(-1)
    sampled = (shares < noise.unsqueeze(-1)).sum(-1).clamp_(max=logits.shape[-1] - 1)
    return torch.where((temperature > 0)[:, None], sampled, logits.argmax(-1))


def log_likelihood(logits: Tensor, levels: Tensor) -> Tensor:
    """Log-likelihood of levels uint8 [N, C] under logits [N, C, K], in nats, summed over channels: float32 [N]."""
    return logits.float().log_softmax(-1).gather(-1, levels.long().unsqueeze(-1))[..., 0].sum(-1)


def sample_levels_numpy(logits: np.ndarray, temperature: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """``sample_levels`` in numpy: float32 [B, C, K], [B] and [B, C] to uint8 [B, C]."""
    scaled = (logits - logits.max(-1, keepdims=True)) / np.maximum(temperature, np.float32(1e-3))[:, None, None]
    shares = np.exp(scaled).cumsum(-1)
    sampled = (shares < (noise * shares[:, :, -1])[:, :, None]).sum(-1, dtype=np.uint8)
    if not (temperature > 0).all():
        sampled = np.where((temperature > 0)[:, None], sampled, logits.argmax(-1))
    return np.minimum(sampled, logits.shape[-1] - 1).astype(np.uint8)


class FrameNoise:
    """The noise of each slot's next frame, computed many frames ahead.

    Attributes:
        seed, frame: int64 [slots], which noise comes next.
    """

    def __init__(self, slots: int, channels: int, device: torch.device) -> None:
        self.seed, self.frame = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._noise = torch.zeros(slots, _AHEAD_FRAMES, channels, device=device)
        self._first: list[int | None] = [None] * slots

    def reset(self, slot: int) -> None:
        """Discard the noise of a slot's former owner."""
        self._first[slot] = None

    def seek(self, slot: int, seed: int, frame: int) -> None:
        """Set which noise comes next in a slot."""
        if self.seed[slot] != seed:
            self._first[slot] = None
        self.seed[slot], self.frame[slot] = seed, frame

    def next(self, slots: Sequence[int]) -> Tensor:
        """The noise of the next frame of each slot, float32 [B, channels]."""
        return torch.stack([self._noise[slot, at] for slot, at in self._indices(slots)])

    def next_array(self, slots: Sequence[int]) -> np.ndarray:
        """``next`` as an array, on a CPU."""
        indices, noise = self._indices(slots), self._noise.numpy()
        return np.stack([noise[index] for index in indices])

    def _indices(self, slots: Sequence[int]) -> list[tuple[int, int]]:
        """Each slot with the index of its next frame in the computed noise."""
        indices = []
        for slot in slots:
            first, frame = self._first[slot], int(self.frame[slot])
            if first is None or not first <= frame < first + _AHEAD_FRAMES:
                frames = torch.arange(frame, frame + _AHEAD_FRAMES, device=self._noise.device)
                seeds = torch.full_like(frames, int(self.seed[slot]))
                self._noise[slot] = uniform(seeds, frames, self._noise.shape[-1])
                self._first[slot] = first = frame
            indices.append((slot, frame - first))
        return indices

    def advance(self, slots: Sequence[int]) -> None:
        """Go to the next frame in these slots."""
        for slot in slots:
            self.frame[slot] += 1
