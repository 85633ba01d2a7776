"""Systems without a finite strength: a word and a bound, never an interval that the prior made."""

import numpy as np
import pytest
from mos.stats.bradley_terry.games import played

from studio.mos.stats.bradley_terry.fit import fit
from studio.mos.stats.bradley_terry.separation import lead, standings
from studio.mos.stats.columns import Vote, votes_from_rows
from studio.mos.stats.elo import elo_report


def elo_of(share):
    return 400 * np.log10(share / (1 - share))


def test_an_undefeated_system_has_a_bound_and_the_word():
    """One that won all of its votes was printed with an interval of some Elo to either side."""
    report = elo_report(played("c>x", "c>y", "x>y", "y>x", raters=10))
    champion = report["systems"]["c"]
    assert (champion["state"], champion["hi"]) == ("undefeated", None)
    assert champion["lo"] < champion["elo"] - 100
    others = [report["systems"][name] for name in "xy"]
    assert all(row["state"] is None and row["lo"] < row["elo"] < row["hi"] for row in others)
    assert any("c: undefeated" in note for note in report["notes"])
    assert not report["connected"] and report["reason"] is None


def test_two_systems_have_clopper_and_pearsons_bound():
    votes = played("x>y", raters=9, items=7)
    report = elo_report(votes)
    least = elo_of(0.025 ** (1 / 7))  # of seven scripts, which are fewer than raters, all of one mind
    [row] = report["differences"]
    assert row["lo"] == pytest.approx(least)
    assert row["hi"] is None and row["p"] == pytest.approx(2 * 0.5**7)
    x, y = report["systems"]["x"], report["systems"]["y"]
    assert (x["state"], y["state"]) == ("undefeated", "winless")
    assert x["lo"] - y["hi"] == pytest.approx(least)
    assert np.array(report["p_better"])[[0, 1], [1, 0]] == pytest.approx([1 - 0.5**7, 0.5**7])
    assert "which has no standard error, one minus the probability of the streak" in report["p_better_is"]
    assert "probability of the streak" not in elo_report(played("x>y", "y>x", raters=9))["p_better_is"]


def test_a_bound_counts_easy_wins_for_less():
    """Who won only against the weakest is bounded by less than who won as often against the best."""
    others = ["x>y", "x>y", "x>y", "y>x"]
    best, weakest = (elo_report(played(f"c>{rival}", *others)) for rival in "xy")
    least = {name: {(d["a"], d["b"]): d["lo"] for d in r["differences"]} for name, r in (("b", best), ("w", weakest))}
    assert least["b"]["c", "x"] == pytest.approx(elo_of(0.025 ** (1 / 6)))
    assert least["w"]["c", "y"] == pytest.approx(least["b"]["c", "x"])
    apart = weakest["systems"]["x"]["elo"] - weakest["systems"]["y"]["elo"]
    assert apart == pytest.approx(400 * np.log10(3), abs=5)
    assert least["w"]["c", "x"] == pytest.approx(least["w"]["c", "y"] - apart)


def test_a_group_that_never_lost_to_the_rest_is_bounded_together():
    report = elo_report(played("a>x", "b>y", "a>b", "b>a", "x>y", "y>x", "z>x", "x>z", "y>z", "z>y"))
    assert [report["systems"][s]["state"] for s in "abxyz"] == ["undefeated", "undefeated", None, None, None]
    by_pair = {frozenset((d["a"], d["b"])): d for d in report["differences"]}
    among = by_pair[frozenset("ab")]
    assert among["lo"] < 0 < among["hi"]  # among themselves they are compared as ever
    across = by_pair[frozenset("ax")]
    assert across["hi"] is None and across["lo"] is not None


def test_between_and_apart_have_neither():
    report = elo_report(played("a>b", "b>c"))
    assert [report["systems"][s]["state"] for s in "abc"] == ["undefeated", "between", "winless"]
    assert (report["systems"]["b"]["lo"], report["systems"]["b"]["hi"]) == (None, None)
    report = elo_report(played("a>b", "b>a", "a>b", "x>y", "y>x"))
    assert [report["systems"][s]["state"] for s in "abxy"] == [None, None, "apart", "apart"]
    assert any("never compared" in note for note in report["notes"])
    cross = [d for d in report["differences"] if len({d["a"], d["b"]} & {"a", "b"}) == 1]
    assert len(cross) == 4 and {(d["lo"], d["hi"], d["p"]) for d in cross} == {(None, None, None)}


def test_what_the_prior_made_is_said_to_be_its_own():
    votes = played("c>x", "c>y", "x>y", "y>x")
    for method in ("dsm", "posterior"):
        report = elo_report(votes, method)
        assert report["systems"]["c"]["state"] == "undefeated"
        assert any("follow from the prior" in note for note in report["notes"])
    reason = elo_report(votes, "mle")["reason"]
    assert "never lost to" in reason or "never won against" in reason


def test_votes_without_raters_count_one_by_one():
    votes = votes_from_rows([Vote("x", "y", "a")] * 40)
    found = lead(votes, standings(votes, fit(votes)), fit(votes).elo(), 0, 1)
    assert found.least == pytest.approx(elo_of(0.025 ** (1 / 40)))
