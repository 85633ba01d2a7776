"""Discriminators of adversarial training with the least-squares loss.

VocStream has the ten-layer ones of ParallelWaveGAN (Yamamoto et al. 2020; paper 000, section IV.A): dilated
convolutions with leaky rectifiers, one score per step; one for samples, one for fine frames. The other vocoders have
small multi-period and multi-resolution ones.
"""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from studio.train.fit.resources import training_dtype
from studio.train.vocoder.losses import magnitudes

LAYERS = 10
WIDTH = 64
PERIODS = (2, 3, 5, 7, 11)
RESOLUTIONS = (512, 1024, 2048)

Pairs = Mapping[str, tuple[Tensor, Tensor]]


class WaveDiscriminator(nn.Module):
    """Ten non-causal convolutions (only the generator has to stream).

    Args:
        inputs: 1 for samples, the number of fine channels for frames.
    """

    def __init__(self, inputs: int, width: int = WIDTH, layers: int = LAYERS, kernel: int = 3) -> None:
        super().__init__()
        sizes = [inputs] + [width] * (layers - 1) + [1]
        stack: list[nn.Module] = []
        for layer in range(layers):
            dilation = max(1, layer) if layer < layers - 1 else 1
            pad = (kernel - 1) // 2 * dilation
            convolution = nn.Conv1d(sizes[layer], sizes[layer + 1], kernel, padding=pad, dilation=dilation)
            stack += [nn.utils.parametrizations.weight_norm(convolution), nn.LeakyReLU(0.2)]
        self.stack = nn.Sequential(*stack[:-1])

    def forward(self, x: Tensor) -> list[Tensor]:
        """`x [B, inputs, T]` to one list item: scores [B, 1, T]."""
        return [self.stack(x)]


def _convolution(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> nn.Module:
    pad = (kernel[0] // 2, kernel[1] // 2)
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(inputs, outputs, kernel, stride, pad))


class PeriodDiscriminator(nn.Module):
    """Convolutions along the columns of samples folded at a period (HiFi-GAN, Kong et al. 2020, section 2.3)."""

    def __init__(self, period: int, widths: tuple[int, ...] = (16, 32, 64, 64)) -> None:
        super().__init__()
        self.period = period
        stack: list[nn.Module] = []
        for inputs, outputs in pairwise((1, *widths)):
            stack += [_convolution(inputs, outputs, (5, 1), (3, 1)), nn.LeakyReLU(0.1)]
        self.stack = nn.Sequential(*stack, _convolution(widths[-1], 1, (3, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, 1, T]` to scores [B, 1, steps, period]; an incomplete last row is dropped."""
        rows = x.shape[-1] // self.period
        return self.stack(x[..., : rows * self.period].unflatten(-1, (rows, self.period)))


class ResolutionDiscriminator(nn.Module):
    """Convolutions over a log-magnitude STFT (UnivNet, Jang et al. 2021, section 2.2, on logarithms)."""

    window: Tensor

    def __init__(self, fft: int, widths: tuple[int, ...] = (16, 32, 32, 32)) -> None:
        super().__init__()
        self.fft = fft
        self.register_buffer("window", torch.hann_window(fft), persistent=False)
        stack: list[nn.Module] = []
        for inputs, outputs in pairwise((1, *widths)):
            stack += [_convolution(inputs, outputs, (3, 9), (1, 2)), nn.LeakyReLU(0.1)]
        self.stack = nn.Sequential(*stack, _convolution(widths[-1], 1, (3, 3)))

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, 1, T]` to scores [B, 1, frames, bins / 16]."""
        spectrum = magnitudes(x[:, 0], self.fft, self.fft // 4, self.window).log()
        return self.stack(spectrum.transpose(1, 2)[:, None])


class SampleDiscriminators(nn.Module):
    """Small multi-period and multi-resolution discriminators of samples, weighted equally."""

    def __init__(self, periods: tuple[int, ...] = PERIODS, ffts: tuple[int, ...] = RESOLUTIONS) -> None:
        super().__init__()
        self.each = nn.ModuleList([*map(PeriodDiscriminator, periods), *map(ResolutionDiscriminator, ffts)])

    def forward(self, x: Tensor) -> list[Tensor]:
        """`x [B, 1, T]` to the scores of each; in bfloat16 on CPUs where that halves the time."""
        use_bfloat16 = x.device.type == "cpu" and training_dtype(x.device) == torch.bfloat16
        with torch.autocast(x.device.type, torch.bfloat16, enabled=use_bfloat16):
            return [one(x).float() for one in self.each]


def _distance(scores: list[Tensor], target: float) -> Tensor:
    """Least-squares distance, averaged over discriminators."""
    return torch.stack([(each - target).square().mean() for each in scores]).mean()


class Discriminators(nn.Module):
    """The discriminators of a training and their optimiser.

    ``pairs`` maps a discriminator's name to its inputs: (real, generated), both [B, inputs, T].
    """

    def __init__(self, judges: Mapping[str, nn.Module], learning_rate: float) -> None:
        super().__init__()
        self.judges = nn.ModuleDict(judges)
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=(0.5, 0.9))

    def update(self, pairs: Pairs) -> float:
        """One update towards 1 for real and 0 for generated (least squares). Returns the loss."""
        loss = torch.stack(
            [
                _distance(self.judges[name](real), 1) + _distance(self.judges[name](generated.detach()), 0)
                for name, (real, generated) in pairs.items()
            ]
        ).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def generator_loss(self, pairs: Pairs) -> Tensor:
        """The generator's loss."""
        return torch.stack([_distance(self.judges[name](generated), 1) for name, (_, generated) in pairs.items()]).sum()
