"""The schema: reached from blank and from version 1, equal to the table classes, with its constraints."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import BigInteger, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, SQLModel, select

from studio.core.errors import BadFile
from studio.mos.store.database import Store
from studio.mos.store.migrations import MIGRATIONS, migrate
from studio.mos.store.tables import (
    Answer,
    Campaign,
    Choice,
    Clip,
    Item,
    Passage,
    Play,
    Rater,
    Score,
    Slot,
    Stimulus,
    System,
    Take,
    Trial,
)

_APPEND_ONLY = {
    "answer": "UPDATE answer SET counted = 0",
    "score": "UPDATE score SET value = 1",
    "choice": "UPDATE choice SET outcome = 'tie'",
    "play": "UPDATE play SET plays = 9",
}


_YOUNGER: dict[type[SQLModel], str] = {  # rows by the table classes, which have columns that the first schema lacks
    Clip: "INSERT INTO rater (id, campaign_id, identity, pseudonym, role, stage, panel, device, joined_at, seen_at, "
    "accept, use) VALUES (1, 1, 'x', 'r', 'panel', 'trials', '{}', '{}', 1.0, 1.0, 'unknown', 'unknown')",
    System: "INSERT INTO item (id, campaign_id, name, text, role) VALUES (1, 1, 'i', '', 'test')",
    Stimulus: "INSERT INTO trial (id, campaign_id, rater_id, position, role, unit, lead, item_id, released) "
    "VALUES ('tttttttt', 1, 1, 0, 'test', 'u', 1, 1, 0)",
    Slot: "INSERT INTO answer (id, trial_id, attempt, counted, received_at, response_ms, comment, digest) "
    "VALUES (1, 'tttttttt', 1, 1, 2.0, 5.0, '', 'd')",
}


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """A plain engine, as older studios had."""
    made = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    if url.startswith("sqlite"):
        event.listen(made, "connect", lambda connection, _: connection.execute("PRAGMA foreign_keys=ON"))
    yield made
    made.dispose()


def _schema(connection: Connection) -> dict[str, object]:
    """Inspectable facts about the tables."""
    seen = inspect(connection)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in seen.get_columns(table)],
            seen.get_pk_constraint(table)["constrained_columns"],
            sorted((f["constrained_columns"], f["referred_table"]) for f in seen.get_foreign_keys(table)),
            sorted(u["column_names"] for u in seen.get_unique_constraints(table)),
            sorted(c["sqltext"] for c in seen.get_check_constraints(table)),
        )
        for table in sorted(seen.get_table_names())
    }


def _fill(session: Session) -> None:
    """One row in every table that an answer needs, by the table classes, which check nothing."""
    sha = "0" * 64
    rows: list[SQLModel] = [
        Campaign(id=1, name="c", kind="ab", seed=1, config="{}", created_at=1.0),
        System(id=1, campaign_id=1, name="s"),
        Clip(sha=sha, rate_hz=16000, samples=1),
    ]
    rows.append(
        Stimulus(
            id=1,
            campaign_id=1,
            item_id=1,
            system_id=1,
            clip_sha=sha,
            source_rate_hz=16000,
            gain_db=0.0,
            lufs_before=-23.0,
            lufs_after=-23.0,
            peak_dbfs=-3.0,
        )
    )
    rows.append(Slot(trial_id="t" * 8, slot=0, stimulus_id=1))
    rows.append(Score(answer_id=1, question="q", slot=0, value=5, low=1, high=5))
    rows.append(Choice(answer_id=1, question="preference", outcome="a"))
    rows.append(Play(answer_id=1, slot=0, plays=1, heard_ms=500.0))
    for row in rows:
        session.add(row)
        session.flush()
        if type(row) in _YOUNGER:
            session.execute(text(_YOUNGER[type(row)]))


def _join(session: Session, number: int, stage: str, consent_version: int | None) -> None:
    """One more rater, in a table that may have fewer columns than the class."""
    session.execute(
        text(
            "INSERT INTO rater (id, campaign_id, identity, pseudonym, role, stage, consent_version, panel, device, "
            "joined_at, seen_at, accept, use) VALUES (:number, 1, :name, :name, 'panel', :stage, :version, '{}', '{}', "
            "1.0, 1.0, 'unknown', 'unknown')"
        ),
        {"number": number, "name": f"r{number}", "stage": stage, "version": consent_version},
    )


def test_migrating_from_blank_is_idempotent(engine: Engine) -> None:
    with engine.begin() as connection:
        assert migrate(connection) == len(MIGRATIONS)
        first = _schema(connection)
    with engine.begin() as connection:
        assert migrate(connection) == len(MIGRATIONS)
        assert _schema(connection) == first
        versions = connection.execute(text("SELECT version FROM schema_version ORDER BY version")).scalars().all()
    assert versions == list(range(1, len(MIGRATIONS) + 1))


def test_migrating_from_the_first_schema_keeps_rows(engine: Engine, url: str) -> None:
    """The result has the same schema as a new database."""
    with engine.begin() as connection:
        assert migrate(connection, to=1) == 1
        _fill(Session(connection))
    store = Store(url)
    with store.read() as session:
        answer, score = session.get(Answer, 1), session.get(Score, (1, "q", 0))
        assert answer is not None and (answer.digest, answer.missing) == ("d", "")
        assert score is not None and score.value == 5
        trial = session.get(Trial, "t" * 8)
        assert trial is not None and trial.asked == ""
        item = session.get(Item, 1)
        assert item is not None and (item.name, item.tags) == ("i", "")
    store.close()
    with engine.begin() as connection:
        assert migrate(connection, to=1) == len(MIGRATIONS), "an older target changes nothing"
        with pytest.raises(DBAPIError, match="append-only"):
            connection.execute(text(_APPEND_ONLY["score"]))


def test_visitors_without_consent_are_migrated_away(engine: Engine, url: str) -> None:
    """Early versions stored every visitor; raters who agreed stay with all their data."""
    with engine.begin() as connection:
        migrate(connection, to=6)
        session = Session(connection)
        session.add(Campaign(id=1, name="c", kind="ab", seed=1, config="{}", created_at=1.0))
        session.flush()
        for number, (stage, version) in enumerate(
            [("consent", None), ("withdrawn", None), ("withdrawn", 1), ("done", 3)], start=1
        ):
            _join(session, number, stage, version)
            session.add(Passage(rater_id=number, stage="consent", at=2.0))
        session.flush()
    store = Store(url)
    with store.read() as session:
        assert sorted(session.exec(select(Rater.id))) == sorted(session.exec(select(Passage.rater_id))) == [3, 4]
    store.close()


def test_completed_raters_are_migrated_to_finished(engine: Engine, url: str) -> None:
    """By their last answer; raters with open screens are not."""
    with engine.begin() as connection:
        migrate(connection, to=1)
        session = Session(connection)
        _fill(session)
        session.execute(text("UPDATE rater SET stage = 'comments', consent_version = 1"))
        _join(session, 2, "trials", 1)
    store = Store(url)
    with store.read() as session:
        assert session.exec(select(Rater.finished_at).order_by(Rater.id)).all() == [2.0, None]
    store.close()


def test_migrated_takes_have_no_script_of_their_own(engine: Engine, url: str) -> None:
    """A live test's script is the campaign's; only an arena's is the typed text."""
    with engine.begin() as connection:
        migrate(connection, to=10)
        _fill(Session(connection))
        connection.execute(text("INSERT INTO take VALUES ('tttttttt', 0, 1, 1.0, '{}', 'x', 24000, 5, 1.0, 0.0)"))
    store = Store(url)
    with store.read() as session:
        assert session.exec(select(Take.script)).all() == [""]
    store.close()


def test_migrating_to_version_0_does_nothing(engine: Engine) -> None:
    """Version 0 is the blank database."""
    with engine.begin() as connection:
        assert migrate(connection, to=0) == 0
        assert inspect(connection).get_table_names() == ["schema_version"]


def test_newer_database_is_refused_and_left_alone(engine: Engine, url: str) -> None:
    with engine.begin() as connection:
        migrate(connection)
        connection.execute(text("INSERT INTO schema_version VALUES (:n)"), {"n": len(MIGRATIONS) + 1})
        before = _schema(connection)
    with pytest.raises(BadFile, match=f"schema {len(MIGRATIONS) + 1}"):
        Store(url)
    with engine.begin() as connection:
        assert _schema(connection) == before


def test_failed_migration_rolls_back(engine: Engine, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrating is one transaction, on SQLite too."""

    def half(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE half (id INTEGER)")
        connection.exec_driver_sql("CREATE TABLE half (id INTEGER)")

    monkeypatch.setattr("studio.mos.store.migrations.MIGRATIONS", (*MIGRATIONS, half))
    with pytest.raises(BadFile, match="half"):
        Store(url)
    with engine.begin() as connection:
        assert inspect(connection).get_table_names() == []


def test_schema_equals_the_table_classes(engine: Engine) -> None:
    """Order of columns, types, nullability, primary and foreign keys."""
    with engine.begin() as connection:
        migrate(connection)
        seen = inspect(connection)
        assert set(seen.get_table_names()) == {*SQLModel.metadata.tables, "schema_version"}
        for name, table in SQLModel.metadata.tables.items():
            columns = seen.get_columns(name)
            assert [(c["name"], c["nullable"]) for c in columns] == [(c.name, c.nullable) for c in table.columns], name
            for there, said in zip(columns, table.columns, strict=True):
                assert issubclass(there["type"].python_type, said.type.python_type), f"{name}.{said.name}"
                assert isinstance(there["type"], BigInteger) == isinstance(said.type, BigInteger), f"{name}.{said.name}"
            assert seen.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]
            keys = {(k["constrained_columns"][0], k["referred_table"]) for k in seen.get_foreign_keys(name)}
            assert keys == {(k.parent.name, k.column.table.name) for k in table.foreign_keys}, name


@pytest.mark.parametrize("table", list(_APPEND_ONLY))
def test_answers_are_immutable(store: Store, table: str) -> None:
    """Neither statements nor table classes may update them; deletion is for erasure."""
    store.write_now(_fill)
    with pytest.raises(DBAPIError, match=f"{table} is append-only"):
        store.write_now(lambda session: session.execute(text(_APPEND_ONLY[table])))
    store.write_now(lambda session: session.execute(text("DELETE FROM score")))


def test_ids_are_never_reused(store: Store) -> None:
    """An erased rater's token must not open the next rater's session."""

    def join(session: Session) -> int | None:
        rater = Rater(campaign_id=1, identity="x", pseudonym="r", stage="consent", joined_at=1.0, seen_at=1.0)
        session.add(rater)
        session.flush()
        return rater.id

    campaign = Campaign(id=1, name="c", kind="ab", seed=1, config="{}", created_at=1.0)
    store.write_now(lambda session: session.add(campaign))
    assert store.write_now(join) == 1
    store.write_now(lambda session: session.execute(text("DELETE FROM rater")))
    assert store.write_now(join) == 2


def _score(value: int) -> Score:
    return Score(answer_id=1, question="other", slot=0, value=value, low=1, high=5)


def _answer(attempt: int, counted: int) -> Answer:
    return Answer(
        id=50, trial_id="t" * 8, attempt=attempt, counted=counted, received_at=1.0, response_ms=1.0, digest="e"
    )


@pytest.mark.parametrize(
    "row",
    [
        lambda: _score(99),
        lambda: _score(0),
        lambda: Choice(answer_id=1, question="other", outcome="c"),
        lambda: Play(answer_id=1, slot=1, plays=-1, heard_ms=0.0),
        lambda: Play(answer_id=1, slot=1, plays=1, heard_ms=-1.0),
        lambda: Campaign(id=50, name="d", kind="ab", state="ajar", seed=1, config="{}", created_at=1.0),
        lambda: System(id=50, campaign_id=1, name="t", role="judge"),
        lambda: Item(id=50, campaign_id=1, name="t", role="joke"),
        lambda: Clip(sha="short", rate_hz=1, samples=1),
        lambda: _answer(attempt=2, counted=1),
        lambda: _answer(attempt=1, counted=0),
        lambda: Slot(trial_id="t" * 8, slot=1, stimulus_id=1, place="nowhere"),
        lambda: Rater(id=50, campaign_id=1, identity="x", pseudonym="r", stage="consent", joined_at=1.0, seen_at=1.0),
    ],
)
def test_inconsistent_row_is_refused(store: Store, row: Callable[[], SQLModel]) -> None:
    """Table classes check nothing, so the database does."""
    store.write_now(_fill)
    with pytest.raises(DBAPIError):
        store.write_now(lambda session: session.add(row()))
    store.write_now(lambda session: session.add_all([_score(3), _answer(attempt=2, counted=0)]))
