"""Incremental Tacotron 2's rule (paper 004, section 2.2): which words are one request, how many frames one response."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.core.text.clauses import ClauseRule
from studio.core.text.typography import MARKS
from studio.engine.families.spelling import STRESSES

INCREMENTAL, WHOLE = "incremental", "whole"
MODES = (INCREMENTAL, WHOLE)
MOST_CLAUSE_WORDS = 20
MOST_CHUNK_FRAMES = 32
MOST_WHOLE_WORDS = 60  # fewer than are committed ahead of what is spoken
MOST_LETTERS = 512  # of a clause: at most three phonemes each fit into the encoder's memory
SENTENCE_ENDS = ".?!"


@dataclass(frozen=True)
class Options:
    """What is spoken at once.

    Attributes:
        mode: ``incremental``, or ``whole`` for the paper's non-incremental twin: all the text is one request, and
            nothing is heard before its last frame is made.
        clause_words: live text is cut after so many words where no mark cuts it before.
        chunk_frames: frames made before they are heard; the paper's 372 ms are 15.
    """

    mode: str = INCREMENTAL
    clause_words: int = 8
    chunk_frames: int = 15

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadOption(f"mode cannot be {self.mode!r:.100}", f"it is {' or '.join(MODES)}")
        for name, value, most in (
            ("clause_words", self.clause_words, MOST_CLAUSE_WORDS),
            ("chunk_frames", self.chunk_frames, MOST_CHUNK_FRAMES),
        ):
            if type(value) is not int or not 1 <= value <= most:  # True is an int, and no number of words
                raise BadOption(f"{name} cannot be {value!r:.100}", f"it is a whole number from 1 to {most}")

    @property
    def clauses(self) -> ClauseRule:
        """Where the text is cut."""
        if self.mode == WHOLE:
            return ClauseRule(MOST_WHOLE_WORDS, MOST_LETTERS, marks="")
        return ClauseRule(self.clause_words, MOST_LETTERS)

    def rests(self, words: Sequence[str]) -> bool:
        """Whether nothing but the text's end, or a flush, closes a clause of these words."""
        return self.clauses.length(words, is_all=False) is None

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a clause without a mark waits for."""
        return (MOST_WHOLE_WORDS if self.mode == WHOLE else self.clause_words) - 1


OPTION_SPECS = (
    OptionSpec(
        "mode",
        "choice",
        Options().mode,
        "Mode",
        "incremental: clause by clause, chunk by chunk; whole: the twin that waits for all text and for all sound",
        choices=MODES,
    ),
    OptionSpec(
        "clause_words",
        "int",
        Options().clause_words,
        "Words of a clause",
        "a clause ends at a mark, or after so many words, and is spoken when it has ended",
        low=1,
        high=MOST_CLAUSE_WORDS,
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


def prosody_of(phonemes: str) -> int:
    """A word's place in the prosodic structure (equation 1), told by its own stress and mark, as three bits.

    1: it closes a prosodic word (it has a stress; "the" leans on what follows). 2: it closes a phonological phrase (it
    has a mark). 4: it closes an intonational phrase (a full stop, a question or an exclamation mark).
    """
    mark = phonemes[-1:] if phonemes[-1:] in MARKS else ""
    return any(one in STRESSES for one in phonemes) + 2 * bool(mark) + 4 * (bool(mark) and mark in SENTENCE_ENDS)


def repeated(values: Sequence[int], spelled: Sequence[Sequence[int]]) -> list[int]:
    """A value of each word at each of its symbols (the paper's count_i); the clause's end has the last word's."""
    return [value for value, word in zip(values, spelled, strict=True) for _ in word] + [*values[-1:]]
