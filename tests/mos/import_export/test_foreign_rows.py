"""Another studio's database is untrusted input: an invalid row is refused and nothing is imported."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from mos.world import ACR, World
from sqlalchemy import create_engine
from sqlmodel import Session, SQLModel

from studio.core.errors import BadFile
from studio.mos.campaign.names import read_texts
from studio.mos.import_export.export import write_traces
from studio.mos.import_export.foreign_rows import check_campaigns
from studio.mos.import_export.merge import campaigns_of, merge_from
from studio.mos.service import open_listening_tests
from studio.mos.sessions.campaigns import find_campaign
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables import Campaign, Clip, Prediction

DEEP = "[" * 5000 + "]" * 5000
HOSTILE = {
    "a name with a path": "UPDATE campaign SET name = '../../evil'",
    "a name that a spreadsheet runs": "UPDATE campaign SET name = '=cmd()'",
    "a name that is bytes": "UPDATE campaign SET name = x'ff'",
    "a kind that is none": "UPDATE campaign SET kind = 'x'",
    "a state that is none": "UPDATE campaign SET state = 'x'",
    "a seed that is text": "UPDATE campaign SET seed = 'abc'",
    "settings that are no JSON": "UPDATE campaign SET config = '{'",
    "settings that are a number": "UPDATE campaign SET config = 7",
    "settings without end": f"UPDATE campaign SET config = '{DEEP}'",
    "settings with unknown keys": "UPDATE campaign SET config = json_set(config, '$.evil', 1)",
    "settings with a number that is none": "UPDATE campaign SET config = replace(config, '\"must_listen\": 1.0', "
    '\'"must_listen": 1' + "0" * 400 + "')",
    "a page that is a script": "UPDATE campaign SET config = json_set(config, '$.completion.redirect_url', "
    "'javascript:alert(1)')",
    "a system with a path": "UPDATE system SET name = '../../../evil' WHERE id = 1",
    "a system of no role": "UPDATE system SET role = 'x'",
    "a voice that is no object": "UPDATE system SET voice = '[]'",
    "a voice without end": "UPDATE system SET voice = '{\"a\":' || replace(hex(zeroblob(4000)), '00', '[') || '}'",
    "a script with a path": "UPDATE item SET name = '/etc/cron.d/x' WHERE id = 1",
    "a script with a formula": "UPDATE item SET text = '=HYPERLINK(1)' WHERE id = 1",
    "a script with control characters": "UPDATE item SET text = char(27) || '[2J' WHERE id = 1",
    "a script of too much text": "UPDATE item SET text = hex(zeroblob(5000)) WHERE id = 1",
    "a sound that is a path": "UPDATE stimulus SET clip_sha = '../../../../etc/passwd' WHERE id = 1",
    "a trace that is a path": "UPDATE stimulus SET trace = '../../../../etc/passwd' WHERE id = 1",
    "a loudness that is none": "UPDATE stimulus SET gain_db = 9e999 WHERE id = 1",
    "a sound of another campaign": "UPDATE stimulus SET item_id = 999 WHERE id = 1",
    "a rate that is text": "UPDATE clip SET rate_hz = 'x'",
    "a predictor of too long a name": "UPDATE prediction SET predictor = hex(zeroblob(100))",
    "a predictor that is a page": "UPDATE prediction SET predictor = '<img src=x onerror=alert(1)>'",
    "a predictor that is bytes": "UPDATE prediction SET predictor = x'ff00'",
    "a predictor's formula": "UPDATE prediction SET version = '=1+1'",
    "a prediction beyond the scale": "UPDATE prediction SET mos = 99.0",
    "a prediction that is text": "UPDATE prediction SET mos = 'abc'",
    "a prediction at no time": "UPDATE prediction SET at = 9e999",
    "a pseudonym with a path": "UPDATE rater SET pseudonym = '../x'",
    "a stage that is none": "UPDATE rater SET stage = 'x'",
    "a device that is no JSON": "UPDATE rater SET device = 'x'",
    "a device with a number that is none": "UPDATE rater SET device = '{\"a\": 1e999}'",
    "a device with a number beyond 64 bits": "UPDATE rater SET device = '{\"a\": 99999999999999999999}'",
    "a device of forty levels": f"UPDATE rater SET device = '{{\"a\": {DEEP[4960:5040]}}}'",
    "a time that is none": "UPDATE rater SET joined_at = 9e999",
    "a screen with a path": "UPDATE trial SET id = '../../x' WHERE position = 0",
    "a screen of a script that is not there": "UPDATE trial SET item_id = 999",
    "a slot that is none": "UPDATE slot SET slot = 99999999999999",
    "an answer from the year a million": "UPDATE answer SET received_at = 1e15",
    "a comment of bytes": "UPDATE answer SET comment = x'fffe'",
    "text that is no text": "UPDATE answer SET comment = CAST(x'fffe' AS TEXT)",
    "a score beyond every scale": "UPDATE score SET value = 1000000",
    "what was heard that is none": "UPDATE play SET heard_ms = 'x'",
    "what was done that is no JSON": "UPDATE passage SET data = 'x'",
}


@pytest.fixture(scope="module")
def rated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another studio's data folder with a rated campaign."""
    folder = tmp_path_factory.mktemp("rated")
    found = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    found.campaign(ACR)
    rater_session = found.join("P1")
    rater_session.to_trials()
    rater_session.finish(4)
    sha = found.all(Clip)[0].sha
    said = Prediction(clip_sha=sha, weights="0" * 64, predictor="Distill-MOS 2", version="1.0+cpu", mos=3.0, at=1.0)
    found.store.write_now(lambda session: session.add(said))
    found.listening.close()
    return folder


@pytest.fixture
def other(rated_folder: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(rated_folder, tmp_path / "other"))


def changed(other: Path, *statements: str) -> str:
    """Manipulate the other studio's file."""
    file = other / "studio.sqlite"
    connection = sqlite3.connect(file)
    for (name,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        before = connection.total_changes
        connection.execute(statement)
        assert connection.total_changes > before or not statement.startswith("UPDATE"), "nothing was changed"
    connection.commit()
    connection.close()
    return str(file)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[World]:
    found = World(Store(f"sqlite:///{tmp_path / 'studio.sqlite'}"), tmp_path / "clips")
    yield found
    found.listening.close()


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_row_is_refused_and_nothing_imported(ours: World, other: Path, what: str) -> None:
    file = changed(other, HOSTILE[what])
    with pytest.raises(BadFile) as refused:
        merge_from(ours.listening, file)
    assert len(str(refused.value)) < 600
    assert ours.all(Campaign) == []
    assert not list(ours.listening.clips.root.glob("**/*.wav"))


STAYS = {"secret", "deal"}  # tables that are not imported
# A row with another parent is not part of the imported campaign, and ids are renumbered.
PARENTS = {"campaign_id", "trial_id", "answer_id", "passage.rater_id", "prediction.clip_sha", "clip.sha"}
DRAWN_ANEW = {f"{table}.id" for table in ("campaign", "system", "item", "stimulus", "rater", "answer")}
DRAWN_ANEW |= {f"{table}.id" for table in ("passage", "removal", "look")}


def test_every_column_of_every_imported_table_is_checked(rated_folder: Path, tmp_path: Path) -> None:
    """No column holds bytes; a new table has to be checked too, or be listed above."""
    file = Path(shutil.copytree(rated_folder, tmp_path / "other")) / "studio.sqlite"
    fill(file)
    engine = create_engine(f"sqlite:///{file}")
    slipped: list[str] = []
    with Session(engine) as session:
        check_campaigns(session, campaigns_of(session))
        columns = [c for name, t in SQLModel.metadata.tables.items() if name not in STAYS for c in t.columns]
        for column in columns:
            if column.name in PARENTS or str(column) in PARENTS | DRAWN_ANEW:
                continue
            table = column.table.name
            run = session.connection().exec_driver_sql
            run("PRAGMA ignore_check_constraints = ON")
            last = f'(SELECT max(rowid) FROM "{table}")'
            changes = run(f'UPDATE "{table}" SET "{column.name}" = x\'ff00\' WHERE rowid = {last}').rowcount
            assert changes == 1, f"no {table} to look at"
            try:
                check_campaigns(session, campaigns_of(session))
                slipped.append(str(column))
            except BadFile:
                pass
            session.rollback()
    engine.dispose()
    assert slipped == []


def fill(file: Path) -> None:
    """Insert a row into each table that the rated campaign leaves empty."""
    sha, first = "0" * 64, "SELECT min(id) FROM"
    changed(
        file.parent,
        f"INSERT INTO take SELECT id, 0, 1, 1.0, '{{\"strokes\": [], \"end_ms\": 1.0}}', '{sha}', 16000, 5, 1.0, 0.0, "
        "'' FROM trial LIMIT 1",
        f"INSERT INTO choice VALUES (({first} answer), 'preference', 'a')",
        f"INSERT INTO look VALUES (1, ({first} campaign), 3, 0, 'too few', 1.0)",
        f"INSERT INTO removal (campaign_id, pseudonym, answers, at) VALUES (({first} campaign), 'r1', 3, 1.0)",
    )


def test_unchanged_database_is_imported(ours: World, other: Path) -> None:
    file = changed(other)
    (report,) = merge_from(ours.listening, file)
    assert (report.raters, report.answers) == (1, 4)


def test_trigger_in_the_other_database_does_not_run(ours: World, other: Path) -> None:
    evil = 'CREATE TRIGGER "a""b" AFTER INSERT ON schema_version BEGIN UPDATE campaign SET name = \'evil\'; END'
    file = changed(other, evil)
    merge_from(ours.listening, file)
    assert [c.name for c in ours.all(Campaign)] == ["first"]


def test_view_in_place_of_a_table_is_refused(ours: World, other: Path) -> None:
    bomb = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 1 AS id FROM n"
    file = changed(other, "DROP TABLE deal", f"CREATE VIEW deal AS {bomb}")
    with pytest.raises(BadFile, match="the view 'deal'"):
        merge_from(ours.listening, file)


@pytest.fixture
def traced(other: Path) -> str:
    """The address of a trace that the other studio stores."""
    return ClipFolder(other / "clips").add_trace(b"a trace")


def write_all(folder: Path, out: Path) -> None:
    listening = open_listening_tests("", folder)
    try:
        with listening.store.read() as session:
            write_traces(session, find_campaign(session, "first"), listening.clips, out)
    finally:
        listening.close()


def test_trace_is_verified_and_bounded(ours: World, other: Path, traced: str) -> None:
    file, trace = (
        changed(other, f"UPDATE stimulus SET trace = '{traced}'"),
        ClipFolder(other / "clips").trace_path(traced),
    )
    trace.write_bytes(b"another trace")
    with pytest.raises(BadFile, match="is damaged"):
        merge_from(ours.listening, file)
    os.truncate(trace, 1 << 40)
    with pytest.raises(BadFile, match="larger than 200,000,000 bytes"):
        merge_from(ours.listening, file)
    assert ours.all(Campaign) == []
    trace.write_bytes(b"a trace")
    merge_from(ours.listening, file)
    assert ours.listening.clips.trace_path(traced).read_bytes() == b"a trace"


def test_trace_paths_stay_in_their_folder(other: Path, traced: str, tmp_path: Path) -> None:
    """Also in a database that was manipulated and never merged."""
    changed(other, f"UPDATE stimulus SET trace = '{traced}'", "UPDATE system SET name = '../../evil' WHERE id = 1")
    with pytest.raises(BadFile, match="leads out of the folder"):
        write_all(other, tmp_path / "deep" / "out")
    assert not list(tmp_path.glob("**/evil*"))


def test_trace_symlinks_do_not_leave_their_folder(other: Path, traced: str, tmp_path: Path) -> None:
    changed(other, f"UPDATE stimulus SET trace = '{traced}'", "UPDATE system SET name = 'linked' WHERE id = 1")
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    out.mkdir()
    (out / "linked").symlink_to(elsewhere)
    with pytest.raises(BadFile, match="leads out of the folder"):
        write_all(other, out)
    assert list(elsewhere.iterdir()) == []


def test_trace_folder_may_be_a_symlink(other: Path, traced: str, tmp_path: Path) -> None:
    changed(other, f"UPDATE stimulus SET trace = '{traced}'")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_all(other, tmp_path / "link")
    assert len(list((tmp_path / "there").glob("*/*.trace"))) == 8


@pytest.mark.parametrize("name", ["../../evil", "/etc/x", "=cmd", "a/b"])
def test_texts_name_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "texts.txt").write_text(f"{name}|Good morning.\n", encoding="utf-8")
    with pytest.raises(BadFile, match="line 1 of texts"):
        read_texts(tmp_path / "texts.txt")
