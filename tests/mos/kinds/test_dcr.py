"""DCR from a folder of sounds to its tables: what raters are given, and what is made of it."""

from pathlib import Path

from mos.recommended import begin, campaign, results_of, screens, send, systems_of
from mos.world import World

from studio.mos.report.formats import html, latex, markdown


def test_a_degradation_is_that_of_a_sound_beside_its_reference(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "dcr", raters_per_stimulus=2, trials_per_sitting=6)
    worth = {"reference": 5, "osprey": 3, "teal": 2}
    for who in range(4):
        sitting = begin(world, f"rater {who}", "dcr")
        for shown in screens(sitting):
            by_slot, beside = systems_of(world, shown["trial"]["trial"])
            assert (list(by_slot), beside) == ([0], "reference")
            assert [s["place"] for s in shown["trial"]["slots"]] == ["candidate", "reference"]
            send(world, sitting, shown, {0: worth[by_slot[0]]}, None)
    found = results_of(world, "dcr")
    means = found["tables"]["questions"]["degradation"]["systems"]["two_way"]
    assert {name: (i["mean"], i["n"]) for name, i in means.items()} == {n: (float(w), 8) for n, w in worth.items()}
    for text in (html(found), latex(found), markdown(found)):
        assert "Degradation mean opinion score" in text
