"""Train Tacotron 2: frames, the stop token, and attention guided by the corpus' alignment.

L = CE(frames) + BCE(stop) + guide. The guide rewards attention near a diagonal (Tachibana et al. 2018, equations 6 and
7). Theirs is straight; ours follows the phones of the corpus, or is straight if the recipe says so. Their loss is
bounded by 1, so it has no gradient far from the diagonal; ours is a logarithm.

Attention depends on its own past, so after an error it is wrong for the rest of a clause. In ``given_share`` of the
steps it continues from its target instead (docs/adr/0019); such a step takes three quarters of the time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.core.text.typography import MARKS
from studio.core.text.words import ClauseRule
from studio.engine.families.common.text_tokens import END, PHONEMES, SPACE, spell, words_of
from studio.engine.families.tacotron.model import Tacotron, TacotronConfig, lstm_step
from studio.engine.families.tacotron.policy import WHOLE, TacotronOptions, prosody_of, repeat_by_symbol
from studio.text.phonemes import pronounce
from studio.train.families.common import (
    TensorBatch,
    WeightedLossModule,
    noise_of,
    padded,
    token_of_frames,
    validation_sentences,
)
from studio.train.features import PHONES, Sentence, phone_of
from studio.train.fit.dataset import SpeechDataset, add_level_noise, frame_words, join_sentences
from studio.train.fit.training import FamilyTraining, Groups, Rng, sample_levels
from studio.train.recipes.fits import TacotronFit

_WORD_SYMBOLS = 8
_MIN_NEAR = 1e-6  # lower bound before the logarithm


@dataclass(frozen=True)
class TacotronSequence:
    """A clause of T symbols, its end included, and F frames.

    Attributes:
        symbols, prosody: int64 [T].
        levels: uint8 [1 + F, 80], the frame before and its own.
        words: int64 [T], the word of each symbol; the end belongs to the last one.
        spoken: int64 [F], the word of each frame; targets: int64 [F], the symbol that it should attend to.
        phones: uint8 [F].
    """

    symbols: np.ndarray
    prosody: np.ndarray
    levels: np.ndarray
    words: np.ndarray
    spoken: np.ndarray
    targets: np.ndarray
    phones: np.ndarray
    speaker: str

    def __len__(self) -> int:
        return len(self.symbols) + len(self.spoken)


@dataclass(frozen=True)
class TacotronBatch(TensorBatch):
    """B clauses of at most T symbols and F frames.

    Attributes:
        symbols, prosody, words: int64 [B, T]; real: bool [B, T], not padding.
        speaker: int64 [B].
        fed, frames: uint8 [B, F, 80], the frame before each, and itself; there: bool [B, F], not padding.
        spoken: int64 [B, F], the word of each frame; targets: float32 [B, F], the symbol that it should attend to.
        phones: int64 [B, F].
        last: int64 [B], the last frame of each clause.
    """

    symbols: Tensor
    prosody: Tensor
    words: Tensor
    real: Tensor
    speaker: Tensor
    fed: Tensor
    frames: Tensor
    there: Tensor
    spoken: Tensor
    targets: Tensor
    phones: Tensor
    last: Tensor

    @property
    def predicted(self) -> int:
        return int(self.there.sum())


def clause_rule(words: int) -> ClauseRule:
    """The engine's rule for clauses of so many words; 0 for the whole text at once."""
    return (TacotronOptions(clause_words=words) if words else TacotronOptions(mode=WHOLE)).clauses


def cut_into_clauses(sentence: Sentence, silence: np.ndarray, rule: ClauseRule) -> list[TacotronSequence]:
    """A sentence cut into clauses, each with its pause; ``silence`` uint8 [S, 80] precedes the first one."""
    frames = np.minimum(frame_words(sentence), len(sentence.words) - 1)
    levels, clauses, first = np.concatenate((silence[-1:], sentence.levels)), list[TacotronSequence](), 0
    while first < len(sentence.words):
        count = rule.length(sentence.words[first:], is_all=True)
        assert count is not None, "the whole sentence is there"
        here = np.flatnonzero((frames >= first) & (frames < first + count))
        pronounced = pronounce(sentence.words[first : first + count])
        spelled = [spell(phonemes) for phonemes in pronounced]
        if len(here):
            of_frames = frames[here] - first
            clause = TacotronSequence(
                symbols=np.array([*chain.from_iterable(spelled), END], np.int64),
                prosody=np.array(repeat_by_symbol([prosody_of(one) for one in pronounced], spelled), np.int64),
                levels=levels[here[0] : here[-1] + 2],
                words=np.array([*words_of(spelled), count - 1], np.int64),
                spoken=of_frames,
                targets=token_of_frames(of_frames, sentence.phones[here], [*map(_phones_of_symbols, pronounced)]),
                phones=sentence.phones[here],
                speaker=sentence.speaker,
            )
            clauses.append(clause)
        first += count
    return clauses


def _phones_of_symbols(phonemes: str) -> list[tuple[int, ...]]:
    """The phone of each symbol of a word spelled by ``spell``; the space before it has none."""
    phones = (phone_of(symbol) for symbol in phonemes if symbol in PHONEMES or symbol in MARKS)
    return [(), *((phone,) for phone in phones if phone is not None)]


def collate(
    group: Sequence[TacotronSequence], speakers: Sequence[str], noise_share: float, rng: np.random.Generator
) -> TacotronBatch:
    """Pad clauses to the longest."""
    arrays = {
        "symbols": padded([s.symbols for s in group], SPACE),
        "prosody": padded([s.prosody for s in group]),
        "words": padded([s.words for s in group], -1),
        "real": padded([np.ones(len(s.symbols), bool) for s in group]),
        "fed": padded([add_level_noise(s.levels[:-1], noise_share, rng) for s in group]),
        "frames": padded([s.levels[1:] for s in group]),
        "there": padded([np.ones(len(s.spoken), bool) for s in group]),
        "spoken": padded([s.spoken for s in group]),
        "targets": padded([s.targets.astype(np.float32) for s in group]),
        "phones": padded([s.phones.astype(np.int64) for s in group]),
        "speaker": np.array([speakers.index(s.speaker) for s in group]),
        "last": np.array([len(s.spoken) - 1 for s in group]),
    }
    return TacotronBatch(**{name: torch.from_numpy(value) for name, value in arrays.items()})


def guide_loss(shares: Tensor, targets: Tensor, width: float) -> Tensor:
    """-log of the sum of w[t] exp(-(t - n)^2 / 2 g^2), for each frame [B, F].

    Args:
        shares: w, the attention, float32 [B, F, T].
        targets: n, in symbols, [B, F].
        width: g, in symbols.
    """
    off = torch.arange(shares.shape[2], device=shares.device) - targets.unsqueeze(2)
    near = (shares * torch.exp(-0.5 * (off / width).square())).sum(2)
    return -near.clamp_min(_MIN_NEAR).log()


def target_shares(targets: Tensor, symbols: int) -> Tensor:
    """Target attention, [B, F] -> [B, F, T]: on one symbol, or on two where a target lies between them."""
    off = torch.arange(symbols, device=targets.device) - targets.unsqueeze(2)
    return (1.0 - off.abs()).clamp_min(0.0)


def diagonal_targets(batch: TacotronBatch) -> Tensor:
    """Targets on a straight diagonal through each clause, in symbols, [B, F]."""
    frames, symbols = batch.last + 1, batch.real.sum(1)
    at = torch.arange(batch.there.shape[1], device=frames.device) + 0.5
    return at / frames[:, None] * symbols[:, None] - 0.5


@torch.no_grad()
def sample_own_past(
    net: Tacotron, encoded: Tensor, fed: Tensor, shares: Tensor, chosen: Tensor, temperature: float
) -> Tensor:
    """``fed`` with the chosen clauses replaced by frames that the net samples autoregressively, uint8 [B, F, 80].

    A net trained on true frames only drifts when it continues its own samples, and does not learn to recover (Bengio et
    al. 2015, scheduled sampling). The attention is set to its target, so that words keep their times and the true
    frames stay valid targets.

    Args:
        encoded: [B, T, D], from ``encode``.
        fed: uint8 [B, F, 80], the true frame before each.
        shares: [B, F, T], target attention.
        chosen: bool [B].
    """
    cell = net.attention_lstm
    attention_gates = torch.cat((cell.weight_ih, cell.weight_hh), 1), cell.bias_ih + cell.bias_hh
    input_weight, hidden_weight, bias, other_bias = net.decoder_lstm.all_weights[0]
    decoder_gates = torch.cat((input_weight, hidden_weight), 1), bias + other_bias
    encoded, own = encoded[chosen], fed[chosen]
    contexts = torch.bmm(shares[chosen].to(encoded.dtype), encoded)
    hidden = state = decoded = decoder_state = encoded.new_zeros(len(encoded), net.config.decoder_width)
    before = torch.zeros_like(contexts[:, 0])
    for frame in range(fed.shape[1] - 1):
        context = contexts[:, frame]
        gates = F.linear(torch.cat((net.look_at(own[:, frame]), before, hidden), 1), *attention_gates)
        hidden, state = lstm_step(gates, state)
        gates = F.linear(torch.cat((hidden, context, decoded), 1), *decoder_gates)
        decoded, decoder_state = lstm_step(gates, decoder_state)
        levels, _ = net.heads(net.head(decoded, context, own[:, frame]))
        own[:, frame + 1] = sample_levels(levels, temperature)
        before = context
    fed = fed.clone()
    fed[chosen] = own
    return fed


class TacotronTrainingModule(WeightedLossModule):
    """Tacotron 2 with its losses and a training-only phone head (docs/adr/0004)."""

    net: Tacotron

    def __init__(self, config: TacotronConfig, settings: TacotronFit) -> None:
        weights = {"stop": settings.stop_weight, "guide": settings.guide_weight, "phone": settings.phone_weight}
        super().__init__(Tacotron(config), weights)
        self._settings = settings
        self.phone_out = nn.Linear(config.head_width, len(PHONES))

    def forward(self, batch: TacotronBatch) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``guide``, ``phone``; and three shares of frames.

        ``attended``: the largest attention is on a symbol of the corpus' word. ``forward``: it stays or moves forward,
        by at most a word's length of symbols. ``phone_hits``: the phone is predicted correctly.
        """
        seen, shares = self._run(batch)
        levels, stops = self.net.heads(seen)
        stops, there = stops.float(), batch.there
        phone_logits, phones = self.phone_out(seen[there]).float(), batch.phones[there]
        last_weight = stops.new_tensor(self._settings.last_weight)
        is_last = torch.arange(stops.shape[1], device=stops.device) == batch.last[:, None]
        at = shares.argmax(2)
        steps = at.diff(dim=1)[there[:, 1:]]
        return {
            "frame": F.cross_entropy(levels[there].float().flatten(0, 1), batch.frames[there].flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops[there], is_last[there].float(), pos_weight=last_weight),
            "guide": guide_loss(shares, self._targets(batch), self._settings.guide_symbols)[there].mean(),
            "phone": F.cross_entropy(phone_logits, phones),
            "phone_hits": (phone_logits.argmax(1) == phones).float().mean(),
            "attended": (batch.words.gather(1, at) == batch.spoken)[there].float().mean(),
            "forward": ((steps >= 0) & (steps <= _WORD_SYMBOLS)).float().mean() if len(steps) else stops.new_ones(()),
        }

    def matrices(self) -> list[nn.Parameter]:
        """The matrices of LSTMs, pre-net and head."""
        net = self.net
        stacks = (net.encoder.lstm, net.prenet_in, net.prenet_out, net.attention_lstm, net.decoder_lstm)
        return [p for stack in stacks for p in stack.parameters() if p.ndim == 2] + net.head.matrices()

    @torch.no_grad()
    def own_frames(self, batch: TacotronBatch, share: float, temperature: float) -> TacotronBatch:
        """The batch with a share of the fed frames sampled from the net, each given the true past.

        In a share of the clauses, the recipe's ``own_past_share``, all frames are sampled, each given those before it.
        """
        whole = torch.rand(len(batch.fed), device=batch.fed.device) < self._settings.own_past_share
        if whole.any():
            encoded = self.net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
            shares = target_shares(self._targets(batch), encoded.shape[1])
            batch = replace(batch, fed=sample_own_past(self.net, encoded, batch.fed, shares, whole, temperature))
        levels, _ = self.net.heads(self._run(batch)[0])
        samples = sample_levels(levels, temperature)
        chosen = (torch.rand(batch.there.shape, device=samples.device) < share) & batch.there & ~whole[:, None]
        fed = batch.fed.clone()
        fed[:, 1:] = torch.where(chosen[:, 1:, None], samples[:, :-1], fed[:, 1:])
        return replace(batch, fed=fed)

    def _targets(self, batch: TacotronBatch) -> Tensor:
        return batch.targets if self._settings.alignment == "corpus" else diagonal_targets(batch)

    def _run(self, batch: TacotronBatch) -> tuple[Tensor, Tensor]:
        """Head inputs [B, F, H], and attention [B, F, T]."""
        encoded = self.net.encode(batch.symbols, batch.prosody, batch.speaker, batch.real)
        if self.training and float(torch.rand(())) < self._settings.given_share:
            shares = target_shares(self._targets(batch), encoded.shape[1])
            return self.net.decode_along(encoded, batch.real, batch.fed, shares)
        return self.net.decode(encoded, batch.real, batch.fed)


class TacotronTraining(FamilyTraining[TacotronFit]):
    """Training of Tacotron 2 by a recipe."""

    def build_module(self) -> TacotronTrainingModule:
        return TacotronTrainingModule(TacotronConfig.read(self.settings.config), self.settings)

    def draw(self, groups: Groups, data: SpeechDataset, rng: Rng) -> Iterator[TacotronSequence]:
        """Clauses, cut again on each call."""
        for group in groups:
            silence = data.silence[group[0].speaker]
            sentence, words = join_sentences(group, silence, rng), int(rng.choice(self.settings.clause_words))
            yield from cut_into_clauses(sentence, silence, clause_rule(words))

    def validation(self, data: SpeechDataset) -> Iterator[tuple[str, list[TacotronSequence]]]:
        """In clauses of every trained length; the pre-net's dropout stays on."""
        for words in sorted(set(self.settings.clause_words)):
            rule = clause_rule(words)
            clauses = [one for s, quiet in validation_sentences(data) for one in cut_into_clauses(s, quiet, rule)]
            yield f"{words or 'all'} words", clauses

    def collate(self, group: Sequence[TacotronSequence], data: SpeechDataset, rng: Rng | None) -> TacotronBatch:
        return collate(group, data.speakers, *noise_of(self.settings, rng))
