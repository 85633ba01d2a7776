"""S5-TTS's policy (paper 001): which words are in view, and which are spoken."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from studio.core.options import OptionSpec, merge_options
from studio.engine.families.common.rows import ALL_WORDS, WordTracker, check_finite

LARGEST_LOOK_AHEAD = 3


@dataclass(frozen=True)
class S5Options:
    """Look-ahead ``k``: words in view beyond the spoken one, 1 to 3."""

    k: int = 2

    def __post_init__(self) -> None:
        merge_options(OPTION_SPECS, vars(self), {})

    @property
    def look_ahead_words(self) -> int:
        """Words that a word waits for."""
        return self.k


OPTION_SPECS = (
    OptionSpec(
        "k", "int", S5Options.k, "Look-ahead", "words read beyond the one spoken", low=1, high=LARGEST_LOOK_AHEAD
    ),
)


@dataclass(frozen=True)
class S5Plan:
    """One step, by indices of spoken words from 0.

    Attributes:
        stop: the first word beyond the encoder's view.
        speak: words of this step: one, or all remaining ones.
        close: the text's end is in view: the stop token, not the completion flag, ends the step.
    """

    stop: int
    speak: range
    close: bool


class LookAheadPolicy:
    """Word i is spoken when word i + k is committed; nothing beyond that is in view.

    The text's end counts as a word after the last one. Once it is in view, the remaining words are spoken in one step
    up to the stop token. A flush counts as an end; if fewer than k words follow the flushed ones, they are the
    look-ahead.
    """

    def __init__(self) -> None:
        self.spoken = 0

    def next(self, committed: int, options: S5Options, *, ended: bool = False, flushed: int = 0) -> S5Plan | None:
        """The next step; None while its words are missing.

        Args:
            committed: words committed so far (N).
            ended: no more words will come.
            flushed: words before this one are spoken without waiting.
        """
        i, t = self.spoken, committed
        if i >= t:
            return None
        if t > i + options.k:
            plan = S5Plan(i + options.k + 1, range(i, i + 1), False)
        elif ended or i < flushed == t:
            plan = S5Plan(t, range(i, t), True)
        elif i < flushed:
            plan = S5Plan(t, range(i, i + 1), False)
        else:
            return None
        self.spoken = plan.speak.stop
        return plan


def is_complete(shares: Sequence[float], steps_through_word: int) -> bool:
    """c_s^i: whether the most attended encoder step lies beyond the ``steps_through_word`` steps of words 1..i."""
    most = max(range(len(shares)), key=shares.__getitem__)
    return most > steps_through_word - 1


@dataclass(frozen=True)
class S5StepInput:
    """Input of a step: text for the encoder, and tokens for the decoder before the step's first frame.

    Attributes:
        symbols, words: phonemes in view and the word of each (from the first one in view); the text's end is a word.
        position: of the first symbol in the whole text, in symbols.
        k: the look-ahead.
        start, at: decoder tokens before ``start`` are dropped; the new tokens are written from ``at`` on, over the
            token there, because the frame before was fed with one word less in view.
        begins: the context is empty, so the decoder's BOS comes first.
        frames: uint8 [n, 80], the frames fed: a prompt (reference, silence) or the frame before.
        spoken: A(s), the word of the frame after each token, if they belong to several words.
        frame: index of the frame to sample.
        again: earlier steps whose words in view have changed, to be fed again first, each with its new view and its
            frames but the last, with which the following step begins.
    """

    symbols: Sequence[int]
    words: Sequence[int]
    position: int
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
    again: Sequence["S5StepInput"] = ()

    def with_frames(self, frames: Sequence[np.ndarray]) -> "S5StepInput":
        """This input followed by frames made in the step, each uint8 [1, 80]."""
        spoken = [*self.spoken, *[self.words[-1]] * len(frames)] if self.spoken else ()
        return replace(self, frames=np.concatenate((self.frames, *frames)), spoken=spoken)

    @property
    def tokens(self) -> int:
        """Number of decoder tokens."""
        return self.begins + len(self.frames)


@dataclass(frozen=True)
class S5Output:
    """A sampled frame uint8 [1, 80], the probability that the text had ended before it, and its attention.

    Attributes:
        shares: float [T], cross-attention weights of the encoder's steps, mean of all layers and heads.
        is_finite: whether all logits were finite.
    """

    levels: np.ndarray
    p_stop: float
    shares: np.ndarray
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite and math.isfinite(self.p_stop) and bool(np.isfinite(self.shares).all()))


@dataclass(frozen=True)
class SpeakerReference:
    """A speaker's reference recording, which the net continues; all fields are empty if there is none.

    Attributes:
        spelled: phonemes of each word of its transcript.
        frames: uint8 [R, 80].
        spoken: word of each frame.
    """

    spelled: Sequence[Sequence[int]]
    frames: np.ndarray = field(repr=False)
    spoken: Sequence[int] = field(repr=False)


@dataclass
class S5StepState:
    """A step being spoken, or one already spoken.

    Attributes:
        sees_end: its view was closed by the text's end, not by a flush.
        fed: its input, or the one with which it was fed again.
        first_word: the first word in its view.
        words: the spoken words, with the sums of W_j.
        frames: each frame with its word.
        is_cut: a limit ended it, not the net.
        p_not_stopped: probability that no stop token was sampled so far.
    """

    index: int
    plan: S5Plan
    sees_end: bool
    fed: S5StepInput
    first_word: int
    first_frame: int
    limit_frames: int
    tokens: int
    words: WordTracker
    frames: list[tuple[int, np.ndarray]] = field(default_factory=list[tuple[int, np.ndarray]], repr=False)
    is_cut: bool = False
    p_not_stopped: float = 1.0

    def stop_probability(self, p_stop: float) -> float:
        """Probability that the stop token has come by now, given its probability ``p_stop`` in this frame.

        Accumulated, because a net undecided between two frames gives neither of them 0.5.
        """
        self.p_not_stopped *= 1.0 - p_stop
        return 1.0 - self.p_not_stopped

    @property
    def seen(self) -> int:
        """Words that the net has seen after it."""
        return ALL_WORDS if self.sees_end else self.plan.stop

    def input_with_frames(self, held_from: int) -> S5StepInput:
        """Its input with its frames but the last, to be fed again; tokens before ``held_from`` were overwritten."""
        fed = replace(self.fed, start=max(self.fed.start, held_from))
        return fed.with_frames([frame for _, frame in self.frames[:-1]])

    def replan(self, other: "S5StepState") -> None:
        """Adopt the input with which it was fed again, in place: checkpoints share this object."""
        self.plan, self.sees_end, self.fed = other.plan, other.sees_end, other.fed


@dataclass(frozen=True)
class S5Checkpoint:
    """See ``studio.engine.families.base.RowCheckpoint``."""

    spoken: int
    fed: int
    steps: int
    frames: int
    start: int
    length: int
    first_word: int
    position: int
    last: np.ndarray | None
    past: tuple[S5StepState, ...]
