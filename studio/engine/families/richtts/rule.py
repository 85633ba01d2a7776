"""RichTTS's rule (paper 000, sections III.B and IV.A): which words are one text, and the sequence they make.

RichTTS reads a text whole before it speaks: [w_bos, w_1 .. w_t, w_eos, s_bos, s_1 .. s_t, s_eos]. To stream by it is to
cut the text into pieces of n words, each a text of its own, and to speak them one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.core.text.clauses import ClauseRule
from studio.engine.families.speakstream.rule import BOS as W_BOS  # the symbols of SpeakStream, and one more
from studio.engine.families.speakstream.rule import LARGEST_WINDOW, W_EOS, spell
from studio.engine.families.speakstream.rule import SYMBOLS as _SPEAKSTREAM_SYMBOLS

WHOLE, NGRAM = "whole", "ngram"
MODES = (WHOLE, NGRAM)
S_BOS = _SPEAKSTREAM_SYMBOLS
SYMBOLS = S_BOS + 1
LARGEST_NGRAM = LARGEST_WINDOW  # Table I: hops of 1 to 6 words
MOST_WHOLE_WORDS = 60  # fewer than are committed ahead of what is spoken
MOST_LETTERS = 512  # of a piece: what a slot holds beside its frames


@dataclass(frozen=True)
class Options:
    """What is read before it is spoken.

    Attributes:
        mode: ``whole``, all the text at once (the column "∞" of Table I), or ``ngram``, pieces of ``n`` words.
        n: words of a piece, 1 to 6; the last piece of a text may have fewer.
    """

    mode: str = WHOLE
    n: int = 4

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadOption(f"mode cannot be {self.mode!r:.100}", f"it is {' or '.join(MODES)}")
        if type(self.n) is not int or not 1 <= self.n <= LARGEST_NGRAM:  # True is an int, and no number of words
            raise BadOption(f"n cannot be {self.n!r:.100}", f"it is a whole number from 1 to {LARGEST_NGRAM}")

    @property
    def pieces(self) -> ClauseRule:
        """Where the text is cut."""
        return ClauseRule(MOST_WHOLE_WORDS if self.mode == WHOLE else self.n, MOST_LETTERS, marks="")

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a piece waits for."""
        return self.pieces.most_words - 1


def option_specs(default: Options) -> tuple[OptionSpec, ...]:
    """The family's options with these defaults."""
    return (
        OptionSpec(
            "mode",
            "choice",
            default.mode,
            "Text read",
            "whole: all the text before the first sound; ngram: pieces of n words, each spoken by itself",
            choices=MODES,
        ),
        OptionSpec(
            "n", "int", default.n, "Words of a piece", "in the mode ngram: words read and spoken at once", low=1, high=6
        ),
    )


def symbols(words: Sequence[str]) -> list[int]:
    """What a piece feeds before its first frame: w_bos, the characters of its words, w_eos, s_bos (section III.B)."""
    return [W_BOS, *(symbol for word in words for symbol in spell(word)), W_EOS, S_BOS]
