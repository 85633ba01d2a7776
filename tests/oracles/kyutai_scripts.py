"""Random runs of Kyutai's state machine: words (tokens, padding), and what the net asks for in each step."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

RUNS = 1000
SIZE = 40  # text tokens
FILE = Path(__file__).with_name("kyutai_words.npz")
_NEW_WORD, _MAIN, _OTHER, _PAD = 0, 1, 2, 3
_FINAL_STEPS = 4


class Word(NamedTuple):
    """A word of at least one token, and the steps after it in which no other begins."""

    tokens: list[int]
    padding: int


@dataclass(frozen=True)
class Script:
    """One run; ``wanted`` is the text token that the net asks for in each step.

    Attributes:
        look_ahead: of the second stream; 0 without it.
        longest_pad, initial_pad: limits in steps.
    """

    words: list[Word]
    look_ahead: int
    longest_pad: int
    initial_pad: int
    wanted: list[int]


def script(number: int) -> Script:
    """The same for a number in every version of Python: only ``random()`` is."""
    rng = Random(number)

    def below(limit: int) -> int:
        return int(rng.random() * limit)

    def word(first: bool) -> Word:
        tokens = [4 + below(SIZE - 4) for _ in range(1 + below(5))]
        if first and below(2):
            tokens.insert(0, (_MAIN, _OTHER)[below(2)])
        return Word(tokens, below(6) if below(3) == 0 else 0)

    look_ahead, longest_pad, initial_pad = below(4), 1 + below(10), below(5)
    words = [word(i == 0 or below(8) == 0) for i in range(1 + below(9))]
    # Nets that ask for words always, never, and in between; some ask for tokens that mean nothing here.
    eager, odd = (0.0, 0.1, 0.3, 0.6, 1.0)[below(5)], (0.0, 0.2)[below(2)]
    spoken = sum(len(tokens) + padding + longest_pad + 1 for tokens, padding in words)  # after it the end has come
    wanted: list[int] = []
    for _ in range(initial_pad + spoken + 1 + _FINAL_STEPS):
        asked = _NEW_WORD if rng.random() < eager else _PAD
        wanted.append(_MAIN + below(SIZE - 1) if rng.random() < odd else asked)
    return Script(words, look_ahead, longest_pad, initial_pad, wanted)
