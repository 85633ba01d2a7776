"""Two databases made one, either of them SQLite or PostgreSQL, once and again."""

import contextlib
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mos.world import AB, ACR, ItemSpec, SystemSpec, World, items_of
from sqlalchemy import create_engine, inspect, update
from sqlmodel import Session, col, select

from studio.cli import main
from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.export_answers import export_rows
from studio.mos.import_export.merge import MergeReport, merge_from
from studio.mos.sessions.campaigns import find_campaign, load_campaign
from studio.mos.sessions.erasure import delete_rater, person_of
from studio.mos.store.database import Store
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Clip,
    Item,
    Passage,
    Play,
    Prediction,
    Rater,
    Removal,
    Score,
    Slot,
    Stimulus,
    System,
    Trial,
)

TABLES = (
    Campaign, System, Item, Clip, Stimulus, Rater, Trial, Slot, Answer, Score, Choice, Play, Passage, Removal,
)  # fmt: skip


ONLY_FILES = pytest.mark.parametrize("other", ["sqlite"], indirect=True)
BOTH_FILES = pytest.mark.parametrize(("url", "other"), [("sqlite", "sqlite")], indirect=True)
ONLY_SERVERS = pytest.mark.parametrize("other", ["postgresql"], indirect=True)


def address_of(world: World) -> str:
    """What is given to `merge`: a file, or a server's address."""
    return world.store.url.removeprefix("sqlite:///")


def bring(world: World, other: World, **how: Any) -> list[MergeReport]:
    """The other database into this one; a file's clips lie beside it, those of a server have to be named."""
    clips = other.listening.clips.root if other.store.url.startswith("postgresql") else None
    return merge_from(world.listening, address_of(other), clips, **how)


def counts(world: World) -> dict[str, int]:
    return {table.__name__: len(world.all(table)) for table in TABLES}


def rated(world: World, name: str = "first", raters: int = 2, value: Any = 4) -> list[str]:
    """Raters who go through to the end, one who stops after a screen, and a preview; answers the pseudonyms."""
    for who in range(raters):
        rater_session = world.join(f"P{who}", name)
        rater_session.to_trials()
        rater_session.finish(value)
    early = world.join("early", name)
    early.answer(early.to_trials(), value)
    preview = world.join("looker", name, role="preview")
    preview.answer(preview.to_trials(), value)
    return [r.pseudonym for r in world.all(Rater) if r.role == "panel"]


def rows_of(world: World, name: str) -> list[dict[str, Any]]:
    """The export, in an order of its own."""
    with world.store.read() as session:
        rows = list(export_rows(session, find_campaign(session, name)))
    return sorted(({k: v for k, v in r.items() if k != "campaign"} for r in rows), key=str)


@pytest.mark.parametrize(("config", "value"), [(ACR, 4), (AB, "b")])
def test_everything_comes_and_means_the_same(world: World, other: World, config: Any, value: Any) -> None:
    """Beside a campaign of ours, so that no id stays; the export is the other's own."""
    world.campaign(name="ours")
    rated(world, "ours")
    items = [*items_of(3), *items_of(1, "training"), ItemSpec("listen", "Choose.", "trap", "1")]
    gates = replace(config.gates, training=1, traps=1)
    other.campaign(replace(config, gates=gates), "theirs", items=items, seed=2**40)
    rated(other, "theirs", value=value)
    before = counts(world)
    (told,) = bring(world, other)
    assert not told.joined and (told.here, told.raters, told.systems, told.items) == ("theirs", 3, 2, 5)
    assert rows_of(world, "theirs") == rows_of(other, "theirs") != []
    after, there = counts(world), counts(other)
    previews = {t.__name__ for t in (Rater, Trial, Slot, Answer, Score, Choice, Play, Passage)}
    assert all(after[t] - before[t] == there[t] for t in ("Campaign", "System", "Item", "Stimulus"))
    assert all(0 < after[t] - before[t] < there[t] for t in previews if there[t])
    with world.store.read() as session:
        campaign = find_campaign(session, "theirs")
        keys = {u.key for u in load_campaign(session, campaign).units}
        found = session.exec(select(Trial).where(Trial.campaign_id == campaign.id, Trial.role == "test")).all()
        mine = set(session.exec(select(Stimulus.id).where(Stimulus.campaign_id == campaign.id)))
    assert {t.unit for t in found} <= keys and {t.lead for t in found} <= mine
    assert all(world.listening.clips.read(c.sha) for c in world.all(Clip))


def test_what_was_predicted_of_clips_comes_along_once(world: World, other: World) -> None:
    """Also into a campaign that is here already; what is known here stays as it is."""
    other.campaign()
    bring(world, other)
    for clip, mos in zip(other.all(Clip)[:2], (3.0, 4.0), strict=True):
        row = Prediction(clip_sha=clip.sha, weights="0" * 64, predictor="Fake", version="1", mos=mos, at=1.0)
        other.store.write_now(lambda session, row=row: session.add(row))
    bring(world, other)
    bring(world, other)
    assert sorted(one.mos for one in world.all(Prediction)) == [3.0, 4.0]


def test_a_second_time_adds_nothing_and_a_later_time_what_is_new(world: World, other: World) -> None:
    other.campaign()
    rated(other)
    bring(world, other)
    before = counts(world)
    (again,) = bring(world, other)
    assert again.joined and (again.raters, again.trials, again.answers) == (0, 0, 0)
    assert counts(world) == before
    late = other.join("late")
    late.to_trials()
    late.finish(2)
    early = other.join("early")
    early.answer(early.next(), 5)
    (more,) = bring(world, other)
    assert (more.raters, more.trials, more.answers) == (1, 4, 5)
    assert rows_of(world, "first") == rows_of(other, "first")


def test_the_same_campaign_of_two_studios_is_joined_and_raters_stay_apart(world: World, other: World) -> None:
    """The same people, even under the same pseudonyms, are raters of two studios."""
    for one, name in ((world, "first"), (other, "the same by another name")):
        one.campaign(name=name)
        rated(one, name)
    ours, theirs = (w.all(Rater) for w in (world, other))

    def rename(session: Any) -> None:
        for row, like in zip(session.exec(select(Rater).order_by(col(Rater.id))), ours, strict=True):
            row.pseudonym = like.pseudonym
            session.add(row)

    other.store.write_now(rename)
    (told,) = bring(world, other)
    assert told.joined and told.here == "first" and told.raters == 3 == len(theirs) - 1
    assert len(world.all(Campaign)) == 1 and len(world.all(Stimulus)) == 8
    pseudonyms = Counter(r.pseudonym for r in world.all(Rater))
    assert len(pseudonyms) == 7 and max(pseudonyms.values()) == 1
    assert len(rows_of(world, "first")) == 18
    bring(world, other)
    assert len(world.all(Rater)) == 7


@ONLY_FILES
def test_two_copies_of_one_database_that_went_on(world: World, other: World, tmp_path: Path) -> None:
    """Whoever was there before the copy is one person still; what either copy has since is kept once."""
    other.campaign()
    rater_session = other.join("P0")
    rater_session.answer(rater_session.to_trials(), 3)
    copy = tmp_path / "copy"
    copy.mkdir()
    with sqlite3.connect(address_of(other)) as source, sqlite3.connect(copy / "studio.sqlite") as target:
        source.backup(target)
    shutil.copytree(tmp_path / "other" / "clips", copy / "clips")
    twin = World(Store(f"sqlite:///{copy / 'studio.sqlite'}"), copy / "clips")
    try:
        again = twin.join("P0")
        again.answer(again.next(), 2)
        twin.join("P1").to_trials()
        other.join("P2").to_trials()
        bring(world, other)
        (told,) = bring(world, twin)
        assert told.joined and (told.raters, told.answers) == (1, 1)
        assert len(world.all(Rater)) == 3 and len(world.all(Answer)) == 2
        assert bring(world, twin)[0].to_dict() == {
            **told.to_dict(), "raters": 0, "trials": 0, "answers": 0,
        }  # fmt: skip
    finally:
        twin.listening.close()


def test_a_dry_run_tells_the_same_and_changes_nothing(world: World, other: World) -> None:
    other.campaign()
    rated(other)
    before = counts(world)
    told = bring(world, other, dry=True)
    assert counts(world) == before and not any(world.listening.clips.root.glob("*/*"))
    assert told == bring(world, other)


def test_another_campaign_of_the_same_name_gets_one_of_its_own(world: World, other: World) -> None:
    """And an open one comes closed: its links there are no links here."""
    world.campaign(name="first")
    other.campaign(name="first", seed=8)
    other.campaign(name="draft", state="draft", seed=9)
    first, _ = bring(world, other)
    assert first.here == "first (2)" and len(first.notes) == 2
    assert {c.name: c.state for c in world.all(Campaign)} == {"first": "open", "first (2)": "closed", "draft": "draft"}
    assert bring(world, other)[0].here == "first (2)"
    (only,) = bring(world, other, only="draft")
    assert only.here == "draft" and only.joined
    with pytest.raises(BadOption, match=r"no campaign is called 'none'; there are: first, draft"):
        bring(world, other, only="none")


def test_who_was_forgotten_stays_forgotten(world: World, other: World) -> None:
    """Forgotten here, they do not come back; forgotten there, they go here too where that is accepted, and once."""
    other.campaign()
    one, two, _ = rated(other)
    bring(world, other)
    world.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    (told,) = bring(world, other)
    assert told.raters == 0 and one in told.notes[0]
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), two))
    assert bring(world, other, accept_removals=True)[0].forgotten == 1
    again = bring(world, other, accept_removals=True)[0]
    assert (again.forgotten, again.removals) == (0, {})
    assert Counter(r.pseudonym for r in world.all(Removal)) == {one: 1, two: 1}
    assert len(world.all(Rater)) == 1


@BOTH_FILES
def test_a_merge_takes_nothing_away_unasked(world: World, other: World) -> None:
    """It says whom the other studio forgot, goes on without, and forgets them when it is told to."""
    other.campaign()
    one, *_ = rated(other)
    bring(world, other)
    before = rows_of(world, "first")
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    for dry in (True, False):
        (told,) = bring(world, other, dry=dry)
        assert (told.removals, told.is_accepted, told.forgotten) == ({one: 4}, False, 0)
        assert rows_of(world, "first") == before and world.all(Removal) == []
    assert bring(world, other, dry=True, accept_removals=True)[0].removals == {one: 4}
    assert rows_of(world, "first") == before
    bring(world, other, accept_removals=True)
    assert {row["rater"] for row in before} - {row["rater"] for row in rows_of(world, "first")} == {one}
    assert rows_of(world, "first") == rows_of(other, "first")
    (here,), (there,) = world.all(Removal), other.all(Removal)
    assert (here.pseudonym, here.person, here.answers) == (there.pseudonym, there.person, 4)


@BOTH_FILES
def test_a_pseudonym_forgets_nobody(world: World, other: World) -> None:
    """They stand in every export: whoever has read one could have all of our raters removed."""
    for one in (world, other):
        one.campaign()
    ours = rated(world)
    before = rows_of(world, "first")

    def name_them(session: Session) -> None:
        here = find_campaign(session, "first").id or 0
        for who in ours:
            for person in ("", "0" * 64, person_of(who)):
                session.add(Removal(campaign_id=here, pseudonym=who, answers=0, at=2e9, person=person))

    other.store.write_now(name_them)
    (told,) = bring(world, other, accept_removals=True)
    assert told.joined and told.removals == {} and "3 removals of an older version" in told.notes[0]
    assert rows_of(world, "first") == before


@BOTH_FILES
def test_who_agrees_anew_after_a_removal_is_somebody_new(world: World, other: World) -> None:
    """Neither an old removal takes them away, nor does it keep them from coming."""
    other.campaign()
    one, *_ = rated(other)
    bring(world, other)
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    bring(world, other, accept_removals=True)
    again = other.join("P0")
    again.answer(again.to_trials(), 2)
    (told,) = bring(world, other, accept_removals=True)
    assert (told.raters, told.answers, told.removals) == (1, 1, {})
    assert bring(world, other, accept_removals=True)[0].removals == {}
    assert rows_of(world, "first") == rows_of(other, "first")


def test_nothing_is_half_merged(world: World, other: World, tmp_path: Path) -> None:
    """A clip that is nowhere, or a row that contradicts another, and nothing came at all."""
    other.campaign(name="good")
    other.campaign(name="bad", items=items_of(5), seed=3)
    rated(other, "bad")
    empty = counts(world)
    with pytest.raises(BadFile, match=r"10 clips are not in .*--from-data"):
        merge_from(world.listening, address_of(other), tmp_path / "nowhere")
    with Session(create_engine(other.store.url.replace("postgresql:", "postgresql+psycopg:"))) as session:
        first = select(Rater.id).order_by(col(Rater.id)).limit(1).scalar_subquery()
        session.exec(update(Trial).where(col(Trial.rater_id) == first).values(unit="none"))
        session.commit()
    with pytest.raises(BadFile, match="is inconsistent at the trial"):
        bring(world, other)
    assert counts(world) == empty


@ONLY_SERVERS
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_servers_database_of_something_else_is_refused_and_stays_empty(world: World, other: World) -> None:
    """A slip in its name, and its schema has no listening tests: nothing is made there."""
    with other.store.read() as session:
        session.connection().exec_driver_sql("CREATE SCHEMA stranger")
        session.commit()
    stranger = other.store.url.rpartition("%3D")[0] + "%3Dstranger"
    with pytest.raises(BadFile, match=r"holds no listening tests.*check its name and its schema"):
        merge_from(world.listening, stranger)
    with other.store.read() as session:
        assert inspect(session.connection()).get_table_names(schema="stranger") == []
    with pytest.raises(BadFile, match="cannot be opened"):
        merge_from(world.listening, other.store.url.replace("@/postgres?", "@/none?"))


@ONLY_SERVERS
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_an_older_servers_database_is_left_at_its_schema(world: World, other: World) -> None:
    """Also of a dry run: another's database is not ours to bring up to date."""
    version = "SELECT max(version) FROM schema_version"
    with other.store.read() as session:
        session.connection().exec_driver_sql("DELETE FROM schema_version WHERE version > 3")
        session.commit()
    with pytest.raises(BadFile, match=r"has schema 3.*let its owner open it once"):
        merge_from(world.listening, other.store.url, dry=True)
    with other.store.read() as session:
        assert session.connection().exec_driver_sql(version).scalar_one() == 3


def test_a_database_merged_into_itself_adds_nothing(world: World) -> None:
    world.campaign()
    rated(world)
    before = counts(world)
    (told,) = bring(world, world)
    assert told.joined and (told.raters, told.trials, told.answers, told.forgotten) == (0, 0, 0, 0)
    assert counts(world) == before


@pytest.mark.parametrize("content", [None, b"", b"not a database" * 100])
def test_what_is_no_studios_database_is_refused(world: World, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "some.sqlite"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=r"give the file studio\.sqlite"):
        merge_from(world.listening, str(file))
    assert content is None or file.read_bytes() == content


def test_systems_and_roles_come_as_they_are(world: World, other: World) -> None:
    systems = [SystemSpec("lark:slt?m=3", "test", {"m": 3}), SystemSpec("teacher:slt", "reference", {"x": "y"})]
    other.campaign(systems=systems)
    bring(world, other)
    assert [(s.name, s.role, s.voice) for s in world.all(System)] == [
        (s.name, s.role, s.voice) for s in other.all(System)
    ]


@BOTH_FILES
def test_the_command_lists_removals_before_it_takes_them(
    world: World, other: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other.campaign()
    rater_session = other.join("P0")
    rater_session.answer(rater_session.to_trials(), 3)
    bring(world, other)
    (rater,) = world.all(Rater)
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), rater.pseudonym))

    def said(*flags: str) -> str:
        command = ["studio", "campaign", "merge", address_of(other), "--data", str(tmp_path), *flags]
        monkeypatch.setattr("sys.argv", command)
        with contextlib.suppress(SystemExit):
            main()
        return capsys.readouterr().err

    first = said()
    assert f"{rater.pseudonym} was forgotten there, and stays here (answers: 1)" in first
    assert "--accept-removals" in first
    assert "would go from here" in said("--dry-run", "--accept-removals") and len(world.all(Rater)) == 1
    assert "went from here" in said("--accept-removals") and world.all(Rater) == []
