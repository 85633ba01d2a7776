"""Dealing from memory is dealing from the database: across programs, after refusals, and never when closed."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from mos.world import ACR, World, items_of

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.sessions.assignment import assign_trials, cached_counts, count_assignments
from studio.mos.sessions.campaigns import NotOpen, find_campaign, load_campaign
from studio.mos.sessions.erasure import erase_rater
from studio.mos.store.database import Store
from studio.mos.store.tables.raters import Passage, Rater
from studio.mos.store.tables.trials import Trial


def given(world: World) -> list[int]:
    """How many raters each unit was given to."""
    return sorted(Counter(t.unit for t in world.all(Trial) if t.role == "test" and not t.released).values())


def test_two_programs_keep_one_quota(world: World, url: str, tmp_path: Path) -> None:
    """Two servers deal in turn from what each remembers; the quota holds; who is forgotten is replaced."""
    world.campaign(replace(ACR, raters_per_stimulus=2))
    other = World(Store(url), tmp_path / "clips")
    try:
        stages = [(world, other)[n % 2].join(f"rater {n}").to_trials()["stage"] for n in range(5)]
        assert stages == ["trials"] * 4 + ["full"]
        assert given(world) == [2] * 8
        erase_rater(other.store, other.listening.clips, other.listening.access, "first", world.all(Rater)[0].pseudonym)
        assert world.join("another").to_trials()["stage"] == "trials"
        assert other.join("late").to_trials()["stage"] == "full"
        assert given(world) == [2] * 8
    finally:
        other.listening.close()


def test_what_was_dealt_and_then_undone_is_not_remembered(world: World) -> None:
    world.campaign(replace(ACR, raters_per_stimulus=1))
    world.join("anna").to_trials()
    bert = world.join("bert").agree()

    def deal_and_fail(session: object) -> None:
        campaign = find_campaign(session, "first")
        assert assign_trials(session, world.listening.run_of(session, campaign), session.get(Rater, bert.rater_id))
        raise BadOption("no")

    with pytest.raises(BadOption):
        world.store.write_now(deal_and_fail)
    assert bert.to_trials()["trial"]["of"] == 4
    assert given(world) == [1] * 8


def test_memory_says_what_the_database_says(world: World) -> None:
    """After deals, a withdrawal and an answer that came late."""
    world.campaign(replace(ACR, raters_per_stimulus=5))
    for n in range(4):
        rater_session = world.join(f"rater {n}")
        rater_session.answer(rater_session.to_trials())
        if n % 2:
            world.listening.withdraw(rater_session.rater_id).result(30)
        with world.store.read() as session:
            run = world.listening.run_of(session, find_campaign(session, "first"))
            assert cached_counts(session, run) == count_assignments(session, run.id)


def test_a_closed_campaign_deals_to_nobody(world: World) -> None:
    """Who joined and had not begun waits; it opens again and they go on; a preview always may."""
    world.campaign()
    early, late = world.join("early"), world.join("late")
    early.to_trials()
    late.send("consent", agreed=True, version=3)
    world.set_state("closed")
    for call in (late.next, lambda: late.send("instructions")):
        with pytest.raises(NotOpen):
            call()
    assert {t.rater_id for t in world.all(Trial)} == {early.rater_id}
    assert [p.stage for p in world.all(Passage) if p.rater_id == late.rater_id] == ["consent"]
    assert len(early.finish()) == 4
    assert world.join("me", role="preview").to_trials()["stage"] == "trials"
    world.set_state("open")
    assert late.next()["stage"] == "instructions"
    assert late.send("instructions")["stage"] == "trials"


@pytest.mark.parametrize(("gate", "role"), [("traps", "trap"), ("golds", "gold"), ("training", "training")])
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_gates_without_their_sounds_are_refused(world: World, gate: str, role: str) -> None:
    """One script by two systems makes two screens: three are more than there are."""
    three = replace(ACR, gates=replace(ACR.gates, **{gate: 3}))
    with pytest.raises(BadFile, match=f"3 {role} trials, the campaign has 2"):
        world.campaign(three, items=[*items_of(4), *items_of(1, role)])
    world.campaign(three, items=[*items_of(4), *items_of(2, role)])
    with world.store.read() as session:
        assert len(load_campaign(session, find_campaign(session, "first")).units) == 8


def test_more_repeats_than_a_session_holds_are_refused() -> None:
    with pytest.raises(BadOption, match="3 at most"):
        CampaignConfig("acr", trials_per_sitting=5, repeats=4)
