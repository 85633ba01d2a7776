"""A rater's agreement with the consensus: their answers against the mean of what everybody else answered."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studio.mos.stats.columns import F8, I8, Mask

_NOTHING = 1e-12  # a sum of squares that rounding alone leaves
_FEWEST = 3  # marks of which a correlation says anything


@dataclass(frozen=True)
class Marks:
    """Answers as columns, one row each.

    Attributes:
        value: [N]; a score as a share of its scale, or how far the first of two is better, -1 to 1.
        rater: [N], codes from 0.
        key: [N], codes of what was judged: marks of one key are opinions on the same thing.
        group: [N], codes of the question; answers to two questions are never set against each other.
        signed: [N], whether the value says which of two is better, so that nought means something.
    """

    value: F8
    rater: I8
    key: I8
    group: I8
    signed: Mask


@dataclass(frozen=True)
class Consensus:
    """How a rater's answers go with the others'.

    Attributes:
        r: Pearson's correlation with the leave-one-out means, about each question's mean (about nought for answers that
            say which of two is better); None under three answers, or where one side does not vary.
        n: answers with somebody else's beside them.
        others: how many answers of others stood beside each of them, on average.
    """

    r: float | None
    n: int
    others: float


def consensus(marks: Marks, pool: Mask) -> list[Consensus]:
    """Of every rater, by code, against the mean of the others in the pool, who leave themselves out.

    Args:
        marks: of everybody.
        pool: [R], whose answers make the consensus; whoever is not in it is measured against it all the same.
    """
    counts = np.where(pool[marks.rater], 1.0, 0.0)
    keys = int(marks.key.max(initial=-1)) + 1
    given, total = (np.bincount(marks.key, w, keys)[marks.key] for w in (counts, counts * marks.value))
    _, mine = np.unique(marks.rater * max(1, keys) + marks.key, return_inverse=True)  # a rater may judge a key often
    given, total = (
        all_of - np.bincount(mine, w)[mine] for all_of, w in ((given, counts), (total, counts * marks.value))
    )
    beside = given > 0
    means = np.divide(total, given, out=np.zeros(len(marks.value)), where=beside)
    found: list[Consensus] = []
    for rater in range(len(pool)):
        rows = np.flatnonzero(beside & (marks.rater == rater))
        r = _correlation(marks.value[rows], means[rows], np.where(marks.signed[rows], -1, marks.group[rows]))
        found.append(Consensus(r, len(rows), float(given[rows].mean()) if len(rows) else 0.0))
    return found


def _correlation(x: F8, y: F8, about: NDArray[np.int64]) -> float | None:
    """Correlation of deviations from the means of each group ``about``; of the values themselves where that is -1."""
    if len(x) < _FEWEST:
        return None
    x, y = x.copy(), y.copy()
    for group in set(about.tolist()) - {-1}:
        for side in (x, y):
            side[about == group] -= side[about == group].mean()
    squares = float(x @ x), float(y @ y)
    if min(squares) < _NOTHING:
        return None
    return float(np.clip(x @ y / np.sqrt(squares[0] * squares[1]), -1.0, 1.0))
