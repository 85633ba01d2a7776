"""Assignment from the cache and from the database; quotas are filled exactly, whoever comes, leaves or comes back."""

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from mos.world import AB, ACR, RaterSession, World, items_of
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


def given_once(world: World) -> Counter[str]:
    """How many raters who count have each unit."""
    panel = {r.id for r in world.all(Rater) if r.role == "panel"}
    return Counter(t.unit for t in world.all(Trial) if t.role == "test" and not t.released and t.rater_id in panel)


def away(world: World, rater: RaterSession, seconds: float) -> None:
    """The rater was last seen so long ago."""
    then = update(Rater).where(col(Rater.id) == rater.rater_id).values(seen_at=time.time() - seconds)
    world.store.write_now(lambda session: session.execute(then))


def test_a_full_campaign_says_so(world: World) -> None:
    """When every unit has its raters; it is filled exactly."""
    world.campaign(replace(ACR, raters_per_stimulus=2))
    for n in range(4):
        world.join(f"rater {n}").to_trials()
    late = world.join("late")
    told = {
        "stage": "full",
        "title": "Voices",
        "language": "en",
        "stages": ordered_stages(ACR),
        "code": None,
        "redirect": None,
    }
    assert late.joined_at == "full" and late.to_trials() == late.next() == told, "at the door, before they do anything"
    assert len(world.all(Rater)) == 4
    assert given_once(world) == dict.fromkeys(given_once(world), 2) and len(given_once(world)) == 8


def test_the_last_one_gets_what_is_left(world: World) -> None:
    """Three screens of the four that a session has."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=5))
    world.join("first").to_trials()
    assert world.join("second").to_trials()["trial"]["of"] == 3


def test_previews_are_not_counted(world: World) -> None:
    """They see what raters see, before a campaign opens too, and use nobody's place."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8), state="draft")
    for n in range(3):
        preview = world.join(f"me {n}", role="preview")
        assert preview.to_trials()["trial"]["of"] == 8
        assert len(preview.finish()) == 8
    world.set_state("open")
    assert world.join("panel").to_trials()["trial"]["of"] == 8
    assert world.join("me 0", role="preview").joined_at == "done" and world.join("me 0").joined_at == "full"


def test_thirty_raters_at_once_keep_the_quota(world: World) -> None:
    """Sixteen units for three raters each are twelve lists of four: twelve get one, eighteen are told it is full."""
    world.campaign(items=items_of(8))
    world.link()
    stages_met: list[str] = []

    def come(n: int) -> None:
        stages_met.append(world.join(f"rater {n}").to_trials()["stage"])

    threads = [threading.Thread(target=come, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(stages_met) == {"trials": 12, "full": 18}
    assert sorted(given_once(world).values()) == [3] * 16
    for rater in world.all(Rater):
        mine = [t.item_id for t in world.all(Trial) if t.rater_id == rater.id]
        assert len(set(mine)) == len(mine), "no script twice"


def test_the_sides_of_a_pair_are_balanced(world: World) -> None:
    """Over raters who follow each other, each system leads a pair as often as the other, within one."""
    world.campaign(replace(AB, raters_per_stimulus=5, trials_per_sitting=4))
    for n in range(5):
        world.join(f"rater {n}").to_trials()
    system = {s.id: s.system_id for s in world.all(Stimulus)}
    led = Counter((t.unit, system[t.lead]) for t in world.all(Trial))
    for unit in {t.unit for t in world.all(Trial)}:
        counts = [n for (u, _), n in led.items() if u == unit]
        assert sorted(counts) == [2, 3]


def test_whoever_goes_away_is_replaced(world: World) -> None:
    """Open screens go to somebody else after a while; what was answered stays; a late answer is kept as well."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.answer(anna.to_trials())
    away(world, anna, IDLE_S - 60)
    assert world.join("bert").to_trials()["stage"] == "full"
    away(world, anna, IDLE_S + 60)
    assert world.join("carl").to_trials()["trial"]["of"] == 7
    assert Counter(given_once(world).values()) == {1: 8}
    late = anna.next()
    assert late["trial"]["position"] == 1, "anna goes on where she was"
    ack = anna.answer(late)
    assert ack.counted and ack.attempt == 1
    assert Counter(given_once(world).values()) == {1: 7, 2: 1}
    assert len(anna.finish()) == 6


def test_whoever_comes_back_is_not_replaced_needlessly(world: World) -> None:
    """Screens that were given up but not yet given to another count again once they are answered."""
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


def test_looking_is_being_there(world: World) -> None:
    """A rater who reloads the page has not gone away."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.to_trials()
    away(world, anna, IDLE_S + 60)
    anna.next()
    assert world.join("bert").to_trials()["stage"] == "full"


def test_who_withdraws_leaves_their_screens(world: World) -> None:
    """What was answered stays; the rest is given to others; there is no way back in."""
    world.campaign(replace(ACR, raters_per_stimulus=1, trials_per_sitting=8))
    anna = world.join("anna")
    anna.answer(anna.to_trials())
    world.listening.withdraw(anna.rater_id).result(10)
    assert anna.next()["stage"] == "withdrawn"
    assert world.join("anna").joined_at == "withdrawn"
    assert world.join("bert").to_trials()["trial"]["of"] == 7
    assert [p.data for p in world.all(Passage) if p.rater_id == anna.rater_id][-1] == '{"withdrew": true}'


def test_every_rater_has_an_order_of_their_own(world: World) -> None:
    """No two of five raters go through six scripts alike."""
    world.campaign(replace(ACR, raters_per_stimulus=9, trials_per_sitting=6), items=items_of(6))
    for n in range(5):
        world.join(f"rater {n}").to_trials()
    rows = sorted(world.all(Trial), key=lambda t: (t.rater_id, t.position))
    orders = [tuple(t.unit for t in rows[at : at + 6]) for at in range(0, 30, 6)]
    assert len(set(orders)) == 5
