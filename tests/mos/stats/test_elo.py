"""Elo report: format, differences, methods, missing estimates, systems without a finite strength."""

import json
from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mos.stats.games import FOUR, played
from statsmodels.stats.multitest import multipletests

from studio.core.errors import BadOption
from studio.mos.stats.bradley_terry import fit
from studio.mos.stats.columns import OUTCOMES, Vote, votes_from_rows
from studio.mos.stats.elo import elo_report, lead, standings
from studio.mos.stats.planner import VotePopulation, draw_votes

KEYS = [
    *("systems", "differences", "connected", "method", "interval", "votes", "raters", "items", "undecided", "wins"),
    *("p_better", "p_better_is", "reason", "notes"),
]
LABELS = {
    "mle": "by rater and script: standard error times t(",
    "gamma": "by rater and script: standard error times t(",
    "davidson": "by rater and script: standard error times t(",
    "dsm": "DSM-compatible: Gamma quantiles",
    "posterior": "posterior: quantiles of Gibbs draws, votes taken as independent",
}


@pytest.mark.parametrize("method", list(LABELS))
def test_report_json_format(method):
    votes = draw_votes(VotePopulation(), np.random.default_rng(0), 20, 40, 10)
    report = json.loads(json.dumps(elo_report(votes, method), allow_nan=False))
    assert list(report) == KEYS
    assert list(report["systems"]) == votes.systems
    assert all(s["lo"] < s["elo"] < s["hi"] and s["state"] is None for s in report["systems"].values())
    assert (report["votes"], report["raters"], report["items"], report["reason"]) == (800, 20, 10, None)
    assert np.sum(report["wins"]) == 800
    assert report["p_better"][6][0] > 0.99
    assert report["interval"].startswith(LABELS[method]) and report["method"] == method
    said = report["p_better_is"]
    assert ("posterior" in said) == (method == "posterior") and ("confidence" in said) == ("by rater" in LABELS[method])


def test_differences_are_reported_for_every_pair():
    """Each pair once, the better first, with the difference's own interval, narrower than two scores' combined."""
    votes = draw_votes(VotePopulation(systems=(-100, 0, 40, 200)), np.random.default_rng(1), 20, 40, 30)
    report = elo_report(votes)
    rows, systems = report["differences"], report["systems"]
    assert len({frozenset((d["a"], d["b"])) for d in rows}) == len(rows) == 6
    for d in rows:
        assert d["difference"] == pytest.approx(systems[d["a"]]["elo"] - systems[d["b"]]["elo"]) and d["difference"] > 0
        assert d["lo"] < d["difference"] < d["hi"]
        assert (d["p"] < 0.05) == (d["lo"] > 0)
    assert [d["p_holm"] for d in rows] == pytest.approx(multipletests([d["p"] for d in rows], method="holm")[1])


def test_shares_of_ties_and_their_effect_are_noted():
    votes = played("x>y", "x=y", "y>x", "x=y")
    report = elo_report(votes)
    assert report["undecided"] == {"tie": 0.5, "both_bad": 0.0}
    assert any("Davidson" in note for note in report["notes"])
    assert not any("Davidson" in note for note in elo_report(votes, "davidson")["notes"])
    assert elo_report(FOUR)["notes"] == []


def test_few_raters_and_scripts_are_noted():
    by_two = replace(FOUR, rater=np.arange(len(FOUR)) % 2, raters=["r", "q"])
    assert elo_report(by_two)["notes"] == [
        "Only 2 raters: below 5 an interval depends more on assumptions than on answers"
    ]
    on_one = replace(by_two, item=FOUR.a * 0, items=["i"])
    assert "Only 2 raters and 1 script: " in elo_report(on_one)["notes"][0]
    many = replace(FOUR, rater=np.arange(len(FOUR)) % 5, raters=[f"r{k}" for k in range(5)])
    assert elo_report(many)["notes"] == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("x", "y", "a"), ("x", "y", "a")], "y never won against"),
        ([("x", "y", "tie"), ("z", "w", "tie")], "w, z were never compared with"),
        ([("x", "y", "tie"), ("y", "z", "a"), ("z", "w", "tie")], "w, z never won against"),
    ],
)
def test_missing_estimate_is_null_with_a_reason(rows, said):
    votes = votes_from_rows([(*row, None) for row in rows])
    report = elo_report(votes, "mle")
    assert not report["connected"]
    assert {v for s in report["systems"].values() for v in s.values()} == {None}
    assert {p for row in report["p_better"] for p in row} == {None}
    assert said in report["reason"]
    with_prior = elo_report(votes, "gamma")
    assert not with_prior["connected"]
    assert all(s["elo"] is not None for s in with_prior["systems"].values())
    assert {s["state"] for s in with_prior["systems"].values()} - {None} and with_prior["notes"]


def test_no_votes_and_one_rater():
    nothing = FOUR.where(FOUR.a < 0)
    assert elo_report(nothing, "mle")["reason"] == "there are no votes"
    assert [s["elo"] for s in elo_report(nothing, "gamma")["systems"].values()] == [2000.0] * 4
    one = replace(FOUR, rater=FOUR.a * 0, raters=["r"])
    report = elo_report(one, "mle")
    assert report["systems"]["A"]["elo"] is not None
    assert report["systems"]["A"]["lo"] is None
    assert "at least two" in report["reason"]


def test_bad_arguments_are_named():
    with pytest.raises(BadOption, match="'bootstrap' is not a scoring method"):
        elo_report(FOUR, "bootstrap")


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from(OUTCOMES)), min_size=1, max_size=30))
@settings(deadline=None, max_examples=40)
def test_side_of_a_system_does_not_matter(drawn):
    rows = [(f"s{a}", f"s{(a + d) % 5}", o, None) for a, d, o in drawn]
    votes = votes_from_rows(rows, [f"s{k}" for k in range(5)])
    mirror = replace(votes, a=votes.b, b=votes.a, outcome=np.array([1, 0, 2, 3], np.uint8)[votes.outcome])
    there, here = elo_report(mirror), elo_report(votes)
    assert there["systems"].keys() == here["systems"].keys()
    for name, row in here["systems"].items():
        assert there["systems"][name] == pytest.approx(row, abs=1e-6)


def test_million_votes_take_seconds():
    votes = draw_votes(VotePopulation(systems=tuple(range(-300, 300, 20))), np.random.default_rng(0), 25_000, 40, 500)
    start = process_time()
    report = elo_report(votes, "gamma")
    assert process_time() - start < 10
    assert report["votes"] == 1_000_000


def elo_of(share):
    return 400 * np.log10(share / (1 - share))


def test_undefeated_system_has_a_bound_and_a_note():
    """A system that won all votes was once printed with a finite two-sided interval."""
    report = elo_report(played("c>x", "c>y", "x>y", "y>x", raters=10))
    champion = report["systems"]["c"]
    assert (champion["state"], champion["hi"]) == ("undefeated", None)
    assert champion["lo"] < champion["elo"] - 100
    others = [report["systems"][name] for name in "xy"]
    assert all(row["state"] is None and row["lo"] < row["elo"] < row["hi"] for row in others)
    assert any("c: undefeated" in note for note in report["notes"])
    assert not report["connected"] and report["reason"] is None


def test_two_systems_have_the_clopper_pearson_bound():
    votes = played("x>y", raters=9, items=7)
    report = elo_report(votes)
    least = elo_of(0.025 ** (1 / 7))  # seven scripts, fewer than raters, all unanimous
    [row] = report["differences"]
    assert row["lo"] == pytest.approx(least)
    assert row["hi"] is None and row["p"] == pytest.approx(2 * 0.5**7)
    x, y = report["systems"]["x"], report["systems"]["y"]
    assert (x["state"], y["state"]) == ("undefeated", "winless")
    assert x["lo"] - y["hi"] == pytest.approx(least)
    assert np.array(report["p_better"])[[0, 1], [1, 0]] == pytest.approx([1 - 0.5**7, 0.5**7])
    assert "which has no standard error, one minus the probability of the streak" in report["p_better_is"]
    assert "probability of the streak" not in elo_report(played("x>y", "y>x", raters=9))["p_better_is"]


def test_bound_weights_easy_wins_less():
    """Wins against the weakest only give a lower bound than as many against the best."""
    others = ["x>y", "x>y", "x>y", "y>x"]
    best, weakest = (elo_report(played(f"c>{rival}", *others)) for rival in "xy")
    least = {name: {(d["a"], d["b"]): d["lo"] for d in r["differences"]} for name, r in (("b", best), ("w", weakest))}
    assert least["b"]["c", "x"] == pytest.approx(elo_of(0.025 ** (1 / 6)))
    assert least["w"]["c", "y"] == pytest.approx(least["b"]["c", "x"])
    apart = weakest["systems"]["x"]["elo"] - weakest["systems"]["y"]["elo"]
    assert apart == pytest.approx(400 * np.log10(3), abs=5)
    assert least["w"]["c", "x"] == pytest.approx(least["w"]["c", "y"] - apart)


def test_group_undefeated_by_the_rest_is_bounded_together():
    report = elo_report(played("a>x", "b>y", "a>b", "b>a", "x>y", "y>x", "z>x", "x>z", "y>z", "z>y"))
    assert [report["systems"][s]["state"] for s in "abxyz"] == ["undefeated", "undefeated", None, None, None]
    by_pair = {frozenset((d["a"], d["b"])): d for d in report["differences"]}
    among = by_pair[frozenset("ab")]
    assert among["lo"] < 0 < among["hi"]  # compared with each other as usual
    across = by_pair[frozenset("ax")]
    assert across["hi"] is None and across["lo"] is not None


def test_connected_and_separated_systems_have_no_bound():
    report = elo_report(played("a>b", "b>c"))
    assert [report["systems"][s]["state"] for s in "abc"] == ["undefeated", "between", "winless"]
    assert (report["systems"]["b"]["lo"], report["systems"]["b"]["hi"]) == (None, None)
    report = elo_report(played("a>b", "b>a", "a>b", "x>y", "y>x"))
    assert [report["systems"][s]["state"] for s in "abxy"] == [None, None, "apart", "apart"]
    assert any("never compared" in note for note in report["notes"])
    cross = [d for d in report["differences"] if len({d["a"], d["b"]} & {"a", "b"}) == 1]
    assert len(cross) == 4 and {(d["lo"], d["hi"], d["p"]) for d in cross} == {(None, None, None)}


def test_prior_dependent_estimates_are_marked():
    votes = played("c>x", "c>y", "x>y", "y>x")
    for method in ("dsm", "posterior"):
        report = elo_report(votes, method)
        assert report["systems"]["c"]["state"] == "undefeated"
        assert any("follow from the prior" in note for note in report["notes"])
    reason = elo_report(votes, "mle")["reason"]
    assert "never lost to" in reason or "never won against" in reason


def test_votes_without_raters_count_individually():
    votes = votes_from_rows([Vote("x", "y", "a")] * 40)
    found = lead(votes, standings(votes, fit(votes)), fit(votes).elo(), 0, 1)
    assert found.least == pytest.approx(elo_of(0.025 ** (1 / 40)))


@pytest.mark.parametrize("method", ["dsm", "posterior"])
def test_systems_that_no_votes_connect_have_no_interval(method):
    """Two pairs that never met were compared to the tenth of an Elo, by the prior alone."""
    report = elo_report(played("a>b", "b>a", "a>b", "a>c", "c>a", "x>y", "y>x"), method)
    across = [d for d in report["differences"] if len({d["a"], d["b"]} & set("abc")) == 1]
    assert len(across) == 6 and {(d["lo"], d["hi"]) for d in across} == {(None, None)}
    by_way_of_a = next(d for d in report["differences"] if {d["a"], d["b"]} == {"b", "c"})
    assert by_way_of_a["lo"] < by_way_of_a["hi"]  # never met, but both met a
    assert report["p_better"][0][4] is None and report["p_better"][0][1] is not None
    assert [report["systems"][s]["lo"] is None for s in "abcxy"] == [False] * 3 + [True] * 2
    assert any("no interval" in note for note in report["notes"])


def test_davidson_on_ties_alone_says_so():
    """It said that there are no votes."""
    assert "every vote is a tie" in elo_report(played("x=y", "y=z"), "davidson")["reason"]
    assert "only tied with" in elo_report(played("x>y", "y>x", "y=z"), "davidson")["reason"]
    assert elo_report(FOUR.where(FOUR.a < 0), "davidson")["reason"] == "there are no votes"


def test_a_constant_script_gives_intervals_by_rater():
    votes = played("x>y", "y>x", "x>y")
    report = elo_report(replace(votes, item=votes.item * 0, items=["-"]))
    assert report["systems"]["x"]["lo"] is not None and report["interval"].startswith("by rater, for these scripts")
    assert any("for this script only" in note for note in report["notes"])


def test_unequal_raters_and_identical_rows_are_noted():
    rows = [Vote("x", "y", "ab"[k % 3 == 0], f"r{max(0, k - 20)}", f"i{k}") for k in range(40)]
    notes = elo_report(votes_from_rows(rows))["notes"]
    assert any("One rater has 52% of the answers" in note for note in notes)
    assert not any("identical" in note for note in notes)
    twice = elo_report(votes_from_rows([*rows, *rows[:3]]))
    assert twice["votes"] == 43 and any(note.startswith("3 rows are identical") for note in twice["notes"])
