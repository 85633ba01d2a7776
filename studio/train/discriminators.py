"""The two ten-layer discriminators of VocStream's adversarial training (paper 000, section IV.A).

Both are ParallelWaveGAN's (Yamamoto et al. 2020): dilated convolutions with leaky rectifiers, one score per step, and
least squares for the loss. One listens to samples, the other reads fine frames as a sequence of vectors.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

LAYERS = 10
WIDTH = 64

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

    def forward(self, x: Tensor) -> Tensor:
        """`x [B, inputs, T]` to scores [B, 1, T]."""
        return self.stack(x)


class Adversary(nn.Module):
    """The discriminators of one training and their optimiser.

    Pairs name what each judge compares: (the teacher's, ours), both [B, inputs, T].
    """

    def __init__(self, inputs: Mapping[str, int], learning_rate: float) -> None:
        super().__init__()
        self.judges = nn.ModuleDict({name: Discriminator(width) for name, width in inputs.items()})
        self.optimizer = torch.optim.AdamW(self.parameters(), lr=learning_rate, betas=(0.5, 0.9))

    def learn(self, pairs: Pairs) -> float:
        """One update: 1 for the teacher's, 0 for ours (least squares). Returns the loss."""
        loss = torch.stack(
            [
                (self.judges[name](wanted) - 1).square().mean() + self.judges[name](made.detach()).square().mean()
                for name, (wanted, made) in pairs.items()
            ]
        ).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def deceive_loss(self, pairs: Pairs) -> Tensor:
        """What the vocoder learns by: to be taken for the teacher."""
        return torch.stack([(self.judges[name](made) - 1).square().mean() for name, (_, made) in pairs.items()]).sum()
