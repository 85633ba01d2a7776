"""Deletion of a sound, script, system or campaign with its dependents, and of a rater, from the files too."""

import errno
from pathlib import Path
from typing import Any

import pytest
from mos.rated import MOS, a_world, campaign, rate
from mos.world import AB, SYSTEMS, World, items_of
from sqlmodel import SQLModel

from studio.core.errors import BadFile, BadOption
from studio.mos.sessions.campaigns import load_campaign
from studio.mos.sessions.erasure import ErasureReport, erase_rater
from studio.mos.stimuli.building import RemovalReport, delete_campaign, remove_sounds
from studio.mos.store.access import new_resume_code
from studio.mos.store.tables import (
    Answer,
    AssignmentMark,
    Campaign,
    Item,
    Passage,
    Play,
    Rater,
    Removal,
    Score,
    Slot,
    Stimulus,
    System,
    Trial,
)

OF_A_CAMPAIGN: tuple[type[SQLModel], ...] = (
    Answer, Play, Score, Campaign, Passage, Rater, Removal, Item, Stimulus, System, AssignmentMark, Slot, Trial
)  # fmt: skip


def test_sound_script_and_system_are_removed_from_a_draft(world: World) -> None:
    """Previews go too, as do entries left without a sound; the remaining draft runs."""
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
    assert len(world.read(load_campaign).units) == 2
    assert remove_sounds(listening, "first", system=second) == RemovalReport(2, 0)
    assert not world.all(Campaign) and not world.all(Stimulus)


def test_missing_sounds_are_named_afterwards(world: World) -> None:
    """By the owner's names, not database ids."""
    world.campaign(AB, state="draft")
    remove_sounds(world.listening, "first", "test0", SYSTEMS[0])
    with pytest.raises(BadFile, match="1 sound is missing, the first of the script 'test0' by the system 'zebrafinch'"):
        world.set_state("open")


def test_refused_removals(world: World) -> None:
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


def test_campaign_is_removed_with_its_raters(world: World) -> None:
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


SAID = "a sentence that only this rater ever wrote"


def on_disk(folder: Path) -> bytes:
    """The database, its log and its index."""
    return b"".join(path.read_bytes() for path in folder.glob("studio.sqlite*"))


def erase(world: World, who: str) -> ErasureReport:
    """As the command does."""
    return erase_rater(world.store, world.listening.clips, world.listening.access, "first", who)


def test_erased_rater_is_gone_from_the_files(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    campaign(world, tmp_path, MOS)
    rate(world, "somebody-5f3a", comment=SAID)
    rate(world, "another")
    assert SAID.encode() in on_disk(tmp_path) and b"somebody-5f3a" in on_disk(tmp_path)
    name = world.all(Rater)[0].pseudonym
    assert erase(world, name) == ErasureReport([name], 6, is_gone_from_files=True)
    assert SAID.encode() not in on_disk(tmp_path) and b"somebody-5f3a" not in on_disk(tmp_path)
    assert b"another" in on_disk(tmp_path)
    assert len(world.all(Removal)) == len(world.all(Rater)) == 1
    world.listening.close()


def test_erased_rater_is_gone_from_the_files_where_another_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    world = a_world(tmp_path)
    campaign(world, tmp_path, MOS)
    rate(world, "somebody-5f3a", comment=SAID)
    monkeypatch.setattr("studio.mos.sessions.erasure.sweep_takes", failing)
    with pytest.raises(PermissionError):
        erase(world, world.all(Rater)[0].pseudonym)
    assert SAID.encode() not in on_disk(tmp_path)
    world.listening.close()


def test_rater_is_erased_in_either_database(world: World, tmp_path: Path) -> None:
    campaign(world, tmp_path, MOS)
    rate(world, "one")
    assert erase(world, world.all(Rater)[0].pseudonym).answers == 6
    assert not world.all(Rater)
    with pytest.raises(BadOption, match="has no rater"):
        erase(world, "r0")


def test_rater_is_erased_by_the_id_in_the_consent(world: World, tmp_path: Path) -> None:
    """A panel id, in any campaign, or the resume code, however it is typed; and nobody else."""
    campaign(world, tmp_path, MOS)
    code = new_resume_code()
    for who, panel in (
        ("panel|s1|P1", {"PROLIFIC_PID": "P1", "STUDY_ID": "s1"}),
        ("panel|s2|P1", {"PROLIFIC_PID": "P1", "STUDY_ID": "s2"}),
        ("panel||P2", {"PROLIFIC_PID": "P2"}),
        (f"code|{code}", {}),
    ):
        world.sit(who, panel).agree()
    names = [r.pseudonym for r in world.all(Rater)]
    assert erase(world, " P1 ").pseudonyms == names[:2]
    assert erase(world, code.lower().replace("-", " ")).pseudonyms == names[3:]
    assert [r.pseudonym for r in world.all(Rater)] == [names[2]] and len(world.all(Removal)) == 3
    for unknown in ("P1", code, new_resume_code(), "", "P", "%"):
        with pytest.raises(BadOption, match="'first' has no rater with"):
            erase(world, unknown)
