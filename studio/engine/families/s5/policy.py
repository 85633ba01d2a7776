"""S5-TTS's policy (paper 001): which words are in view, and which are spoken."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption

LARGEST_LOOK_AHEAD = 3


@dataclass(frozen=True)
class S5Options:
    """Look-ahead ``k``: words in view beyond the spoken one, 1 to 3."""

    k: int = 2

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= LARGEST_LOOK_AHEAD:  # bool is an int
            raise BadOption(
                f"look-ahead k = {self.k!r} is not allowed", f"it is a whole number from 1 to {LARGEST_LOOK_AHEAD}"
            )

    @property
    def look_ahead_words(self) -> int:
        """Words that a word waits for."""
        return self.k


OPTION_SPECS = (
    OptionSpec(
        "k", "int", S5Options().k, "Look-ahead k", "words seen beyond the one spoken", low=1, high=LARGEST_LOOK_AHEAD
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


def look_ahead_mask(asking: Sequence[int], words: Sequence[int], k: int) -> list[list[bool]]:
    """Attention mask M[S][T]: true if the word of t is at most k words after that of s.

    M_enc of the paper with the encoder's words on both sides; M_dec with the words of the decoder's steps, A(s).
    """
    return [[word <= at + k for word in words] for at in asking]


def is_complete(shares: Sequence[float], steps_through_word: int) -> bool:
    """c_s^i: whether the most attended encoder step lies beyond the ``steps_through_word`` steps of words 1..i."""
    most = max(range(len(shares)), key=shares.__getitem__)
    return most > steps_through_word - 1
