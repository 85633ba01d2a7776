"""Sampling without a generator: the noise is a function of (seed, frame, channel), so a seed repeats an utterance."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.noise.hashing import MASK32, hash32

_AHEAD_FRAMES = 64  # noise is made for so many frames at once


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
    return torch.where((temperature > 0)[:, None], drawn, logits.argmax(-1)).to(torch.uint8)


def log_likelihood(logits: Tensor, levels: Tensor) -> Tensor:
    """How likely frames of levels uint8 [N, C] are by logits [N, C, K], in nats: float32 [N], channels summed."""
    return logits.float().log_softmax(-1).gather(-1, levels.long().unsqueeze(-1))[..., 0].sum(-1)


def sample_on_host(logits: np.ndarray, temperature: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """``sample_levels`` in numpy: float32 [B, C, K], [B] and [B, C] to uint8 [B, C]."""
    scaled = (logits - logits.max(-1, keepdims=True)) / np.maximum(temperature, np.float32(1e-3))[:, None, None]
    shares = np.exp(scaled).cumsum(-1)
    drawn = (shares < (noise * shares[:, :, -1])[:, :, None]).sum(-1, dtype=np.uint8)
    if not (temperature > 0).all():
        drawn = np.where((temperature > 0)[:, None], drawn, logits.argmax(-1))
    return np.minimum(drawn, logits.shape[-1] - 1).astype(np.uint8)


class FrameNoise:
    """The noise of each slot's next frame, made many frames ahead.

    Attributes:
        seed, frame: of each slot, on the host: which noise comes next.
    """

    def __init__(self, slots: int, channels: int, device: torch.device) -> None:
        self.seed, self.frame = [0] * slots, [0] * slots
        self._noise = torch.zeros(slots, _AHEAD_FRAMES, channels, device=device)
        self._from: list[int | None] = [None] * slots

    def reset(self, slot: int) -> None:
        """Forget what was made ahead for a slot's former owner."""
        self._from[slot] = None

    def place(self, slot: int, seed: int, frame: int) -> None:
        """Which noise comes next in a slot."""
        if self.seed[slot] != seed:
            self._from[slot] = None
        self.seed[slot], self.frame[slot] = seed, frame

    def next(self, slots: Sequence[int]) -> Tensor:
        """The noise of the next frame of each slot, float32 [B, channels]."""
        return torch.stack([self._noise[slot, at] for slot, at in self._places(slots)])

    def next_on_host(self, slots: Sequence[int]) -> np.ndarray:
        """The same as an array, on a CPU."""
        places, noise = self._places(slots), self._noise.numpy()
        return np.stack([noise[place] for place in places])

    def _places(self, slots: Sequence[int]) -> list[tuple[int, int]]:
        """Each slot, and where in what was made ahead for it its next frame is."""
        found = []
        for slot in slots:
            first, frame = self._from[slot], self.frame[slot]
            if first is None or not first <= frame < first + _AHEAD_FRAMES:
                frames = torch.arange(frame, frame + _AHEAD_FRAMES, device=self._noise.device)
                seeds = torch.full_like(frames, self.seed[slot])
                self._noise[slot] = uniform(seeds, frames, self._noise.shape[-1])
                self._from[slot] = first = frame
            found.append((slot, frame - first))
        return found

    def drawn(self, slots: Sequence[int]) -> None:
        """A frame was drawn in each of these slots."""
        for slot in slots:
            self.frame[slot] += 1
