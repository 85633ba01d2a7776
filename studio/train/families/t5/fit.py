"""Fit T5-TTS, the full-context baseline of paper 001: S5-TTS's training on texts that are seen whole.

L = CE(frames) + CTC(cross-attention). No frame asks which word it is of, so there is no auxiliary attention.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from studio.engine.families.t5.net import T5, Config
from studio.train.families.s5.batches import WHOLE, Batch, training_batches, validation_batches
from studio.train.families.s5.fit import AttendingFitter, AttendingFitting
from studio.train.loop.fitting import mean_losses
from studio.train.loop.spoken import SpokenText
from studio.train.recipes.fits import T5Fit
from studio.train.recipes.recipe import Recipe


class T5Fitter(AttendingFitter):
    """The net with its losses."""

    def __init__(self, config: Config, settings: T5Fit) -> None:
        super().__init__(T5(config), {"stop": settings.stop_weight, "cross": settings.cross_weight})

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``cross``; and the share of frames ``attended``, for which the
        cross-attention names the corpus' word.
        """
        return self.heard(batch, *self.run(batch, self.words_of(batch)))

    def words_of(self, batch: Batch) -> Tensor:
        """The corpus' words: without a mask nothing depends on them."""
        return batch.spoken


class T5Fitting(AttendingFitting):
    """T5-TTS's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, T5Fit)
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, T5Fitter(Config.read(recipe.fit.config), recipe.fit), recipe.fit.reference_frames)

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self.settings, [WHOLE], self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences."""
        return {"whole": mean_losses(self.fitter, validation_batches(text, WHOLE, 8000), device)}
