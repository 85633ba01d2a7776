"""F1 with a collar and mIoU on words whose answer is known."""

import pytest

from studio.measure.timing.word_timing import SpokenSpan, timing_score

TRUE = [SpokenSpan("one", 0.0, 0.4), SpokenSpan("two", 0.4, 0.8), SpokenSpan("three", 0.8, 1.2)]


def test_the_same_words_at_the_same_times_are_all_hits() -> None:
    score = timing_score(
        [SpokenSpan("One,", 0.0, 0.4), SpokenSpan("two", 0.4, 0.8), SpokenSpan("THREE.", 0.8, 1.2)], TRUE, 0.0
    )
    assert (score.f1, score.miou, score.matched) == (1.0, 1.0, 3), "marks and capitals are no other word"


def test_what_lies_outside_the_collar_is_wrong_on_both_sides() -> None:
    found = [SpokenSpan("one", 0.05, 0.4), SpokenSpan("two", 0.4, 0.9), SpokenSpan("three", 0.8, 1.2)]
    assert timing_score(found, TRUE, 0.05).f1 == pytest.approx(2 * 2 / 6), "just the collar is inside it"
    assert timing_score(found, TRUE, 0.1).f1 == 1.0
    assert timing_score(found, TRUE, 0.0).miou == pytest.approx((0.35 / 0.4 + 0.4 / 0.5 + 1.0) / 3)
    assert timing_score(found, TRUE, 0.0).end_s == pytest.approx((0.0, 0.1, 0.0))


def test_words_that_were_not_found_or_are_others_count_as_nothing() -> None:
    found = [SpokenSpan("one", 0.0, 0.4), SpokenSpan("too", 0.4, 0.8)]
    score = timing_score(found, TRUE, 0.1)
    assert (score.hits, score.found, score.true) == (1, 2, 3)
    assert score.f1 == pytest.approx(2 / 5) and score.miou == pytest.approx(1 / 3)
    assert timing_score([], TRUE, 0.1).f1 == timing_score([], [], 0.1).f1 == 0.0


def test_equal_words_are_matched_in_order() -> None:
    true = [SpokenSpan("the", 0.0, 0.2), SpokenSpan("cat", 0.2, 0.5), SpokenSpan("the", 0.5, 0.7)]
    score = timing_score([true[1], true[2]], true, 0.0)
    assert score.hits == 2
