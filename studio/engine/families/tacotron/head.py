"""What is made of the decoder's state before a frame is drawn: a feed-forward that sees the frame before.

It stands where Tacotron 2 has a PostNet, which corrects a mean by the frames around it. A draw of 80 channels has to go
on from the very levels that were drawn before, which the pre-net's dropout hides from the decoder (docs/adr/0019).
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.alphabets import dmel
from studio.engine.nets.frames import FrameTable
from studio.engine.nets.products import NumberFormat, Product


class Head(nn.Module):
    """Decoder's output, context and the frame before [...] -> [..., H].

    Args:
        state_width: of the decoder's output and the context together.
        width: H.
        level_width: of a level's embedding.
    """

    def __init__(self, state_width: int, width: int, level_width: int) -> None:
        super().__init__()
        self.state = nn.Linear(state_width, width, bias=False)
        self.level = nn.Embedding(dmel.SYMBOLS, level_width)
        self.frame = nn.Linear(dmel.CHANNELS * level_width, width)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        nn.init.normal_(self.level.weight, std=1.0)
        with torch.no_grad():  # levels are ordered: begin with a table that says so
            self.level.weight[: dmel.LEVELS, 0] = torch.linspace(-1.7, 1.7, dmel.LEVELS)

    def forward(self, decoded: Tensor, context: Tensor, fed: Tensor) -> Tensor:
        """Whole clauses.

        Args:
            decoded, context: [..., R] and [..., D].
            fed: uint8 [..., 80], the frame before each.
        """
        x = self.state(_normal(torch.cat((decoded, context), dim=-1)))
        x = x + self.frame(self.level(fed.long()).flatten(-2))
        return _normal(x + self.down(F.relu(self.up(_normal(x))).square()))

    def matrices(self) -> list[nn.Parameter]:
        """Its matrices, without the table of levels."""
        return [p for layer in (self.state, self.frame, self.up, self.down) for p in layer.parameters() if p.ndim == 2]


class LeanHead:
    """A trained head made ready to run, a frame of each row at a time."""

    def __init__(self, trained: Head, number_format: NumberFormat) -> None:
        self._state, self._up, self._down = (
            Product(layer.weight, None, number_format) for layer in (trained.state, trained.up, trained.down)
        )
        self._table, self._bias = FrameTable(trained.level, trained.frame), trained.frame.bias.detach()

    def __call__(self, decoded: Tensor, context: Tensor, last: Tensor) -> Tensor:
        """[B, R], [B, D] and uint8 [B, 80] -> [B, H]."""
        x = self._state(_normal(torch.cat((decoded, context), 1))) + self._table(last) + self._bias
        return _normal(x + self._down(F.relu(self._up(_normal(x))).square()))


def _normal(x: Tensor) -> Tensor:
    """At mean nothing and deviation one, along the last dimension."""
    return F.layer_norm(x, x.shape[-1:])
