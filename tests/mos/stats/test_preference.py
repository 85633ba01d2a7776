"""Preference shares, CMOS and ABX: exact values, statsmodels as the oracle, clustering, guessing."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import points
from studio.mos.stats.columns import OUTCOMES, ScoreScale, Vote, ratings_from_rows, votes_from_rows
from studio.mos.stats.interval import mean_interval
from studio.mos.stats.means import mean_of
from studio.mos.stats.planner import VotePopulation, draw_votes
from studio.mos.stats.preference import (
    AbxAnswer,
    CmosAnswer,
    abx_result,
    abx_results,
    cmos_results,
    guessing_p,
    order_effect,
    pairwise_preferences,
    preference,
)


def test_ties_are_reported_and_count_as_half_a_win():
    rows = [("x", "y", "a"), ("y", "x", "b"), ("x", "y", "b"), ("y", "x", "tie"), ("x", "y", "both_bad")]
    found = preference(votes_from_rows([(*r, None) for r in rows]), "x", "y", "wilson")
    assert (found.wins_a, found.wins_b, found.ties, found.both_bad) == (2, 1, 1, 1)
    assert found.share.mean == pytest.approx(0.6)
    assert (found.share.n, found.share.raters) == (5, None)


@pytest.mark.parametrize(("ours", "theirs"), [("exact", "beta"), ("wilson", "wilson")])
@pytest.mark.parametrize("wins", [0, 1, 13, 20])
def test_intervals_agree_with_statsmodels(ours, theirs, wins):
    votes = votes_from_rows([("x", "y", "a" if k < wins else "b", "r") for k in range(20)])
    found = preference(votes, "x", "y", ours, level=0.9).share
    assert [found.low, found.high] == pytest.approx(proportion_confint(wins, 20, alpha=0.1, method=theirs), abs=1e-9)


def votes_of(wins, raters, items):
    """``wins(rater, item)`` of every rater on every script."""
    everybody = [(r, i) for r in range(raters) for i in range(items)]
    return votes_from_rows(Vote("x", "y", "a" if wins(r, i) else "b", f"r{r:02}", f"i{i:02}") for r, i in everybody)


def test_consistent_raters_count_once():
    votes = votes_of(lambda r, i: r % 3, 20, 50)
    one_mind = preference(votes, "x", "y", "by_rater").share
    # 20 raters who are each constant: the error is that of 20 votes.
    assert one_mind.se == pytest.approx(np.sqrt(0.35 * 0.65 / 19))
    assert one_mind.df == 19
    assert one_mind.half_width > 4 * preference(votes, "x", "y", "wilson").share.half_width


def test_scripts_are_a_random_effect():
    """Six scripts of ten favour x for all raters: 1,000 votes with the interval of ten."""
    votes = votes_of(lambda r, i: i % 10 < 6, 20, 50)
    votes = replace(votes, item=votes.item % 10)
    both, rater = (preference(votes, "x", "y", method).share for method in ("two_way", "by_rater"))
    assert both.se == pytest.approx(np.sqrt(0.6 * 0.4 / 9), rel=0.03)
    assert both.df == pytest.approx(9, abs=1) and both.items == 10
    assert both.low < 0.5 < rater.low
    found = preference(votes, "x", "y")
    assert found.p > 0.4 and preference(votes, "x", "y", "by_rater").p < 0.05


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_share_interval_equals_the_interval_of_a_mean(share):
    """Checked against statsmodels; the scale ends at 0 and 1."""
    votes = draw_votes(VotePopulation(systems=(0, 40)), np.random.default_rng(0), 14, 30, 12)
    votes = votes.where(np.random.default_rng(1).random(len(votes)) < share)
    point = points(votes) * np.where(votes.a == 0, 1, -1) + (votes.a != 0)
    names = [(f"r{r}", f"i{i}", "x", p) for r, i, p in zip(votes.rater, votes.item, point, strict=True)]
    ratings = ratings_from_rows(names, scale=ScoreScale(0, 1))
    columns = ratings.score, ratings.rater, ratings.item
    oracle = mean_interval(*columns, "two_way", 0.95, ratings.scale, null=0.5)
    found = preference(votes, "s1", "s2").share
    assert mean_of(ratings).se == pytest.approx(found.se, rel=0.12)
    assert [found.mean, found.low, found.high, found.se] == pytest.approx(
        [oracle.mean, oracle.low, oracle.high, oracle.se]
    )


def test_unanimous_raters_have_an_exact_interval():
    """Any number of votes of six unanimous raters says as much as six votes."""
    found = preference(votes_of(lambda r, i: False, 6, 9), "x", "y")
    assert found.share.low == 0.0 and found.share.high == pytest.approx(1 - 0.025 ** (1 / 6))
    assert found.p == pytest.approx(2 * 0.5**6)
    few_scripts = preference(votes_of(lambda r, i: False, 30, 3), "x", "y")
    assert few_scripts.share.high == pytest.approx(1 - 0.025 ** (1 / 3))


def test_only_ties_have_a_wide_interval():
    votes = votes_from_rows([Vote("x", "y", "tie", f"r{r}", f"i{i}") for r in range(5) for i in range(5)])
    found = preference(votes, "x", "y")
    assert (found.share.mean, found.p) == (0.5, 1.0)
    assert found.share.high - found.share.low > 0.5


def test_p_values_of_shares_are_corrected_for_all_pairs():
    votes = draw_votes(VotePopulation(systems=(-150, 0, 30, 150)), np.random.default_rng(3), 20, 60, 20)
    found = pairwise_preferences(votes)
    assert [f.p_holm for f in found] == pytest.approx(multipletests([f.p for f in found], method="holm")[1])
    assert {f.p_holm for f in pairwise_preferences(votes, "exact")} == {None}
    for f in found:
        assert (f.p < 0.05) == (not f.share.low <= 0.5 <= f.share.high)


def test_mirrored_votes_and_swapped_pairs():
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 10, 40)
    mirror = replace(votes, a=votes.b, b=votes.a, outcome=np.array([1, 0, 2, 3], np.uint8)[votes.outcome])
    assert pairwise_preferences(mirror) == pairwise_preferences(votes)
    there, back = preference(votes, "s1", "s5"), preference(votes, "s5", "s1")
    assert (there.wins_a, there.wins_b) == (back.wins_b, back.wins_a)
    assert there.share.mean == pytest.approx(1 - back.share.mean)
    assert sum(p.share.n for p in pairwise_preferences(votes)) == len(votes)
    assert len(OUTCOMES) == 4


def test_share_stays_between_0_and_1():
    votes = votes_from_rows([("x", "y", "a", f"r{k}") for k in range(3)] + [("x", "y", "b", "r0")])
    share = preference(votes, "x", "y", "by_rater").share
    assert 0 < share.low < share.high <= 1.0 and share.items is None
    assert preference(votes.where(votes.rater == 1), "x", "y", "by_rater").share.low is None


def test_bad_arguments_are_named():
    votes = votes_from_rows([("x", "y", "a", None), ("z", "y", "a", None)])
    for call, message in [
        (lambda: preference(votes, "x", "q", "exact"), "no system 'q'"),
        (lambda: preference(votes, "x", "z", "exact"), "never compared"),
        (lambda: preference(votes, "x", "y"), "the votes have no raters"),
        (lambda: preference(replace(votes, rater=votes.a, raters=["x", "y", "z"]), "x", "y"), "have no scripts"),
        (lambda: preference(votes, "x", "y", "t"), "'t' is not"),
    ]:
        with pytest.raises(BadOption, match=message):
            call()


def compared(scores, first="a", second="b"):
    return [CmosAnswer(f"r{k}", f"i{k}", first, second, s) for k, s in enumerate(scores)]


def test_cmos_sign_is_that_of_the_named_pair():
    [found] = cmos_results([*compared([3, 2]), *compared([-3, 0], "b", "a")])
    assert (found.a, found.b) == ("a", "b")
    assert found.cmos["two_way"].mean == (-3 - 2 - 3 + 0) / 4
    assert (found.better, found.same, found.worse) == (0, 1, 3)
    assert found.scores == {-3: 2, -2: 1, 0: 1}
    [turned] = cmos_results([*compared([3, 2]), *compared([-3, 0], "b", "a")], baseline="a")
    assert (turned.a, turned.b, turned.cmos["two_way"].mean) == ("b", "a", 2.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30))
def test_presentation_order_does_not_change_cmos(answers):
    """Playing a pair in reverse and negating its score is the same answer."""
    plain = compared([score for score, _ in answers])
    mixed = [
        replace(c, first=c.second, second=c.first, score=-c.score) if turn else c
        for c, (_, turn) in zip(plain, answers, strict=True)
    ]
    assert cmos_results(mixed) == cmos_results(plain)


def test_cmos_worked_interval():
    """Differences 1, 2, 0, 1 of one rater each: mean 1, s .8165, t(3) 3.18245, so 1 +- 1.29923 by rater."""
    [found] = cmos_results(compared([-1, -2, 0, -1]))
    by_rater = found.cmos["by_rater"]
    assert (by_rater.mean, by_rater.df) == (1.0, 3)
    assert by_rater.half_width == pytest.approx(1.29923, abs=1e-5)
    assert found.cmos["plain"].half_width == pytest.approx(1.96 * 0.816497 / 2, abs=1e-5)
    assert found.p == pytest.approx(0.0917, abs=1e-4)
    assert order_effect(compared([-1, -2, 0, -1])).mean == -1.0


def test_cmos_p_values_are_corrected_for_all_pairs():
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
def test_binomial_test_is_exact(right, n):
    assert guessing_p(right, n) == pytest.approx(sum(comb(n, k) for k in range(right, n + 1)) / 2**n)


def test_twelve_of_sixteen():
    """The table of ABX manuals: 12 of 16 is p = 0.0384, 11 of 16 is 0.1051."""
    assert guessing_p(12, 16) == pytest.approx(0.0384, abs=5e-5)
    assert guessing_p(11, 16) == pytest.approx(0.1051, abs=5e-5)
    found = abx_result("a", "b", [AbxAnswer(f"r{k % 4}", f"i{k // 4}", "a", "b", k < 12) for k in range(16)])
    assert (found.right, found.n) == (12, 16)
    assert (found.share["exact"].low, found.share["exact"].high) == pytest.approx((0.4762, 0.9273), abs=1e-4)
    assert (found.share["two_way"].raters, found.share["two_way"].items) == (4, 4)


def test_abx_answers_are_clustered():
    """Ten raters with all or no answers right: 160 answers with the interval of ten; likewise ten scripts."""
    by_rater = [AbxAnswer(f"r{r}", f"i{i}", "a", "b", r < 7) for r in range(10) for i in range(16)]
    by_script = [AbxAnswer(f"r{i}", f"i{r}", "a", "b", r < 7) for r in range(10) for i in range(16)]
    for answers in (by_rater, by_script):
        found = abx_result("a", "b", answers)
        wide, narrow = found.share["two_way"], found.share["exact"]
        assert wide.mean == narrow.mean == 0.7
        assert wide.high - wide.low > 3 * (narrow.high - narrow.low)
        assert wide.low < 0.5


def test_abx_pairs_do_not_depend_on_the_order():
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
