"""Word times: F1 with a collar, mIoU, cuts by a fake recogniser, boundary scores, several aligners."""

import math

import numpy as np
import pytest

from studio.measure.word_timing import (
    BoundaryCut,
    BoundaryScore,
    SpokenSpan,
    boundary_score,
    cut_check,
    distances,
    share_held,
    speaks_exactly,
    timing_score,
    word_boundaries,
)

TRUE = [SpokenSpan("one", 0.0, 0.4), SpokenSpan("two", 0.4, 0.8), SpokenSpan("three", 0.8, 1.2)]
RATE_HZ = 1000
WORDS = ("rain", "stopped", "before", "noon")
TIMES = [SpokenSpan(word, 0.5 * k, 0.5 * (k + 1)) for k, word in enumerate(WORDS)]
SOUND = np.repeat(np.arange(1, 5, dtype=np.int16), 500)  # each word is a number, half a second long


def test_equal_words_at_equal_times_are_all_hits() -> None:
    score = timing_score(
        [SpokenSpan("One,", 0.0, 0.4), SpokenSpan("two", 0.4, 0.8), SpokenSpan("THREE.", 0.8, 1.2)], TRUE, 0.0
    )
    assert (score.f1, score.miou, score.matched) == (1.0, 1.0, 3), "case and punctuation do not matter"


def test_boundary_outside_the_collar_is_wrong_on_both_sides() -> None:
    found = [SpokenSpan("one", 0.05, 0.4), SpokenSpan("two", 0.4, 0.9), SpokenSpan("three", 0.8, 1.2)]
    assert timing_score(found, TRUE, 0.05).f1 == pytest.approx(2 * 2 / 6), "the collar itself is inside"
    assert timing_score(found, TRUE, 0.1).f1 == 1.0
    assert timing_score(found, TRUE, 0.0).miou == pytest.approx((0.35 / 0.4 + 0.4 / 0.5 + 1.0) / 3)
    assert timing_score(found, TRUE, 0.0).end_s == pytest.approx((0.0, 0.1, 0.0))


def test_missing_and_other_words_are_not_hits() -> None:
    found = [SpokenSpan("one", 0.0, 0.4), SpokenSpan("too", 0.4, 0.8)]
    score = timing_score(found, TRUE, 0.1)
    assert (score.hits, score.predicted, score.true) == (1, 2, 3)
    assert score.f1 == pytest.approx(2 / 5) and score.miou == pytest.approx(1 / 3)
    assert timing_score([], TRUE, 0.1).f1 == timing_score([], [], 0.1).f1 == 0.0


def test_equal_words_are_matched_in_order() -> None:
    true = [SpokenSpan("the", 0.0, 0.2), SpokenSpan("cat", 0.2, 0.5), SpokenSpan("the", 0.5, 0.7)]
    score = timing_score([true[1], true[2]], true, 0.0)
    assert score.hits == 2


def hear(pcm: np.ndarray, rate_hz: int) -> str:
    """A word is recognised from 450 ms on, mistaken from 100 ms on, and missed below."""
    counts = {number: int((pcm == number).sum()) for number in range(1, 5)}
    said = [word if counts[k] >= 450 else "uh-oh" for k, word in enumerate(WORDS, 1) if counts[k] >= 100]
    return " ".join(said)


def deaf(pcm: np.ndarray, rate_hz: int) -> str:
    return hear(pcm, rate_hz).replace("stopped", "stepped")


def test_correct_cuts_hold_and_shifted_ones_do_not() -> None:
    assert cut_check(SOUND, RATE_HZ, TIMES, hear) == [BoundaryCut(k, True, True) for k in range(3)]
    assert [one.holds for one in cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=0.2)] == [False] * 3
    early = cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=-0.2)
    assert [(one.left, one.right) for one in early] == [(False, False)] * 3
    small = cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=0.03)
    assert [one.holds for one in small] == [True] * 3


def test_one_side_may_hold_alone() -> None:
    late = [
        TIMES[0],
        SpokenSpan("stopped", 0.7, 1.0),
        *TIMES[2:],
    ]  # the first word ends correctly, the second starts late
    assert cut_check(SOUND, RATE_HZ, late, hear)[0] == BoundaryCut(0, True, False)


def test_words_the_recogniser_never_recognises_are_left_out() -> None:
    found = cut_check(SOUND, RATE_HZ, TIMES, deaf)
    assert [one.holds for one in found] == [None, None, True]


def test_numbers_written_as_one_have_no_boundary() -> None:
    words = [SpokenSpan("twenty", 0.0, 0.5), SpokenSpan("one", 0.5, 1.0), SpokenSpan("hens", 1.0, 1.5)]
    found = cut_check(SOUND[:1500], RATE_HZ, words, lambda pcm, rate_hz: "21 hens")
    assert found[0].holds is None


def test_silence_and_single_words_have_no_boundary() -> None:
    assert cut_check(SOUND, RATE_HZ, TIMES[:1], hear) == []
    assert cut_check(SOUND, RATE_HZ, [], hear) == []
    assert [one.holds for one in cut_check(np.zeros(0, np.int16), RATE_HZ, TIMES, hear)] == [None] * 3


def test_share_is_of_scored_boundaries_with_an_interval_over_recordings() -> None:
    good, bad, unknown = BoundaryCut(0, True, True), BoundaryCut(0, True, False), BoundaryCut(0, None, None)
    assert share_held([]) is None and share_held([[unknown]]) is None
    found = share_held([[good, good, unknown], [bad, good], [good]])
    assert found is not None and found.value == pytest.approx(4 / 5)
    assert found.low <= 0.5 and found.high == 1.0
    assert np.isnan(share_held([[good]]).low)


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


def test_miss_has_infinite_distance():
    some = distances([1.0, None, 2.1], [1.02, 5.0, 2.0])
    assert (some.count, some.missing) == (3, 1)
    assert some.median_s == pytest.approx(0.1)
    assert math.isinf(distances([None, None, 1.0], [1.0, 1.0, 1.0]).median_s)
    assert math.isnan(distances([], []).median_s)


@pytest.mark.parametrize(
    "span, words, expected",
    [((0.0, 1.0), [0], True), ((0.0, 1.6), [0], False), ((0.0, 1.6), [0, 1], True), ((0.6, 2.0), [0, 1], False)],
)
def test_segment_contains_the_midpoints_of_its_words_only(span, words, expected):
    assert speaks_exactly(span, words, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]) is expected


def take(*times: tuple[str, float, float]) -> list[SpokenSpan]:
    return [SpokenSpan(*one) for one in times]


def test_median_over_aligners_of_medians_over_takes() -> None:
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


def test_same_seed_gives_the_same_interval() -> None:
    rng = np.random.default_rng(1)
    accounts = {name: [take(("one", float(rng.normal(1, 0.01)), 2.0)) for _ in range(5)] for name in "ab"}
    assert word_boundaries(["one"], accounts) == word_boundaries(["one"], accounts)
    assert word_boundaries(["one"], accounts) != word_boundaries(["one"], accounts, seed=1)


def test_interval_coverage_for_ten_unbiased_aligners() -> None:
    """200 boundaries; a percentile interval of a median of ten is known to be slightly narrow."""
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
