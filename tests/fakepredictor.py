"""A MOS predictor without a net, under the same contract as the real one (tests/predict/test_distillmos.py)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from studio.predict.distillmos import PredictorFailed


def by_length(pcm: np.ndarray, rate_hz: int) -> float:
    """One point per second."""
    return min(5.0, 1.0 + len(pcm) / rate_hz)


def by_pitch(pcm: np.ndarray, rate_hz: int) -> float:
    """More zero crossings score higher."""
    crossings = np.count_nonzero(np.diff(np.signbit(pcm))) / (len(pcm) or 1)
    return 1.0 + 4.0 * min(1.0, 4.0 * crossings)


@dataclass
class FakePredictor:
    """Scores sounds by a function; fails after ``lasts`` of them. ``heard`` counts them."""

    score: Callable[[np.ndarray, int], float] = by_length
    weights: str = "0" * 64
    lasts: int | None = None
    heard: int = 0
    about: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.about = {"name": "Fake", "version": "1", "sha256": self.weights}

    def predict(self, pcm: np.ndarray, rate_hz: int) -> float:
        if self.heard == self.lasts:
            raise PredictorFailed("the MOS predictor stopped (killed)")
        self.heard += 1
        return self.score(pcm, rate_hz)

    def __enter__(self) -> "FakePredictor":
        return self

    def __exit__(self, *error: object) -> None:
        return None
