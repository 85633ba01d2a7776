"""Inputs and outputs of a DSM-TTS step: plain Python, no torch."""

from dataclasses import dataclass, field

import numpy as np

from studio.engine.families.common.rows import check_finite, sigmoid

ACTION_AT = 0.5  # at temperature 0


@dataclass(frozen=True)
class DsmInput:
    """One step of a row.

    Attributes:
        text, ahead: symbols of the two text streams.
        start, at: this step's index in the utterance; steps before ``start`` are dropped.
        begins: a passage begins, or the row was restored to an earlier step: the next attributes are new.
        groups: the groups of channels to sample: "none" (warm), "first", or "all".
        speakers: the main one first.
        guidance: alpha of equation 8.
        last: uint8 [80], levels of the step before; None where the net has them, or none exist.
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
class DsmOutput:
    """What a step sampled.

    Attributes:
        levels: uint8 [80], of different frames (the acoustic delay); all padding where there is no sound.
        p_word: probability that a word begins at the next step; begins: the sample.
        is_finite: whether all logits were finite.
    """

    levels: np.ndarray
    p_word: float
    begins: bool
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite)

    @staticmethod
    def of(levels: np.ndarray, action: np.float32, noise: float, check: np.float32, temperature: float) -> "DsmOutput":
        """From levels and the action's logit, computed on the CPU so that rounding does not depend on the batch.

        Args:
            noise: in (0, 1), the action's own.
            check: finite if all logits were.
        """
        p = sigmoid(action)
        begins = p >= ACTION_AT if temperature == 0.0 else noise < p
        return DsmOutput(levels, p, begins, bool(np.isfinite(action) and np.isfinite(check)))
