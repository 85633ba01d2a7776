"""Agreement: the textbook's numbers."""

import numpy as np

from studio.mos.stats.agreement import icc, score_matrix, self_consistency
from studio.mos.stats.columns import ratings_from_rows

SHROUT_FLEISS = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]], float)


def test_icc_of_shrout_and_fleiss():
    found = icc(SHROUT_FLEISS)
    assert found is not None
    assert (round(found.single, 2), round(found.average, 2)) == (0.29, 0.62)
    assert (found.raters, found.stimuli) == (4, 6)


def test_icc_needs_every_score():
    assert icc(np.array([[1.0, 2.0], [1.0, np.nan]])) is None
    assert icc(SHROUT_FLEISS[:1]) is None
    assert icc(np.ones((3, 3))) is None


def test_the_first_of_repeated_scores_counts():
    ratings = ratings_from_rows([("a", "i", "s", 1), ("b", "i", "s", 2), ("a", "i", "s", 5), ("b", "j", "s", 3)])
    matrix = score_matrix(ratings)
    assert np.array_equal(matrix, [[1, np.nan], [2, 3]], equal_nan=True)
    assert score_matrix(ratings.where(ratings.score > 9)).shape == (0, 0)


def test_raters_against_themselves():
    rows = [("a", "i", "s", 1), ("a", "j", "s", 4), ("b", "i", "s", 2), ("a", "i", "s", 3), ("a", "j", "s", 4)]
    found = self_consistency(ratings_from_rows(rows))
    assert list(found) == ["a"]
    assert (found["a"].trials, found["a"].same, found["a"].mean_difference) == (2, 0.5, 1.0)
    assert self_consistency(ratings_from_rows([])) == {}
