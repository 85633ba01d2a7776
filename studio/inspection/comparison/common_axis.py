"""One axis for several utterances: their own time, or word by word, each stretched to the mean length."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from studio.measure.timing.word_timing import SpokenSpan


@dataclass(frozen=True)
class TimeMap:
    """Where the sound of one utterance lies on a common axis; between knots it is straight.

    Attributes:
        axis_s, own_s: float64 [K], the same places on the axis and in the utterance's own sound. Neither ever falls;
            where ``own_s`` stands still the utterance has nothing that others have, where ``axis_s`` does, the others
            nothing that it has.
    """

    axis_s: np.ndarray
    own_s: np.ndarray

    def own(self, axis_s: np.ndarray) -> np.ndarray:
        """Places on the axis as times of the utterance's own sound; beyond its ends they go on at its pace."""
        return _through(axis_s, self.axis_s, self.own_s)

    def axis(self, own_s: np.ndarray) -> np.ndarray:
        """Times of its own sound as places on the axis."""
        return _through(own_s, self.own_s, self.axis_s)


def unstretched(lengths_s: Sequence[float]) -> list[TimeMap]:
    """Every utterance in its own time, from its first sample on."""
    return [TimeMap(np.array([0.0, length_s]), np.array([0.0, length_s])) for length_s in lengths_s]


def stretched(
    words: Sequence[Sequence[SpokenSpan]], matches: Sequence[Sequence[tuple[int, int]]], lengths_s: Sequence[float]
) -> list[TimeMap]:
    """An axis on which each matched word, and what lies between two of them, is as long for all: their mean length.

    The first utterance is the reference, and its words are the axis's units. A word that another one lacks lies there
    within what is between the words around it.

    Args:
        words: of each utterance, in order of time, without overlaps.
        matches: of each utterance, pairs of places (in the reference's words, in its own), in order; the reference's
            are its words themselves.
        lengths_s: of each sound.
    """
    edges = [_edges(list_of, length_s) for list_of, length_s in zip(words, lengths_s, strict=True)]
    knots = [_knots(pairs, len(words[0]), len(own)) for pairs, own in zip(matches, words, strict=True)]
    spent: list[list[float]] = [[] for _ in range(2 * len(words[0]) + 1)]  # of each step between two edges
    for own_s, known in zip(edges, knots, strict=True):
        for (first, mine), (last, next_mine) in pairwise(known):
            if last == first + 1:
                spent[first].append(float(own_s[next_mine] - own_s[mine]))
    at_s = np.concatenate([[0.0], np.cumsum([float(np.mean(each)) for each in spent])])
    return [
        TimeMap(at_s[[place for place, _ in known]], own_s[[mine for _, mine in known]])
        for own_s, known in zip(edges, knots, strict=True)
    ]


def _edges(words: Sequence[SpokenSpan], length_s: float) -> np.ndarray:
    """Begin of the sound, starts and ends of the words, end of the sound: float64 [2W + 2], never falling."""
    inner = [at_s for word in words for at_s in (word.start_s, word.end_s)]
    return np.maximum.accumulate(np.clip([0.0, *inner, length_s], 0.0, length_s))


def _knots(pairs: Sequence[tuple[int, int]], reference: int, own: int) -> list[tuple[int, int]]:
    """Edges of the reference that an utterance has too, each with its own edge."""
    inner = [(2 * i + side, 2 * j + side) for i, j in pairs for side in (1, 2)]
    return [(0, 0), *inner, (2 * reference + 1, 2 * own + 1)]


def _through(at: np.ndarray, known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Straight between knots; where two knots lie at one place, the later one counts."""
    values = np.asarray(at, np.float64)
    right = np.clip(np.searchsorted(known, values, side="right"), 1, len(known) - 1)
    left = right - 1
    wide = known[right] - known[left]
    share = np.divide(values - known[left], wide, out=np.zeros_like(values), where=wide > 0)
    inside = wanted[left] + np.clip(share, 0.0, 1.0) * (wanted[right] - wanted[left])
    inside = np.where((wide <= 0) & (values >= known[right]), wanted[right], inside)
    return inside + np.maximum(values - known[-1], 0.0) + np.minimum(values - known[0], 0.0)
