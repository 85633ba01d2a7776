"""Boundary scores, distances with misses, and segments that hold their words."""

import math

import pytest

from studio.measure.timing.boundaries import BoundaryScore, boundary_score, distances, obeys


@pytest.mark.parametrize(
    "found, true, score",
    [
        ([1.0, 2.0], [1.05, 2.2], (1, 2, 2)),
        ([1.0, 1.02, 1.04], [1.0], (1, 3, 1)),
        ([], [1.0], (0, 0, 1)),
        ([2.0, 1.0], [1.1, 2.1], (2, 2, 2)),
        ([1.0, 1.15], [1.09, 1.2], (2, 2, 2)),
    ],
)
def test_hits_are_one_to_one_within_the_collar(found, true, score):
    assert boundary_score(found, true, 0.1) == BoundaryScore(*score)


def test_f1_precision_recall():
    score = BoundaryScore(3, 4, 6)
    assert (score.precision, score.recall, score.f1) == (0.75, 0.5, pytest.approx(0.6))
    assert (score + BoundaryScore(1, 1, 1)).hits == 4
    assert BoundaryScore(0, 0, 0).f1 == 0.0


def test_a_miss_is_infinitely_far():
    some = distances([1.0, None, 2.1], [1.02, 5.0, 2.0])
    assert (some.count, some.missing) == (3, 1)
    assert some.median_s == pytest.approx(0.1)
    assert math.isinf(distances([None, None, 1.0], [1.0, 1.0, 1.0]).median_s)
    assert math.isnan(distances([], []).median_s)


@pytest.mark.parametrize(
    "span, words, expected",
    [((0.0, 1.0), [0], True), ((0.0, 1.6), [0], False), ((0.0, 1.6), [0, 1], True), ((0.6, 2.0), [0, 1], False)],
)
def test_a_segment_obeys_when_it_holds_its_words_midpoints_and_no_others(span, words, expected):
    assert obeys(span, words, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]) is expected
