"""Fit Tacotron 2: frames, the stop token, and the attention guided by what the corpus knows of its words.

L = CE(frames) + BCE(stop) + guide, where the guide (Tachibana et al. 2018, equations 6 and 7) is the attention that
lies off the diagonal. Their diagonal runs straight through the text; here it runs through the ends of the corpus'
words, or straight where a recipe asks for it.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine.families.tacotron.net import Config, Tacotron
from studio.train.fitting import Fitter, Fitting, drawn_levels, mean_losses
from studio.train.recipe import Recipe, TacotronFit
from studio.train.spoken import SpokenText
from studio.train.tacotron.batches import Batch, training_batches, validation_batches


def guide_loss(shares: Tensor, places: Tensor, width: float) -> Tensor:
    """The attention far from where it should be, for each frame [B, F]: sum of w[t] (1 - exp(-(t - n)^2 / 2 g^2)).

    Args:
        shares: w, float32 [B, F, T].
        places: n, in symbols, [B, F].
        width: g, in symbols.
    """
    off = torch.arange(shares.shape[2], device=shares.device) - places.unsqueeze(2)
    return (shares * (1.0 - torch.exp(-0.5 * (off / width).square()))).sum(2)


def straight_places(batch: Batch) -> Tensor:
    """Where frames attend on a straight diagonal through each clause, in symbols, [B, F]."""
    frames, symbols = batch.last + 1, batch.real.sum(1)
    at = torch.arange(batch.there.shape[1], device=frames.device) + 0.5
    return at / frames[:, None] * symbols[:, None] - 0.5


class TacotronFitter(Fitter):
    """The net with its losses; nothing but the net is trained."""

    def __init__(self, config: Config, settings: TacotronFit) -> None:
        super().__init__()
        self.net = Tacotron(config)
        self._settings = settings
        self._weights = {"stop": settings.stop_weight, "guide": settings.guide_weight}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``guide``; and two shares of frames.

        ``attended``: those that attend most to a symbol of the word which the corpus says is spoken. ``forward``: those
        whose attention is where it was or further on, no more than a word's length of symbols at a time.
        """
        seen, shares = self._run(batch)
        levels, stops = self.net.heads(seen)
        stops, there = stops.float(), batch.there
        last_weight = stops.new_tensor(self._settings.last_weight)
        over = torch.arange(stops.shape[1], device=stops.device) == batch.last[:, None]
        at = shares.argmax(2)
        steps = at.diff(dim=1)[there[:, 1:]]
        places = batch.places if self._settings.alignment == "corpus" else straight_places(batch)
        return {
            "frame": F.cross_entropy(levels[there].float().flatten(0, 1), batch.frames[there].flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops[there], over[there].float(), pos_weight=last_weight),
            "guide": guide_loss(shares, places, self._settings.guide_symbols)[there].mean(),
            "attended": (batch.words.gather(1, at) == batch.spoken)[there].float().mean(),
            "forward": ((steps >= 0) & (steps <= _WORD_SYMBOLS)).float().mean() if len(steps) else stops.new_ones(()),
        }

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of LSTMs and pre-net."""
        net = self.net
        stacks = (net.encoder.lstm, net.prenet_in, net.prenet_out, net.attention_lstm, net.decoder_lstm)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of the frames fed back drawn by the net itself, each of the true past."""
        levels, _ = self.net.heads(self._run(batch)[0])
        drawn = drawn_levels(levels, temperature)
        chosen = (torch.rand(batch.there.shape, device=drawn.device) < share) & batch.there
        fed = batch.fed.clone()
        fed[:, 1:] = torch.where(chosen[:, 1:, None], drawn[:, :-1], fed[:, 1:])
        return replace(batch, fed=fed)

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What the last layers see [B, F, R + D + 80], and the attention's shares [B, F, T]."""
        memory = self.net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
        return self.net.decode(memory, batch.real, batch.fed)


_WORD_SYMBOLS = 8


class TacotronFitting(Fitting):
    """Tacotron 2's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, TacotronFit)
        self._settings = recipe.fit
        config = Config(**recipe.fit.config)
        if config.speakers != len(recipe.corpus.speakers):
            raise BadOption(
                f"[fit.config] has {config.speakers} speakers and [corpus] {len(recipe.corpus.speakers)}",
                "write the same number",
            )
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, TacotronFitter(config, recipe.fit))

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences, in clauses of every length that is trained; the pre-net's dropout stays on."""
        self.fitter.eval()
        found = {
            f"{words or 'all'} words": mean_losses(self.fitter, validation_batches(text, words, 8000), device)
            for words in sorted(set(self._settings.clause_words))
        }
        self.fitter.train()
        return found
