"""Policy of incremental Tacotron 2 (paper 004, section 2.2): words per request, frames per response. Plain Python."""

from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.core.text.clauses import ClauseRule
from studio.core.text.typography import MARKS
from studio.engine.families.common.phoneme_ids import STRESSES

INCREMENTAL, WHOLE = "incremental", "whole"
MODES = (INCREMENTAL, WHOLE)
MOST_CLAUSE_WORDS = 20
MOST_CHUNK_FRAMES = 32
MOST_WHOLE_WORDS = 60  # fewer than are committed ahead of what is spoken
MOST_LETTERS = 512  # of a clause: with three phonemes each they fit into the encoder's memory
SENTENCE_ENDS = ".?!"


@dataclass(frozen=True)
class TacotronOptions:
    """Options of a Tacotron 2 voice.

    Attributes:
        mode: ``incremental``, or ``whole`` for the paper's non-incremental baseline: all the text is one request, and
            playback starts after its last frame is made.
        clause_words: live text is cut after so many words if no mark cuts it before.
        chunk_frames: frames handed out together; the paper's 372 ms are 15.
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
            if type(value) is not int or not 1 <= value <= most:  # True is an int, too
                raise BadOption(f"{name} cannot be {value!r:.100}", f"it is a whole number from 1 to {most}")

    @property
    def clauses(self) -> ClauseRule:
        """The rule that cuts the text."""
        if self.mode == WHOLE:
            return ClauseRule(MOST_WHOLE_WORDS, MOST_LETTERS, marks="")
        return ClauseRule(self.clause_words, MOST_LETTERS)

    def ends_open(self, words: Sequence[str]) -> bool:
        """Whether only the text's end or a flush closes a clause of these words."""
        return self.clauses.length(words, is_all=False) is None

    @property
    def look_ahead_words(self) -> int:
        """Committed words that the first word of a clause without a mark waits for."""
        return (MOST_WHOLE_WORDS if self.mode == WHOLE else self.clause_words) - 1


OPTION_SPECS = (
    OptionSpec(
        "mode",
        "choice",
        TacotronOptions().mode,
        "Mode",
        "incremental: clause by clause, chunk by chunk; whole: the twin that waits for all text and for all sound",
        choices=MODES,
    ),
    OptionSpec(
        "clause_words",
        "int",
        TacotronOptions().clause_words,
        "Words of a clause",
        "a clause ends at a mark, or after so many words, and is spoken when it has ended",
        low=1,
        high=MOST_CLAUSE_WORDS,
    ),
    OptionSpec(
        "chunk_frames",
        "int",
        TacotronOptions().chunk_frames,
        "Frames of a chunk",
        "of 25 ms, made before the first of them is heard",
        low=1,
        high=MOST_CHUNK_FRAMES,
    ),
)


def prosody_of(phonemes: str) -> int:
    """A word's prosodic boundaries (equation 1), from its stress and mark, as three bits.

    1: end of a prosodic word (it has a stress; "the" has none). 2: end of a phonological phrase (it has a mark). 4: end
    of an intonational phrase (a full stop, a question or an exclamation mark).
    """
    mark = phonemes[-1:] if phonemes[-1:] in MARKS else ""
    return any(one in STRESSES for one in phonemes) + 2 * bool(mark) + 4 * (bool(mark) and mark in SENTENCE_ENDS)


def repeat_by_symbol(values: Sequence[int], spelled: Sequence[Sequence[int]]) -> list[int]:
    """Repeat each word's value for its symbols (the paper's count_i); the clause's end has the last word's."""
    return [value for value, word in zip(values, spelled, strict=True) for _ in word] + [*values[-1:]]
