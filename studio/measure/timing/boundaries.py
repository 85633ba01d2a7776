"""Boundaries of words and segments: do two lists agree, and does a segment speak exactly its own words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BoundaryScore:
    """Hits within a collar, one to one."""

    hits: int
    found: int
    true: int

    @property
    def precision(self) -> float:
        """Hits per boundary found."""
        return self.hits / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Hits per true boundary."""
        return self.hits / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return 2.0 * self.hits / (self.found + self.true) if self.found + self.true else 0.0

    def __add__(self, other: "BoundaryScore") -> "BoundaryScore":
        return BoundaryScore(self.hits + other.hits, self.found + other.found, self.true + other.true)


def boundary_score(found_s: Sequence[float], true_s: Sequence[float], collar_s: float) -> BoundaryScore:
    """The most pairs of a found and a true boundary that lie within ``collar_s`` of each other, each used once."""
    found, true = sorted(found_s), sorted(true_s)
    hits = i = j = 0
    while i < len(found) and j < len(true):
        # 1 ns of grace, so that a distance of just the collar is inside it whatever its last bit.
        if abs(found[i] - true[j]) <= collar_s + 1e-9:
            hits, i, j = hits + 1, i + 1, j + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    return BoundaryScore(hits, len(found), len(true))


@dataclass(frozen=True)
class Distances:
    """How far boundaries lie from the true ones; one that is missing is infinitely far."""

    count: int
    missing: int
    median_s: float
    p90_s: float


def distances(found_s: Sequence[float | None], true_s: Sequence[float]) -> Distances:
    """Median and 90th percentile of |found - true|, pair by pair; None is a miss and counts as infinitely far."""
    away = np.array(
        [np.inf if found is None else abs(found - true) for found, true in zip(found_s, true_s, strict=True)],
        np.float64,
    )
    if not len(away):
        return Distances(0, 0, float("nan"), float("nan"))
    # A value that occurs, not one between two: infinity cannot be interpolated.
    median, p90 = np.quantile(away, [0.5, 0.9], method="inverted_cdf")
    return Distances(len(away), int(np.isinf(away).sum()), float(median), float(p90))


def obeys(span: tuple[float, float], words: Sequence[int], word_spans: Sequence[tuple[float, float]]) -> bool:
    """Whether [start, end) holds the midpoints of exactly ``words``; all in one unit.

    Args:
        span: start and end of a segment.
        words: indexes of the words that the segment is to speak.
        word_spans: start and end of every word of the text, in order.
    """
    start, end = span
    inside = {i for i, (first, last) in enumerate(word_spans) if start <= (first + last) / 2.0 < end}
    return inside == set(words)
