"""What a row of S5-TTS keeps of the words it spoke, and the marks between them: plain Python, no torch."""

from dataclasses import dataclass, field, replace

import numpy as np

from studio.engine.families.attended import AttendedWords
from studio.engine.families.reading import EVERY_WORD
from studio.engine.families.s5.rule import Plan
from studio.engine.families.s5.step import WordStep


@dataclass
class SpokenStep:
    """The words being spoken, or some that were.

    Attributes:
        sees_end: the text's end closed its view, and no flush.
        fed: what it began with, or was fed again with since.
        first_word: that was in its view.
        words: those that are spoken, with the sums of W_j.
        made: each frame and the word that it is of.
        is_cut: it was over before the net said so.
        p_going_on: that none of the stop tokens asked for so far was drawn.
    """

    index: int
    plan: Plan
    sees_end: bool
    fed: WordStep
    first_word: int
    first_frame: int
    limit_frames: int
    tokens: int
    words: AttendedWords
    made: list[tuple[int, np.ndarray]] = field(default_factory=list[tuple[int, np.ndarray]], repr=False)
    is_cut: bool = False
    p_going_on: float = 1.0

    def stopped(self, p_stop: float) -> float:
        """How likely the stop token has come by now, where p_stop is how likely it comes now if it has not.

        A net that wavers between two frames gives neither of them half; together they have it.
        """
        self.p_going_on *= 1.0 - p_stop
        return 1.0 - self.p_going_on

    @property
    def frames(self) -> int:
        """How many frames were made."""
        return len(self.made)

    @property
    def seen(self) -> int:
        """Words that the net has seen with it."""
        return EVERY_WORD if self.sees_end else self.plan.stop

    def with_its_frames(self, held_from: int) -> WordStep:
        """What it is fed again, but its last frame; tokens before ``held_from`` are held no more."""
        fed = replace(self.fed, start=max(self.fed.start, held_from))
        return fed.with_frames([frame for _, frame in self.made[:-1]])

    def take(self, other: "SpokenStep") -> None:
        """It was fed again, as another one that speaks its words. Marks that hold it follow."""
        self.plan, self.sees_end, self.fed = other.plan, other.sees_end, other.fed


@dataclass(frozen=True)
class Mark:
    """Where a row stood between two steps; see ``studio.engine.families.base.Mark``."""

    spoken: int
    fed: int
    steps: int
    frames: int
    start: int
    length: int
    first_word: int
    place: int
    last: np.ndarray | None
    past: tuple[SpokenStep, ...]
