"""Preference shares: exact values, statsmodels as the oracle, clustering by rater and script."""

from dataclasses import replace

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry.strength import points
from studio.mos.stats.columns import OUTCOMES, ScoreScale, Vote, ratings_from_rows, votes_from_rows
from studio.mos.stats.means import mean_of
from studio.mos.stats.planning.population import VotePopulation, draw_votes
from studio.mos.stats.preference import pairwise_preferences, preference


def test_ties_are_shown_apart_and_half_a_win():
    rows = [("x", "y", "a"), ("y", "x", "b"), ("x", "y", "b"), ("y", "x", "tie"), ("x", "y", "both_bad")]
    found = preference(votes_from_rows([(*r, None) for r in rows]), "x", "y", "wilson")
    assert (found.wins_a, found.wins_b, found.ties, found.both_bad) == (2, 1, 1, 1)
    assert found.share.mean == pytest.approx(0.6)
    assert (found.share.n, found.share.raters) == (5, None)


@pytest.mark.parametrize(("ours", "theirs"), [("exact", "beta"), ("wilson", "wilson")])
@pytest.mark.parametrize("wins", [0, 1, 13, 20])
def test_statsmodels_agrees(ours, theirs, wins):
    votes = votes_from_rows([("x", "y", "a" if k < wins else "b", "r") for k in range(20)])
    found = preference(votes, "x", "y", ours, level=0.9).share
    assert [found.low, found.high] == pytest.approx(proportion_confint(wins, 20, alpha=0.1, method=theirs), abs=1e-9)


def said(wins, raters, items):
    """``wins(rater, item)`` of every rater on every script."""
    everybody = [(r, i) for r in range(raters) for i in range(items)]
    return votes_from_rows(Vote("x", "y", "a" if wins(r, i) else "b", f"r{r:02}", f"i{i:02}") for r, i in everybody)


def test_raters_of_one_mind_are_not_their_votes():
    one_mind = preference(said(lambda r, i: r % 3, 20, 50), "x", "y", "by_rater").share
    # 20 raters, each all one way: the error is that of 20 votes.
    assert one_mind.se == pytest.approx(np.sqrt(0.35 * 0.65 / 19))
    assert one_mind.df == 19
    assert one_mind.half_width > 4 * preference(said(lambda r, i: r % 3, 20, 50), "x", "y", "wilson").share.half_width


def test_ten_scripts_are_not_all_scripts():
    """Six scripts of ten favour x whoever listens: 1,000 votes, and the interval of ten."""
    votes = said(lambda r, i: i % 10 < 6, 20, 50)
    votes = replace(votes, item=votes.item % 10)
    both, rater = (preference(votes, "x", "y", method).share for method in ("two_way", "by_rater"))
    assert both.se == pytest.approx(np.sqrt(0.6 * 0.4 / 9), rel=0.03)
    assert (both.df, both.items) == (9, 10)
    assert both.low < 0.5 < rater.low
    found = preference(votes, "x", "y")
    assert found.p > 0.4 and preference(votes, "x", "y", "by_rater").p < 0.05


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_it_is_the_interval_of_a_mean(share):
    """Which statsmodels agrees with; only the ends of the scale are 0 and 1."""
    votes = draw_votes(VotePopulation(systems=(0, 40)), np.random.default_rng(0), 14, 30, 12)
    votes = votes.where(np.random.default_rng(1).random(len(votes)) < share)
    point = points(votes) * np.where(votes.a == 0, 1, -1) + (votes.a != 0)
    names = [(f"r{r}", f"i{i}", "x", p) for r, i, p in zip(votes.rater, votes.item, point, strict=True)]
    oracle = mean_of(ratings_from_rows(names, scale=ScoreScale(0, 1)))
    found = preference(votes, "s1", "s2").share
    assert [found.mean, found.low, found.high, found.se] == pytest.approx(
        [oracle.mean, oracle.low, oracle.high, oracle.se]
    )


def test_six_of_six_has_an_exact_interval():
    """All of one mind, however often each was asked: exactly what six votes say."""
    found = preference(said(lambda r, i: False, 6, 9), "x", "y")
    assert found.share.low == 0.0 and found.share.high == pytest.approx(1 - 0.025 ** (1 / 6))
    assert found.p == pytest.approx(2 * 0.5**6)
    few_scripts = preference(said(lambda r, i: False, 30, 3), "x", "y")
    assert few_scripts.share.high == pytest.approx(1 - 0.025 ** (1 / 3))


def test_ties_alone_are_no_certainty_either():
    votes = votes_from_rows([Vote("x", "y", "tie", f"r{r}", f"i{i}") for r in range(5) for i in range(5)])
    found = preference(votes, "x", "y")
    assert (found.share.mean, found.p) == (0.5, 1.0)
    assert found.share.high - found.share.low > 0.5


def test_p_values_are_corrected_for_all_pairs():
    votes = draw_votes(VotePopulation(systems=(-150, 0, 30, 150)), np.random.default_rng(3), 20, 60, 20)
    found = pairwise_preferences(votes)
    assert [f.p_holm for f in found] == pytest.approx(multipletests([f.p for f in found], method="holm")[1])
    assert {f.p_holm for f in pairwise_preferences(votes, "exact")} == {None}
    for f in found:
        assert (f.p < 0.05) == (not f.share.low <= 0.5 <= f.share.high)


def test_mirrored_votes_and_turned_pairs():
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 10, 40)
    mirror = replace(votes, a=votes.b, b=votes.a, outcome=np.array([1, 0, 2, 3], np.uint8)[votes.outcome])
    assert pairwise_preferences(mirror) == pairwise_preferences(votes)
    there, back = preference(votes, "s1", "s5"), preference(votes, "s5", "s1")
    assert (there.wins_a, there.wins_b) == (back.wins_b, back.wins_a)
    assert there.share.mean == pytest.approx(1 - back.share.mean)
    assert sum(p.share.n for p in pairwise_preferences(votes)) == len(votes)
    assert len(OUTCOMES) == 4


def test_the_share_stays_a_share():
    votes = votes_from_rows([("x", "y", "a", f"r{k}") for k in range(3)] + [("x", "y", "b", "r0")])
    share = preference(votes, "x", "y", "by_rater").share
    assert 0 < share.low < share.high <= 1.0 and share.items is None
    assert preference(votes.where(votes.rater == 1), "x", "y", "by_rater").share.low is None


def test_mistakes_are_named():
    votes = votes_from_rows([("x", "y", "a", None), ("z", "y", "a", None)])
    for call, said in [
        (lambda: preference(votes, "x", "q", "exact"), "no system 'q'"),
        (lambda: preference(votes, "x", "z", "exact"), "never compared"),
        (lambda: preference(votes, "x", "y"), "the votes have no raters"),
        (lambda: preference(replace(votes, rater=votes.a, raters=["x", "y", "z"]), "x", "y"), "have no scripts"),
        (lambda: preference(votes, "x", "y", "t"), "'t' is not"),
    ]:
        with pytest.raises(BadOption, match=said):
            call()
