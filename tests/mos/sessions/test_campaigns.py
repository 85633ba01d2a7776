"""Campaigns: created as a whole or not at all, found by name, opened and closed."""

import json
from dataclasses import replace

import pytest
from mos.world import AB, ACR, ItemSpec, SystemSpec, World, items_of
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from studio.core.errors import BadFile, BadOption
from studio.mos.campaign.config import from_json, load_template, to_json
from studio.mos.campaign.names import check_name
from studio.mos.sessions.campaigns import add_stimuli, create_campaign, find_campaign, load_campaign, set_state
from studio.mos.store.tables import Campaign, Clip, Item, Stimulus, System


def test_created_campaign_reads_back_unchanged(world: World) -> None:
    """Systems, scripts, sounds, settings and seed."""
    items = [*items_of(3), *items_of(1, "training"), *items_of(2, "trap"), *items_of(1, "gold")]
    world.campaign(items=items, state="draft", seed=2**40)
    with world.store.read() as session:
        run = load_campaign(session, find_campaign(session, "first"))
        texts = {i.id: i.text for i in session.query(Item)}
    assert run.config == ACR == from_json(to_json(ACR))
    assert run.seed == 2**40
    assert (len(run.units), len(run.training), len(run.traps), len(run.golds)) == (6, 2, 4, 2)
    assert run.texts == texts
    ids = [s for unit in (*run.units, *run.training, *run.traps, *run.golds) for s in unit.stimuli]
    assert sorted(ids) == sorted(s.id for s in world.all(Stimulus))


def test_untranslated_test_is_neither_created_nor_opened(world: World) -> None:
    """Neither a new one nor an older draft."""
    ours = replace(ACR, texts=load_template("ccr").texts)
    german = replace(ours, texts=replace(ours.texts, language="de"))
    with pytest.raises(BadOption, match="consent in English"):
        world.campaign(german, state="draft")
    world.campaign(ours, state="draft")
    said = json.dumps(to_json(german))
    world.store.write_now(lambda s: s.connection().execute(update(Campaign).values(config=said)).rowcount)
    with pytest.raises(BadOption, match="consent in English"):
        world.set_state("open")


def test_check_may_be_spoken_by_one_system_only(world: World) -> None:
    """A trap by one voice, in a test of pairs of other voices."""
    systems = [SystemSpec("one"), SystemSpec("two"), SystemSpec("announcer", "anchor")]
    items = [*items_of(2), ItemSpec("listen", "Choose one.", "trap", "1")]
    sounds = {(i.name, s.name): world.clip(i.name, s.name) for i in items_of(2) for s in systems[:2]}
    sounds["listen", "announcer"] = world.clip("listen", "announcer")
    config = replace(ACR, gates=replace(ACR.gates, traps=1))

    def make(session: Session) -> int:
        return create_campaign(session, "traps", config, systems, items, sounds)

    world.store.write_now(make)
    run = world.read(load_campaign, "traps")
    assert len(run.units) == 4 and len(run.traps) == 1


@pytest.mark.parametrize(
    ("config", "systems", "items", "error"),
    [
        (replace(ACR, questions=[]), ("one", "two"), 2, BadOption),
        (replace(ACR, kind="nothing"), ("one", "two"), 2, BadOption),
        (AB, ("one",), 2, BadOption),
        (replace(AB, pairs="baseline", baseline="three"), ("one", "two"), 2, BadOption),
        (ACR, ("one", "two"), 0, BadFile),
        (ACR, ("=cmd()",), 2, BadOption),
    ],
)
def test_invalid_campaign_is_not_created(
    world: World, config: object, systems: tuple[str, ...], items: int, error: type[Exception]
) -> None:
    """Nothing of it is left in the database."""
    with pytest.raises(error):
        world.campaign(config, systems=[SystemSpec(s) for s in systems], items=items_of(items))  # type: ignore[arg-type]
    assert all(world.all(table) == [] for table in (Campaign, System, Item, Stimulus, Clip))


def test_duplicate_sound_is_refused(world: World) -> None:
    """One clip per script and system."""
    sounds = {("a", "one"): world.clip("a", "one")}

    def twice(session: Session) -> None:
        number = create_campaign(session, "c", ACR, [SystemSpec("one")], [ItemSpec("a")], sounds)
        add_stimuli(session, number, [], [], sounds)

    with pytest.raises(IntegrityError):
        world.store.write_now(twice)
    assert world.all(Campaign) == []


def test_campaigns_share_clips_and_nothing_else(world: World) -> None:
    """The clip exists once in the folder and once in the table."""
    world.campaign()
    world.campaign(name="second")
    assert len(world.all(Clip)) == 8 and len(world.all(Stimulus)) == 16
    with world.store.read() as session:
        one, other = (load_campaign(session, find_campaign(session, name)) for name in ("first", "second"))
    assert {s for u in one.units for s in u.stimuli}.isdisjoint({s for u in other.units for s in u.stimuli})


def test_name_is_unique_and_unknown_names_list_the_existing(world: World) -> None:
    world.campaign()
    with pytest.raises(BadOption, match="exists already"):
        world.campaign()
    with world.store.read() as session, pytest.raises(BadOption, match="there are: first"):
        find_campaign(session, "fist")


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seed_beyond_the_database_range_is_refused(world: World, seed: int) -> None:
    """Before anything is created."""
    with pytest.raises(BadOption, match="seed"):
        world.campaign(seed=seed)


UNSAFE = ("", " a", "=1+1", "@x", "-x", "a\n", "a\0", "<b>", "a" * 81, "é" * 121, "a/b", "\ud800")


@pytest.mark.parametrize("name", UNSAFE)
def test_unsafe_names_are_refused(world: World, name: str) -> None:
    """A formula, markup, a path, or characters that a database cannot store."""
    with pytest.raises(BadOption):
        check_name(name)
    with world.store.read() as session, pytest.raises(BadOption):
        find_campaign(session, name)


@pytest.mark.parametrize("name", ["a", "é", "SpeakStream m=4, n=2 (S1)", "a" * 80, "9.5+x?", "teacher:slt"])
def test_names_may_hold_system_options(name: str) -> None:
    """Letters, digits and the characters used to write options."""
    check_name(name)


def test_open_close_and_reopen(world: World) -> None:
    """No other state is accepted."""
    world.campaign(state="draft")
    for state in ("open", "closed", "open"):
        world.store.write_now(lambda session, state=state: set_state(session, "first", state).id)
        assert [c.state for c in world.all(Campaign)] == [state]
    for state in ("draft", "ajar"):
        with pytest.raises(BadOption):
            world.store.write_now(lambda session, state=state: set_state(session, "first", state))
    assert [c.state for c in world.all(Campaign)] == ["open"]
