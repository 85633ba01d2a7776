"""Fit SpeakStream: next-frame cross-entropy on interleaved sequences (paper 000, section III).

Beside the paper's loss a training-only head names the phone of the next frame: it leads a small net from
spelling to sound much sooner, and is thrown away afterwards (docs/adr/0004).
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine import dmel
from studio.engine.families.speakstream.net import Config, SpeakStream
from studio.engine.families.speakstream.rule import Options
from studio.train.features import PHONES
from studio.train.fitting import Fitter, Fitting, mean_losses
from studio.train.recipe import Recipe, SpeakStreamFit
from studio.train.speakstream.batches import Batch, training_batches, validation_batches
from studio.train.spoken import SpokenText


class SpeakStreamFitter(Fitter):
    """The net and its training-only phone head.

    Args:
        phone_weight, eos_weight: of these losses beside the frames'.
    """

    beginnings = ("decoder.blocks.",)

    def __init__(self, config: Config, phone_weight: float = 1.0, eos_weight: float = 1.0) -> None:
        super().__init__()
        self.net = SpeakStream(config)
        self._weights = {"phone": phone_weight, "stop": eos_weight}
        self.phone_out = nn.Linear(config.width, len(PHONES))

    def hidden(self, batch: Batch) -> Tensor:
        """What the decoder makes of a batch: [B * T, width]."""
        net = self.net
        rows, length = batch.symbols.shape
        x = net.embed_symbols(batch.symbols, batch.speaker).flatten(0, 1)
        owner = batch.speaker
        frames = net.embed_frames(batch.frame_levels, owner[batch.frame_at // length])
        bos = net.embed_bos(batch.bos_windows, owner[batch.bos_at // length])
        x = x.index_copy(0, batch.frame_at, frames.to(x.dtype)).index_copy(0, batch.bos_at, bos.to(x.dtype))
        return net.decoder(x.view(rows, length, -1)).flatten(0, 1)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses of a batch: ``frame`` in nats per channel, ``stop``, ``phone``; and ``phone_hits``."""
        net = self.net
        hidden = self.hidden(batch)
        here = hidden[batch.target_at]
        levels = net.levels_out(here).float().view(-1, dmel.LEVELS)
        phones = self.phone_out(here).float()
        stops = net.eos_out(hidden[batch.stop_at]).squeeze(-1).float()
        return {
            "frame": F.cross_entropy(levels, batch.target_levels.flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops, batch.stop),
            "phone": F.cross_entropy(phones, batch.target_phones),
            "phone_hits": (phones.argmax(-1) == batch.target_phones).float().mean(),
        }

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The decoder's matrices."""
        return [p for p in self.net.decoder.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of the frames fed back drawn by the net itself (Bengio et al. 2015, in parallel).

        Each draw sees the true past, as in the first of Duckworth et al.'s passes (2019); one pass brings most of
        what makes a net walk on its own output and costs a third of a step.
        """
        here = self.hidden(batch)[batch.target_at]
        shares = (self.net.levels_out(here).float().view(-1, dmel.CHANNELS, dmel.LEVELS) / temperature).softmax(-1)
        noise = torch.rand(*shares.shape[:2], 1, device=shares.device)
        drawn = (shares.cumsum(-1) < noise).sum(-1).clamp(max=dmel.LEVELS - 1).to(torch.uint8)
        row = torch.full((batch.symbols.numel() + 1,), -1, device=drawn.device)
        row[batch.frame_at] = torch.arange(len(batch.frame_at), device=drawn.device)
        fed = row[batch.target_at + 1]  # a frame is fed at the position after the one that predicts it
        chosen = (fed >= 0) & (torch.rand(len(fed), device=fed.device) < share)
        levels = batch.frame_levels.clone()
        levels[fed[chosen]] = drawn[chosen]
        return replace(batch, frame_levels=levels)


class SpeakStreamFitting(Fitting):
    """SpeakStream's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, SpeakStreamFit)
        self._settings = recipe.fit
        torch.manual_seed(recipe.seed)
        super().__init__(
            recipe, SpeakStreamFitter(Config(**recipe.fit.config), recipe.fit.phone_weight, recipe.fit.eos_weight)
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
