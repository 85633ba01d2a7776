"""What a row of S5-TTS, or of T5-TTS, feeds its net and is answered: plain Python, no torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class WordStep:
    """What a step begins with: the encoder's input, and what the decoder is fed for the step's first frame.

    Attributes:
        symbols, words: phonemes seen and the word of each (from the first one seen); the text's end is a word.
        place: of the first symbol, in symbols since the text began.
        k: the look-ahead.
        start, at: decoder tokens before ``start`` are forgotten; these tokens stand at ``at`` and after it, over
            the token there: the frame before was fed with one word less in view, and is fed again.
        begins: nothing came before, so that the decoder's first token goes ahead.
        frames: uint8 [n, 80], the frames fed: what nobody hears (a reference, a silence), or the frame before.
        spoken: the word of the frame after each token fed, A(s), where they are of several words.
        frame: index of the frame to draw.
        again: steps before it that saw words which are others now: they are fed first, each with what it sees now and
            with the frames that it made but the last, which the step after it begins with.
    """

    symbols: Sequence[int]
    words: Sequence[int]
    place: int
    k: int
    start: int
    at: int
    begins: bool
    frames: np.ndarray = field(repr=False)
    speaker: int
    temperature: float
    seed: int
    frame: int
    spoken: Sequence[int] = ()
    again: Sequence["WordStep"] = ()

    def with_frames(self, frames: Sequence[np.ndarray]) -> "WordStep":
        """The same, and frames made in it, each uint8 [1, 80]: fed like those, they see all that is in view."""
        spoken = [*self.spoken, *[self.words[-1]] * len(frames)] if self.spoken else ()
        return replace(self, frames=np.concatenate((self.frames, *frames)), spoken=spoken)

    @property
    def tokens(self) -> int:
        """How many tokens the decoder is fed."""
        return self.begins + len(self.frames)


@dataclass(frozen=True)
class Drawn:
    """A frame uint8 [1, 80], how sure the net was that the text had ended before it, and where it attended.

    Attributes:
        shares: float [T], the cross-attention's shares of the encoder's steps, mean of all heads.
        is_finite: whether what it was drawn from were numbers.
    """

    levels: np.ndarray
    p_stop: float
    shares: np.ndarray
    is_finite: bool


@dataclass(frozen=True)
class Reference:
    """What the speaker said before, which the net goes on from; all empty where there is none.

    Attributes:
        spelled: the phonemes of each word of its transcript.
        frames: uint8 [R, 80].
        spoken: the word of each frame.
    """

    spelled: Sequence[Sequence[int]]
    frames: np.ndarray = field(repr=False)
    spoken: Sequence[int] = field(repr=False)
