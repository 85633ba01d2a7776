"""How SpeakStream's windows are drawn in training: a recipe's ``[fit.windows]``."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from studio.core.errors import BadOption
from studio.engine.families.speakstream.rule import LARGEST_WINDOW


@dataclass(frozen=True)
class WindowDraw:
    """How windows are drawn in training: every segment's BOS carries (scheme, n, look-ahead really present)."""

    n: list[int]
    n_weights: list[float]
    look_ahead: list[int]
    look_ahead_weights: list[float]
    s2_share: float
    change_share: float  # of segments that draw a new window
    flush_share: float  # of segments at which a flush shrinks the window

    def __post_init__(self) -> None:
        _check_drawn("n", self.n, self.n_weights, 1, LARGEST_WINDOW)
        _check_drawn("look_ahead", self.look_ahead, self.look_ahead_weights, 0, LARGEST_WINDOW - 1)
        for name in ("s2_share", "change_share", "flush_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise BadOption(f"[fit.windows] {name} cannot be {getattr(self, name)!r:.40}", "it is from 0.0 to 1.0")


def _check_drawn(name: str, values: Sequence[int], weights: Sequence[float], low: int, high: int) -> None:
    """Raises BadOption unless there is something to draw, that a net sees, each with a weight."""
    if not values or not all(low <= value <= high for value in values):
        raise BadOption(
            f"[fit.windows] {name} cannot be {values!r:.80}", f"it lists one or more numbers of words, {low} to {high}"
        )
    fits = len(weights) == len(values) and all(weight >= 0.0 for weight in weights)  # NaN is none
    if not fits or not math.isclose(sum(weights), 1.0, abs_tol=1e-8):
        raise BadOption(
            f"[fit.windows] {name}_weights cannot be {weights!r:.80}",
            f"it has a number from 0 up for each of the {len(values)} of {name}, and they add up to 1",
        )
