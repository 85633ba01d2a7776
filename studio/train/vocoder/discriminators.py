"""Discriminators of adversarial training, with least squares for the loss.

VocStream's are ten-layer ones of ParallelWaveGAN (Yamamoto et al. 2020; paper 000, section IV.A): dilated
convolutions with leaky rectifiers, one score per step. One listens to samples, the other reads fine frames as vectors.
The other vocoders meet several small ones, of samples folded at periods and of spectra at resolutions.
"""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from studio.train.loop.arithmetic import arithmetic
from studio.train.vocoder.losses import magnitudes

LAYERS = 10
WIDTH = 64
PERIODS = (2, 3, 5, 7, 11)
RESOLUTIONS = (512, 1024, 2048)

Pairs = Mapping[str, tuple[Tensor, Tensor]]


class Discriminator(nn.Module):
    """Ten convolutions that look both ways (only the generator has to stream).

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
        """`x [B, inputs, T]` to scores [B, 1, T], the only ones."""
        return [self.stack(x)]


def _convolution(inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int] = (1, 1)) -> nn.Module:
    pad = (kernel[0] // 2, kernel[1] // 2)
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(inputs, outputs, kernel, stride, pad))


class PeriodDiscriminator(nn.Module):
    """Samples folded at a period into columns that convolutions run along (HiFi-GAN, Kong et al. 2020, section 2.3)."""

    def __init__(self, period: int, widths: tuple[int, ...] = (16, 32, 64, 64)) -> None:
        super().__init__()
        self.period = period
        stack: list[nn.Module] = []
        for inputs, outputs in pairwise((1, *widths)):
            stack += [_convolution(inputs, outputs, (5, 1), (3, 1)), nn.LeakyReLU(0.1)]
        self.stack = nn.Sequential(*stack, _convolution(widths[-1], 1, (3, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, 1, T]` to scores [B, 1, steps, period]; what does not fill the last row is left out."""
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
    """Small multi-period and multi-resolution discriminators of samples; every one has the same say."""

    def __init__(self, periods: tuple[int, ...] = PERIODS, ffts: tuple[int, ...] = RESOLUTIONS) -> None:
        super().__init__()
        self.each = nn.ModuleList([*map(PeriodDiscriminator, periods), *map(ResolutionDiscriminator, ffts)])

    def forward(self, x: Tensor) -> list[Tensor]:
        """`x [B, 1, T]` to the scores of each; in bfloat16 on a CPU that takes half the time for it."""
        is_quicker = x.device.type == "cpu" and arithmetic(x.device) == torch.bfloat16
        with torch.autocast(x.device.type, torch.bfloat16, enabled=is_quicker):
            return [judge(x).float() for judge in self.each]


def _distance(scores: list[Tensor], target: float) -> Tensor:
    """Least squares, the mean of as many discriminators as there are."""
    return torch.stack([(each - target).square().mean() for each in scores]).mean()


class Adversary(nn.Module):
    """The discriminators of one training and their optimiser.

    Pairs name what each judge compares: (the teacher's, ours), both [B, inputs, T]. A judge gives a list of scores.
    """

    def __init__(self, judges: Mapping[str, nn.Module], learning_rate: float) -> None:
        super().__init__()
        self.judges = nn.ModuleDict(judges)
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=(0.5, 0.9))

    def learn(self, pairs: Pairs) -> float:
        """One update: 1 for the teacher's, 0 for ours (least squares). Returns the loss."""
        loss = torch.stack(
            [
                _distance(self.judges[name](wanted), 1) + _distance(self.judges[name](made.detach()), 0)
                for name, (wanted, made) in pairs.items()
            ]
        ).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def deceive_loss(self, pairs: Pairs) -> Tensor:
        """What the vocoder learns by: to be taken for the teacher."""
        return torch.stack([_distance(self.judges[name](made), 1) for name, (_, made) in pairs.items()]).sum()
