"""Non-causal vocoders in spliced and cross-faded chunks (paper 004, section 2.1.4, equation 4).

    S_cur = G([tail(M_pre), M_cur]);  head(S_cur) = alpha * head(S_cur) + beta * tail(S_pre)

The samples of the newest frames are held back until the next chunk is there for the cross-fade, so output is
``look_ahead_frames`` late.

HiFi-GAN, the vocoder of that paper, is one of them.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.core.errors import BadVoice
from studio.engine.nets.loading import NetConfig
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder, VocoderState, seed_rows


@dataclass(frozen=True)
class CrossFade:
    """Overlapping frames, and the gains of both sides.

    Attributes:
        curve: samples -> the rising and the falling gain, [samples] each.
    """

    frames: int
    curve: Callable[[int], tuple[Tensor, Tensor]]


def equal_power(samples: int) -> tuple[Tensor, Tensor]:
    """alpha and beta of paper 004's equation 4, rising and falling [samples] each: their squares sum to one."""
    at = _quarter(samples)
    return at.sin().float(), at.cos().float()


def hann(samples: int) -> tuple[Tensor, Tensor]:
    """The two halves of a Hann window, rising and falling [samples] each: they sum to one."""
    at = _quarter(samples)
    return at.sin().square().float(), at.cos().square().float()


def _quarter(samples: int) -> Tensor:
    """Angles of a quarter turn at the middles of ``samples`` steps."""
    return (torch.arange(samples, dtype=torch.float64) + 0.5) / samples * (math.pi / 2)


FADES = {
    "equal-power": CrossFade(4, equal_power),  # paper 004, section 2.1.4
    "hann": CrossFade(2, hann),  # paper 001: two codec frames overlap, weighted by a Hanning window
}


@dataclass
class OverlapState(VocoderState):
    """The end of a chunk, for the next one.

    Attributes:
        tail: its last frames, [B, overlap, channels].
        held: their samples, held back, [B, overlap * frame_samples].
    """

    tail: Tensor
    held: Tensor


class OverlappedVocoder(Vocoder[OverlapState]):
    """A non-causal generator, run chunk by chunk.

    Its samples depend on the chunk boundaries, so streaming equals one run only where nothing is faded.
    """

    rise: Tensor
    fall: Tensor

    def __init__(self, overlap_frames: int, frame_samples: int) -> None:
        super().__init__()
        assert overlap_frames >= 1, "chunks overlap"
        rise, fall = equal_power(overlap_frames * frame_samples)
        self.register_buffer("rise", rise, persistent=False)
        self.register_buffer("fall", fall, persistent=False)

    @property
    def look_ahead_frames(self) -> int:
        """Frames needed beyond the one that is vocoded."""
        return int(self.config.overlap_frames)

    @abstractmethod
    def generate(self, frames: Tensor) -> Tensor:
        """Samples [B, T * frame_samples] of frames [B, T, channels], without state."""

    def forward(self, frames: Tensor, seed: int | Tensor = 0) -> Tensor:
        """Samples of whole streams, without splicing or fading."""
        return self.generate(frames)

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> OverlapState:
        """Silence before the first frame."""
        count, c = self.look_ahead_frames, self.config
        return OverlapState(
            position=torch.zeros(rows, dtype=torch.int64, device=device),
            seed=seed_rows(seed, rows, device),
            tail=torch.full((rows, count, c.channels), dmel.LOWEST, device=device),
            held=torch.zeros(rows, count * c.frame_samples, device=device),
        )

    def step(self, frames: Tensor, state: OverlapState) -> tuple[Tensor, OverlapState]:
        """As ``Vocoder.step``, but the samples are of frames ``look_ahead_frames`` before these."""
        now = frames.shape[1] * self.config.frame_samples
        spliced = torch.cat((state.tail, frames), dim=1)
        pcm = self.generate(spliced)
        faded = pcm[:, : len(self.rise)] * self.rise + state.held * self.fall
        pcm = torch.cat((faded, pcm[:, len(self.rise) :]), dim=1)
        after = OverlapState(state.position + now, state.seed, spliced[:, frames.shape[1] :], pcm[:, now:])
        return pcm[:, :now], after

    def held_back(self, state: OverlapState) -> Tensor:
        """Samples of the newest frames, not faded: [B, look_ahead_frames * frame_samples]."""
        return state.held


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
