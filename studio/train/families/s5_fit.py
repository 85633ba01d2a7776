"""Train S5-TTS (paper 001, "Training objective") and its full-context baseline T5-TTS: frames and attention.

L = CE(frames) + CTC(cross-attention) + CTC(auxiliary attention). The monotonic path through the auxiliary attention
assigns a word to each decoder step, which determines the decoder mask. T5-TTS sees the whole text: no mask depends on
the word of a frame, so there is no auxiliary attention, and L = CE(frames) + CTC(cross-attention).
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.errors import BadFile
from studio.engine.families.common.text_tokens import spell
from studio.engine.families.s5.model import S5, S5Config, log_diagonal_prior, monotonic_alignment, seen_steps
from studio.engine.families.s5.policy import LARGEST_LOOK_AHEAD
from studio.engine.families.t5.model import T5, T5Config
from studio.engine.tokenizers import dmel
from studio.text.phonemes import pronounce
from studio.train.families.common import WeightedLossModule, noise_of, validation_sentences
from studio.train.families.s5_batches import WHOLE, S5Batch, S5Sequence, can_align, collate, sequence
from studio.train.fit.dataset import SpeechDataset, find_prompts, join_sentences
from studio.train.fit.training import FamilyTraining, Groups, Rng, sample_levels
from studio.train.recipes.fits import S5Fit, T5Fit

AttentionFit = TypeVar("AttentionFit", bound=T5Fit)

_BLANK = -1.0  # log share of CTC's blank before normalisation (Badlani et al. 2022)
_MIN_SHARE = 1e-6  # lower bound before a logarithm


def path_loss(log_shares: Tensor, frames: Tensor, symbols: Tensor) -> Tensor:
    """CTCLoss over the one path omega = 1, 2 .. T: every symbol once, in order, whatever its length.

    Args:
        log_shares: [B, F, T].
        frames, symbols: int64 [B], lengths; frames >= symbols.

    Returns:
        The loss per symbol, mean of the batch.
    """
    count, _, most = log_shares.shape
    with_blank = F.pad(log_shares.float(), (1, 0), value=_BLANK).log_softmax(-1)
    path = torch.arange(1, most + 1, device=log_shares.device).expand(count, -1)
    return F.ctc_loss(with_blank.transpose(0, 1), path, frames, symbols, zero_infinity=True)


class AttentionTrainingModule(WeightedLossModule):
    """A net that attends to phonemes, with the losses that do not depend on its masks."""

    net: S5

    identity_prefixes = ("encoder.blocks.", "decoder.blocks.", "cross.")
    speaker_buffers = ("reference", "transcript", "silence")

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of encoder, decoder and cross-attention."""
        stacks = (self.net.encoder, self.net.decoder, self.net.cross)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2]

    @abstractmethod
    def words_of(self, batch: S5Batch) -> Tensor:
        """A(s), the word of each frame that the decoder mask uses, int64 [B, F]."""

    @torch.no_grad()
    def own_frames(self, batch: S5Batch, share: float, temperature: float) -> S5Batch:
        """The batch with a share of the fed frames sampled from the net, each given the true past."""
        hidden, _ = self.run(batch, self.words_of(batch))
        samples = sample_levels(self.net.heads(at_steps(hidden, batch.step_of))[0], temperature)
        chosen = batch.predicts & (torch.rand(batch.predicts.shape, device=samples.device) < share)
        row, frame = chosen.nonzero(as_tuple=True)
        fed = batch.fed.clone()
        fed[row, batch.step_of[row, frame] + 1] = samples[row, frame]  # fed at the step after the one that predicts it
        return replace(batch, fed=fed)

    def run(self, batch: S5Batch, of_frames: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states [B, S, D] and cross-attention [B, S, T]; ``of_frames`` as returned by ``words_of``."""
        net, config = self.net, self.net.config
        everything = batch.real.unsqueeze(1)
        reading = torch.where(batch.real, batch.words, 0)
        seen = seen_steps(reading, batch.words, batch.k) if config.encoder_mask else everything
        positions = batch.position[:, None] + torch.arange(batch.symbols.shape[1], device=batch.position.device)
        encoded = net.encode(net.embed_symbols(batch.symbols), positions, seen & everything)
        asking = of_frames.gather(1, batch.frame_of)
        end = batch.words.masked_fill(~batch.real, 0).amax(1)  # the text's end is the word of the stop token
        asking = asking.scatter(1, batch.last[:, None], end[:, None])
        seen = seen_steps(asking, batch.words, batch.k) if config.decoder_mask else everything
        x = torch.where(batch.is_bos.unsqueeze(2), net.bos, net.embed_frames(batch.fed))
        x = x + net.embed_row(batch.speaker, batch.k).unsqueeze(1)
        return net.decode(x, encoded, (seen & everything).expand(-1, x.shape[1], -1))

    def attention_losses(self, batch: S5Batch, hidden: Tensor, shares: Tensor) -> dict[str, Tensor]:
        """Losses ``frame``, ``stop``, ``cross`` and the share ``attended``, from the results of ``run``."""
        rows = torch.arange(len(hidden), device=hidden.device)
        levels = self.net.levels_out(at_steps(hidden, batch.step_of)[batch.predicts]).float().view(-1, dmel.LEVELS)
        stops = self.net.stop_out(hidden).squeeze(-1).float()
        stop = torch.zeros_like(stops).index_put_((rows, batch.last), torch.ones((), device=stops.device))
        there = torch.arange(stops.shape[1], device=stops.device) <= batch.last[:, None]
        attending = at_steps(shares, batch.step_of)
        count = batch.real.sum(1)
        log_cross = attending.clamp_min(_MIN_SHARE).log().masked_fill(~batch.real.unsqueeze(1), -1e4)
        attended = batch.words.gather(1, attending.argmax(-1))
        return {
            "frame": F.cross_entropy(levels, batch.frames[batch.predicts].flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops[there], stop[there]),
            "cross": path_loss(log_cross, batch.frame_count, count),
            "attended": (attended == batch.spoken)[batch.predicts].float().mean(),
        }


class S5TrainingModule(AttentionTrainingModule):
    """S5-TTS with its losses."""

    def __init__(self, config: S5Config, settings: S5Fit) -> None:
        weights = {"stop": settings.stop_weight, "cross": settings.cross_weight, "aux": settings.aux_weight}
        super().__init__(S5(config), weights)
        self.settings = settings
        self._by_corpus = settings.alignment == "corpus"

    def forward(self, batch: S5Batch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``cross``, ``aux``; and the shares of frames for which the
        monotonic path (``aligned``) and the cross-attention (``attended``) name the corpus' word.
        """
        return self.losses(batch)[0]

    def losses(self, batch: S5Batch) -> tuple[dict[str, Tensor], Tensor]:
        """The result of ``forward``, and hidden states [B, S, D]."""
        log_aux = self._auxiliary(batch)
        by_path = self._by_path(batch, log_aux)
        hidden, shares = self.run(batch, batch.spoken if self._by_corpus else by_path)
        more = {
            "aux": path_loss(log_aux, batch.frame_count, batch.real.sum(1)),
            "aligned": (by_path == batch.spoken)[batch.predicts].float().mean(),
        }
        return {**self.attention_losses(batch, hidden, shares), **more}, hidden

    def words_of(self, batch: S5Batch) -> Tensor:
        """The word of each frame by the monotonic path, or by the corpus, int64 [B, F]."""
        return batch.spoken if self._by_corpus else self._by_path(batch, self._auxiliary(batch))

    def _auxiliary(self, batch: S5Batch) -> Tensor:
        """log e plus the diagonal prior, [B, F, T]."""
        frames, symbols = self.net.embed_frames(batch.frames), self.net.embed_symbols(batch.symbols)
        prior = torch.full(batch.spoken.shape + batch.symbols.shape[1:], 0.0)
        for row, (f, t) in enumerate(zip(batch.frame_count.tolist(), batch.real.sum(1).tolist(), strict=True)):
            prior[row, :f, :t] = log_diagonal_prior(f, t)
        return self.net.aligner(frames, symbols, batch.real) + prior.to(frames.device)

    def _by_path(self, batch: S5Batch, log_aux: Tensor) -> Tensor:
        """pi(phi(s)): the word of each frame by the monotonic path, int64 [B, F]."""
        host = log_aux.detach().float().cpu().numpy()
        path = monotonic_alignment(host, batch.frame_count.cpu().numpy(), batch.real.sum(1).cpu().numpy())
        return batch.words.gather(1, torch.from_numpy(path).to(log_aux.device))


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


def at_steps(values: Tensor, steps: Tensor) -> Tensor:
    """Values [B, S, C] at steps [B, F] -> [B, F, C]."""
    return values.gather(1, steps.unsqueeze(2).expand(-1, -1, values.shape[2]))


class AttentionTraining(FamilyTraining[AttentionFit]):
    """Training of a net that may be prompted with references.

    Attributes:
        setting_name: of a validation, with ``{}`` for k.
    """

    setting_name = "k{}"

    def look_aheads(self) -> Sequence[int]:
        """Each sequence draws its k from these."""
        return [WHOLE]

    def prepare(self, data: SpeechDataset, state: Path) -> None:
        """Give the net each speaker's silence, and a reference if the recipe has them. Raises BadFile."""
        super().prepare(data, state)
        if self.settings.reference_frames is None:
            return
        for number, (speaker, sentence) in enumerate(find_prompts(data, *self.settings.reference_frames).items()):
            symbols = [symbol for word in pronounce(sentence.words) for symbol in spell(word)]
            if len(symbols) > len(sentence.levels):
                raise BadFile(f"a reference of {speaker} is spoken too fast to be aligned", "change reference_frames")
            self.module.net.set_reference(number, symbols, torch.from_numpy(sentence.levels))

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[S5Sequence]:
        for group in groups:
            silence = data.silence[group[0].speaker]
            joined, k = join_sentences(group, silence, rng), int(rng.choice(self.look_aheads()))
            is_cropped = len(group) > 1 and rng.random() < self.settings.crop_share
            skip = int(rng.integers(1, len(group[0].words) + 1)) if is_cropped else 0
            if can_align(one := sequence(joined, silence, k, skip)):
                yield one

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[S5Sequence]]]:
        """At every trained look-ahead."""
        for k in sorted({k for k in self.look_aheads() if k <= LARGEST_LOOK_AHEAD}):
            sequences = [sequence(s, silence, k) for s, silence in validation_sentences(data)]
            yield self.setting_name.format(k), [one for one in sequences if can_align(one)]

    def collate(self, group: Sequence[S5Sequence], data: SpeechDataset, rng: Rng | None) -> S5Batch:
        return collate(group, data.speakers, *noise_of(self.settings, rng), offset_positions=rng is not None)


class S5Training(AttentionTraining[S5Fit]):
    """Training of S5-TTS by a recipe."""

    def build_module(self) -> S5TrainingModule:
        return S5TrainingModule(S5Config.read(self.settings.config), self.settings)

    def look_aheads(self) -> Sequence[int]:
        return self.settings.look_ahead


class T5Training(AttentionTraining[T5Fit]):
    """Training of T5-TTS by a recipe."""

    setting_name = "whole"

    def build_module(self) -> T5TrainingModule:
        return T5TrainingModule(T5Config.read(self.settings.config), self.settings)
