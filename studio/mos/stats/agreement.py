"""Do raters agree, with each other (ICC; alpha is in studio/measure) and with themselves (repeated trials)?"""

from dataclasses import dataclass

import numpy as np

from studio.mos.stats.columns import F8, I8, Ratings


@dataclass(frozen=True)
class Icc:
    """Intraclass correlations: of one rater's score, and of the mean of all ``raters``."""

    single: float
    average: float
    raters: int
    stimuli: int


@dataclass(frozen=True)
class Repeats:
    """One rater's answers to trials that were shown twice.

    Attributes:
        trials: stimuli that this rater scored more than once.
        same: share of them with the same score the first two times.
        mean_difference: mean absolute difference of the first two scores, in steps of the scale.
    """

    trials: int
    same: float
    mean_difference: float


def score_matrix(ratings: Ratings) -> F8:
    """Scores [raters, stimuli], NaN where there is none; of a repeated trial the first score."""
    raters, rater = np.unique(ratings.rater, return_inverse=True)
    stimuli, stimulus = np.unique(_stimulus(ratings), return_inverse=True)
    matrix = np.full(len(raters) * len(stimuli), np.nan)
    cell, first = np.unique(rater * len(stimuli) + stimulus, return_index=True)
    matrix[cell] = ratings.score[first]
    return matrix.reshape(len(raters), len(stimuli))


def icc(matrix: F8) -> Icc | None:
    """ICC(2,1) and ICC(2,k) of scores [raters, stimuli] (Shrout & Fleiss 1979): two-way random, absolute agreement.

    None unless every rater scored every stimulus, with two of each at least and scores that differ.
    """
    k, n = matrix.shape
    if min(k, n) < 2 or not np.isfinite(matrix).all():
        return None
    total = matrix.mean()
    between = k * ((matrix.mean(axis=0) - total) ** 2).sum() / (n - 1)
    judges = n * ((matrix.mean(axis=1) - total) ** 2).sum() / (k - 1)
    rest = matrix - matrix.mean(axis=0) - matrix.mean(axis=1)[:, None] + total
    error = (rest**2).sum() / ((n - 1) * (k - 1))
    single = between + (k - 1) * error + k * (judges - error) / n
    average = between + (judges - error) / n
    if single <= 0 or average <= 0:
        return None
    return Icc(float((between - error) / single), float((between - error) / average), k, n)


def self_consistency(ratings: Ratings) -> dict[str, Repeats]:
    """How each rater who scored a stimulus more than once answered the second time, in the order of the rows."""
    key = ratings.rater * (int(_stimulus(ratings).max(initial=0)) + 1) + _stimulus(ratings)
    order = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[order], prepend=-1))
    length = np.diff(start, append=len(key))
    first = start[length > 1]
    apart = np.abs(ratings.score[order[first]] - ratings.score[order[first + 1]])
    who = ratings.rater[order[first]]
    return {
        ratings.raters[r]: Repeats(
            int((who == r).sum()), float((apart[who == r] == 0).mean()), float(apart[who == r].mean())
        )
        for r in np.unique(who)
    }


def _stimulus(ratings: Ratings) -> I8:
    return ratings.system * max(1, len(ratings.items)) + ratings.item
