"""Fit SpeakStream: next-frame cross-entropy on interleaved sequences (paper 000, section III).

Beside the paper's loss a training-only head names the phone of the next frame: it leads a small net from
spelling to sound much sooner, and is thrown away afterwards (docs/adr/0004).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from studio.engine.families.speakstream.net import Config, SpeakStream
from studio.engine.families.speakstream.rule import Options
from studio.engine.nets.transformer import Watch
from studio.train.families.next_frame import NextFrameFitter
from studio.train.families.speakstream.batches import Batch, training_batches, validation_batches
from studio.train.loop.fitting import Fitting, mean_losses
from studio.train.loop.spoken import SpokenText
from studio.train.recipes.fits import SpeakStreamFit
from studio.train.recipes.recipe import Recipe


class SpeakStreamFitter(NextFrameFitter):
    """The net and its training-only phone head."""

    def __init__(self, config: Config, phone_weight: float = 1.0, eos_weight: float = 1.0) -> None:
        super().__init__(SpeakStream(config), phone_weight, eos_weight)

    def hidden(self, batch: Batch, watch: Watch | None = None) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]; ``watch`` as of ``Decoder``."""
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        owner = batch.speaker
        frames = net.embed_frames(batch.frame_levels, owner[batch.frame_at // length])
        bos = net.embed_bos(batch.bos_windows, owner[batch.bos_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype)).index_copy(0, batch.bos_at, bos.to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class SpeakStreamFitting(Fitting):
    """SpeakStream's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, SpeakStreamFit)
        self._settings = recipe.fit
        torch.manual_seed(recipe.seed)
        super().__init__(
            recipe, SpeakStreamFitter(Config.read(recipe.fit.config), recipe.fit.phone_weight, recipe.fit.eos_weight)
        )

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences at m = 1, 3, 5."""
        return {
            f"m{m}": mean_losses(self.fitter, validation_batches(text, Options("S1", m, 1), 8000), device)
            for m in (1, 3, 5)
        }
