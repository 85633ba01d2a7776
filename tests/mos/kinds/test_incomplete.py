"""Systems with unequal scripts: a missing sound is an error unless the test is incomplete; then the rest is rated."""

from dataclasses import replace
from pathlib import Path

import pytest
from mos.rated import PAGE, PAIRS, rate, write_sounds
from mos.recommended import folder_of_sounds, results_of
from mos.world import SQLITE_ONLY, World

from studio.core.errors import BadFile
from studio.mos.campaign.config import CampaignConfig, Gates, load_template
from studio.mos.report.tables import markdown
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.stimuli.building import build_campaign
from studio.mos.stimuli.manifest_files import read_manifest


@SQLITE_ONLY
@pytest.mark.parametrize(("config", "units"), [(PAIRS, 3 + 3 + 1), (PAGE, 3)])
def test_what_is_there_is_rated(world: World, tmp_path: Path, config: CampaignConfig, units: int) -> None:
    """``teal`` lacks one of three scripts: two of nine pairs are missing, and a page has two systems."""
    folder = write_sounds(tmp_path / "sounds")
    (folder / "teal" / "item1.wav").unlink()
    with pytest.raises(BadFile, match="system 'teal' lacks item1") as error:
        read_manifest(folder)
    assert "incomplete = true" in error.value.do
    manifest = read_manifest(folder, incomplete=True)
    with pytest.raises(BadFile, match=r"1 sound is missing, .* script 'item1' by the system 'teal'"):
        build_campaign(world.listening, "first", config, manifest, seed=1)
    open_test = replace(config, incomplete=True, gates=Gates(level=False, side_bias=0))
    notes = build_campaign(world.listening, "first", open_test, manifest, seed=1)
    assert "incomplete: system 'teal' lacks item1" in notes
    world.set_state("open")
    with world.store.read() as session:
        run = load_campaign(session, find_campaign(session, "first"))
    assert len(run.units) == units
    assert sorted(len(unit.stimuli) for unit in run.units) == ([2] * 7 if config is PAIRS else [2, 3, 3])
    for who in ("one", "two", "three"):
        rate(world, who)
    found = results_of(world, "first")
    if config is PAIRS:
        assert {(p["a"], p["b"]): p["share"]["n"] for p in found["tables"]["choices"]["pairs"]["two_way"]} == {
            ("heron", "osprey"): 9,
            ("heron", "teal"): 6,
            ("osprey", "teal"): 6,
        }
    else:
        means = found["tables"]["questions"]["quality"]["systems"]["two_way"]
        assert {name: (i["n"], i["items"]) for name, i in means.items()} == {
            "heron": (9, 3),
            "osprey": (9, 3),
            "teal": (6, 2),
        }
        assert "scripts that both systems have" in markdown(found)


@SQLITE_ONLY
def test_the_reference_may_not_be_missing(world: World, tmp_path: Path) -> None:
    folder = folder_of_sounds(tmp_path / "sounds")
    (folder / "reference" / "item1.wav").unlink()
    config = replace(load_template("mushra"), incomplete=True)
    with pytest.raises(BadFile, match="by the system 'reference'"):
        build_campaign(world.listening, "first", config, read_manifest(folder, incomplete=True), seed=1)
