"""CMOS and ABX: signs, counts, worked values, and guessing."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studio.core.errors import BadOption
from studio.mos.stats.preference import (
    AbxAnswer,
    CmosAnswer,
    abx_result,
    abx_results,
    cmos_results,
    guessing_p,
    order_effect,
)


def compared(scores, first="a", second="b"):
    return [CmosAnswer(f"r{k}", f"i{k}", first, second, s) for k, s in enumerate(scores)]


def test_the_sign_is_that_of_the_named_pair():
    [found] = cmos_results([*compared([3, 2]), *compared([-3, 0], "b", "a")])
    assert (found.a, found.b) == ("a", "b")
    assert found.cmos["two_way"].mean == (-3 - 2 - 3 + 0) / 4
    assert (found.better, found.same, found.worse) == (0, 1, 3)
    assert found.scores == {-3: 2, -2: 1, 0: 1}
    [turned] = cmos_results([*compared([3, 2]), *compared([-3, 0], "b", "a")], baseline="a")
    assert (turned.a, turned.b, turned.cmos["two_way"].mean) == ("b", "a", 2.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
def test_which_sound_came_first_changes_no_comparison(answers):
    """Playing a pair the other way round and turning its score is the same answer."""
    plain = compared([score for score, _ in answers])
    mixed = [
        replace(c, first=c.second, second=c.first, score=-c.score) if turn else c
        for c, (_, turn) in zip(plain, answers, strict=True)
    ]
    assert cmos_results(mixed) == cmos_results(plain)


def test_a_worked_interval():
    """Differences 1, 2, 0, 1 of a rater each: mean 1, s .8165, t(3) 3.18245, so 1 +- 1.29923 by rater."""
    [found] = cmos_results(compared([-1, -2, 0, -1]))
    by_rater = found.cmos["by_rater"]
    assert (by_rater.mean, by_rater.df) == (1.0, 3)
    assert by_rater.half_width == pytest.approx(1.29923, abs=1e-5)
    assert found.cmos["plain"].half_width == pytest.approx(1.96 * 0.816497 / 2, abs=1e-5)
    assert found.p == pytest.approx(0.0917, abs=1e-4)
    assert order_effect(compared([-1, -2, 0, -1])).mean == -1.0


def test_p_values_are_corrected_for_all_pairs():
    rng = np.random.default_rng(1)
    answers = [
        CmosAnswer(f"r{r}", f"i{i}", "base", s, int(np.clip(rng.integers(-1, 3) + k, -3, 3)))
        for r in range(6)
        for i in range(6)
        for k, s in enumerate("xyz")
    ]
    found = cmos_results(answers, "base")
    assert [(c.a, c.b) for c in found] == [("x", "base"), ("y", "base"), ("z", "base")]
    assert all(c.p_holm >= c.p for c in found)
    assert max(c.p_holm for c in found) > max(c.p for c in found) or max(c.p for c in found) == found[0].p
    [alone] = cmos_results([CmosAnswer("r", "i", "a", "b", 2)])
    assert alone.p is None and alone.cmos["two_way"].low is None


@pytest.mark.parametrize(("right", "n"), [(0, 10), (9, 10), (12, 16), (14, 20), (16, 16)])
def test_the_binomial_test_is_exact(right, n):
    assert guessing_p(right, n) == pytest.approx(sum(comb(n, k) for k in range(right, n + 1)) / 2**n)


def test_twelve_of_sixteen():
    """The table of every ABX manual: 12 of 16 is p = 0.0384, 11 of 16 is 0.1051."""
    assert guessing_p(12, 16) == pytest.approx(0.0384, abs=5e-5)
    assert guessing_p(11, 16) == pytest.approx(0.1051, abs=5e-5)
    found = abx_result("a", "b", [AbxAnswer(f"r{k % 4}", f"i{k // 4}", "a", "b", k < 12) for k in range(16)])
    assert (found.right, found.n) == (12, 16)
    assert (found.share["exact"].low, found.share["exact"].high) == pytest.approx((0.4762, 0.9273), abs=1e-4)
    assert (found.share["two_way"].raters, found.share["two_way"].items) == (4, 4)


def test_answers_of_one_rater_are_correlated():
    """Ten raters who each found all or none: 160 answers, and an interval of ten; and so with ten scripts."""
    by_rater = [AbxAnswer(f"r{r}", f"i{i}", "a", "b", r < 7) for r in range(10) for i in range(16)]
    by_script = [AbxAnswer(f"r{i}", f"i{r}", "a", "b", r < 7) for r in range(10) for i in range(16)]
    for answers in (by_rater, by_script):
        found = abx_result("a", "b", answers)
        wide, narrow = found.share["two_way"], found.share["exact"]
        assert wide.mean == narrow.mean == 0.7
        assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
        assert wide.low < 0.5


def test_pairs_do_not_depend_on_the_order():
    answers = [
        AbxAnswer("r", "i", "b", "a", True),
        AbxAnswer("s", "i", "a", "b", False),
        AbxAnswer("r", "i", "a", "c", True),
    ]
    found = abx_results(answers)
    assert [(i.a, i.b, i.right, i.n) for i in found] == [("a", "b", 1, 2), ("a", "c", 1, 1)]
    assert [i.p_holm for i in found] == [1.0, 1.0]
    with pytest.raises(BadOption):
        order_effect([])
