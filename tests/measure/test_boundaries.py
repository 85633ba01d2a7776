"""Boundary scores, distances with misses, segments with their words, and bootstrap intervals over aligners."""

import math

import numpy as np
import pytest

from studio.measure.timing.boundaries import (
    BoundaryScore,
    boundary_score,
    distances,
    speaks_exactly,
    word_boundaries,
)
from studio.measure.timing.word_timing import SpokenSpan


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


def test_a_miss_is_at_infinite_distance():
    some = distances([1.0, None, 2.1], [1.02, 5.0, 2.0])
    assert (some.count, some.missing) == (3, 1)
    assert some.median_s == pytest.approx(0.1)
    assert math.isinf(distances([None, None, 1.0], [1.0, 1.0, 1.0]).median_s)
    assert math.isnan(distances([], []).median_s)


@pytest.mark.parametrize(
    "span, words, expected",
    [((0.0, 1.0), [0], True), ((0.0, 1.6), [0], False), ((0.0, 1.6), [0, 1], True), ((0.6, 2.0), [0, 1], False)],
)
def test_a_segment_contains_the_midpoints_of_its_words_only(span, words, expected):
    assert speaks_exactly(span, words, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]) is expected


def take(*times: tuple[str, float, float]) -> list[SpokenSpan]:
    return [SpokenSpan(*one) for one in times]


def test_the_median_over_aligners_of_medians_over_takes() -> None:
    many = [take(("one", 0.1 * k, 1.0)) for k in range(1, 6)]  # starts .1 to .5, median .3
    accounts = {"a": many, "b": [take(("one", 0.9, 1.2))], "c": [take(("One,", 0.2, 1.1))]}
    (found,) = word_boundaries(["one"], accounts)
    assert found.start is not None and found.end is not None
    assert (found.start.value, found.end.value) == (pytest.approx(0.3), pytest.approx(1.1))
    assert 0.1 <= found.start.low <= 0.3 <= found.start.high <= 0.9
    assert (found.start.low, found.start.high) == (pytest.approx(0.2), pytest.approx(0.9))


def test_equal_aligners_have_zero_width_and_a_single_one_no_interval() -> None:
    alike = {name: [take(("one", 0.5, 1.0))] for name in "abc"}
    (found,) = word_boundaries(["one"], alike)
    assert found.start is not None and (found.start.low, found.start.high) == (0.5, 0.5)
    (alone,) = word_boundaries(["one"], {"a": alike["a"]})
    assert alone.start is not None and alone.start.value == 0.5 and math.isnan(alone.start.low)


def test_words_found_by_some_aligners_or_none() -> None:
    accounts = {"a": [take(("one", 0.0, 0.4), ("three", 0.8, 1.0))], "b": [take(("one", 0.1, 0.5))]}
    one, two, three = word_boundaries(["one", "two", "three"], accounts)
    assert one.start is not None and one.start.value == pytest.approx(0.05)
    assert (two.start, two.end) == (None, None)
    assert three.end is not None and three.end.value == 1.0 and math.isnan(three.end.high)
    assert word_boundaries(["one"], {}) == word_boundaries(["one"], {"a": []})
    assert word_boundaries([], {"a": [take(("one", 0.0, 0.4))]}) == []


def test_the_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(1)
    accounts = {name: [take(("one", float(rng.normal(1, 0.01)), 2.0)) for _ in range(5)] for name in "ab"}
    assert word_boundaries(["one"], accounts) == word_boundaries(["one"], accounts)
    assert word_boundaries(["one"], accounts) != word_boundaries(["one"], accounts, seed=1)


def test_coverage_of_intervals_of_ten_unbiased_aligners() -> None:
    """200 boundaries; a percentile interval of a median of ten is known to be a little narrow."""
    rng = np.random.default_rng(0)
    words = [f"w{k}" for k in range(100)]
    true = np.arange(200) * 0.1 + 0.05
    accounts = {}
    for name in "abcdefghij":
        times = true + rng.normal(0.0, 0.01, 200)
        accounts[name] = [[SpokenSpan(word, times[2 * k], times[2 * k + 1]) for k, word in enumerate(words)]]
    edges = [edge for one in word_boundaries(words, accounts) for edge in (one.start, one.end)]
    held = [edge.low <= at <= edge.high for edge, at in zip(edges, true, strict=True) if edge]
    assert len(held) == 200 and 0.85 <= np.mean(held) <= 1.0
    assert np.median([edge.high - edge.low for edge in edges if edge]) < 0.03
