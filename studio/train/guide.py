"""Attention that is taught where to look: one head of one layer of a decoder, while frames are predicted.

A decoder-only net has to find out by itself which text token is being spoken; from a few hours of speech that takes it
longer than all the rest. The corpus knows it. The idea is Tachibana et al.'s (2018, equation 6), with the corpus' own
times in the place of a straight diagonal; the net that is kept is no other than without it (docs/adr/0019).
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from studio.engine.nets.transformer import Decoder, attend_whole, rotary

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


def decode_guided(
    decoder: Decoder, x: Tensor, queries: Tensor, keys: Tensor, between: Callable[[int, Tensor], Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """A decoder's pass, and how far its guided head is from looking where it should.

    The head is the first one of the middle layer: below it tokens have been read, above it frames are made.

    Args:
        x: [B, T, D].
        queries: int64 [P], flat indices into [B * T] of positions that predict a frame.
        keys: int64 [P], the position in the row [0, T) that each should attend to, no later than its own; or NOWHERE.
        between: what a family does between a layer's attention and its feed-forward, by the layer's number.

    Returns:
        [B, T, D], and the mean of -log of the attention that is where it should be.
    """
    cos, sin = rotary(torch.arange(x.shape[1], device=x.device), decoder.config.head_width, decoder.config.rotary_base)
    lost, guided = x.new_zeros((), dtype=torch.float32), decoder.config.layers // 2
    for number, block in enumerate(decoder.layers()):
        q, k, v = block.project(x, cos, sin)
        if number == guided:
            lost = _away(q[:, 0], k[:, 0], queries, keys)
        x = block.mix(x, attend_whole(q, k, v))
        x = block.feed(x if between is None else between(number, x))
    return decoder.norm(x), lost


def _away(q: Tensor, k: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """-log of one head's attention [B, T, d] at the keys, the mean of all queries that have one."""
    asked = keys != NOWHERE
    row, at = queries[asked] // q.shape[1], queries[asked] % q.shape[1]
    scores = (q.float() @ k.float().transpose(1, 2)) * q.shape[-1] ** -0.5
    later = torch.ones(scores.shape[1:], dtype=torch.bool, device=q.device).triu(1)
    shares = scores.masked_fill(later, float("-inf")).log_softmax(-1)
    return -shares[row, at, keys[asked]].sum() / asked.sum().clamp_min(1)
