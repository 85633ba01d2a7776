"""Out again: a sound, a script, a system of a draft; a campaign with all that hangs on it, and nothing beside it."""

import pytest
from mos.world import AB, SYSTEMS, World, items_of
from sqlmodel import SQLModel

from studio.core.errors import BadFile, BadOption
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.stimuli.removal import RemovalReport, delete_campaign, remove_sounds
from studio.mos.store.tables.answers import Answer, Play, Score
from studio.mos.store.tables.campaigns import Campaign
from studio.mos.store.tables.raters import Passage, Rater, Removal
from studio.mos.store.tables.stimuli import Item, Stimulus, System
from studio.mos.store.tables.trials import AssignmentMark, Slot, Trial

OF_A_CAMPAIGN: tuple[type[SQLModel], ...] = (
    Answer, Play, Score, Campaign, Passage, Rater, Removal, Item, Stimulus, System, AssignmentMark, Slot, Trial
)  # fmt: skip


def test_a_sound_a_script_and_a_system_go_from_a_draft(world: World) -> None:
    """With whoever looked at it; what is left with no sound goes, too, and the rest runs."""
    world.campaign(state="draft")
    looker = world.join("me", role="preview")
    looker.answer(looker.to_trials())
    listening, (first, second) = world.listening, SYSTEMS
    assert remove_sounds(listening, "first", "test0", first) == RemovalReport(1, 7)
    assert not world.all(Rater) and not world.all(Trial) and not world.all(Removal)
    assert remove_sounds(listening, "first", "test1") == RemovalReport(2, 5)
    assert remove_sounds(listening, "first", "test0", second) == RemovalReport(1, 4), "the last of this script"
    assert [i.name for i in world.all(Item)] == ["test2", "test3"]
    assert remove_sounds(listening, "first", system=first) == RemovalReport(2, 2)
    assert [s.name for s in world.all(System)] == [second]
    with world.store.read() as session:
        assert len(load_campaign(session, find_campaign(session, "first")).units) == 2
    assert remove_sounds(listening, "first", system=second) == RemovalReport(2, 0)
    assert not world.all(Campaign) and not world.all(Stimulus)


def test_what_is_missing_afterwards_is_named(world: World) -> None:
    """As its owner calls it, not by the numbers of the database."""
    world.campaign(AB, state="draft")
    remove_sounds(world.listening, "first", "test0", SYSTEMS[0])
    with pytest.raises(BadFile, match="1 sound is missing, the first of the script 'test0' by the system 'zebrafinch'"):
        world.set_state("open")


def test_what_cannot_be_taken_out_is_said(world: World) -> None:
    world.campaign(state="draft")
    listening = world.listening
    for item, system, why in (
        (None, None, "nothing was named"),
        ("other", None, "no script 'other'; there are test0, test1"),
        (None, "other", "no system 'other'; there are nightjar, zebrafinch"),
    ):
        with pytest.raises(BadOption, match=why):
            remove_sounds(listening, "first", item, system)
    remove_sounds(listening, "first", "test0", SYSTEMS[0])
    with pytest.raises(BadOption, match="'zebrafinch' does not say 'test0'"):
        remove_sounds(listening, "first", "test0", SYSTEMS[0])
    world.set_state("open")
    with pytest.raises(BadOption, match="only drafts can be changed"):
        remove_sounds(listening, "first", "test1")
    assert len(world.all(Stimulus)) == 7


def test_a_campaign_goes_with_its_raters_and_no_other_one(world: World) -> None:
    for name in ("first", "second"):
        world.campaign(name=name, items=items_of(2))
        anna = world.join("anna", name)
        anna.answer(anna.to_trials())
    with pytest.raises(BadOption, match="is open, and raters are at it"):
        delete_campaign(world.listening, "first")
    world.set_state("closed")
    with pytest.raises(BadOption, match="only drafts can be changed"):
        delete_campaign(world.listening, "first", only_draft=True)
    before = {table: len(world.all(table)) for table in OF_A_CAMPAIGN}
    assert delete_campaign(world.listening, "first") == RemovalReport(4, 0, answers=1)
    after = {table: len(world.all(table)) for table in OF_A_CAMPAIGN}
    assert after == {table: count // 2 for table, count in before.items()}
    assert world.join("anna", "second").next()["stage"] == "trials"
    world.campaign(items=items_of(2))  # the name is free again
