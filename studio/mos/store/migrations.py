"""Numbered migrations for SQLite and PostgreSQL, run in order; ``schema_version`` records those that ran.

A released migration is never edited; a change is a new migration. The classes of studio.mos.store.tables only read and
write the tables created here. Times are UTC seconds since 1970.
"""

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from studio.core.errors import BadFile

_TABLES = """
CREATE TABLE campaign (id {pk}, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('draft', 'open', 'closed')), seed BIGINT NOT NULL, config TEXT NOT NULL,
  created_at {real} NOT NULL);
CREATE TABLE system (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id), name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('test', 'reference', 'anchor')), voice TEXT NOT NULL,
  UNIQUE (campaign_id, name));
CREATE TABLE item (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id), name TEXT NOT NULL,
  text TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('test', 'training', 'trap', 'gold')),
  expected TEXT, UNIQUE (campaign_id, name));
CREATE TABLE clip (sha TEXT NOT NULL PRIMARY KEY CHECK (length(sha) = 64),
  rate_hz INTEGER NOT NULL CHECK (rate_hz > 0), samples BIGINT NOT NULL CHECK (samples > 0), derived_from TEXT);
CREATE TABLE stimulus (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id),
  item_id INTEGER NOT NULL REFERENCES item(id), system_id INTEGER NOT NULL REFERENCES system(id),
  clip_sha TEXT NOT NULL REFERENCES clip(sha), source_rate_hz INTEGER NOT NULL, gain_db {real} NOT NULL,
  lufs_before {real} NOT NULL, lufs_after {real} NOT NULL, peak_dbfs {real} NOT NULL CHECK (peak_dbfs <= 0),
  trace TEXT, UNIQUE (item_id, system_id));
CREATE TABLE rater (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id), identity TEXT NOT NULL,
  pseudonym TEXT NOT NULL, role TEXT NOT NULL CHECK (role IN ('panel', 'preview')), stage TEXT NOT NULL,
  consent_version INTEGER, panel TEXT NOT NULL, device TEXT NOT NULL, joined_at {real} NOT NULL,
  seen_at {real} NOT NULL, finished_at {real}, accept TEXT NOT NULL CHECK (accept IN ('ok', 'fail', 'unknown')),
  "use" TEXT NOT NULL CHECK ("use" IN ('ok', 'fail', 'unknown')), UNIQUE (campaign_id, identity));
CREATE TABLE trial (id TEXT NOT NULL PRIMARY KEY, campaign_id INTEGER NOT NULL REFERENCES campaign(id),
  rater_id INTEGER NOT NULL REFERENCES rater(id), position INTEGER NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('test', 'training', 'trap', 'gold', 'repeat')), unit TEXT NOT NULL,
  lead INTEGER NOT NULL, item_id INTEGER NOT NULL REFERENCES item(id), issued_at {real},
  released INTEGER NOT NULL CHECK (released IN (0, 1)), UNIQUE (rater_id, position));
CREATE INDEX trial_by_unit ON trial (campaign_id, unit);
CREATE TABLE slot (trial_id TEXT NOT NULL REFERENCES trial(id), slot INTEGER NOT NULL,
  stimulus_id INTEGER NOT NULL REFERENCES stimulus(id),
  place TEXT NOT NULL CHECK (place IN ('candidate', 'reference')),
  PRIMARY KEY (trial_id, slot));
CREATE TABLE answer (id {pk}, trial_id TEXT NOT NULL REFERENCES trial(id),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  counted INTEGER NOT NULL CHECK (counted IN (0, 1)), received_at {real} NOT NULL, response_ms {real} NOT NULL,
  comment TEXT NOT NULL, digest TEXT NOT NULL, UNIQUE (trial_id, attempt));
CREATE UNIQUE INDEX answer_counts_once ON answer (trial_id) WHERE counted = 1;
CREATE TABLE score (answer_id INTEGER NOT NULL REFERENCES answer(id), question TEXT NOT NULL, slot INTEGER NOT NULL,
  value INTEGER NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, PRIMARY KEY (answer_id, question, slot),
  CHECK (value BETWEEN low AND high));
CREATE TABLE choice (answer_id INTEGER NOT NULL REFERENCES answer(id), question TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('a', 'b', 'tie', 'both_bad')), PRIMARY KEY (answer_id, question));
CREATE TABLE play (answer_id INTEGER NOT NULL REFERENCES answer(id), slot INTEGER NOT NULL,
  plays INTEGER NOT NULL CHECK (plays >= 0), heard_ms {real} NOT NULL CHECK (heard_ms >= 0),
  PRIMARY KEY (answer_id, slot));
CREATE TABLE passage (id {pk}, rater_id INTEGER NOT NULL REFERENCES rater(id), stage TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('ok', 'fail', 'unknown')), at {real} NOT NULL, data TEXT NOT NULL);
CREATE INDEX passage_by_rater ON passage (rater_id);
CREATE TABLE removal (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id), pseudonym TEXT NOT NULL,
  answers INTEGER NOT NULL, at {real} NOT NULL);
CREATE TABLE secret (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)
"""

_DEALS_AND_LOOKS = """
CREATE TABLE deal (campaign_id INTEGER NOT NULL PRIMARY KEY REFERENCES campaign(id), mark TEXT NOT NULL);
CREATE TABLE look (id {pk}, campaign_id INTEGER NOT NULL REFERENCES campaign(id), raters INTEGER NOT NULL,
  met INTEGER NOT NULL CHECK (met IN (0, 1)), why TEXT NOT NULL, at {real} NOT NULL, UNIQUE (campaign_id, raters))
"""

_APPEND_ONLY = ("answer", "score", "choice", "play")


_TAKES = """
CREATE TABLE take (trial_id TEXT NOT NULL REFERENCES trial(id), slot INTEGER NOT NULL CHECK (slot IN (0, 1)),
  number INTEGER NOT NULL CHECK (number >= 1), at {real} NOT NULL, typed TEXT NOT NULL, trace TEXT NOT NULL,
  rate_hz INTEGER NOT NULL CHECK (rate_hz > 0), samples BIGINT NOT NULL CHECK (samples > 0), latency_ms {real},
  late_ms {real} NOT NULL CHECK (late_ms >= 0), PRIMARY KEY (trial_id, slot, number))
"""

_PREDICTIONS = """
CREATE TABLE prediction (clip_sha TEXT NOT NULL REFERENCES clip(sha),
  weights TEXT NOT NULL CHECK (length(weights) = 64), predictor TEXT NOT NULL, version TEXT NOT NULL,
  mos {real} NOT NULL CHECK (mos BETWEEN 1 AND 5), at {real} NOT NULL, PRIMARY KEY (clip_sha, weights))
"""


def _create(connection: Connection, statements: str) -> None:
    sqlite = connection.dialect.name == "sqlite"
    types = {  # ids are never reused: the token of an erased rater must not be valid for another
        "pk": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
        if sqlite
        else "INTEGER GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "real": "REAL" if sqlite else "DOUBLE PRECISION",
    }
    for statement in statements.split(";"):
        connection.exec_driver_sql(statement.format(**types))


def m001_tables(connection: Connection) -> None:
    """The tables of a campaign."""
    _create(connection, _TABLES)


def m002_answers_are_append_only(connection: Connection) -> None:
    """An answer is never changed; it is deleted only when its rater is erased."""
    sqlite = connection.dialect.name == "sqlite"
    if not sqlite:
        connection.exec_driver_sql(
            "CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' is append-only'; END $$"
        )
    for table in _APPEND_ONLY:
        _make_append_only(connection, table)


def _make_append_only(connection: Connection, table: str) -> None:
    act = (
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        if connection.dialect.name == "sqlite"
        else "FOR EACH ROW EXECUTE FUNCTION append_only()"
    )
    connection.exec_driver_sql(f"CREATE TRIGGER {table}_append_only BEFORE UPDATE ON {table} {act}")


def m003_deals_and_looks(connection: Connection) -> None:
    """A mark that changes when trials are assigned, released or deleted; and the looks of the stopping rule."""
    sqlite = connection.dialect.name == "sqlite"
    _create(connection, _DEALS_AND_LOOKS)
    if not sqlite:
        connection.exec_driver_sql(
            "CREATE FUNCTION mark_deal() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "INSERT INTO deal VALUES (coalesce(NEW.campaign_id, OLD.campaign_id), "
            "md5(random()::text || clock_timestamp()::text)) "
            "ON CONFLICT (campaign_id) DO UPDATE SET mark = EXCLUDED.mark; RETURN NULL; END $$"
        )
    for name, when, row in (
        ("given", "INSERT", "NEW"),
        ("given_back", "UPDATE OF released", "NEW"),
        ("deleted", "DELETE", "OLD"),
    ):
        act = (
            f"BEGIN INSERT OR REPLACE INTO deal VALUES ({row}.campaign_id, hex(randomblob(12))); END"
            if sqlite
            else "EXECUTE FUNCTION mark_deal()"
        )
        connection.exec_driver_sql(f"CREATE TRIGGER trial_{name} AFTER {when} ON trial FOR EACH ROW {act}")


def m004_takes(connection: Connection) -> None:
    """Takes of live trials."""
    _create(connection, _TAKES)
    _make_append_only(connection, "take")


def m005_predictions(connection: Connection) -> None:
    """Predicted MOS of clips."""
    _create(connection, _PREDICTIONS)


def m007_nothing_without_consent(connection: Connection) -> None:
    """Delete the rows of visitors who opened a test without consent; such rows are no longer stored."""
    without_consent = "SELECT id FROM rater WHERE consent_version IS NULL AND id NOT IN (SELECT rater_id FROM trial)"
    connection.exec_driver_sql(f"DELETE FROM passage WHERE rater_id IN ({without_consent})")
    connection.exec_driver_sql(f"DELETE FROM rater WHERE id IN ({without_consent})")


def m009_all_answers_are_a_finish(connection: Connection) -> None:
    """A rater who answered all trials has finished, with or without a comment at the end."""
    last = (
        "SELECT max(received_at) FROM answer JOIN trial ON trial.id = answer.trial_id "
        "WHERE trial.rater_id = rater.id AND answer.counted = 1"
    )
    connection.exec_driver_sql(
        f"UPDATE rater SET finished_at = ({last}) WHERE stage = 'comments' AND finished_at IS NULL"
    )


def _add_column(table: str, column: str) -> Callable[[Connection], None]:
    def add(connection: Connection) -> None:
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column}")

    return add


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    m001_tables,
    m002_answers_are_append_only,
    m003_deals_and_looks,
    m004_takes,
    m005_predictions,
    # tags of scripts, for tables by tag
    _add_column("item", "tags TEXT NOT NULL DEFAULT ''"),
    m007_nothing_without_consent,
    # why a trial was skipped
    _add_column("answer", "missing TEXT NOT NULL DEFAULT ''"),
    m009_all_answers_are_a_finish,
    # identifies an erased rater in a merge; the pseudonym is in every export, so anyone could name it
    _add_column("removal", "person TEXT NOT NULL DEFAULT ''"),
    # the order of questions that were asked one after another (P.835)
    _add_column("trial", "asked TEXT NOT NULL DEFAULT ''"),
    # a hash of the text that was typed in an arena, so that equal texts are one script
    _add_column("take", "script TEXT NOT NULL DEFAULT ''"),
    # the part of a session that a campaign is for a rater
    _add_column("rater", "part INTEGER NOT NULL DEFAULT 1"),
)


def migrate(connection: Connection, to: int | None = None) -> int:
    """Migrate a database to version ``to`` (None: the newest); returns its version.

    Raises BadFile: the database was written by a newer studio.
    """
    if not inspect(connection).has_table("schema_version"):
        connection.exec_driver_sql("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
    at = connection.execute(text("SELECT coalesce(max(version), 0) FROM schema_version")).scalar_one()
    if at > len(MIGRATIONS):
        raise BadFile(
            f"the database has schema {at}, this studio knows {len(MIGRATIONS)}", "open it with the newer studio"
        )
    for number, step in enumerate(MIGRATIONS[at : len(MIGRATIONS) if to is None else to], start=at + 1):
        step(connection)
        connection.execute(text("INSERT INTO schema_version VALUES (:number)"), {"number": number})
        at = number
    return at
