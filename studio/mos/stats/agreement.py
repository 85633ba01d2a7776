"""Agreement of raters with each other (ICC), with the consensus (leave-one-out), and with themselves (repeated trials).

Krippendorff's alpha is in ``studio.measure.statistics``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studio.mos.stats.columns import F8, I8, Mask, Ratings


@dataclass(frozen=True)
class Icc:
    """Intraclass correlations of a single rater's score and of the mean of all ``raters``."""

    single: float
    average: float
    raters: int
    stimuli: int


def first_scores(ratings: Ratings) -> tuple[F8, I8, I8]:
    """Score, rater code and stimulus code [N] without repeats: each rater's first score of each stimulus."""
    _, rater = np.unique(ratings.rater, return_inverse=True)
    _, stimulus = np.unique(ratings.system * max(1, len(ratings.items)) + ratings.item, return_inverse=True)
    _, first = np.unique(rater * (1 + stimulus.max(initial=0)) + stimulus, return_index=True)
    return ratings.score[first], rater[first].astype(np.int64), stimulus[first].astype(np.int64)


def icc(score: F8, rater: I8, stimulus: I8) -> Icc | None:
    """ICC(2,1) and ICC(2,k) of ``first_scores`` (Shrout & Fleiss 1979): two-way random, absolute agreement.

    None unless every rater scored every stimulus, there are at least two of each, and the scores vary.
    """
    k, n = (int(codes.max(initial=-1)) + 1 for codes in (rater, stimulus))
    if min(k, n) < 2 or len(score) < k * n:
        return None
    matrix = np.empty((k, n))
    matrix[rater, stimulus] = score
    total = matrix.mean()
    between = k * ((matrix.mean(axis=0) - total) ** 2).sum() / (n - 1)
    between_raters = n * ((matrix.mean(axis=1) - total) ** 2).sum() / (k - 1)
    rest = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + total
    error = (rest**2).sum() / ((n - 1) * (k - 1))
    single = between + (k - 1) * error + k * (between_raters - error) / n
    average = between + (between_raters - error) / n
    if single <= 0 or average <= 0:
        return None
    return Icc(float((between - error) / single), float((between - error) / average), k, n)


@dataclass(frozen=True)
class RepeatedAnswer:
    """Two answers of a rater to the same trial, with the same stimuli in the same order."""

    rater: str
    question: str
    first: int | str  # a score, or a choice (a, b, tie, both_bad, ...)
    again: int | str
    span: int | None = None  # high - low of the scale; None for a choice

    @property
    def apart(self) -> float:
        """Distance as a share of the scale; 1 for different choices."""
        if self.span is None:
            return float(self.first != self.again)
        return abs(int(self.first) - int(self.again)) / self.span


@dataclass(frozen=True)
class SelfConsistency:
    """Self-consistency of one rater, or on one question."""

    n: int  # repeated answers
    exact: float  # share of identical pairs
    apart: float  # mean distance as a share of the scale; 1 for different choices
    steps: float | None  # mean absolute difference in steps of the scale; None for choices and mixed scales
    r: float | None  # Pearson's correlation; None for choices, below three pairs, or without variance


def consistency(pairs: Sequence[RepeatedAnswer]) -> SelfConsistency | None:
    """Self-consistency over pairs of answers; None without any."""
    if not pairs:
        return None
    n, spans = len(pairs), {p.span for p in pairs}
    exact, apart = sum(p.first == p.again for p in pairs) / n, sum(p.apart for p in pairs) / n
    span = spans.pop() if len(spans) == 1 else None
    if span is None:
        return SelfConsistency(n, exact, apart, None, None)
    scores = np.array([(int(p.first), int(p.again)) for p in pairs], np.float64)
    is_known = n >= _MIN_ANSWERS and (np.ptp(scores, axis=0) > 0).all()
    r = float(np.corrcoef(scores[:, 0], scores[:, 1])[0, 1]) if is_known else None
    return SelfConsistency(n, exact, apart, apart * span, r)


_MIN_SUM_OF_SQUARES = 1e-12  # below it a sum of squares is rounding error
_MIN_ANSWERS = 3  # for a correlation


@dataclass(frozen=True)
class ConsensusAnswers:
    """Answers as columns."""

    value: F8  # [N]; a score as a share of its scale, or a preference for the first of two, -1 to 1
    rater: I8  # [N], codes from 0
    key: I8  # [N], codes of the rated object: answers with the same key are comparable
    group: I8  # [N], codes of the question; values are centred per question
    signed: Mask  # [N], whether the value is a preference, so that zero is meaningful and the value is not centred


@dataclass(frozen=True)
class RaterConsensus:
    """Agreement of one rater with the others."""

    # Pearson's correlation with the leave-one-out means, centred per question (not centred for preferences); None below
    # three answers, or without variance
    r: float | None
    n: int  # answers that can be compared with answers of others
    others: float  # mean number of other raters' answers per answer


def rater_consensus(answers: ConsensusAnswers, pool: Mask) -> list[RaterConsensus]:
    """Correlation of every rater, by code, with the leave-one-out mean of the ``pool`` [R].

    Only answers of raters in the pool enter the means; the other raters are compared with these means.
    """
    counts = np.where(pool[answers.rater], 1.0, 0.0)
    keys = int(answers.key.max(initial=-1)) + 1
    # A rater may answer a key repeatedly.
    _, rater_key = np.unique(answers.rater * max(1, keys) + answers.key, return_inverse=True)
    others, total = (
        np.bincount(answers.key, w, keys)[answers.key] - np.bincount(rater_key, w)[rater_key]
        for w in (counts, counts * answers.value)
    )
    comparable = others > 0
    means = np.divide(total, others, out=np.zeros(len(answers.value)), where=comparable)
    results: list[RaterConsensus] = []
    order = np.flatnonzero(comparable)
    order = order[np.argsort(answers.rater[order], kind="stable")]
    ends = np.searchsorted(answers.rater[order], np.arange(len(pool)), side="right")
    for rows in np.split(order, ends)[:-1]:
        groups = np.where(answers.signed[rows], -1, answers.group[rows])
        r = _centred_correlation(answers.value[rows], means[rows], groups)
        results.append(RaterConsensus(r, len(rows), float(others[rows].mean()) if len(rows) else 0.0))
    return results


def _centred_correlation(x: F8, y: F8, groups: NDArray[np.int64]) -> float | None:
    """Correlation after centring within each group; values of group -1 are not centred."""
    if len(x) < _MIN_ANSWERS:
        return None
    x, y = x.copy(), y.copy()
    for group in set(groups.tolist()) - {-1}:
        for side in (x, y):
            side[groups == group] -= side[groups == group].mean()
    squares = float(x @ x), float(y @ y)
    if min(squares) < _MIN_SUM_OF_SQUARES:
        return None
    return float(np.clip(x @ y / np.sqrt(squares[0] * squares[1]), -1.0, 1.0))
