"""Raters whose answers do not count are replaced, and what was given and what counts are told apart."""

from dataclasses import replace
from pathlib import Path

import pytest
from mos.recommended import campaign, results_of, screens, send, systems_of
from mos.world import ACR, SQLITE_ONLY, World

from studio.mos.analysis.results import overview
from studio.mos.analysis.usable import replaced_raters, unusable_raters
from studio.mos.campaign.config import Gates
from studio.mos.report.cells import answer_count
from studio.mos.report.page import html
from studio.mos.report.tables import markdown

VARIED = replace(ACR, gates=Gates(level=False, min_variance=0.1))  # 24 answers wanted, 4 per rater


def sit(world: World, who: str, *, flat: bool = False) -> int:
    """A rater answers every screen; returns their number."""
    rater = world.join(who)
    if rater.joined_at == "full":
        return 0
    shown, done = rater.to_trials(), 0
    while shown["stage"] == "trials":
        rater.answer(shown, 3 if flat else 1 + done % 5)
        shown, done = rater.next(), done + 1
    if shown["stage"] == "comments":
        rater.send("comments", comment="")
    return done


@pytest.mark.parametrize("is_on", [True, False])
def test_excluded_raters_are_replaced(world: World, is_on: bool) -> None:
    """ "24 of 24" once stood where four answers were thrown away, and the test was full."""
    world.campaign(replace(VARIED, replace_excluded=is_on))
    assert [sit(world, f"rater {n}", flat=n == 2) for n in range(6)] == [4] * 6
    found = world.read(overview)
    assert (found["answers"], found["counted"], found["wanted"], found["unusable_raters"]) == (24, 20, 24, 1)
    assert answer_count(found) == "20 of 24 (24 given)"
    assert sit(world, "seventh") == (4 if is_on else 0)
    found = world.read(overview)
    assert (found["answers"], found["counted"]) == ((28, 24) if is_on else (24, 20))
    assert sit(world, "eighth") == 0
    with world.store.read() as session:
        per_sound = {s["n"] for s in results_of(world, "first")["tables"]["questions"]["naturalness"]["stimuli"]}
        assert session is not None and (per_sound == {3}) == is_on
    for text in (html(results_of(world, "first")), markdown(results_of(world, "first"))):
        assert "24 of 24" not in text or "28 given" in text


@SQLITE_ONLY
def test_raters_in_their_session_are_not_replaced_yet(world: World) -> None:
    config = replace(ACR, gates=Gates(level=False, pace=True))
    world.campaign(config)
    rater = world.begin("quick")
    rater.answer(rater.next())  # far faster than the sound plays
    assert len(world.read(unusable_raters)) == 1 and world.read(replaced_raters) == set()
    while (shown := rater.next())["stage"] == "trials":
        rater.answer(shown)
    assert world.read(replaced_raters) == {rater.rater_id}


@SQLITE_ONLY
def test_raters_whom_the_post_screening_excludes_are_replaced(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, "mushra", raters_per_stimulus=2)
    for who, reference in (("deaf", 20), ("good", 100), ("third", 100)):
        rater = world.begin(who, "mushra")
        for shown in screens(rater):
            names = systems_of(world, shown["trial"]["trial"])[0]
            send(world, rater, shown, {s: reference if n == "reference" else 50 for s, n in names.items()}, None)
    found = results_of(world, "mushra")
    assert (found["answers"], found["counted"], found["wanted"], found["unusable_raters"]) == (12, 8, 8, 1)
    assert world.join("fourth", "mushra").joined_at == "full"
