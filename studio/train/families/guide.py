"""Attention that is taught where to look: one head of one layer of a decoder, while frames are predicted.

A decoder-only net has to find out by itself which text token is being spoken; from a few hours of speech that takes it
longer than all the rest. The corpus knows it. The idea is Tachibana et al.'s (2018, equation 6), with the corpus' own
times in the place of a straight diagonal; the net that is kept is no other than without it (docs/adr/0019).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from studio.engine.nets.transformer import Decoder
from studio.train.alignment import PAUSE, walk

NOWHERE = -1  # of a frame that is guided to nothing


def spread(word_of_frame: np.ndarray, phones: np.ndarray, said: Sequence[Sequence[tuple[int, ...]]]) -> np.ndarray:
    """The token of each frame, int64 [F]; NOWHERE past the last word.

    A word's tokens follow each other as its phones do. Where its tokens tell no phones (letters), or it has fewer
    frames than phones, they have its frames evenly.

    Args:
        word_of_frame: int64 [F], as of ``spoken.words_of_frames``.
        phones: uint8 [F], heard in each frame.
        said: the phones of each token of each word.
    """
    out = np.full(len(word_of_frame), NOWHERE, np.int64)
    first = 0
    for word, tokens in enumerate(said):
        frames = np.flatnonzero(word_of_frame == word)
        out[frames] = first + _places(phones[frames], tokens)
        first += len(tokens)
    return out


def _places(phones: np.ndarray, tokens: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The token of a word that each of its frames speaks, int64 [F]; a pause is the first's or the last's."""
    states = [(phone, place) for place, token in enumerate(tokens) for phone in token if phone != PAUSE]
    if not states or len(phones) < len(states):
        return np.arange(len(phones)) * len(tokens) // max(len(phones), 1)
    names, places = np.array([(PAUSE, states[0][1]), *states, (PAUSE, len(tokens) - 1)]).T
    return places[walk((phones[:, None] == names).astype(np.float64))]


class GuidedHead:
    """Watches a decoder's pass: how far one head is from looking where it should.

    It is the first head of the middle layer: below it tokens have been read, above it frames are made.

    Args:
        queries: int64 [P], flat indices into [B * T] of positions that predict a frame.
        first: int64 [P], the position in the row [0, T) that each should attend to, no later than its own; or NOWHERE.
        last: int64 [P], of a stretch that begins there, which is where it should attend wherever in it.

    Attributes:
        lost: after the pass, the mean of -log of the attention that is where it should be.
    """

    lost: Tensor

    def __init__(self, decoder: Decoder, queries: Tensor, first: Tensor, last: Tensor | None = None) -> None:
        self._layer, self._queries = decoder.config.layers // 2, queries
        self._first, self._last = first, first if last is None else last

    def __call__(self, layer: int, q: Tensor, k: Tensor) -> None:
        """See ``Decoder.forward``."""
        if layer == self._layer:
            self.lost = _away(q[:, 0], k[:, 0], self._queries, self._first, self._last)


def _away(q: Tensor, k: Tensor, queries: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """-log of one head's attention [B, T, d] from first to last, the mean of all queries that have them."""
    asked = first != NOWHERE
    row, at = queries[asked] // q.shape[1], queries[asked] % q.shape[1]
    scores = (q.float() @ k.float().transpose(1, 2)) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
    shares = scores.masked_fill(later, float("-inf")).log_softmax(-1)[row, at]
    place = torch.arange(shares.shape[1], device=shares.device)
    there = (place >= first[asked, None]) & (place <= last[asked, None])
    return -shares.masked_fill(~there, float("-inf")).logsumexp(-1).sum() / asked.sum().clamp_min(1)
