"""Cuts that are heard: a recogniser that reads which words a sound holds whole stands in for a real one."""

import numpy as np
import pytest

from studio.measure.timing.cut_check import BoundaryCut, cut_check, share_held
from studio.measure.timing.word_timing import SpokenSpan

RATE_HZ = 1000
WORDS = ("rain", "stopped", "before", "noon")
TIMES = [SpokenSpan(word, 0.5 * k, 0.5 * (k + 1)) for k, word in enumerate(WORDS)]
SOUND = np.repeat(np.arange(1, 5, dtype=np.int16), 500)  # each word is its own number, half a second long


def hear(pcm: np.ndarray, rate_hz: int) -> str:
    """A word is heard as itself from 450 ms on, as another one from 100 ms on, and not at all below."""
    counts = {number: int((pcm == number).sum()) for number in range(1, 5)}
    said = [word if counts[k] >= 450 else "uh-oh" for k, word in enumerate(WORDS, 1) if counts[k] >= 100]
    return " ".join(said)


def deaf(pcm: np.ndarray, rate_hz: int) -> str:
    return hear(pcm, rate_hz).replace("stopped", "stepped")


def test_right_cuts_hold_and_moved_ones_do_not() -> None:
    assert cut_check(SOUND, RATE_HZ, TIMES, hear) == [BoundaryCut(k, True, True) for k in range(3)]
    assert [one.holds for one in cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=0.2)] == [False] * 3
    early = cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=-0.2)
    assert [(one.left, one.right) for one in early] == [(False, False)] * 3
    small = cut_check(SOUND, RATE_HZ, TIMES, hear, moved_s=0.03)
    assert [one.holds for one in small] == [True] * 3


def test_one_side_may_hold_alone() -> None:
    late = [TIMES[0], SpokenSpan("stopped", 0.7, 1.0), *TIMES[2:]]  # the first word ends right, the second starts late
    assert cut_check(SOUND, RATE_HZ, late, hear)[0] == BoundaryCut(0, True, False)


def test_what_the_recogniser_never_hears_is_not_judged() -> None:
    found = cut_check(SOUND, RATE_HZ, TIMES, deaf)
    assert [one.holds for one in found] == [None, None, True]


def test_numbers_that_are_written_as_one_have_no_boundary_between_them() -> None:
    words = [SpokenSpan("twenty", 0.0, 0.5), SpokenSpan("one", 0.5, 1.0), SpokenSpan("hens", 1.0, 1.5)]
    found = cut_check(SOUND[:1500], RATE_HZ, words, lambda pcm, rate_hz: "21 hens")
    assert found[0].holds is None


def test_silence_and_single_words_have_nothing_to_judge() -> None:
    assert cut_check(SOUND, RATE_HZ, TIMES[:1], hear) == []
    assert cut_check(SOUND, RATE_HZ, [], hear) == []
    assert [one.holds for one in cut_check(np.zeros(0, np.int16), RATE_HZ, TIMES, hear)] == [None] * 3


def test_the_share_is_of_judged_boundaries_with_an_interval_over_recordings() -> None:
    good, bad, unknown = BoundaryCut(0, True, True), BoundaryCut(0, True, False), BoundaryCut(0, None, None)
    assert share_held([]) is None and share_held([[unknown]]) is None
    found = share_held([[good, good, unknown], [bad, good], [good]])
    assert found is not None and found.value == pytest.approx(4 / 5)
    assert found.low <= 0.5 and found.high == 1.0
    assert np.isnan(share_held([[good]]).low)
