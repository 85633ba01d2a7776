"""Intervals of boundaries: the median over aligners, worked by hand; what is missing; how often they hold the truth."""

import math

import numpy as np
import pytest

from studio.measure.timing.boundary_intervals import word_boundaries
from studio.measure.timing.word_timing import SpokenSpan


def take(*times: tuple[str, float, float]) -> list[SpokenSpan]:
    return [SpokenSpan(*one) for one in times]


def test_the_median_over_aligners_of_the_median_over_their_takes() -> None:
    many = [take(("one", 0.1 * k, 1.0)) for k in range(1, 6)]  # starts .1 to .5, median .3
    accounts = {"a": many, "b": [take(("one", 0.9, 1.2))], "c": [take(("One,", 0.2, 1.1))]}
    (found,) = word_boundaries(["one"], accounts)
    assert found.start is not None and found.end is not None
    assert (found.start.value, found.end.value) == (pytest.approx(0.3), pytest.approx(1.1))
    assert 0.1 <= found.start.low <= 0.3 <= found.start.high <= 0.9
    assert (found.start.low, found.start.high) == (pytest.approx(0.2), pytest.approx(0.9))


def test_aligners_that_agree_leave_no_width_and_one_alone_has_no_interval() -> None:
    alike = {name: [take(("one", 0.5, 1.0))] for name in "abc"}
    (found,) = word_boundaries(["one"], alike)
    assert found.start is not None and (found.start.low, found.start.high) == (0.5, 0.5)
    (alone,) = word_boundaries(["one"], {"a": alike["a"]})
    assert alone.start is not None and alone.start.value == 0.5 and math.isnan(alone.start.low)


def test_a_word_that_nobody_found_has_none_and_one_that_some_found_has_theirs() -> None:
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


def test_intervals_of_ten_unbiased_aligners_hold_the_truth_about_as_often_as_they_say() -> None:
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
