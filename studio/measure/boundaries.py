"""Word and segment boundaries: scores against a reference, and consensus of several aligners with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studio.measure.statistics import BootstrapInterval
from studio.measure.word_timing import SpokenSpan, matched_words

REPEATS = 1_000


@dataclass(frozen=True)
class BoundaryScore:
    """Counts of boundaries and of one-to-one hits within a collar."""

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
    """The maximum number of one-to-one pairs of boundaries within ``collar_s`` of each other."""
    found, true = sorted(found_s), sorted(true_s)
    hits = i = j = 0
    while i < len(found) and j < len(true):
        # 1 ns of tolerance for rounding.
        if abs(found[i] - true[j]) <= collar_s + 1e-9:
            hits, i, j = hits + 1, i + 1, j + 1
        elif found[i] < true[j]:
            i += 1
        else:
            j += 1
    return BoundaryScore(hits, len(found), len(true))


@dataclass(frozen=True)
class BoundaryDistances:
    """BoundaryDistances of boundaries from the true ones; missing ones are infinite."""

    count: int
    missing: int
    median_s: float
    p90_s: float


def distances(found_s: Sequence[float | None], true_s: Sequence[float]) -> BoundaryDistances:
    """Median and 90th percentile of |found - true| by pairs; None is a miss and counts as infinity."""
    away = np.array(
        [np.inf if found is None else abs(found - true) for found, true in zip(found_s, true_s, strict=True)],
        np.float64,
    )
    if not len(away):
        return BoundaryDistances(0, 0, float("nan"), float("nan"))
    # An observed value: infinity cannot be interpolated.
    median, p90 = np.quantile(away, [0.5, 0.9], method="inverted_cdf")
    return BoundaryDistances(len(away), int(np.isinf(away).sum()), float(median), float(p90))


def speaks_exactly(span: tuple[float, float], words: Sequence[int], word_spans: Sequence[tuple[float, float]]) -> bool:
    """Whether [start, end) contains the midpoints of exactly ``words``; all in one unit.

    Args:
        span: start and end of a segment.
        words: indices of the segment's words.
        word_spans: start and end of every word of the text, in order.
    """
    start, end = span
    inside = {i for i, (first, last) in enumerate(word_spans) if start <= (first + last) / 2.0 < end}
    return inside == set(words)


@dataclass(frozen=True)
class WordBoundaries:
    """A word's start and end in seconds; None if no aligner found the word."""

    word: str
    start: BootstrapInterval | None
    end: BootstrapInterval | None


def word_boundaries(
    words: Sequence[str],
    accounts: Mapping[str, Sequence[Sequence[SpokenSpan]]],
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    level: float = 0.95,
) -> list[WordBoundaries]:
    """The median over aligners of each boundary, with a bootstrap interval over aligners.

    The interval shows the variance between aligners (or takes), not their common errors. An aligner's value is the
    median of its takes. Each repeat draws aligners and then takes with replacement (two levels: Davison & Hinkley 1997,
    section 3.8; percentiles: Efron & Tibshirani 1993, chapter 13). With one aligner only takes are drawn; with one take
    of a word, the bounds are NaN.

    Args:
        words: of the text, as spoken.
        accounts: takes of each aligner, each the words with their times; words match by their letters, in order.
        repeats: bootstrap draws.
    """
    placed = [_placed(words, takes) for takes in accounts.values() if takes]
    if not placed or not words:
        return [WordBoundaries(word, None, None) for word in words]
    rng = np.random.default_rng(seed)
    values = _median(np.stack([_median(takes) for takes in placed]))
    chosen = rng.integers(len(placed), size=(repeats, len(placed)))
    slots = np.empty((len(placed), repeats, 2 * len(words)))
    for slot in range(len(placed)):
        for number, takes in enumerate(placed):
            chosen_here = np.flatnonzero(chosen[:, slot] == number)
            drawn = takes[rng.integers(len(takes), size=(len(chosen_here), len(takes)))]
            slots[slot, chosen_here] = _median(drawn.swapaxes(0, 1))
    drawn = _median(slots)
    observations = np.isfinite(np.concatenate(placed)).sum(axis=0)
    edges = [_interval(values[k], drawn[:, k], observations[k] == 1, level) for k in range(2 * len(words))]
    return [WordBoundaries(word, edges[2 * k], edges[2 * k + 1]) for k, word in enumerate(words)]


def _placed(words: Sequence[str], takes: Sequence[Sequence[SpokenSpan]]) -> np.ndarray:
    """Starts and ends, alternating: float64 [takes, 2 words], NaN where a take lacks the word."""
    edges = np.full((len(takes), 2 * len(words)), np.nan)
    for row, take in zip(edges, takes, strict=True):
        for i, j in matched_words([one.text for one in take], words):
            row[2 * j : 2 * j + 2] = take[i].start_s, take[i].end_s
    return edges


def _median(values: np.ndarray) -> np.ndarray:
    """Median over the first axis, ignoring NaN; NaN, without a warning, if there are only NaNs."""
    ordered = np.sort(values, axis=0)  # NaN last
    count = np.isfinite(values).sum(axis=0)
    low, high = (np.maximum(at, 0)[None] for at in ((count - 1) // 2, count // 2 - (count == 0)))
    return (np.take_along_axis(ordered, low, 0)[0] + np.take_along_axis(ordered, high, 0)[0]) / 2.0


def _interval(value: float, drawn: np.ndarray, single: bool, level: float) -> BootstrapInterval | None:
    if not np.isfinite(value):
        return None
    known = drawn[np.isfinite(drawn)]
    if single or not len(known):
        return BootstrapInterval(float(value), float("nan"), float("nan"), level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return BootstrapInterval(float(value), float(low), float(high), level)
