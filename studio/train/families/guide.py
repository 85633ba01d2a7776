"""Guided attention: an auxiliary loss on one head of one layer of a decoder.

A decoder-only net has to discover which text token is being spoken; from a few hours of speech that takes longer than
everything else. The corpus knows it. This is Tachibana et al.'s guided attention (2018, equation 6) with the corpus'
alignment instead of a straight diagonal. The trained net has the same form with and without it (docs/adr/0019).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.nets.transformer import Decoder
from studio.train.alignment import PAUSE, best_path

NO_TARGET = -1  # of a frame that is guided to no token


def token_of_frames(
    word_of_frame: np.ndarray, phones: np.ndarray, phones_of_tokens: Sequence[Sequence[tuple[int, ...]]]
) -> np.ndarray:
    """The token that each frame speaks, int64 [F]; NO_TARGET past the last word.

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


class GuidedHead:
    """Computes the guide loss of one head during a decoder's forward pass.

    It is the first head of the middle layer: below it tokens are read, above it frames are made.

    Args:
        queries: int64 [P], flat indices into [B * T] of positions that predict a frame.
        first: int64 [P], the position in [0, T) that each should attend to, no later than its own; or NO_TARGET.
        last: int64 [P], end of the range that begins at ``first``; attention anywhere in it counts.

    Attributes:
        loss: after the pass, the mean of -log of the attention at the targets.
    """

    loss: Tensor

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
