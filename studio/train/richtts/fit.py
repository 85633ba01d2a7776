"""Fit RichTTS, on whole texts or on pieces of n words: next-frame cross-entropy (paper 000, section IV.A).

Only losses of speech are computed. Beside them a training-only head names the next frame's phone, as for SpeakStream
(docs/adr/0004), so that the two are compared on equal terms.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from studio.core.errors import BadOption
from studio.engine.families.richtts.net import Config, RichTts
from studio.train.fitting import Fitting, mean_losses
from studio.train.next_frame import NextFrameFitter
from studio.train.recipe import Recipe, RichTtsFit
from studio.train.richtts.batches import training_batches, validation_batches
from studio.train.speakstream.batches import Batch
from studio.train.spoken import SpokenText


class RichTtsFitter(NextFrameFitter):
    """The net and its training-only phone head."""

    def __init__(self, config: Config, phone_weight: float = 1.0, eos_weight: float = 1.0) -> None:
        super().__init__(RichTts(config), phone_weight, eos_weight)

    def hidden(self, batch: Batch) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]."""
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        frames = net.embed_frames(batch.frame_levels, batch.speaker[batch.frame_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        return net.decoder(x.view(rows, length, -1)).flatten(0, 1)


class RichTtsFitting(Fitting):
    """RichTTS's training by a recipe, of either system."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, RichTtsFit)
        self._settings = recipe.fit
        config = Config(**recipe.fit.config)
        if config.speakers != len(recipe.corpus.speakers):
            raise BadOption(
                f"[fit.config] has {config.speakers} speakers and [corpus] {len(recipe.corpus.speakers)}",
                "write the same number",
            )
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, RichTtsFitter(config, recipe.fit.phone_weight, recipe.fit.eos_weight))

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences, in pieces of every length that is trained."""
        return {
            f"{words or 'all'} words": mean_losses(self.fitter, validation_batches(text, words, 8000), device)
            for words in sorted(set(self._settings.pieces))
        }
