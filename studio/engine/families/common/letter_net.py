"""The weights of ``word_alignment.LetterNet``: a file beside a voice's net, read with the same checks."""

from pathlib import Path

import torch
from torch import Tensor, nn

from studio.core.cards import Card
from studio.engine.families.common.word_alignment import AHEAD_FRAMES, PAST_FRAMES, SYMBOLS, LetterNet
from studio.engine.nets.loading import load_weights
from studio.engine.tokenizers import dmel

FILE = "aligner.safetensors"
HIDDEN = 96
WINDOW_FRAMES = PAST_FRAMES + 1 + AHEAD_FRAMES


class LetterModel(nn.Module):
    """Scores of letters from windows of frames: [B, 6 * 80] -> [B, 27]."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(WINDOW_FRAMES * dmel.CHANNELS, HIDDEN)
        self.out = nn.Linear(HIDDEN, SYMBOLS)

    def forward(self, windows: Tensor) -> Tensor:
        """Scores of windows, scaled by ``word_alignment.scaled``."""
        return self.out(self.hidden(windows).relu())

    @torch.no_grad()
    def arrays(self) -> LetterNet:
        """As numpy arrays."""
        hidden, out = self.hidden, self.out
        return LetterNet(hidden.weight.numpy(), hidden.bias.numpy(), out.weight.numpy(), out.bias.numpy())


def load_letter_net(folder: Path, card: Card) -> LetterNet | None:
    """The net of a voice that has one. Raises BadVoice."""
    if FILE not in card.sha256:
        return None
    model = LetterModel()
    load_weights(model, folder, card, FILE)
    return model.arrays()
