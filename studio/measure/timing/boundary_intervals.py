"""Where several aligners put each boundary of a recording's words, and an interval for each of them.

An interval says how far the boundary would move with other aligners (or models, or takes of one) of the same kind. What
all of them get wrong alike it cannot see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studio.measure.bootstrap import Interval
from studio.measure.timing.word_timing import SpokenSpan, matched_words

REPEATS = 1_000


@dataclass(frozen=True)
class WordBoundaries:
    """A word's start and end in seconds; None where no aligner found the word."""

    word: str
    start: Interval | None
    end: Interval | None


def word_boundaries(
    words: Sequence[str],
    accounts: Mapping[str, Sequence[Sequence[SpokenSpan]]],
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    level: float = 0.95,
) -> list[WordBoundaries]:
    """The median over aligners of each boundary, with a percentile interval of a bootstrap over them.

    Of an aligner with several takes the median of its takes counts. Each repeat draws as many aligners as there are,
    with replacement, and of each as many takes as it has (two levels: Davison & Hinkley 1997, section 3.8; percentiles:
    Efron & Tibshirani 1993, chapter 13). With one aligner the takes alone are drawn; where one take of one has the
    word, the bounds are no numbers.

    Args:
        words: of the text, as they are spoken.
        accounts: takes of each aligner, each the words that it placed; words match by their letters, in order.
        repeats: draws.
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
            mine = np.flatnonzero(chosen[:, slot] == number)
            drawn = takes[rng.integers(len(takes), size=(len(mine), len(takes)))]
            slots[slot, mine] = _median(drawn.swapaxes(0, 1))
    drawn = _median(slots)
    voices = np.isfinite(np.concatenate(placed)).sum(axis=0)
    edges = [_interval(values[k], drawn[:, k], voices[k] == 1, level) for k in range(2 * len(words))]
    return [WordBoundaries(word, edges[2 * k], edges[2 * k + 1]) for k, word in enumerate(words)]


def _placed(words: Sequence[str], takes: Sequence[Sequence[SpokenSpan]]) -> np.ndarray:
    """Starts and ends by turns: float64 [takes, 2 words], NaN where a take has not the word."""
    found = np.full((len(takes), 2 * len(words)), np.nan)
    for row, take in zip(found, takes, strict=True):
        for i, j in matched_words([one.text for one in take], words):
            row[2 * j : 2 * j + 2] = take[i].start_s, take[i].end_s
    return found


def _median(values: np.ndarray) -> np.ndarray:
    """Over the first axis, of those that are numbers; NaN where none is, and without a warning then."""
    ordered = np.sort(values, axis=0)  # NaN comes last
    count = np.isfinite(values).sum(axis=0)
    low, high = (np.maximum(at, 0)[None] for at in ((count - 1) // 2, count // 2 - (count == 0)))
    return (np.take_along_axis(ordered, low, 0)[0] + np.take_along_axis(ordered, high, 0)[0]) / 2.0


def _interval(value: float, drawn: np.ndarray, single: bool, level: float) -> Interval | None:
    if not np.isfinite(value):
        return None
    known = drawn[np.isfinite(drawn)]
    if single or not len(known):
        return Interval(float(value), float("nan"), float("nan"), level)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(value), float(low), float(high), level)
