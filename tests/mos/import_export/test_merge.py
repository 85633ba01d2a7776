"""Merging two databases, each SQLite or PostgreSQL, once and repeatedly."""

import contextlib
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mos.world import AB, ACR, SQLITE_ONLY, ItemSpec, SystemSpec, World, items_of
from sqlalchemy import Engine, create_engine, event, inspect, update
from sqlmodel import Session, col, select

from studio.cli import main
from studio.core.errors import BadFile, BadOption
from studio.mos.import_export.export import export_rows
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
    """The argument of `merge`: a file or a server's URL."""
    return world.store.url.removeprefix("sqlite:///")


def bring(world: World, other: World, **how: Any) -> list[MergeReport]:
    """Merge the other database into this one; a file's clips lie beside it, a server's have to be named."""
    clips = other.listening.clips.root if other.store.url.startswith("postgresql") else None
    return merge_from(world.listening, address_of(other), clips, **how)


def counts(world: World) -> dict[str, int]:
    return {table.__name__: len(world.all(table)) for table in TABLES}


def rated(world: World, name: str = "first", raters: int = 2, value: Any = 4) -> list[str]:
    """Raters who finish, one who stops after a screen, and a preview; returns the pseudonyms."""
    for who in range(raters):
        rater_session = world.begin(f"P{who}", name)
        rater_session.finish(value)
    early = world.join("early", name)
    early.answer(early.to_trials(), value)
    preview = world.join("looker", name, role="preview")
    preview.answer(preview.to_trials(), value)
    return [r.pseudonym for r in world.all(Rater) if r.role == "panel"]


def rows_of(world: World, name: str) -> list[dict[str, Any]]:
    """The export, in an order independent of ids."""
    with world.store.read() as session:
        rows = list(export_rows(session, find_campaign(session, name)))
    return sorted(({k: v for k, v in r.items() if k != "campaign"} for r in rows), key=str)


@pytest.mark.parametrize(("config", "value"), [(ACR, 4), (AB, "b")])
def test_merge_imports_everything_with_its_relations(world: World, other: World, config: Any, value: Any) -> None:
    """A local campaign exists already, so ids change; the export equals the other studio's."""
    world.campaign(name="ours")
    rated(world, "ours")
    items = [*items_of(3), *items_of(1, "training"), ItemSpec("listen", "Choose.", "trap", "1")]
    gates = replace(config.gates, training=1, traps=1)
    other.campaign(replace(config, gates=gates), "theirs", items=items, seed=2**40)
    rated(other, "theirs", value=value)
    before = counts(world)
    (report,) = bring(world, other)
    assert not report.joined and (report.here, report.raters, report.systems, report.items) == ("theirs", 3, 2, 5)
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


def test_predictions_are_imported_once(world: World, other: World) -> None:
    """Also for a campaign that exists here; local predictions stay unchanged."""
    other.campaign()
    bring(world, other)
    for clip, mos in zip(other.all(Clip)[:2], (3.0, 4.0), strict=True):
        row = Prediction(clip_sha=clip.sha, weights="0" * 64, predictor="Fake", version="1", mos=mos, at=1.0)
        other.store.write_now(lambda session, row=row: session.add(row))
    bring(world, other)
    bring(world, other)
    assert sorted(one.mos for one in world.all(Prediction)) == [3.0, 4.0]


def test_repeated_merge_adds_only_new_data(world: World, other: World) -> None:
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


def test_same_campaign_of_two_studios_is_joined_with_separate_raters(world: World, other: World) -> None:
    """Equal panel ids and even equal pseudonyms are different raters in two studios."""
    for one, name in ((world, "first"), (other, "the same by another name")):
        one.campaign(name=name)
        rated(one, name)
    ours, theirs = (w.all(Rater) for w in (world, other))

    def rename(session: Any) -> None:
        for row, like in zip(session.exec(select(Rater).order_by(col(Rater.id))), ours, strict=True):
            row.pseudonym = like.pseudonym
            session.add(row)

    other.store.write_now(rename)
    (report,) = bring(world, other)
    assert report.joined and report.here == "first" and report.raters == 3 == len(theirs) - 1
    assert len(world.all(Campaign)) == 1 and len(world.all(Stimulus)) == 8
    pseudonyms = Counter(r.pseudonym for r in world.all(Rater))
    assert len(pseudonyms) == 7 and max(pseudonyms.values()) == 1
    assert len(rows_of(world, "first")) == 18
    bring(world, other)
    assert len(world.all(Rater)) == 7


@ONLY_FILES
def test_two_diverged_copies_of_one_database_merge(world: World, other: World, tmp_path: Path) -> None:
    """A rater from before the copy stays one rater; what either copy added is stored once."""
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
        (report,) = bring(world, twin)
        assert report.joined and (report.raters, report.answers) == (1, 1)
        assert len(world.all(Rater)) == 3 and len(world.all(Answer)) == 2
        assert bring(world, twin)[0].to_dict() == {
            **report.to_dict(), "raters": 0, "trials": 0, "answers": 0,
        }  # fmt: skip
    finally:
        twin.listening.close()


def test_dry_run_reports_the_same_and_changes_nothing(world: World, other: World) -> None:
    other.campaign()
    rated(other)
    before = counts(world)
    report = bring(world, other, dry=True)
    assert counts(world) == before and not any(world.listening.clips.root.glob("*/*"))
    assert report == bring(world, other)


def test_other_campaign_of_the_same_name_is_renamed(world: World, other: World) -> None:
    """An open campaign arrives closed: its links are not valid here."""
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


def test_erased_rater_stays_erased(world: World, other: World) -> None:
    """Erased here: not imported again. Erased there: also erased here if accepted, and once."""
    other.campaign()
    one, two, _ = rated(other)
    bring(world, other)
    world.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    (report,) = bring(world, other)
    assert report.raters == 0 and one in report.notes[0]
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), two))
    assert bring(world, other, accept_removals=True)[0].forgotten == 1
    again = bring(world, other, accept_removals=True)[0]
    assert (again.forgotten, again.removals) == (0, {})
    assert Counter(r.pseudonym for r in world.all(Removal)) == {one: 1, two: 1}
    assert len(world.all(Rater)) == 1


@BOTH_FILES
def test_merge_erases_nothing_without_consent(world: World, other: World) -> None:
    """It lists whom the other studio erased, merges without erasing, and erases if accepted."""
    other.campaign()
    one, *_ = rated(other)
    bring(world, other)
    before = rows_of(world, "first")
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    for dry in (True, False):
        (report,) = bring(world, other, dry=dry)
        assert (report.removals, report.is_accepted, report.forgotten) == ({one: 4}, False, 0)
        assert rows_of(world, "first") == before and world.all(Removal) == []
    assert bring(world, other, dry=True, accept_removals=True)[0].removals == {one: 4}
    assert rows_of(world, "first") == before
    bring(world, other, accept_removals=True)
    assert {row["rater"] for row in before} - {row["rater"] for row in rows_of(world, "first")} == {one}
    assert rows_of(world, "first") == rows_of(other, "first")
    (here,), (there,) = world.all(Removal), other.all(Removal)
    assert (here.pseudonym, here.person, here.answers) == (there.pseudonym, there.person, 4)


@BOTH_FILES
def test_pseudonym_alone_erases_nobody(world: World, other: World) -> None:
    """Pseudonyms are in every export, so anybody with an export could have our raters removed."""
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
    (report,) = bring(world, other, accept_removals=True)
    assert report.joined and report.removals == {} and "3 removals of an older version" in report.notes[0]
    assert rows_of(world, "first") == before


@BOTH_FILES
def test_consent_after_an_erasure_is_a_new_rater(world: World, other: World) -> None:
    """An old erasure neither removes the new rater nor blocks the import."""
    other.campaign()
    one, *_ = rated(other)
    bring(world, other)
    other.store.write_now(lambda s: delete_rater(s, find_campaign(s, "first"), one))
    bring(world, other, accept_removals=True)
    again = other.join("P0")
    again.answer(again.to_trials(), 2)
    (report,) = bring(world, other, accept_removals=True)
    assert (report.raters, report.answers, report.removals) == (1, 1, {})
    assert bring(world, other, accept_removals=True)[0].removals == {}
    assert rows_of(world, "first") == rows_of(other, "first")


def test_failed_merge_imports_nothing(world: World, other: World, tmp_path: Path) -> None:
    """A missing clip or a contradicting row rolls back the whole merge."""
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
@SQLITE_ONLY
def test_server_database_of_another_application_is_refused_and_stays_empty(world: World, other: World) -> None:
    """A mistyped database name: no listening tests in the schema, and none are created."""
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
@SQLITE_ONLY
def test_older_server_database_keeps_its_schema(world: World, other: World) -> None:
    """Also in a dry run: another studio's database is not migrated."""
    version = "SELECT max(version) FROM schema_version"
    with other.store.read() as session:
        session.connection().exec_driver_sql("DELETE FROM schema_version WHERE version > 3")
        session.commit()
    with pytest.raises(BadFile, match=r"has schema 3.*let its owner open it once"):
        merge_from(world.listening, other.store.url, dry=True)
    with other.store.read() as session:
        assert session.connection().exec_driver_sql(version).scalar_one() == 3


def test_merging_a_database_into_itself_adds_nothing(world: World) -> None:
    world.campaign()
    rated(world)
    before = counts(world)
    (report,) = bring(world, world)
    assert report.joined and (report.raters, report.trials, report.answers, report.forgotten) == (0, 0, 0, 0)
    assert counts(world) == before


@pytest.mark.parametrize("content", [None, b"", b"not a database" * 100])
def test_file_of_another_application_is_refused(world: World, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "some.sqlite"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadFile, match=r"give the file studio\.sqlite"):
        merge_from(world.listening, str(file))
    assert content is None or file.read_bytes() == content


def test_systems_and_roles_are_imported_unchanged(world: World, other: World) -> None:
    systems = [SystemSpec("lark:slt?m=3", "test", {"m": 3}), SystemSpec("teacher:slt", "reference", {"x": "y"})]
    other.campaign(systems=systems)
    bring(world, other)
    assert [(s.name, s.role, s.voice) for s in world.all(System)] == [
        (s.name, s.role, s.voice) for s in other.all(System)
    ]


@BOTH_FILES
def test_command_lists_erasures_before_applying_them(
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


@BOTH_FILES
def test_queries_do_not_grow_with_answers(world: World, other: World) -> None:
    """Queries of each answer took hours for a database of many answers."""
    sent = list[int]()
    for number in (4, 24):
        other.campaign(replace(ACR, trials_per_sitting=number), f"of{number}", items=items_of(12), seed=number)
        rated(other, f"of{number}", raters=1)
        statements = list[str]()
        listener = (Engine, "before_cursor_execute", lambda *of, to=statements: to.append(of[2]))
        event.listen(*listener)
        bring(world, other, only=f"of{number}")
        event.remove(*listener)
        sent.append(len([one for one in statements if one.startswith("SELECT") and "answer" in one]))
    assert 0 < sent[0] == sent[1], sent
