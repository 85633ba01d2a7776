"""Attention that is taught where to look: one head of one layer of a decoder, while frames are predicted.

A decoder-only net has to find out by itself which text token is being spoken; from a few hours of speech that takes it
longer than all the rest. The corpus knows it. The idea is Tachibana et al.'s (2018, equation 6), with the corpus' own
times in the place of a straight diagonal; the net that is kept is no other than without it (docs/adr/0019).
"""

import numpy as np
import torch
from torch import Tensor

from studio.engine.nets.transformer import Decoder

NOWHERE = -1  # of a frame that is guided to nothing


def spread(word_of_frame: np.ndarray, tokens_of_word: list[int]) -> np.ndarray:
    """The token of each frame, int64 [F]: a word's tokens evenly over its frames; NOWHERE past the last word.

    Args:
        word_of_frame: int64 [F], as of ``spoken.words_of_frames``.
        tokens_of_word: how many each word has.
    """
    out = np.full(len(word_of_frame), NOWHERE, np.int64)
    first = 0
    for word, count in enumerate(tokens_of_word):
        frames = np.flatnonzero(word_of_frame == word)
        out[frames] = first + (np.arange(len(frames)) * count) // max(len(frames), 1)
        first += count
    return out


class GuidedHead:
    """Watches a decoder's pass: how far one head is from looking where it should.

    It is the first head of the middle layer: below it tokens have been read, above it frames are made.

    Args:
        queries: int64 [P], flat indices into [B * T] of positions that predict a frame.
        keys: int64 [P], the position in the row [0, T) that each should attend to, no later than its own; or NOWHERE.

    Attributes:
        lost: after the pass, the mean of -log of the attention that is where it should be.
    """

    lost: Tensor

    def __init__(self, decoder: Decoder, queries: Tensor, keys: Tensor) -> None:
        self._layer, self._queries, self._keys = decoder.config.layers // 2, queries, keys

    def __call__(self, layer: int, q: Tensor, k: Tensor) -> None:
        """See ``Decoder.forward``."""
        if layer == self._layer:
            self.lost = _away(q[:, 0], k[:, 0], self._queries, self._keys)


def _away(q: Tensor, k: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """-log of one head's attention [B, T, d] at the keys, the mean of all queries that have one."""
    asked = keys != NOWHERE
    row, at = queries[asked] // q.shape[1], queries[asked] % q.shape[1]
    scores = (q.float() @ k.float().transpose(1, 2)) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
    shares = scores.masked_fill(later, float("-inf")).log_softmax(-1)
    return -shares[row, at, keys[asked]].sum() / asked.sum().clamp_min(1)
