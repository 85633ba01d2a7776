"""Fit RichTTS, on whole texts or on pieces of n words: next-frame cross-entropy (paper 000, section IV.A).

Only losses of speech are computed. Beside them a training-only head names the next frame's phone, as for SpeakStream
(docs/adr/0004), so that the two are compared on equal terms. A text that is read whole has the word being spoken
anywhere in it, where SpeakStream has just read it: one head of attention may be guided there.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from studio.engine.families.richtts.net import Config, RichTts
from studio.engine.nets.transformer import Watch
from studio.train.families.guide import GuidedHead
from studio.train.families.next_frame import NextFrameFitter
from studio.train.families.richtts.batches import Batch, training_batches, validation_batches
from studio.train.loop.fitting import Fitting, mean_losses
from studio.train.loop.spoken import SpokenText
from studio.train.recipes.fits import RichTtsFit
from studio.train.recipes.recipe import Recipe


class RichTtsFitter(NextFrameFitter):
    """The net and its training-only phone head; one head of attention may be guided."""

    def __init__(
        self, config: Config, phone_weight: float = 1.0, eos_weight: float = 1.0, guide_weight: float = 0.0
    ) -> None:
        super().__init__(RichTts(config), phone_weight, eos_weight, guide_weight)

    def guided_head(self, batch: Batch) -> GuidedHead:
        """To any letter of the word that is spoken."""
        return GuidedHead(self.net.decoder, batch.target_at, batch.first_letter, batch.last_letter)

    def hidden(self, batch: Batch, watch: Watch | None = None) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]; ``watch`` as of ``Decoder``."""
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        frames = net.embed_frames(batch.frame_levels, batch.speaker[batch.frame_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class RichTtsFitting(Fitting):
    """RichTTS's training by a recipe, of either system."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, RichTtsFit)
        self._settings = fit = recipe.fit
        config = Config.read(recipe.fit.config)
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, RichTtsFitter(config, fit.phone_weight, fit.eos_weight, fit.guide_weight))

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences, in pieces of every length that is trained."""
        return {
            f"{words or 'all'} words": mean_losses(self.fitter, validation_batches(text, words, 8000), device)
            for words in sorted(set(self._settings.pieces))
        }
