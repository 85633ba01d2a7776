"""What a net that ends its own segments answers: a frame, and how sure it is that the segment had ended before it."""

import math
from dataclasses import dataclass

import numpy as np

from studio.engine.families.base import NotFinite

EOS_AT = 0.5  # p_eos that ends a segment


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
        if not (self.is_finite and math.isfinite(self.p_eos)):
            raise NotFinite("the net answered something that is no number", "the voice's weights may be damaged")
