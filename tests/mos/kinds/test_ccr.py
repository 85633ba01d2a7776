"""CCR from a folder of sounds to its tables: what raters are given, and what is made of it."""

from collections import Counter
from pathlib import Path

from mos.recommended import begin, campaign, results_of, rows_of, screens, send, systems_of
from mos.world import World

from studio.mos.report.formats import html, latex, markdown


def test_a_comparison_is_turned_to_the_pair_it_was_of(world: World, tmp_path: Path) -> None:
    """Raters hear one order of two, say what they hear, and the table says it of the pair."""
    campaign(world, tmp_path, "ccr", pairs="baseline", baseline="reference", raters_per_stimulus=2)
    worth = {"osprey": -2, "reference": 0, "teal": 1}
    firsts: Counter[str] = Counter()
    for who in range(4):
        sitting = begin(world, f"rater {who}", "ccr")
        for shown in screens(sitting):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert beside is None
            assert "reference" in by_slot.values()
            firsts[by_slot[0]] += 1
            send(world, sitting, shown, {1: worth[by_slot[1]] - worth[by_slot[0]]}, None)
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
