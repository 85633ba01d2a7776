"""Agreement: the textbook's numbers."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.agreement import icc, krippendorff, score_matrix, self_consistency
from studio.mos.stats.columns import ratings_from_rows

N = np.nan
TEXTBOOK = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    ]
)
SHROUT_FLEISS = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]], float)


@pytest.mark.parametrize(
    ("scale", "alpha"), [("nominal", 0.743421), ("ordinal", 0.815388), ("interval", 0.849107), ("ratio", 0.797403)]
)
def test_krippendorff_of_the_textbook(scale, alpha):
    assert krippendorff(TEXTBOOK, scale) == pytest.approx(alpha, abs=5.1e-7)


def test_alpha_is_none_where_it_is_undefined():
    assert krippendorff(np.full((3, 4), 5.0)) is None
    assert krippendorff(np.array([[1.0, N], [N, 2.0]])) is None
    assert krippendorff(np.zeros((0, 0))) is None
    with pytest.raises(BadOption, match="'rank' is not a scale"):
        krippendorff(TEXTBOOK, "rank")


def test_icc_of_shrout_and_fleiss():
    found = icc(SHROUT_FLEISS)
    assert found is not None
    assert (round(found.single, 2), round(found.average, 2)) == (0.29, 0.62)
    assert (found.raters, found.stimuli) == (4, 6)


def test_icc_needs_every_score():
    assert icc(TEXTBOOK) is None
    assert icc(SHROUT_FLEISS[:1]) is None
    assert icc(np.ones((3, 3))) is None


def test_the_first_of_repeated_scores_counts():
    ratings = ratings_from_rows([("a", "i", "s", 1), ("b", "i", "s", 2), ("a", "i", "s", 5), ("b", "j", "s", 3)])
    matrix = score_matrix(ratings)
    assert np.array_equal(matrix, [[1, N], [2, 3]], equal_nan=True)
    assert score_matrix(ratings.where(ratings.score > 9)).shape == (0, 0)


def test_raters_against_themselves():
    rows = [("a", "i", "s", 1), ("a", "j", "s", 4), ("b", "i", "s", 2), ("a", "i", "s", 3), ("a", "j", "s", 4)]
    found = self_consistency(ratings_from_rows(rows))
    assert list(found) == ["a"]
    assert (found["a"].trials, found["a"].same, found["a"].mean_difference) == (2, 0.5, 1.0)
    assert self_consistency(ratings_from_rows([])) == {}
