"""What a net that ends its own segments answers: a frame, and how sure it is that the segment had ended before it."""

import math
from dataclasses import dataclass

import numpy as np

from studio.engine.families.base import NotFinite


def probability(logit: np.float32) -> float:
    """Of a logit, on the host, where a row's roundings do not depend on the batch."""
    return 0.5 * (1.0 + math.tanh(0.5 * float(logit)))


def check_finite(is_finite: bool) -> None:
    """Raises NotFinite unless what a net answered were numbers."""
    if not is_finite:
        raise NotFinite("the net answered something that is no number", "the voice's weights may be damaged")


@dataclass(frozen=True)
class Drawn:
    """A frame uint8 [1, 80], and how sure the net was that the segment had ended before it.

    ``is_finite`` tells whether what it was drawn from were numbers.
    """

    levels: np.ndarray
    p_eos: float
    is_finite: bool

    def check(self) -> None:
        """Raises NotFinite."""
        check_finite(self.is_finite and math.isfinite(self.p_eos))
