"""Inputs of SpeakStream's modules, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class SegmentInput:
    """Tokens of a segment, in order.

    Attributes:
        after_eos: s_eos of the segment before comes first.
        symbols: ids of characters and of the text's end.
        window: of s_bos: scheme, words spoken, look-ahead words.
        frames: uint8 [k, 80] after s_bos: the silence prompt, and the segment's own frames if it is fed again.
    """

    after_eos: bool
    symbols: Sequence[int]
    window: tuple[int, int, int]
    frames: np.ndarray = field(repr=False)

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.after_eos + len(self.symbols) + 1 + len(self.frames)


@dataclass(frozen=True)
class ReadAheadInput:
    """Text of the first segment, fed before its window is complete.

    Attributes:
        symbols: ids of characters, written to the slot from token ``at`` on.
    """

    at: int
    symbols: Sequence[int]
    speaker: int


@dataclass(frozen=True)
class SegmentPrefill:
    """Input of a segment, before its first frame.

    Attributes:
        start, at: tokens before ``start`` are dropped; the new tokens are written from ``at`` on.
        segments: earlier segments to be fed again, with their frames, because their words changed; then the new one.
        frame: index of the frame to sample.
        known: number of tokens that the slot already holds, symbols of the first segment.
    """

    start: int
    at: int
    segments: Sequence[SegmentInput]
    speaker: int
    temperature: float
    seed: int
    frame: int
    known: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return sum(one.tokens for one in self.segments)
