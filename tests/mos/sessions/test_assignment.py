"""Assignment from the cache and from the database; quotas are filled exactly, whatever raters do."""

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from mos.world import AB, ACR, SQLITE_ONLY, RaterSession, World, items_of
from sqlalchemy import update
from sqlmodel import col

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import CampaignConfig
from studio.mos.sessions.assignment import IDLE_S, assign_trials, cached_counts, count_assignments
from studio.mos.sessions.campaigns import NotOpen, find_campaign, load_campaign
from studio.mos.sessions.erasure import erase_rater
from studio.mos.sessions.parts import ordered_stages
from studio.mos.store.database import Store
from studio.mos.store.tables import Passage, Rater, Stimulus, Trial


def given(world: World) -> list[int]:
    """How many raters each unit was assigned to."""
    return sorted(Counter(t.unit for t in world.all(Trial) if t.role == "test" and not t.released).values())


def test_two_processes_share_one_quota(world: World, url: str, tmp_path: Path) -> None:
    """Two servers assign in turn from their caches; the quota holds; an erased rater is replaced."""
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


def test_rolled_back_assignment_is_not_cached(world: World) -> None:
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


def test_cache_equals_the_database(world: World) -> None:
    """After assignments, a withdrawal and a late answer."""
    world.campaign(replace(ACR, raters_per_stimulus=5))
    for n in range(4):
        rater_session = world.join(f"rater {n}")
        rater_session.answer(rater_session.to_trials())
        if n % 2:
            world.listening.withdraw(rater_session.rater_id).result(30)
        with world.store.read() as session:
            run = world.listening.run_of(session, find_campaign(session, "first"))
            assert cached_counts(session, run) == count_assignments(session, run.id)


def test_closed_campaign_assigns_nothing(world: World) -> None:
    """A rater who has joined but not begun waits until it reopens; a preview always may."""
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
@SQLITE_ONLY
def test_gates_without_their_sounds_are_refused(world: World, gate: str, role: str) -> None:
    """One script by two systems makes two screens, fewer than three."""
    three = replace(ACR, gates=replace(ACR.gates, **{gate: 3}))
    with pytest.raises(BadFile, match=f"3 {role} trials, the campaign has 2"):
        world.campaign(three, items=[*items_of(4), *items_of(1, role)])
    world.campaign(three, items=[*items_of(4), *items_of(2, role)])
    assert len(world.read(load_campaign).units) == 8


def test_more_repeats_than_screens_are_refused() -> None:
    with pytest.raises(BadOption, match="3 at most"):
        CampaignConfig("acr", trials_per_sitting=5, repeats=4)


def given_once(world: World) -> Counter[str]:
    """How many counting raters have each unit."""
    panel = {r.id for r in world.all(Rater) if r.role == "panel"}
    return Counter(t.unit for t in world.all(Trial) if t.role == "test" and not t.released and t.rater_id in panel)


def away(world: World, rater: RaterSession, seconds: float) -> None:
    """Set when the rater was last seen."""
    then = update(Rater).where(col(Rater.id) == rater.rater_id).values(seen_at=time.time() - seconds)
    world.store.write_now(lambda session: session.execute(then))


def test_full_campaign_is_reported(world: World) -> None:
    """When every unit has exactly its raters."""
    world.campaign(replace(ACR, raters_per_stimulus=2))
    for n in range(4):
        world.join(f"rater {n}").to_trials()
    late = world.join("late")
    full = {
        "stage": "full",
        "title": "Voices",
        "language": "en",
        "stages": ordered_stages(ACR),
        "code": None,
        "redirect": None,
    }
    assert late.joined_at == "full" and late.to_trials() == late.next() == full, "on joining, before any work"
    assert len(world.all(Rater)) == 4
    assert given_once(world) == dict.fromkeys(given_once(world), 2) and len(given_once(world)) == 8


def test_last_rater_gets_the_remaining_screens(world: World) -> None:
    """Three instead of the four of a session."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=5))
    world.join("first").to_trials()
    assert world.join("second").to_trials()["trial"]["of"] == 3


def test_previews_are_not_counted(world: World) -> None:
    """They see what raters see, also before a campaign opens, and use no place."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8), state="draft")
    for n in range(3):
        preview = world.join(f"me {n}", role="preview")
        assert preview.to_trials()["trial"]["of"] == 8
        assert len(preview.finish()) == 8
    world.set_state("open")
    assert world.join("panel").to_trials()["trial"]["of"] == 8
    assert world.join("me 0", role="preview").joined_at == "done" and world.join("me 0").joined_at == "full"


def test_thirty_concurrent_raters_keep_the_quota(world: World) -> None:
    """Sixteen units for three raters each are twelve lists of four: twelve raters get one, eighteen are turned away."""
    world.campaign(items=items_of(8))
    world.link()
    stages_met: list[str] = []

    def complete_rater(n: int) -> None:
        stages_met.append(world.join(f"rater {n}").to_trials()["stage"])

    threads = [threading.Thread(target=complete_rater, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(stages_met) == {"trials": 12, "full": 18}
    assert sorted(given_once(world).values()) == [3] * 16
    for rater in world.all(Rater):
        mine = [t.item_id for t in world.all(Trial) if t.rater_id == rater.id]
        assert len(set(mine)) == len(mine), "no script twice"


def test_sides_of_a_pair_are_balanced(world: World) -> None:
    """Over consecutive raters each system leads a pair equally often, within one."""
    world.campaign(replace(AB, raters_per_stimulus=5, trials_per_sitting=4))
    for n in range(5):
        world.join(f"rater {n}").to_trials()
    system = {s.id: s.system_id for s in world.all(Stimulus)}
    led = Counter((t.unit, system[t.lead]) for t in world.all(Trial))
    for unit in {t.unit for t in world.all(Trial)}:
        counts = [n for (u, _), n in led.items() if u == unit]
        assert sorted(counts) == [2, 3]


def test_absent_rater_is_replaced(world: World) -> None:
    """Open screens are reassigned after a timeout; given answers stay; late answers are stored too."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.answer(anna.to_trials())
    away(world, anna, IDLE_S - 60)
    assert world.join("bert").to_trials()["stage"] == "full"
    away(world, anna, IDLE_S + 60)
    assert world.join("carl").to_trials()["trial"]["of"] == 7
    assert Counter(given_once(world).values()) == {1: 8}
    late = anna.next()
    assert late["trial"]["position"] == 1, "anna continues"
    ack = anna.answer(late)
    assert ack.counted and ack.attempt == 1
    assert Counter(given_once(world).values()) == {1: 7, 2: 1}
    assert len(anna.finish()) == 6


def test_absent_rater_is_replaced_after_the_clock_was_set_back(world: World) -> None:
    """Their last call is in the future then; whoever calls again is present."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.to_trials()
    away(world, anna, -86_400.0)
    anna.next()
    assert world.join("bert").to_trials()["stage"] == "full", "anna has called since"
    away(world, anna, -86_400.0)
    assert world.join("carl").to_trials()["trial"]["of"] == 8


def test_returning_rater_is_not_replaced_needlessly(world: World) -> None:
    """Released screens that were not reassigned count again once they are answered."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=2))
    anna, bert = world.join("anna"), world.join("bert")
    anna.to_trials()
    away(world, anna, IDLE_S + 60)
    bert.to_trials()
    anna.finish()
    hers, his = ({t.unit for t in world.all(Trial) if t.rater_id == r.rater_id} for r in (anna, bert))
    n = 0
    while world.join(f"rater {n}").to_trials()["stage"] != "full":
        n += 1
    taken = Counter(t.unit for t in world.all(Trial))
    assert len(taken) == 8
    assert all(count == 1 + (unit in hers & his) for unit, count in taken.items())


def test_viewing_counts_as_presence(world: World) -> None:
    """Reloading the page keeps a rater present."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.begin("anna")
    away(world, anna, IDLE_S + 60)
    anna.next()
    assert world.join("bert").to_trials()["stage"] == "full"


def test_withdrawn_rater_releases_open_screens(world: World) -> None:
    """Answers stay, open screens are reassigned, and the rater cannot return."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.answer(anna.to_trials())
    world.listening.withdraw(anna.rater_id).result(10)
    assert anna.next()["stage"] == "withdrawn"
    assert world.join("anna").joined_at == "withdrawn"
    assert world.join("bert").to_trials()["trial"]["of"] == 7
    assert [p.data for p in world.all(Passage) if p.rater_id == anna.rater_id][-1] == '{"withdrew": true}'


def test_every_rater_has_a_different_order(world: World) -> None:
    """No two of five raters get six scripts in the same order."""
    world.campaign(replace(ACR, raters_per_stimulus=9, trials_per_sitting=6), items=items_of(6))
    for n in range(5):
        world.join(f"rater {n}").to_trials()
    rows = sorted(world.all(Trial), key=lambda t: (t.rater_id, t.position))
    orders = [tuple(t.unit for t in rows[at : at + 6]) for at in range(0, 30, 6)]
    assert len(set(orders)) == 5
