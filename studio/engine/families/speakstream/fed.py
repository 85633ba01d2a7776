"""What a SpeakStream net is fed at a segment's beginning, as its row says it and its modules run it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Stretch:
    """What a segment begins with, in the order in which it is fed.

    Attributes:
        after_eos: s_eos of the segment before comes first.
        symbols: ids of characters and of the text's end.
        window: of s_bos: scheme, words spoken now, words of look-ahead.
        frames: uint8 [k, 80] that follow s_bos: the silence prompt, and where it is fed again, those that it made.
    """

    after_eos: bool
    symbols: Sequence[int]
    window: tuple[int, int, int]
    frames: np.ndarray = field(repr=False)

    @property
    def tokens(self) -> int:
        """How many tokens it feeds."""
        return self.after_eos + len(self.symbols) + 1 + len(self.frames)


@dataclass(frozen=True)
class Ahead:
    """Text of the first segment that is there before the segment can begin.

    Attributes:
        symbols: ids of characters, which stand at ``at`` and after it.
    """

    at: int
    symbols: Sequence[int]
    speaker: int


@dataclass(frozen=True)
class Prefill:
    """A segment's beginning, and where it stands.

    Attributes:
        start, at: tokens before ``start`` are forgotten; these tokens stand at ``at`` and after it.
        stretches: the segments before it that are fed again since their words were changed, with the frames that they
            made; then its own.
        frame: index of the frame to draw.
        known: so many of the tokens, symbols of the first stretch, stand there already.
    """

    start: int
    at: int
    stretches: Sequence[Stretch]
    speaker: int
    temperature: float
    seed: int
    frame: int
    known: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens it feeds."""
        return sum(stretch.tokens for stretch in self.stretches)
