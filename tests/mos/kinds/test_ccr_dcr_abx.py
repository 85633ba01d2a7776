"""Score and identification kinds on both databases: CCR, DCR and ABX."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from mos.recommended import begin, campaign, results_of, rows_of, screens, send, systems_of
from mos.world import World

from studio.mos.report.formats import html, latex, markdown


def test_a_comparison_is_turned_to_the_pair_it_was_of(world: World, tmp_path: Path) -> None:
    """Raters hear one order of two, say what they hear, and the table says it of the pair."""
    campaign(world, tmp_path, "ccr", pairs="baseline", baseline="reference", raters_per_stimulus=2)
    worth = {"osprey": -2, "reference": 0, "teal": 1}
    firsts: Counter[str] = Counter()
    for who in range(4):
        rater_session = begin(world, f"rater {who}", "ccr")
        for shown in screens(rater_session):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside is None
            assert "reference" in by_slot.values()
            firsts[by_slot[0]] += 1
            send(world, rater_session, shown, {1: worth[by_slot[1]] - worth[by_slot[0]]}, None)
    found = results_of(world, "ccr")
    table = found["tables"]["comparisons"]["quality"]
    assert [(p["a"], p["b"], p["cmos"]["two_way"]["mean"]) for p in table["pairs"]] == [
        ("osprey", "reference", -2.0),
        ("teal", "reference", 1.0),
    ]
    assert [(p["better"], p["same"], p["worse"]) for p in table["pairs"]] == [(0, 0, 8), (8, 0, 0)]
    assert firsts == {"osprey": 4, "teal": 4, "reference": 8}
    assert table["order"]["mean"] == 0.0
    rows = rows_of(world, "ccr")
    assert len(rows) == 16
    for row in rows:
        assert row["system"] == row["system_b"]
        assert row["score"] == worth[row["system_b"]] - worth[row["system_a"]]
        assert (row["slot"], row["low"], row["high"], row["plays"]) == (1, -3, 3, 2)
    for text in (html(found), latex(found), markdown(found)):
        assert "Comparison MOS" in text
        assert "0.0%" in text.replace("\\", "")


def test_a_degradation_is_that_of_a_sound_beside_its_reference(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "dcr", raters_per_stimulus=2, trials_per_sitting=6)
    worth = {"reference": 5, "osprey": 3, "teal": 2}
    for who in range(4):
        rater_session = begin(world, f"rater {who}", "dcr")
        for shown in screens(rater_session):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert (list(by_slot), beside) == ([0], "reference")
            assert [s["place"] for s in shown["trial"]["slots"]] == ["candidate", "reference"]
            send(world, rater_session, shown, {0: worth[by_slot[0]]}, None)
    found = results_of(world, "dcr")
    means = found["tables"]["questions"]["degradation"]["systems"]["two_way"]
    assert {name: (i["mean"], i["n"]) for name, i in means.items()} == {n: (float(w), 8) for n, w in worth.items()}
    for text in (html(found), latex(found), markdown(found)):
        assert "Degradation mean opinion score" in text


def test_x_is_one_of_the_two_and_the_table_says_who_found_it(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "abx", pairs="baseline", baseline="reference", raters_per_stimulus=1)
    seen: Counter[tuple[str, bool]] = Counter()
    told = {"a": 0, "b": 0}
    rng = Random(2)
    right = 0
    for who in range(4):
        rater_session = begin(world, f"rater {who}", "abx")
        for shown in screens(rater_session):
            by_slot, x = systems_of(world, shown["trial"]["trial"])
            [other] = set(by_slot.values()) - {"reference"}
            seen[other, x == "reference"] += 1
            # osprey is told from the reference every time, teal by tossing a coin
            truth = "a" if by_slot[0] == x else "b"
            said = truth if other == "osprey" else rng.choice("ab")
            told[said] += 1
            right += said == truth and other == "teal"
            send(world, rater_session, shown, {}, said)
    assert seen == {("osprey", True): 4, ("osprey", False): 4, ("teal", True): 4, ("teal", False): 4}
    found = results_of(world, "abx")
    table = found["tables"]["identity"]
    assert [(p["a"], p["b"], p["right"], p["n"]) for p in table["pairs"]] == [
        ("osprey", "reference", 8, 8),
        ("reference", "teal", right, 8),
    ]
    assert table["said"] == told and told["a"] != told["b"]
    assert table["pairs"][0]["p"] == pytest.approx(1 / 256)
    assert (table["all"]["right"], table["all"]["n"]) == (8 + right, 16)
    for row in rows_of(world, "abx"):
        assert row["question"] == "match"
        assert row["reference"] in (row["system_a"], row["system_b"])
    for text in (html(found), latex(found), markdown(found)):
        assert "ABX: share of correct answers" in text
