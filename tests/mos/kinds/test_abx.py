"""ABX from a folder of sounds to its tables: what raters are given, and what is made of it."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from mos.recommended import begin, campaign, results_of, rows_of, screens, send, systems_of
from mos.world import World

from studio.mos.report.formats import html, latex, markdown


def test_x_is_one_of_the_two_and_the_table_says_who_found_it(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "abx", pairs="baseline", baseline="reference", raters_per_stimulus=1)
    seen: Counter[tuple[str, bool]] = Counter()
    told = {"a": 0, "b": 0}
    rng = Random(2)
    right = 0
    for who in range(4):
        sitting = begin(world, f"rater {who}", "abx")
        for shown in screens(sitting):
            by_slot, x = systems_of(world, shown["trial"]["trial"])
            [other] = set(by_slot.values()) - {"reference"}
            seen[other, x == "reference"] += 1
            # osprey is told from the reference every time, teal by tossing a coin
            truth = "a" if by_slot[0] == x else "b"
            said = truth if other == "osprey" else rng.choice("ab")
            told[said] += 1
            right += said == truth and other == "teal"
            send(world, sitting, shown, {}, said)
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
        assert "ABX: share of X found" in text
