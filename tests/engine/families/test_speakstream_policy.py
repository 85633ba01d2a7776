"""SpeakStream's feeding rule against the paper's printed examples and closed forms (section III.C)."""

import math

import pytest

from studio.core.errors import BadOption
from studio.engine.families.speakstream.policy import FeedingPolicy, SegmentPlan, SpeakStreamOptions

WINDOWS = [(m, n) for m in range(1, 7) for n in range(1, m + 1)]


def cut(scheme: str, m: int, n: int, t: int) -> list[SegmentPlan]:
    """All segments of a text of t words that has ended."""
    policy, plans = FeedingPolicy(), []
    while (plan := policy.next(t, SpeakStreamOptions(scheme, m, n), ended=True)) is not None:
        plans.append(plan)
    return plans


def printed(plans: list[SegmentPlan]) -> list[tuple[list[int], list[int]]]:
    """Words from 1, as the paper prints them: (T_i, words of A_i)."""
    return [([i + 1 for i in p.feed], [i + 1 for i in p.speak]) for p in plans]


def test_scheme_1_as_printed():
    assert printed(cut("S1", 3, 2, 8)) == [
        ([1, 2, 3], [1, 2]),
        ([3, 4, 5], [3, 4]),
        ([5, 6, 7], [5, 6]),
        ([7, 8], [7, 8]),
    ]


def test_scheme_2_as_printed():
    assert printed(cut("S2", 3, 2, 8)) == [([1, 2, 3], [1, 2]), ([4, 5], [3, 4]), ([6, 7], [5, 6]), ([8], [7, 8])]


@pytest.mark.parametrize("scheme", ["S1", "S2"])
@pytest.mark.parametrize(("m", "n"), WINDOWS)
@pytest.mark.parametrize("t", range(1, 20))
def test_closed_forms(scheme, m, n, t):
    plans = printed(cut(scheme, m, n, t))
    x = max(1, math.ceil((t - m) / n) + 1)  # the printed x is not positive for t < m
    assert len(plans) == math.ceil(t / n)
    for i, (fed, spoken) in enumerate(plans, 1):
        first = n * (i - 2) + m + 1 if scheme == "S2" and i > 1 else n * (i - 1) + 1
        assert fed == ([*range(first, min(t, n * (i - 1) + m) + 1)] if scheme == "S1" or i <= x else [])
        assert spoken == [*range(n * (i - 1) + 1, min(t, n * i) + 1)]


@pytest.mark.parametrize("n", range(1, 7))
def test_the_schemes_coincide_without_look_ahead(n):
    ones, twos = cut("S1", n, n, 11), cut("S2", n, n, 11)
    assert printed(ones) == printed(twos) and [p.close for p in ones] == [p.close for p in twos]


@pytest.mark.parametrize("scheme", ["S1", "S2"])
@pytest.mark.parametrize(("m", "n"), WINDOWS)
def test_the_texts_end_closes_a_window_only_when_fewer_than_m_words_were_left(scheme, m, n):
    t, spoken, closings = 9, 0, 0
    for plan in cut(scheme, m, n, t):
        short = spoken + m > t
        assert plan.close == (short and (scheme == "S1" or closings == 0))
        closings += plan.close
        spoken += len(plan.speak)


@pytest.mark.parametrize("scheme", ["S1", "S2"])
@pytest.mark.parametrize(("m", "n"), WINDOWS)
def test_a_window_waits_for_exactly_m_words_and_no_more(scheme, m, n):
    policy = FeedingPolicy()
    for committed in range(m):
        assert policy.next(committed, SpeakStreamOptions(scheme, m, n)) is None
    first = policy.next(m, SpeakStreamOptions(scheme, m, n))
    assert first is not None and [*first.feed] == [*range(m)] and [*first.speak] == [*range(n)]
    assert policy.next(m + n - 1, SpeakStreamOptions(scheme, m, n)) is None
    assert policy.next(m + n, SpeakStreamOptions(scheme, m, n)) is not None


def test_what_is_fed_does_not_depend_on_when_it_came():
    for scheme in ("S1", "S2"):
        for m, n in WINDOWS:
            policy, plans = FeedingPolicy(), []
            for committed in range(1, 15):
                while (plan := policy.next(committed, SpeakStreamOptions(scheme, m, n))) is not None:
                    plans.append(plan)
            while (plan := policy.next(14, SpeakStreamOptions(scheme, m, n), ended=True)) is not None:
                plans.append(plan)
            assert plans == cut(scheme, m, n, 14)


def test_flush_shrinks_the_window_without_the_texts_end():
    policy, options = FeedingPolicy(), SpeakStreamOptions("S1", 5, 1)
    first = policy.next(2, options, flushed=2)
    second = policy.next(2, options, flushed=2)
    assert first is not None and second is not None
    assert ([*first.feed], [*first.speak], first.close, first.look_ahead) == ([0, 1], [0], False, 1)
    assert ([*second.feed], [*second.speak], second.close, second.look_ahead) == ([1], [1], False, 0)
    assert policy.next(2, options, flushed=2) is None
    assert policy.next(6, options, flushed=2) is None
    third = policy.next(7, options, flushed=2)
    assert third is not None and [*third.feed] == [2, 3, 4, 5, 6]


def test_a_change_of_window_and_scheme_in_mid_text():
    policy = FeedingPolicy()
    assert [*policy.next(9, SpeakStreamOptions("S2", 4, 1)).feed] == [0, 1, 2, 3]
    wider = policy.next(9, SpeakStreamOptions("S2", 6, 2))
    assert ([*wider.feed], [*wider.speak], wider.look_ahead) == ([4, 5, 6], [1, 2], 4)
    repeated = policy.next(
        9, SpeakStreamOptions("S1", 2, 1)
    )  # S1 feeds again what it speaks; more was fed before and counts
    assert ([*repeated.feed], [*repeated.speak], repeated.look_ahead) == ([3, 4], [3], 3)
    narrow = policy.next(9, SpeakStreamOptions("S2", 2, 1))
    assert ([*narrow.feed], [*narrow.speak]) == ([], [4])


@pytest.mark.parametrize(
    ("scheme", "m", "n", "told"),
    [
        ("S1", 2, 3, "hop n = 3 is more than window m = 2.*1 <= n <= m <= 6"),
        ("S1", 0, 0, "m cannot be 0; give .* from 1 to 6"),
        ("S1", 7, 1, "m cannot be 7; give .* from 1 to 6"),
        ("S1", 3.0, 1, "m cannot be 3.0; give .* from 1 to 6"),
        ("S1", 3, 0, "n cannot be 0; give .* from 1 to 6"),
        ("S3", 3, 1, "S1, S2"),
    ],
)
def test_options_that_do_not_fit_say_what_is_allowed(scheme, m, n, told):
    with pytest.raises(BadOption, match=told):
        SpeakStreamOptions(scheme, m, n)
