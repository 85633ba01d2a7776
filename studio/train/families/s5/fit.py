"""Fit S5-TTS (paper 001, "Training objective"): frames, and where the net attends while it makes them.

L = CE(frames) + CTC(cross-attention) + CTC(auxiliary attention); the monotonic path through the auxiliary attention
says which word each decoder step is of, and so what the decoder mask hides.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine.alphabets import dmel
from studio.engine.families.s5.alignment import log_diagonal_prior, monotonic_alignment
from studio.engine.families.s5.net import S5, Config, seen_steps
from studio.engine.families.s5.rule import LARGEST_LOOK_AHEAD
from studio.engine.families.spelling import spell
from studio.text.phonemes import pronounce
from studio.train.families.s5.batches import Batch, training_batches, validation_batches
from studio.train.loop.fitting import Fitter, Fitting, drawn_levels, mean_losses
from studio.train.loop.spoken import SpokenText, prompts
from studio.train.recipes.fits import S5Fit
from studio.train.recipes.recipe import Recipe

_BLANK = -1.0  # log share of CTC's blank, before all shares are made to sum to one (Badlani et al. 2022)
_LEAST = 1e-6  # of a share whose logarithm is taken


def path_loss(log_shares: Tensor, frames: Tensor, symbols: Tensor) -> Tensor:
    """CTCLoss over the one path omega = 1, 2 .. T: every symbol once, in order, whatever its length.

    Args:
        log_shares: [B, F, T].
        frames, symbols: int64 [B], how many of F and T are there; frames >= symbols.

    Returns:
        The loss for each symbol, mean of the batch.
    """
    count, _, most = log_shares.shape
    with_blank = F.pad(log_shares.float(), (1, 0), value=_BLANK).log_softmax(-1)
    path = torch.arange(1, most + 1, device=log_shares.device).expand(count, -1)
    return F.ctc_loss(with_blank.transpose(0, 1), path, frames, symbols, zero_infinity=True)


class AttendingFitter(Fitter):
    """A net that attends to phonemes, with what is minimised whatever its masks.

    Args:
        weights: of the losses beside ``frame``, by name.
    """

    beginnings = ("encoder.blocks.", "decoder.blocks.", "cross.")
    prepared = ("reference", "transcript", "silence")

    def __init__(self, net: S5, weights: Mapping[str, float]) -> None:
        super().__init__()
        self.net = net
        self._weights = weights

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """What is minimised."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of encoder, decoder and cross-attention."""
        stacks = (self.net.encoder, self.net.decoder, self.net.cross)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2]

    @abstractmethod
    def words_of(self, batch: Batch) -> Tensor:
        """A(s), the word of each frame by which the decoder's mask goes, int64 [B, F]."""

    @torch.no_grad()
    def own_frames(self, batch: Batch, share: float, temperature: float) -> Batch:
        """The batch with a share of the frames fed back drawn by the net itself, each of the true past."""
        hidden, _ = self.run(batch, self.words_of(batch))
        drawn = drawn_levels(self.net.heads(at_steps(hidden, batch.step_of))[0], temperature)
        chosen = batch.predicts & (torch.rand(batch.predicts.shape, device=drawn.device) < share)
        row, frame = chosen.nonzero(as_tuple=True)
        fed = batch.fed.clone()
        fed[row, batch.step_of[row, frame] + 1] = drawn[row, frame]  # fed at the step after the one that predicts it
        return replace(batch, fed=fed)

    def run(self, batch: Batch, of_frames: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states [B, S, D] and the cross-attention's shares [B, S, T]; ``of_frames`` as ``words_of`` answers."""
        net, config = self.net, self.net.config
        everything = batch.real.unsqueeze(1)
        reading = torch.where(batch.real, batch.words, 0)
        seen = seen_steps(reading, batch.words, batch.k) if config.encoder_mask else everything
        places = batch.place[:, None] + torch.arange(batch.symbols.shape[1], device=batch.place.device)
        memory = net.encode(net.embed_symbols(batch.symbols), places, seen & everything)
        asking = of_frames.gather(1, batch.frame_of)
        end = batch.words.masked_fill(~batch.real, 0).amax(1)  # the text's end is the word of the stop token
        asking = asking.scatter(1, batch.last[:, None], end[:, None])
        seen = seen_steps(asking, batch.words, batch.k) if config.decoder_mask else everything
        x = torch.where(batch.is_bos.unsqueeze(2), net.bos, net.embed_frames(batch.fed))
        x = x + net.embed_row(batch.speaker, batch.k).unsqueeze(1)
        return net.decode(x, memory, (seen & everything).expand(-1, x.shape[1], -1))

    def heard(self, batch: Batch, hidden: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Of what ``run`` answers: losses ``frame``, ``stop``, ``cross``, and the share ``attended``."""
        rows = torch.arange(len(hidden), device=hidden.device)
        levels = self.net.levels_out(at_steps(hidden, batch.step_of)[batch.predicts]).float().view(-1, dmel.LEVELS)
        stops = self.net.stop_out(hidden).squeeze(-1).float()
        stop = torch.zeros_like(stops).index_put_((rows, batch.last), torch.ones((), device=stops.device))
        there = torch.arange(stops.shape[1], device=stops.device) <= batch.last[:, None]
        attending = at_steps(shares, batch.step_of)
        count = batch.real.sum(1)
        log_cross = attending.clamp_min(_LEAST).log().masked_fill(~batch.real.unsqueeze(1), -1e4)
        attended = batch.words.gather(1, attending.argmax(-1))
        return {
            "frame": F.cross_entropy(levels, batch.frames[batch.predicts].flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops[there], stop[there]),
            "cross": path_loss(log_cross, batch.frame_count, count),
            "attended": (attended == batch.spoken)[batch.predicts].float().mean(),
        }


class S5Fitter(AttendingFitter):
    """S5-TTS's net with its losses; nothing but the net is trained."""

    def __init__(self, config: Config, settings: S5Fit) -> None:
        weights = {"stop": settings.stop_weight, "cross": settings.cross_weight, "aux": settings.aux_weight}
        super().__init__(S5(config), weights)
        self.settings = settings
        self._by_corpus = settings.alignment == "corpus"

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``cross``, ``aux``; and two shares of frames: ``aligned``,
        for which the monotonic path names the corpus' word, and ``attended``, for which the cross-attention does.
        """
        return self.losses(batch)[0]

    def losses(self, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """What ``forward`` answers, and the hidden states [B, S, D] that it is of."""
        log_aux = self._auxiliary(batch)
        by_path = self._by_path(batch, log_aux)
        hidden, shares = self.run(batch, batch.spoken if self._by_corpus else by_path)
        more = {
            "aux": path_loss(log_aux, batch.frame_count, batch.real.sum(1)),
            "aligned": (by_path == batch.spoken)[batch.predicts].float().mean(),
        }
        return {**self.heard(batch, hidden, shares), **more}, hidden

    def words_of(self, batch: Batch) -> Tensor:
        """The word of each frame by the monotonic path, or by the corpus, int64 [B, F]."""
        return batch.spoken if self._by_corpus else self._by_path(batch, self._auxiliary(batch))

    def _auxiliary(self, batch: Batch) -> Tensor:
        """log e with what is likely before anything is learned, [B, F, T]."""
        frames, symbols = self.net.embed_frames(batch.frames), self.net.embed_symbols(batch.symbols)
        prior = torch.full(batch.spoken.shape + batch.symbols.shape[1:], 0.0)
        for row, (f, t) in enumerate(zip(batch.frame_count.tolist(), batch.real.sum(1).tolist(), strict=True)):
            prior[row, :f, :t] = log_diagonal_prior(f, t)
        return self.net.aligner(frames, symbols, batch.real) + prior.to(frames.device)

    def _by_path(self, batch: Batch, log_aux: Tensor) -> Tensor:
        """pi(phi(s)): the word of each frame by the monotonic path, int64 [B, F]."""
        host = log_aux.detach().float().cpu().numpy()
        found = monotonic_alignment(host, batch.frame_count.cpu().numpy(), batch.real.sum(1).cpu().numpy())
        return batch.words.gather(1, torch.from_numpy(found).to(log_aux.device))


def at_steps(values: Tensor, steps: Tensor) -> Tensor:
    """Values [B, S, C] at steps [B, F] -> [B, F, C]."""
    return values.gather(1, steps.unsqueeze(2).expand(-1, -1, values.shape[2]))


class AttendingFitting(Fitting):
    """The training of a net that may go on from references."""

    def __init__(self, recipe: Recipe, fitter: AttendingFitter, reference_frames: tuple[int, int] | None) -> None:
        super().__init__(recipe, fitter)
        self._reference_frames = reference_frames

    def prepare(self, text: SpokenText, state: Path) -> None:
        """Give the net each speaker's silence, and a reference where the recipe wants one. Raises BadFile."""
        super().prepare(text, state)
        if self._reference_frames is None:
            return
        for number, (speaker, said) in enumerate(prompts(text, *self._reference_frames).items()):
            symbols = [symbol for word in pronounce(said.words) for symbol in spell(word)]
            if len(symbols) > len(said.levels):
                raise BadFile(f"a reference of {speaker} is spoken too fast to be aligned", "change reference_frames")
            self.fitter.net.set_reference(number, symbols, torch.from_numpy(said.levels))


class S5Fitting(AttendingFitting):
    """S5-TTS's training by a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        assert isinstance(recipe.fit, S5Fit)
        self._settings = recipe.fit
        torch.manual_seed(recipe.seed)
        fitter = S5Fitter(Config.read(recipe.fit.config), recipe.fit)
        super().__init__(recipe, fitter, recipe.fit.reference_frames)

    def batches(self, text: SpokenText, number: int) -> Iterator[Batch]:
        """One pass over every sentence; the same for the same number."""
        return training_batches(text, self._settings, self._settings.look_ahead, self.recipe.seed, number)

    def validate(self, text: SpokenText, device: torch.device) -> dict[str, dict[str, float]]:
        """Losses on unseen sentences at every look-ahead that is trained."""
        tried = sorted({k for k in self._settings.look_ahead if k <= LARGEST_LOOK_AHEAD})
        return {f"k{k}": mean_losses(self.fitter, validation_batches(text, k, 8000), device) for k in tried}
