"""Parts shared by the trainings of the families: batches of tensors, losses, next-frame prediction, guided attention.

Guided attention is an auxiliary loss on one head of one layer of a decoder. A decoder-only net has to learn which text
token is being spoken; from a few hours of speech that takes longer than everything else. The corpus' alignment gives
that token. This is Tachibana et al.'s guided attention (2018, equation 6) with that alignment instead of a straight
diagonal. The trained net has the same form with and without it (docs/adr/0019).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studio.engine.families.common.text_tokens import WORD_START, Bpe
from studio.engine.nets.transformer import AttentionHook, Decoder
from studio.engine.tokenizers import dmel
from studio.train.features import PAUSE, PHONES, Sentence, best_path, phone_of
from studio.train.fit.dataset import SpeechDataset
from studio.train.fit.training import Rng, TrainingModule, sample_levels
from studio.train.recipes.fits import FitRecipe

NO_TARGET = -1  # of a frame whose attention is not guided


@dataclass(frozen=True)
class TensorBatch(ABC):
    """Base of training batches: frozen dataclasses whose fields are tensors."""

    @property
    @abstractmethod
    def predicted(self) -> int:
        """Number of frames to predict."""

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        return replace(self, **{name: value.to(device) for name, value in vars(self).items()})


@dataclass(frozen=True)
class NextFrameBatch(TensorBatch):
    """Interleaved text and frames for a decoder-only net; positions ``..._at`` are flat indices into [B * T].

    Attributes:
        symbols: int64 [B, T], filler at positions without a symbol.
        frame_at: [M]; frame_levels: uint8 [M, 80], the input frames, end frames included.
        target_at: [P]; target_levels: uint8 [P, 80]; target_phones: [P], the targets.
        stop_at: [Q]; stop: float32 [Q].
    """

    symbols: Tensor
    frame_at: Tensor
    frame_levels: Tensor
    target_at: Tensor
    target_levels: Tensor
    target_phones: Tensor
    stop_at: Tensor
    stop: Tensor

    @property
    def predicted(self) -> int:
        return len(self.target_at)


def padded(rows: Sequence[np.ndarray], fill: int = 0) -> np.ndarray:
    """Rows of several lengths [T, ...] as one array [B, max T, ...], filled behind their ends."""
    out = np.full((len(rows), max(map(len, rows)), *rows[0].shape[1:]), fill, rows[0].dtype)
    for out_row, row in zip(out, rows, strict=True):
        out_row[: len(row)] = row
    return out


def validation_sentences(text: SpeechDataset) -> Iterator[tuple[Sentence, np.ndarray]]:
    """The first 24 validation sentences of every speaker, each with the speaker's silence."""
    for speaker in text.speakers:
        for sentence in text.validation[speaker][:24]:
            yield sentence, text.silence[speaker]


def token_of_frames(
    word_of_frame: np.ndarray, phones: np.ndarray, phones_of_tokens: Sequence[Sequence[tuple[int, ...]]]
) -> np.ndarray:
    """The token spoken in each frame, int64 [F]; NO_TARGET past the last word.

    The tokens of a word follow its phones. Where tokens have no phones (letters), or the word has fewer frames than
    phones, its frames are divided evenly.

    Args:
        word_of_frame: int64 [F], as from ``dataset.words_of_frames``.
        phones: uint8 [F], the phone of each frame.
        phones_of_tokens: the phones of each token of each word.
    """
    out = np.full(len(word_of_frame), NO_TARGET, np.int64)
    first = 0
    for word, tokens in enumerate(phones_of_tokens):
        frames = np.flatnonzero(word_of_frame == word)
        out[frames] = first + _token_in_word(phones[frames], tokens)
        first += len(tokens)
    return out


def _token_in_word(phones: np.ndarray, tokens: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The index in its word of each frame's token, int64 [F]; a pause counts for the first or the last one."""
    states = [(phone, index) for index, token in enumerate(tokens) for phone in token if phone != PAUSE]
    if not states or len(phones) < len(states):
        return np.arange(len(phones)) * len(tokens) // max(len(phones), 1)
    names, indices = np.array([(PAUSE, states[0][1]), *states, (PAUSE, len(tokens) - 1)]).T
    return indices[best_path((phones[:, None] == names).astype(np.float64))]


def encoded_words(
    bpe: Bpe, words: Sequence[str], dropout: float = 0.0, rng: np.random.Generator | None = None
) -> list[tuple[int, ...]]:
    """Tokens of each word; with a generator, BPE merges are skipped with probability ``dropout``.

    Without dropout, nets overfit to the texts of a few hours of speech.
    """
    if rng is None or not dropout:
        return [bpe.encode(word, words[:i]) for i, word in enumerate(words)]
    return [bpe.encode_at_random(word, dropout, rng.random, words[:i]) for i, word in enumerate(words)]


def phones_of_tokens(bpe: Bpe) -> list[tuple[int, ...]]:
    """The phones (``features.PHONES``) of each token, by its id; none for tokens of letters and marks."""
    if bpe.spelling == "letters":
        return [()] * bpe.size
    return [
        tuple(phone for symbol in token if symbol != WORD_START and (phone := phone_of(symbol))) for token in bpe.tokens
    ]


class GuidedHead:
    """Computes the guide loss of one head during a decoder's forward pass.

    It is the first head of the middle layer: layers below can encode the tokens, and layers above predict frames.

    Args:
        queries: int64 [P], flat indices into [B * T] of positions that predict a frame.
        first: int64 [P], the position in [0, T) that each should attend to, no later than its own; or NO_TARGET.
        last: int64 [P], inclusive end of the range from ``first``, whose attention is summed; None for one position.
    """

    loss: Tensor  # after the pass, the mean of -log of the attention at the targets

    def __init__(self, decoder: Decoder, queries: Tensor, first: Tensor, last: Tensor | None = None) -> None:
        self._layer, self._queries = decoder.config.layers // 2, queries
        self._first, self._last = first, first if last is None else last

    def __call__(self, layer: int, q: Tensor, k: Tensor) -> None:
        """See ``Decoder.forward``."""
        if layer == self._layer:
            self.loss = _guide_loss(q[:, 0], k[:, 0], self._queries, self._first, self._last)


def _guide_loss(q: Tensor, k: Tensor, queries: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Mean over queries with a target of -log of one head's attention [B, T, d] from ``first`` to ``last``."""
    guided = first != NO_TARGET
    row, at = queries[guided] // q.shape[1], queries[guided] % q.shape[1]
    scores = (q.float() @ k.float().transpose(1, 2)) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
    log_attention = scores.masked_fill(later, float("-inf")).log_softmax(-1)[row, at]
    position = torch.arange(log_attention.shape[1], device=log_attention.device)
    in_range = (position >= first[guided, None]) & (position <= last[guided, None])
    return -log_attention.masked_fill(~in_range, float("-inf")).logsumexp(-1).sum() / guided.sum().clamp_min(1)


def noise_of(settings: FitRecipe, rng: Rng | None) -> tuple[float, np.random.Generator]:
    """The share of noisy frames of a batch and its generator; without a generator (validation), the share is 0."""
    return (0.0, np.random.default_rng(0)) if rng is None else (settings.noise_share, rng)


class WeightedLossModule(TrainingModule):
    """A training module that minimises ``frame`` plus its other losses times their weights.

    Args:
        weights: by loss; losses without a weight are logged only.
    """

    def __init__(self, net: nn.Module, weights: dict[str, float]) -> None:
        super().__init__()
        self.net = net
        self._weights = weights

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        """The weighted sum."""
        return losses["frame"] + sum(weight * losses[name] for name, weight in self._weights.items())


class NextFrameModule(WeightedLossModule):
    """A decoder-only net with a training-only head that predicts the phone of the next frame (docs/adr/0004).

    With the head, a small net learns pronunciation much sooner; it is not part of the voice.

    Args:
        net: with ``decoder``, ``levels_out``, ``eos_out`` and ``config.width``.
        phone_weight, eos_weight: of these losses.
        guide_weight: of the guided attention head (see ``guided_head``); 0 turns it off.
    """

    identity_prefixes = ("decoder.blocks.",)

    def __init__(self, net: Any, phone_weight: float = 1.0, eos_weight: float = 1.0, guide_weight: float = 0.0) -> None:
        guide = {"guide": guide_weight} if guide_weight else {}
        super().__init__(net, {"phone": phone_weight, "stop": eos_weight, **guide})
        self.phone_out = nn.Linear(net.config.width, len(PHONES))

    @abstractmethod
    def hidden(self, batch: Any, watch: AttentionHook | None = None) -> Tensor:
        """The decoder's hidden states [B * T, width]; ``watch`` as in ``Decoder``."""

    def guided_head(self, batch: Any) -> GuidedHead | None:
        """The attention head to guide, with its targets in this batch; None if the family has none."""
        return None

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Losses ``frame`` (nats per channel), ``stop``, ``phone`` and ``guide`` if guided; and ``phone_hits``."""
        head = self.guided_head(batch) if "guide" in self._weights else None
        losses = self.losses(batch, self.hidden(batch, head))
        return losses if head is None else losses | {"guide": head.loss}

    def losses(self, batch: Any, hidden: Tensor) -> dict[str, Tensor]:
        """The losses of ``forward`` except ``guide``, from hidden states [B * T, width]."""
        at_targets = hidden[batch.target_at]
        levels = self.net.levels_out(at_targets).float().view(-1, dmel.LEVELS)
        phones = self.phone_out(at_targets).float()
        stops = self.net.eos_out(hidden[batch.stop_at]).squeeze(-1).float()
        return {
            "frame": F.cross_entropy(levels, batch.target_levels.flatten().long()),
            "stop": F.binary_cross_entropy_with_logits(stops, batch.stop),
            "phone": F.cross_entropy(phones, batch.target_phones),
            "phone_hits": (phones.argmax(-1) == batch.target_phones).float().mean(),
        }

    def matrices(self) -> list[nn.Parameter]:
        """The decoder's matrices."""
        return [p for p in self.net.decoder.parameters() if p.ndim == 2]

    @torch.no_grad()
    def own_frames(self, batch: Any, share: float, temperature: float) -> Any:
        """The batch with a share of the fed frames sampled from the net (Bengio et al. 2015, in parallel).

        Each sample is given the true past, as in the first of Duckworth et al.'s passes (2019); one pass gives most of
        the stability on a net's own output and costs a third of a step (docs/adr/0006).
        """
        logits = self.net.levels_out(self.hidden(batch)[batch.target_at])
        samples = sample_levels(logits.view(-1, dmel.CHANNELS, dmel.LEVELS), temperature)
        row = torch.full((batch.symbols.numel() + 1,), -1, device=samples.device)
        row[batch.frame_at] = torch.arange(len(batch.frame_at), device=samples.device)
        fed = row[batch.target_at + 1]  # a frame is fed at the position after the one that predicts it
        chosen = (fed >= 0) & (torch.rand(len(fed), device=fed.device) < share)
        levels = batch.frame_levels.clone()
        levels[fed[chosen]] = samples[chosen]
        return replace(batch, frame_levels=levels)
