"""HiFi-GAN (Kong et al. 2020), the vocoder of paper 004, at dMel's rate; not causal, so run in overlapped chunks."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.core.errors import BadVoice
from studio.engine.nets.config import NetConfig
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.overlapped import OverlappedVocoder

_SLOPE = 0.1


@dataclass(frozen=True)
class HifiGanConfig(NetConfig):
    """NetConfig of a HiFi-GAN; the width is the paper's.

    Attributes:
        overlap_frames: frames spliced and cross-faded, the paper's 4 or 8.
        width: channels before the first upsampling, halved by each.
        upsampling: its factors, [8, 8, 2, 2] in the paper for 256 samples a frame; their product is ``frame_samples``.
        kernels, dilations: of the residual blocks whose outputs are averaged after each upsampling.
        mel_mean, mel_scale: how log10 mels become the net's input.
    """

    channels: int = dmel.CHANNELS
    frame_samples: int = dmel.TIME_BASE.frame_samples
    sample_rate_hz: int = dmel.TIME_BASE.rate_hz
    overlap_frames: int = 8
    width: int = 128
    upsampling: tuple[int, ...] = (10, 6, 5, 2)
    kernels: tuple[int, ...] = (3, 7, 11)
    dilations: tuple[int, ...] = (1, 3, 5)
    mel_mean: float = -2.5
    mel_scale: float = 1.5

    def derived_numbers(self) -> int:
        """Padding of the widest convolution."""
        return self.width * max(self.kernels) * max(self.dilations)


class ResidualBlock(nn.Module):
    """Pairs of convolutions, the first of each dilated, over [B, C, T]."""

    def __init__(self, width: int, kernel: int, dilations: tuple[int, ...]) -> None:
        super().__init__()
        self.near = nn.ModuleList(nn.Conv1d(width, width, kernel, padding=kernel // 2) for _ in dilations)
        self.far = nn.ModuleList(
            nn.Conv1d(width, width, kernel, padding=kernel // 2 * dilation, dilation=dilation) for dilation in dilations
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T] -> [B, C, T]."""
        for far, near in zip(self.far, self.near, strict=True):
            x = x + near(F.leaky_relu(far(F.leaky_relu(x, _SLOPE)), _SLOPE))
        return x


class HifiGan(OverlappedVocoder):
    """Frames to samples: transposed convolutions, each followed by a fusion of several receptive fields (MRF)."""

    name: ClassVar[str] = "hifigan"
    Config: ClassVar[type] = HifiGanConfig
    config: HifiGanConfig

    def __init__(self, config: HifiGanConfig) -> None:
        c = config
        if math.prod(c.upsampling) != c.frame_samples or not 1 <= c.overlap_frames <= 40:
            raise BadVoice(
                f"upsampling by {c.upsampling} does not make {c.frame_samples} samples of a frame, or "
                f"{c.overlap_frames} frames cannot overlap",
                "restore card.json from the repository",
            )
        super().__init__(c.overlap_frames, c.frame_samples)
        self.config = c
        widths = [c.width >> number for number in range(len(c.upsampling) + 1)]
        self.enter = nn.Conv1d(c.channels, c.width, 7, padding=3)
        self.raise_rate = nn.ModuleList(
            # The kernel length gives each step a whole number of neighbours on both sides.
            nn.ConvTranspose1d(wide, narrow, 2 * factor + factor % 2, factor, (factor + factor % 2) // 2)
            for factor, (wide, narrow) in zip(c.upsampling, pairwise(widths), strict=True)
        )
        self.fuse = nn.ModuleList(
            nn.ModuleList(ResidualBlock(width, kernel, c.dilations) for kernel in c.kernels) for width in widths[1:]
        )
        self.leave = nn.Conv1d(widths[-1], 1, 7, padding=3)

    def generate(self, frames: Tensor) -> Tensor:
        """See ``OverlappedVocoder.generate``."""
        x = self.enter(((frames - self.config.mel_mean) / self.config.mel_scale).transpose(1, 2))
        for upsample, blocks in zip(self.raise_rate, self.fuse, strict=True):
            x = upsample(F.leaky_relu(x, _SLOPE))
            assert isinstance(blocks, nn.ModuleList)
            x = torch.stack([block(x) for block in blocks]).mean(0)
        return torch.tanh(self.leave(F.leaky_relu(x, _SLOPE)))[:, 0]
