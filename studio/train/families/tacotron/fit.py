"""Fit Tacotron 2: frames, the stop token, and the attention guided by what the corpus knows of its words.

L = CE(frames) + BCE(stop) + guide, where the guide asks for attention near a diagonal (Tachibana et al. 2018,
equations 6 and 7). Their diagonal runs straight through the text; here it runs through the phones that the corpus
hears, or straight where a recipe asks for it. Theirs costs no more than 1 however far attention strays, so that whoever
is lost learns nothing of the way back; ours is the logarithm of what is near.

Attention that learns from where it was is lost for the rest of a clause once it has lost its place. In ``given_share``
of the steps it goes on from where it should have been (docs/adr/0019), in three quarters of the time.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.families.tacotron.net import Config, Tacotron
from studio.train.families.tacotron.batches import Batch, training_batches, validation_batches
from studio.train.families.tacotron.own_past import own_past
from studio.train.features import PHONES
from studio.train.loop.fitting import Fitter, Fitting, drawn_levels, mean_losses
from studio.train.loop.spoken import SpokenText
from studio.train.recipes.fits import TacotronFit
from studio.train.recipes.recipe import Recipe


def guide_loss(shares: Tensor, places: Tensor, width: float) -> Tensor:
    """The attention near where it should be, for each frame [B, F]: -log of the sum of w[t] exp(-(t - n)^2 / 2 g^2).

    Args:
        shares: w, float32 [B, F, T].
        places: n, in symbols, [B, F].
        width: g, in symbols.
    """
    off = torch.arange(shares.shape[2], device=shares.device) - places.unsqueeze(2)
    near = (shares * torch.exp(-0.5 * (off / width).square())).sum(2)
    return -near.clamp_min(_LEAST_NEAR).log()


def given_shares(places: Tensor, symbols: int) -> Tensor:
    """Attention as it should be, [B, F] -> [B, F, T]: a symbol, or two where a place lies between them."""
    off = torch.arange(symbols, device=places.device) - places.unsqueeze(2)
    return (1.0 - off.abs()).clamp_min(0.0)


def straight_places(batch: Batch) -> Tensor:
    """Where frames attend on a straight diagonal through each clause, in symbols, [B, F]."""
    frames, symbols = batch.last + 1, batch.real.sum(1)
    at = torch.arange(batch.there.shape[1], device=frames.device) + 0.5
    return at / frames[:, None] * symbols[:, None] - 0.5


class TacotronFitter(Fitter):
    """The net with its losses, and the head of phones, which is thrown away afterwards (docs/adr/0004)."""

    def __init__(self, config: Config, settings: TacotronFit) -> None:
        super().__init__()
        self.net = Tacotron(config)
        self._settings = settings
        self._weights = {
            "stop": settings.stop_weight,
            "guide": settings.guide_weight,
            "phone": settings.phone_weight,
        }
        self.phone_out = nn.Linear(config.head_width, len(PHONES))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``guide``, ``phone``; and three shares of frames.

        ``attended``: those that attend most to a symbol of the word which the corpus says is spoken. ``forward``: those
        whose attention is where it was or further on, no more than a word's length of symbols at a time.
        ``phone_hits``: those whose phone is named.
        """
        seen, shares = self._run(batch)
        levels, stops = self.net.heads(seen)
        stops, there = stops.float(), batch.there
        named, phones = self.phone_out(seen[there]).float(), batch.phones[there]
        last_weight = stops.new_tensor(self._settings.last_weight)
        over = torch.arange(stops.shape[1], device=stops.device) == batch.last[:, None]
        at = shares.argmax(2)
        steps = at.diff(dim=1)[there[:, 1:]]
        return {
            "frame": F.cross_entropy(levels[there].float().flatten(0, 1), batch.frames[there].flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops[there], over[there].float(), pos_weight=last_weight),
            "guide": guide_loss(shares, self._places(batch), self._settings.guide_symbols)[there].mean(),
            "phone": F.cross_entropy(named, phones),
            "phone_hits": (named.argmax(1) == phones).float().mean(),
            "attended": (batch.words.gather(1, at) == batch.spoken)[there].float().mean(),
            "forward": ((steps >= 0) & (steps <= _WORD_SYMBOLS)).float().mean() if len(steps) else stops.new_ones(()),
        }

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of LSTMs, pre-net and head."""
        net = self.net
        stacks = (net.encoder.lstm, net.prenet_in, net.prenet_out, net.attention_lstm, net.decoder_lstm)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2] + net.head.matrices()

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of the frames fed back drawn by the net itself, each of the true past.

        In a share of the clauses, the recipe's ``own_past_share``, all of them are drawn, each of those before it.
        """
        whole = torch.rand(len(batch.fed), device=batch.fed.device) < self._settings.own_past_share
        if whole.any():
            memory = self.net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
            given = given_shares(self._places(batch), memory.shape[1])
            batch = replace(batch, fed=own_past(self.net, memory, batch.fed, given, whole, temperature))
        levels, _ = self.net.heads(self._run(batch)[0])
        drawn = drawn_levels(levels, temperature)
        chosen = (torch.rand(batch.there.shape, device=drawn.device) < share) & batch.there & ~whole[:, None]
        fed = batch.fed.clone()
        fed[:, 1:] = torch.where(chosen[:, 1:, None], drawn[:, :-1], fed[:, 1:])
        return replace(batch, fed=fed)

    def _places(self, batch: Batch) -> Tensor:
        return batch.places if self._settings.alignment == "corpus" else straight_places(batch)

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """What frames are drawn from [B, F, H], and the attention's shares [B, F, T]."""
        memory = self.net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
        if self.training and float(torch.rand(())) < self._settings.given_share:
            given = given_shares(self._places(batch), memory.shape[1])
            return self.net.decode_along(memory, batch.real, batch.fed, given)
        return self.net.decode(memory, batch.real, batch.fed)


_WORD_SYMBOLS = 8
_LEAST_NEAR = 1e-6  # attention that is nowhere near has no finite logarithm


class TacotronFitting(Fitting):
    """Tacotron 2's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, TacotronFit)
        self._settings = recipe.fit
        config = Config.read(recipe.fit.config)
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
