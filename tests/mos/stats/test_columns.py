"""Columns of answers and their validation."""

import numpy as np
import pytest

from studio.core.errors import BadOption
from studio.mos.stats.columns import (
    A,
    Ratings,
    ScoreScale,
    Vote,
    Votes,
    distinct_rows,
    ratings_from_rows,
    votes_from_rows,
)


def test_rows_become_columns_with_sorted_names():
    ratings = ratings_from_rows([("zoe", "i2", "s2", 4), ("al", "i1", "s1", 5)])
    assert ratings.raters == ["al", "zoe"]
    assert ratings.rater.tolist() == [1, 0]
    assert ratings.system.tolist() == [1, 0]
    assert ratings.score.dtype == np.float64
    assert ratings_from_rows([("r", "i", "s1", 4)], systems=["s2", "s1"]).systems == ["s2", "s1"]
    assert len(ratings.where(ratings.score > 4)) == 1


ONE = np.array([0], np.int64)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": np.array([np.nan])}, "not a finite number"),
        ({"rater": np.array([0, 0])}, "column rater has 2 rows of 1"),
        ({"item": np.array([1])}, "column item points outside"),
        ({"system": np.array([-1])}, "column system points outside"),
        ({"raters": ["r", "r"]}, "two names of rater are the same"),
        ({"scale": ScoreScale(2, 5)}, "outside the scale; it ranges from 2 to 5"),
    ],
)
def test_bad_ratings(change, said):
    good = {"score": np.array([1.0]), "rater": ONE, "item": ONE, "system": ONE}
    names = {"raters": ["r"], "items": ["i"], "systems": ["s"]}
    with pytest.raises(BadOption, match=said):
        Ratings(**{**good, **names, **change})


def test_bad_votes():
    outcome = np.array([A], np.uint8)
    with pytest.raises(BadOption, match="vote 1 compares x with itself"):
        Votes(ONE, ONE, outcome, None, ["x", "y"], [])
    with pytest.raises(BadOption, match="code 4"):
        Votes(ONE, ONE + 1, outcome + 4, None, ["x", "y"], [])
    with pytest.raises(BadOption, match="column item points outside"):
        Votes(ONE, ONE + 1, outcome, None, ["x", "y"], [], ONE, [])
    with pytest.raises(BadOption, match="'draw' is not an outcome"):
        votes_from_rows([("x", "y", "draw", None)])
    with pytest.raises(BadOption, match="1 votes have no rater"):
        votes_from_rows([("x", "y", "a", "r"), ("x", "y", "a", None)])
    with pytest.raises(BadOption, match="1 votes have no item"):
        votes_from_rows([Vote("x", "y", "a", "r", "i"), Vote("x", "y", "a", "r")])
    with pytest.raises(BadOption, match="'y' is not among"):
        votes_from_rows([("x", "y", "a", "r")], systems=["x"])


def test_votes_keep_their_scripts():
    votes = votes_from_rows([Vote("x", "y", "a", "r", "one"), Vote("y", "x", "b", "r", "two")])
    assert [votes.items[i] for i in votes.item] == ["one", "two"]
    assert votes.where(votes.item == 1).item.tolist() == [1]
    assert votes_from_rows([("x", "y", "a", "r")]).item is None


def test_long_scale_has_steps_of_a_twentieth():
    assert (ScoreScale(1, 5).step, ScoreScale(-3, 3).step, ScoreScale(0, 100).step) == (1.0, 1.0, 5.0)
    assert ScoreScale(1, 5).difference_scale == ScoreScale(-4, 4)


def test_distinct_rows_are_counted_where_their_keys_exceed_64_bits():
    huge = np.array([0, 1 << 40, 1 << 40, (1 << 40) + 1])
    few = np.array([0, 1, 1, 1])
    assert distinct_rows(huge, huge, few, huge) == 3
    assert distinct_rows(few) == 2 and distinct_rows(few[:0], few[:0]) == 0
