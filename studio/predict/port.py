"""The port of predictors: what every caller may ask of one. No torch in the caller's process."""

from typing import Protocol

import numpy as np


class MosPredictor(Protocol):
    """Predicts the mean opinion score that listeners would give a sound: shown beside theirs, never in its place."""

    @property
    def about(self) -> dict[str, str]:
        """What saved results say of it: ``name``, ``version`` of its package, ``sha256`` of its weights."""
        ...

    def predict(self, pcm: np.ndarray, rate_hz: int) -> float:
        """The predicted MOS, 1 to 5, of int16 [T] at any rate; the same sound gives the same answer."""
        ...
