"""What a row of DSM-TTS asks of the net at a step, and what it is answered: plain Python, no torch."""

from dataclasses import dataclass, field

import numpy as np

from studio.engine.families.drawn import check_finite, probability

ACTION_AT = 0.5  # at temperature 0


@dataclass(frozen=True)
class Step:
    """One step of a row.

    Attributes:
        text, ahead: symbols of the two text streams.
        start, at: this step's place since the utterance began; steps before ``start`` are forgotten.
        begins: a stretch begins, or the row returned to an earlier step: the next attributes are new.
        groups: which groups of channels are drawn: none ("warm"), the first alone, or all.
        speakers: who may speak, the main one first.
        guidance: alpha of equation 8.
        last: uint8 [80], what the step before drew; None where that is what the net drew last, or nothing if it begins.
    """

    text: int
    ahead: int
    start: int
    at: int
    begins: bool
    groups: str
    speakers: tuple[int, ...]
    guidance: float
    temperature: float
    seed: int
    last: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Drawn:
    """What a step drew.

    Attributes:
        levels: uint8 [80], of different frames (the acoustic delay); all padding where no sound is due.
        p_word: how likely a word begins at the next step; ``begins``: whether it does, as drawn.
        is_finite: whether what they were drawn from were numbers.
    """

    levels: np.ndarray
    p_word: float
    begins: bool
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite)

    @staticmethod
    def of(levels: np.ndarray, action: np.float32, noise: float, check: np.float32, temperature: float) -> "Drawn":
        """What levels and the action's logit mean.

        On the host, where a row's roundings do not depend on the batch. The action is drawn as likely as it is.

        Args:
            noise: in (0, 1), the action's own.
            check: a number if what the levels were drawn from were numbers.
        """
        p = probability(action)
        begins = p >= ACTION_AT if temperature == 0.0 else noise < p
        return Drawn(levels, p, begins, bool(np.isfinite(action) and np.isfinite(check)))
