"""S5-TTS's rule (paper 001): which words are seen, and which are spoken."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption

LARGEST_LOOK_AHEAD = 3


@dataclass(frozen=True)
class Options:
    """Look-ahead: ``k`` words beyond the one spoken are seen, 1 <= k <= 3."""

    k: int = 2

    def __post_init__(self) -> None:
        if type(self.k) is not int or not 1 <= self.k <= LARGEST_LOOK_AHEAD:  # True is an int, and no number of words
            raise BadOption(
                f"look-ahead k = {self.k!r} is not allowed", f"it is a whole number from 1 to {LARGEST_LOOK_AHEAD}"
            )

    @property
    def look_ahead_words(self) -> int:
        """Committed words that a word waits for."""
        return self.k


OPTION_SPECS = (
    OptionSpec(
        "k", "int", Options().k, "Look-ahead k", "words seen beyond the one spoken", low=1, high=LARGEST_LOOK_AHEAD
    ),
)


@dataclass(frozen=True)
class Plan:
    """One step: what the encoder sees, and what is spoken (indices of spoken words, from 0).

    Attributes:
        stop: the encoder's input is cut before this word.
        speak: words of this step: one, or all that are left.
        close: the text's end follows the words seen: completion flags are off, the stop token ends the step.
    """

    stop: int
    speak: range
    close: bool


class LookAheadRule:
    """Which words come next: word i is spoken when word i + k is committed, and nothing beyond that is seen.

    The text's end counts as a word after the last one. Once it is in the look-ahead nothing more can come, and what is
    left is spoken in one step up to the stop token. A flush is an end, as far as anybody knows; where words follow
    those that were flushed, but fewer than k, these are the look-ahead.
    """

    def __init__(self) -> None:
        self.spoken = 0

    def next(self, committed: int, options: Options, *, ended: bool = False, flushed: int = 0) -> Plan | None:
        """The next step, or None while its words are not there yet.

        Args:
            committed: words committed so far (N).
            ended: no more words will come.
            flushed: words before this one are to be spoken without waiting.
        """
        i, t = self.spoken, committed
        if i >= t:
            return None
        if t > i + options.k:
            plan = Plan(i + options.k + 1, range(i, i + 1), False)
        elif ended or i < flushed == t:
            plan = Plan(t, range(i, t), True)
        elif i < flushed:
            plan = Plan(t, range(i, i + 1), False)
        else:
            return None
        self.spoken = plan.speak.stop
        return plan


def look_ahead_mask(asking: Sequence[int], words: Sequence[int], k: int) -> list[list[bool]]:
    """Who may see whom, [S][T]: M[s][t] where t is of a word at most k after that of s.

    With the words of the encoder's steps on both sides this is M_enc of the paper; with the words of the decoder's
    steps, A(s), it is M_dec. The unions of the two formulas are the steps of all words up to min(word + k, N).
    """
    return [[word <= at + k for word in words] for at in asking]


def is_complete(shares: Sequence[float], steps_through_word: int) -> bool:
    """c_s^i: whether the most attended encoder step lies beyond those of words 1..i, of which there are so many."""
    most = max(range(len(shares)), key=shares.__getitem__)
    return most > steps_through_word - 1
