"""Shares of preference: exact values, statsmodels as the oracle, and raters who are not their votes."""

from dataclasses import replace

import numpy as np
import pytest
from statsmodels.stats.proportion import proportion_confint

from studio.core.errors import BadOption
from studio.mos.stats.columns import OUTCOMES, votes_from_rows
from studio.mos.stats.population import Voters, draw_votes
from studio.mos.stats.preference import all_pairs, preference


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


def test_raters_of_one_mind_are_not_their_votes():
    one_mind = votes_from_rows([("x", "y", "a" if r % 3 else "b", f"r{r:02}") for r in range(20) for _ in range(50)])
    mixed = votes_from_rows([("x", "y", "a" if k % 3 else "b", f"r{r:02}") for r in range(20) for k in range(50)])
    by_rater = preference(one_mind, "x", "y").share
    # 20 raters, each all one way: the error is that of 20 votes (n below the line, as a bootstrap has it).
    assert by_rater.se == pytest.approx(np.sqrt(0.35 * 0.65 / 20), rel=0.06)
    assert by_rater.df == 19
    assert by_rater.half_width > 4 * preference(one_mind, "x", "y", "wilson").share.half_width
    # Raters who do not differ: their votes are all there is to go by.
    by_votes = preference(mixed, "x", "y", "exact").share
    share = preference(mixed, "x", "y").share
    assert (share.low, share.high, share.se) == (by_votes.low, by_votes.high, None)


def test_six_of_six_is_no_certainty():
    """All of one mind, however often each was asked: exactly what six votes say."""
    votes = votes_from_rows([("x", "y", "b", f"r{r}") for r in range(6) for _ in range(2)])
    share = preference(votes, "x", "y").share
    assert share.low == 0.0 and share.high == pytest.approx(1 - 0.025 ** (1 / 6))


def test_mirrored_votes_and_turned_pairs():
    votes = draw_votes(Voters(), np.random.default_rng(0), 10, 40)
    mirror = replace(votes, a=votes.b, b=votes.a, outcome=np.array([1, 0, 2, 3], np.uint8)[votes.outcome])
    assert all_pairs(mirror) == all_pairs(votes)
    there, back = preference(votes, "s1", "s5"), preference(votes, "s5", "s1")
    assert (there.wins_a, there.wins_b) == (back.wins_b, back.wins_a)
    assert there.share.mean == pytest.approx(1 - back.share.mean)
    assert sum(p.share.n for p in all_pairs(votes)) == len(votes)
    assert len(OUTCOMES) == 4


def test_the_share_stays_a_share():
    votes = votes_from_rows([("x", "y", "a", f"r{k}") for k in range(3)] + [("x", "y", "b", "r0")])
    share = preference(votes, "x", "y").share
    assert share.high == 1.0
    assert share.low is not None
    assert preference(votes.where(votes.rater == 1), "x", "y").share.low is None


def test_mistakes_are_named():
    votes = votes_from_rows([("x", "y", "a", None), ("z", "y", "a", None)])
    for call, said in [
        (lambda: preference(votes, "x", "q", "exact"), "no system 'q'"),
        (lambda: preference(votes, "x", "z", "exact"), "never compared"),
        (lambda: preference(votes, "x", "y"), "the votes have no raters"),
        (lambda: preference(votes, "x", "y", "t"), "'t' is not"),
    ]:
        with pytest.raises(BadOption, match=said):
            call()
