"""VocStream (paper 000, section III.E): a causal upsampler of frames, then a causal WaveNet that makes samples.

Both halves are ParallelWaveGAN's generator (Yamamoto et al. 2020) with causal convolutions. The paper
gives rates, depths and parameter counts; a width of 128 meets both counts. Two choices are ours: a learned layer
spreads frames over finer steps, and conditions are repeated over samples, so that the layers that read them run at
160 Hz instead of 24 kHz.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from studio.engine.nets.loading import NetConfig
from studio.engine.tokenizers import dmel
from studio.engine.vocoders.base import Vocoder, VocoderState, seed_rows
from studio.engine.vocoders.excitation import uniform_noise


@dataclass(frozen=True)
class VocStreamConfig(NetConfig):
    """NetConfig of a VocStream; the defaults are the paper's (4.6M + 7.3M).

    Attributes:
        fine_channels, upsampling: the upsampler's output, 120 channels at four times the frame rate.
        samples_per_step: samples that the generator makes at once. The paper's is 1; larger values cost
            proportionally less and let a CPU keep up.
        upsampler_cycle, generator_cycle: dilations 1, 2, 4, ... repeat after this many layers.
        mel_mean, mel_scale: how log10 mels become a net's input, and its output log10 mels.
    """

    channels: int = dmel.CHANNELS
    frame_samples: int = dmel.TIME_BASE.frame_samples
    sample_rate_hz: int = dmel.TIME_BASE.rate_hz
    fine_channels: int = 120
    upsampling: int = 4
    upsampler_width: int = 128
    upsampler_layers: int = 30
    upsampler_cycle: int = 10
    generator_width: int = 128
    generator_layers: int = 44
    generator_cycle: int = 11
    samples_per_step: int = 1
    kernel: int = 3
    condition_kernel: int = 5
    mel_mean: float = -2.5
    mel_scale: float = 1.5

    @property
    def hop_samples(self) -> int:
        """Samples per fine frame."""
        return self.frame_samples // self.upsampling

    def derived_numbers(self) -> int:
        """Those of the tails of its dilated convolutions."""
        upsampler = self.upsampler_width * sum(_dilations(self.upsampler_layers, self.upsampler_cycle))
        generator = self.generator_width * sum(_dilations(self.generator_layers, self.generator_cycle))
        return (self.kernel - 1) * (upsampler + generator)


def _dilations(layers: int, cycle: int) -> list[int]:
    return [2 ** (i % cycle) for i in range(layers)]


PAPER = VocStreamConfig()
NARROW = VocStreamConfig(
    upsampler_width=64,
    upsampler_layers=8,
    upsampler_cycle=4,
    generator_width=48,
    generator_layers=16,
    generator_cycle=8,
    samples_per_step=6,
    condition_kernel=3,
)


@dataclass
class VocStreamState(VocoderState):
    """Tails of the convolutions.

    Attributes:
        upsampler, generator: one tail per layer, [B, width, (kernel - 1) * dilation].
        condition: [B, fine_channels, condition_kernel - 1].
    """

    upsampler: list[Tensor] = field(default_factory=list)
    generator: list[Tensor] = field(default_factory=list)
    condition: Tensor = field(default_factory=lambda: torch.empty(0))


class WaveNetBlock(nn.Module):
    """A gated dilated convolution with a condition, a residual and a skip."""

    def __init__(self, width: int, condition: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.dilated = nn.Conv1d(width, 2 * width, kernel, dilation=dilation)
        self.condition = nn.Conv1d(condition, 2 * width, 1, bias=False)
        self.leave = nn.Conv1d(width, 2 * width, 1)  # the residual and the skip

    def forward(self, x: Tensor, condition: Tensor, repeat: int, tail: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`x [B, C, T]` under `condition [B, A, T / repeat]`; returns the next x, the skip and the next tail."""
        past = torch.cat((tail, x), dim=2)
        bias = self.condition(condition)[:, :, :, None]
        gates = self.dilated(past).view(*bias.shape[:3], repeat) + bias
        value, gate = gates.flatten(2).chunk(2, dim=1)
        residual, skip = self.leave(torch.tanh(value) * torch.sigmoid(gate)).chunk(2, dim=1)
        return (x + residual) * math.sqrt(0.5), skip, past[:, :, x.shape[2] :]


class WaveNet(nn.Module):
    """A stack of blocks over an input at the full rate, conditioned at a lower rate."""

    def __init__(
        self, *, inputs: int, outputs: int, width: int, condition: int, layers: int, cycle: int, kernel: int
    ) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Conv1d(inputs, width, 1)
        dilations = _dilations(layers, cycle)
        self.look_backs = [(kernel - 1) * dilation for dilation in dilations]
        self.blocks = nn.ModuleList(WaveNetBlock(width, condition, kernel, dilation) for dilation in dilations)
        self.mix = nn.Conv1d(width, width, 1)
        self.leave = nn.Conv1d(width, outputs, 1)

    def init_tails(self, rows: int, device: torch.device | str) -> list[Tensor]:
        """Silence before the first sample."""
        return [torch.zeros(rows, self.width, look_back, device=device) for look_back in self.look_backs]

    def forward(self, x: Tensor, condition: Tensor, repeat: int, tails: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`x [B, inputs, T]` to [B, outputs, T], and the next tails."""
        h = self.enter(x)
        total, after = torch.zeros_like(h), []
        for block, tail in zip(self.blocks, tails, strict=True):
            h, skip, new = block(h, condition, repeat, tail)
            total = total + skip
            after.append(new)
        total = total * math.sqrt(1 / len(self.blocks))
        return self.leave(F.relu(self.mix(F.relu(total)))), after


class VocStream(Vocoder[VocStreamState]):
    """Frames to finer frames, noise and finer frames to samples."""

    name: ClassVar[str] = "vocstream"
    Config: ClassVar[type] = VocStreamConfig

    def __init__(self, config: VocStreamConfig) -> None:
        super().__init__()
        self.config = c = config
        self.spread = nn.Linear(c.channels, c.upsampling * c.upsampler_width)
        self.upsampler = WaveNet(
            inputs=c.upsampler_width,
            outputs=c.fine_channels,
            width=c.upsampler_width,
            condition=c.channels,
            layers=c.upsampler_layers,
            cycle=c.upsampler_cycle,
            kernel=c.kernel,
        )
        self.condition = nn.Conv1d(c.fine_channels, c.fine_channels, c.condition_kernel)
        self.generator = WaveNet(
            inputs=c.samples_per_step,
            outputs=c.samples_per_step,
            width=c.generator_width,
            condition=c.fine_channels,
            layers=c.generator_layers,
            cycle=c.generator_cycle,
            kernel=c.kernel,
        )

    def init_state(self, rows: int, device: torch.device | str = "cpu", seed: int | Tensor = 0) -> VocStreamState:
        """Silence before the first frame."""
        c = self.config
        return VocStreamState(
            position=torch.zeros(rows, dtype=torch.int64, device=device),
            seed=seed_rows(seed, rows, device),
            upsampler=self.upsampler.init_tails(rows, device),
            generator=self.generator.init_tails(rows, device),
            condition=torch.zeros(rows, c.fine_channels, c.condition_kernel - 1, device=device),
        )

    def step(self, frames: Tensor, state: VocStreamState) -> tuple[Tensor, VocStreamState]:
        """The samples of `frames [B, T, channels]` and the state after them."""
        fine, tails = self.upsample(frames, state.upsampler)
        pcm, after = self.generate(fine, state)
        after.upsampler = tails
        return pcm.clamp(-1, 1), after

    def upsample(self, frames: Tensor, tails: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Normalised fine frames [B, fine_channels, T * upsampling], and the next tails."""
        c = self.config
        x = (frames - c.mel_mean) / c.mel_scale
        spread = self.spread(x).view(x.shape[0], -1, c.upsampler_width).transpose(1, 2)
        return self.upsampler(spread, x.transpose(1, 2), c.upsampling, tails)

    def generate(self, fine: Tensor, state: VocStreamState) -> tuple[Tensor, VocStreamState]:
        """Samples of normalised fine frames [B, fine_channels, S]; the upsampler's tails are not changed."""
        c = self.config
        samples = fine.shape[2] * c.hop_samples
        past = torch.cat((state.condition, fine), dim=2)
        noise = uniform_noise(state.seed, state.position, samples).view(len(fine), -1, c.samples_per_step)
        repeat = c.hop_samples // c.samples_per_step
        pcm, tails = self.generator(noise.transpose(1, 2), self.condition(past), repeat, state.generator)
        after = VocStreamState(
            position=state.position + samples,
            seed=state.seed,
            upsampler=state.upsampler,
            generator=tails,
            condition=past[:, :, fine.shape[2] :],
        )
        return pcm.transpose(1, 2).flatten(1), after
