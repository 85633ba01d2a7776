"""Fit DSM-TTS: what each step draws, and where words begin (paper 002, sections 3.3 and 4.2).

Losses of text are not computed: it is an input. Beside the two a training-only head names the phone of the frame being
drawn, as for SpeakStream (docs/adr/0004).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadOption
from studio.engine.alphabets import dmel
from studio.engine.families.bpe import FILE as BPE_FILE
from studio.engine.families.bpe import Bpe
from studio.engine.families.dsm.net import Config, Dsm
from studio.engine.nets.transformer import Watch
from studio.train.families.dsm.apart import lay_text_apart, tokens_of
from studio.train.families.dsm.batches import Batch, Streams, training_batches, validation_batches
from studio.train.families.guide import GuidedHead
from studio.train.features import PHONES
from studio.train.loop.fitting import Fitter, Fitting, drawn_levels, mean_losses
from studio.train.loop.spoken import SpokenText, prompts
from studio.train.loop.weights import begin_like
from studio.train.recipes.fits import DsmFit
from studio.train.recipes.recipe import Recipe


class DsmFitter(Fitter):
    """The net and its training-only phone head; one head of the backbone's attention may be guided."""

    beginnings = ("decoder.blocks.", "cross.", "depth.stacks.0.blocks.")
    prepared = ("extract", "silence")

    def __init__(
        self, config: Config, phone_weight: float = 0.4, action_weight: float = 1.0, guide_weight: float = 0.0
    ) -> None:
        super().__init__()
        self.net = Dsm(config)
        self._weights = {"phone": phone_weight, "action": action_weight}
        if guide_weight:
            self._weights["guide"] = guide_weight
        self.phone_out = nn.Linear(config.width, len(PHONES))

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``action`` (nats per step where it is asked), ``phone``; ``guide``."""
        head = None
        if "guide" in self._weights:
            keys = batch.token_at.flatten()
            head = GuidedHead(self.net.decoder, torch.arange(len(keys), device=keys.device), keys)
        hidden = self._hidden(batch, head)
        logits, levels = self._frames(batch, hidden)
        there = levels != dmel.PAD
        asked, named = batch.action >= 0, batch.phones >= 0
        actions = self.net.action_out(hidden[asked]).squeeze(-1).float()
        phones = self.phone_out(hidden[named]).float()
        return {
            "frame": F.cross_entropy(logits[there], levels[there].long()),
            # A batch in which nobody knows a text asks for no action.
            "action": F.binary_cross_entropy_with_logits(actions, batch.action[asked].float(), reduction="sum")
            / asked.sum().clamp_min(1),
            "phone": F.cross_entropy(phones, batch.phones[named]),
            **({} if head is None else {"guide": head.lost}),
        }

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of the backbone, its cross-attention and the depth transformer's layers."""
        stacks = (self.net.decoder, self.net.cross, self.net.depth.stacks)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of what is fed drawn by the net itself, each draw of the true past and groups."""
        logits, _ = self._frames(batch, self._hidden(batch))
        drawn = drawn_levels(logits, temperature)
        row, step = _drawing(batch).nonzero(as_tuple=True)
        fits = step + 1 < batch.fed.shape[1]
        chosen = fits & (torch.rand(len(step), device=step.device) < share)
        fed, at = batch.fed.clone(), (row[chosen], step[chosen] + 1)
        fed[at] = torch.where(batch.fed[at] != dmel.PAD, drawn[chosen], batch.fed[at])
        return replace(batch, fed=fed)

    def _hidden(self, batch: Batch, watch: Watch | None = None) -> Tensor:
        """What the backbone makes of a batch, [B, S, D]; ``watch`` as of ``Decoder``."""
        net = self.net
        speakers = net.speakers(net.encoder(batch.extracts), batch.speakers)
        return net.hidden(net.embed(batch.text, batch.ahead, batch.fed), speakers, watch)

    def _frames(self, batch: Batch, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, 80, 16] and levels [N, 80] of the steps that draw something."""
        drawing = _drawing(batch)
        levels = batch.drawn[drawing]
        return self.net.depth(hidden[drawing], self.net.level(levels.long())).float(), levels


def _drawing(batch: Batch) -> Tensor:
    """The steps that draw a channel or more, bool [B, S]: of the acoustic delay's ends only one part."""
    return (batch.drawn != dmel.PAD).any(2)


class DsmFitting(Fitting):
    """DSM-TTS's training by a recipe; the state folder holds its encoding, ``bpe.json``."""

    beside = (BPE_FILE,)

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, DsmFit)
        self._settings = fit = recipe.fit
        config = Config.read(recipe.fit.config)
        if recipe.fit.extract_frames[1] > config.extract_frames:
            raise BadOption(
                f"[fit] wants recordings of at most {recipe.fit.extract_frames[1]} frames",
                f"[fit.config] keeps {config.extract_frames}",
            )
        torch.manual_seed(recipe.seed)
        super().__init__(recipe, DsmFitter(config, fit.phone_weight, fit.action_weight, fit.guide_weight))

    def prepare(self, text: SpokenText, state: Path) -> None:
        """Read the encoding; give the net a recording and a silence of each speaker. Raises BadFile, BadVoice."""
        super().prepare(text, state)
        net = self.fitter.net
        bpe = Bpe.for_fit(state, net.config.text_tokens)
        self._streams = Streams(bpe, net.config, self._settings.merge_dropout)
        for i, sentence in enumerate(prompts(text, *self._settings.extract_frames).values()):
            net.set_extract(i, torch.from_numpy(sentence.levels))

    def begin_like(self, path: Path, state: Path) -> None:
        """As of ``Fitting``; and where frames begin as there, text does so too, apart from them. Raises BadFile."""
        net = self.fitter.net
        if "frame.weight" in begin_like(net, path):
            lay_text_apart(net, tokens_of(path, state / BPE_FILE))

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._streams, self._settings, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences, with their text and without (what guidance goes away from)."""
        return {
            name: mean_losses(
                self.fitter, validation_batches(text, self._streams, self._settings, with_text=with_text), device
            )
            for name, with_text in (("text", True), ("no text", False))
        }
