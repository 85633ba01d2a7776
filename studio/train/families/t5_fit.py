"""Train T5-TTS, the full-context baseline of paper 001: S5-TTS's training with the whole text in view.

L = CE(frames) + CTC(cross-attention). No mask depends on the word of a frame, so there is no auxiliary attention.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from studio.engine.families.t5.model import T5, T5Config
from studio.train.families.s5_batches import WHOLE, S5Batch, training_batches, validation_batches
from studio.train.families.s5_fit import AttentionTraining, AttentionTrainingModule
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.training import mean_losses
from studio.train.recipes.fits import T5Fit
from studio.train.recipes.recipe import Recipe


class T5TrainingModule(AttentionTrainingModule):
    """T5-TTS with its losses."""

    def __init__(self, config: T5Config, settings: T5Fit) -> None:
        super().__init__(T5(config), {"stop": settings.stop_weight, "cross": settings.cross_weight})

    def forward(self, batch: S5Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``cross``; and the share of frames ``attended``, for which the
        cross-attention names the corpus' word.
        """
        return self.attention_losses(batch, *self.run(batch, self.words_of(batch)))

    def words_of(self, batch: S5Batch) -> Tensor:
        """The corpus' words: without a mask nothing depends on them."""
        return batch.spoken


class T5Training(AttentionTraining):
    """Training of T5-TTS by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, T5Fit)
        torch.manual_seed(recipe.seed)
        module = T5TrainingModule(T5Config.read(recipe.fit.config), recipe.fit)
        super().__init__(recipe, module, recipe.fit.reference_frames)

    def batches(self, text: SpeechDataset, number: int) -> Iterator[S5Batch]:
        """See ``FamilyTraining``."""
        return training_batches(text, self.settings, [WHOLE], self.recipe.seed, number)

    def validate(self, text: SpeechDataset, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on validation sentences."""
        return {"whole": mean_losses(self.module, validation_batches(text, WHOLE, 8000), device)}
