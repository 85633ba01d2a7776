"""T5-TTS's rule, the full-context baseline of paper 001: a sentence is read whole, and heard a chunk at a time.

S5-TTS reads a few words beyond the one that it speaks; T5-TTS "has to wait for the full sentence". To stream it the
paper vocodes what it makes in chunks of 30 decoding steps ("Subjective quality and latency").
"""

from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.core.text.clauses import ClauseRule

SENTENCE_ENDS = ".?!"
MOST_WORDS = 60  # of a sentence that is read at once: fewer than are committed ahead of what is spoken
MOST_LETTERS = 512  # of it: at most three phonemes each fit into the encoder's memory
MOST_CHUNK_FRAMES = 60


@dataclass(frozen=True)
class Options:
    """What is read at once, and what is heard at once.

    Attributes:
        sentence_words: a sentence that is longer is read in parts of so many words, each by itself.
        chunk_frames: frames made before the first of them is heard. The paper's 30 steps of 11.6 ms are 14 of 25 ms.
    """

    sentence_words: int = MOST_WORDS
    chunk_frames: int = 14

    def __post_init__(self) -> None:
        for name, value, most in (
            ("sentence_words", self.sentence_words, MOST_WORDS),
            ("chunk_frames", self.chunk_frames, MOST_CHUNK_FRAMES),
        ):
            if type(value) is not int or not 1 <= value <= most:  # True is an int, and no number of words
                raise BadOption(f"{name} cannot be {value!r:.100}", f"it is a whole number from 1 to {most}")

    @property
    def sentences(self) -> ClauseRule:
        """Where the text is cut."""
        return ClauseRule(self.sentence_words, MOST_LETTERS, marks=SENTENCE_ENDS)

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a sentence waits for, where no mark ends it before."""
        return self.sentence_words - 1


OPTION_SPECS = (
    OptionSpec(
        "sentence_words",
        "int",
        Options().sentence_words,
        "Words of a sentence",
        "a sentence is read whole before it is spoken; a longer one in parts of so many words",
        low=1,
        high=MOST_WORDS,
    ),
    OptionSpec(
        "chunk_frames",
        "int",
        Options().chunk_frames,
        "Frames of a chunk",
        "of 25 ms, made before the first of them is heard",
        low=1,
        high=MOST_CHUNK_FRAMES,
    ),
)
