"""Fit IST-LM: next-frame cross-entropy on interleaved sequences (paper 003, section 3, equation 2).

Only losses of speech are computed. Beside them a training-only head names the next frame's phone, as for SpeakStream
(docs/adr/0004).
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from studio.engine.families.bpe import FILE as BPE_FILE
from studio.engine.families.bpe import Bpe
from studio.engine.families.ist.net import Config, Ist
from studio.engine.families.ist.rule import Options
from studio.engine.nets.transformer import Watch
from studio.train.families.guide import GuidedHead
from studio.train.families.ist.batches import Batch, Encoded, training_batches, validation_batches
from studio.train.families.next_frame import NextFrameFitter
from studio.train.loop.fitting import Fitting, mean_losses
from studio.train.loop.spoken import SpokenText, prompts
from studio.train.recipes.fits import IstFit
from studio.train.recipes.recipe import Recipe

CHECKED_RATIOS = ("1:3", "3:9", "12:24", "whole")


class IstFitter(NextFrameFitter):
    """The net and its training-only phone head; one head of attention may be guided."""

    prepared = ("prompt", "prompt_text")

    def __init__(
        self, config: Config, phone_weight: float = 1.0, eos_weight: float = 1.0, guide_weight: float = 0.0
    ) -> None:
        super().__init__(Ist(config), phone_weight, eos_weight, guide_weight)

    def guided_head(self, batch: Batch) -> GuidedHead:
        """To the token whose phone is spoken."""
        return GuidedHead(self.net.decoder, batch.target_at, batch.target_token)

    def hidden(self, batch: Batch, watch: Watch | None = None) -> Tensor:
        """What the decoder makes of a batch: [B * T, D]; ``watch`` as of ``Decoder``."""
        net = self.net
        rows, length = batch.symbols.shape
        places = batch.places.flatten()
        x = net.embed_symbols(batch.symbols.flatten(), places)
        frames = net.embed_frames(batch.frame_levels, places[batch.frame_at])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype))
        x = x.index_add(0, batch.start_at, net.ratio(batch.start_ratio).to(x.dtype))
        return net.decoder(x.view(rows, length, -1), watch=watch).flatten(0, 1)


class IstFitting(Fitting):
    """IST-LM's training by a recipe; the state folder holds its encoding, ``bpe.json``."""

    beside = (BPE_FILE,)

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, IstFit)
        self._settings = fit = recipe.fit
        for ratio in recipe.fit.ratios:
            Options(ratio)
        config = Config.read(recipe.fit.config)
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, IstFitter(config, fit.phone_weight, fit.eos_weight, fit.guide_weight))

    def prepare(self, text: SpokenText, state: Path) -> None:
        """Read the encoding and give the net a prompt of each speaker. Raises BadFile, BadVoice."""
        bpe = Bpe.for_fit(state, self.fitter.net.config.text_tokens)
        self._encoded = Encoded(bpe, self._settings.merge_dropout)
        for i, sentence in enumerate(prompts(text, *self._settings.prompt_frames).values()):
            self.fitter.net.set_prompt(i, self._encoded.tokens(sentence.words), torch.from_numpy(sentence.levels))

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._encoded, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences by four ratios."""
        return {
            ratio: mean_losses(self.fitter, validation_batches(text, self._encoded, self._settings, ratio), device)
            for ratio in CHECKED_RATIOS
        }
