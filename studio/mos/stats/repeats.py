"""Self-consistency: how alike a rater's answers to the same screen are, shown twice."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import F8


@dataclass(frozen=True)
class Twice:
    """A mark given twice to the same sounds in the same order.

    Attributes:
        first: a score, or a choice (a, b, tie, both_bad, ...).
        span: high - low of the scale; None for a choice.
    """

    rater: str
    question: str
    first: int | str
    again: int | str
    span: int | None = None

    @property
    def apart(self) -> float:
        """How far the two are apart, as a share of the scale; another choice is 1."""
        if self.span is None:
            return float(self.first != self.again)
        return abs(int(self.first) - int(self.again)) / self.span


@dataclass(frozen=True)
class Consistency:
    """What repeated screens say of one rater, or of one question.

    Attributes:
        n: marks that were given twice.
        exact: share of them that are the same.
        apart: mean distance of the two, as a share of the scale; 1 for another choice.
        steps: mean absolute difference, in steps of the scale; None for choices, and over scales that differ.
        r: Pearson's correlation of the two scores; None under three pairs, where one side does not vary, for choices.
    """

    n: int
    exact: float
    apart: float
    steps: float | None
    r: float | None


def consistency(pairs: Sequence[Twice]) -> Consistency | None:
    """How alike the marks are that were given twice; None where there are none."""
    if not pairs:
        return None
    exact = sum(p.first == p.again for p in pairs) / len(pairs)
    apart = sum(p.apart for p in pairs) / len(pairs)
    spans = {p.span for p in pairs}
    span = spans.pop() if len(spans) == 1 else None
    if span is None:
        return Consistency(len(pairs), exact, apart, None, None)
    scores = np.array([(int(p.first), int(p.again)) for p in pairs], np.float64)
    return Consistency(len(pairs), exact, apart, apart * span, _correlation(scores))


def _correlation(scores: F8) -> float | None:
    """Pearson's r of the two columns of [N, 2]."""
    if len(scores) < 3 or (np.ptp(scores, axis=0) == 0).any():
        return None
    return float(np.corrcoef(scores[:, 0], scores[:, 1])[0, 1])
