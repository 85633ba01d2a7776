"""Another studio's database is input: what no studio would have written is refused, and nothing of it comes."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from mos.world import ACR, World

from studio.commands.stimuli import read_texts
from studio.core.errors import BadFile
from studio.mos.exchange.export import write_traces
from studio.mos.exchange.other_database import merge_from
from studio.mos.rating.campaigns import find
from studio.mos.service import open_listening
from studio.mos.store.clips import ClipFolder
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Campaign

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
    "a pseudonym with a path": "UPDATE rater SET pseudonym = '../x'",
    "a stage that is none": "UPDATE rater SET stage = 'x'",
    "a device that is no JSON": "UPDATE rater SET device = 'x'",
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
def rated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another studio's data folder, with a campaign that was rated."""
    folder = tmp_path_factory.mktemp("rated")
    found = World(Store(f"sqlite:///{folder / 'studio.sqlite'}"), folder / "clips")
    found.campaign(ACR)
    sitting = found.join("P1")
    sitting.to_trials()
    sitting.finish(4)
    found.listening.close()
    return folder


@pytest.fixture
def other(rated: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(rated, tmp_path / "other"))


def changed(other: Path, *statements: str) -> str:
    """The other studio's file after somebody changed it by hand."""
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
def test_a_hostile_row_is_refused_and_nothing_comes(ours: World, other: Path, what: str) -> None:
    file = changed(other, HOSTILE[what])
    with pytest.raises(BadFile) as refused:
        merge_from(ours.listening, file)
    assert len(str(refused.value)) < 600
    assert ours.all(Campaign) == []
    assert not list(ours.listening.clips.root.glob("**/*.wav"))


def test_what_was_not_touched_comes(ours: World, other: Path) -> None:
    file = changed(other)
    (told,) = merge_from(ours.listening, file)
    assert (told.raters, told.answers) == (1, 4)


def test_a_trigger_of_the_other_database_does_not_run(ours: World, other: Path) -> None:
    evil = 'CREATE TRIGGER "a""b" AFTER INSERT ON schema_version BEGIN UPDATE campaign SET name = \'evil\'; END'
    file = changed(other, evil)
    merge_from(ours.listening, file)
    assert [c.name for c in ours.all(Campaign)] == ["first"]


def test_a_view_in_place_of_a_table_is_refused(ours: World, other: Path) -> None:
    bomb = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT 1 AS id FROM n"
    file = changed(other, "DROP TABLE deal", f"CREATE VIEW deal AS {bomb}")
    with pytest.raises(BadFile, match="the view 'deal'"):
        merge_from(ours.listening, file)


@pytest.fixture
def traced(other: Path) -> str:
    """The address of a trace that the other studio keeps."""
    return ClipFolder(other / "clips").add_trace(b"a trace")


def write_all(folder: Path, out: Path) -> None:
    listening = open_listening("", folder)
    try:
        with listening.store.read() as session:
            write_traces(session, find(session, "first"), listening.clips, out)
    finally:
        listening.close()


def test_traces_stay_in_their_folder(other: Path, traced: str, tmp_path: Path) -> None:
    """Also of a database that was changed by hand and never merged."""
    changed(other, f"UPDATE stimulus SET trace = '{traced}'", "UPDATE system SET name = '../../evil' WHERE id = 1")
    with pytest.raises(BadFile, match="leads out of the folder"):
        write_all(other, tmp_path / "deep" / "out")
    assert not list(tmp_path.glob("**/evil*"))


def test_traces_follow_no_link_out_of_their_folder(other: Path, traced: str, tmp_path: Path) -> None:
    changed(other, f"UPDATE stimulus SET trace = '{traced}'", "UPDATE system SET name = 'linked' WHERE id = 1")
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    out.mkdir()
    (out / "linked").symlink_to(elsewhere)
    with pytest.raises(BadFile, match="leads out of the folder"):
        write_all(other, out)
    assert list(elsewhere.iterdir()) == []


def test_traces_come_into_a_folder_that_is_itself_a_link(other: Path, traced: str, tmp_path: Path) -> None:
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
