"""SQLite's files under a running store: nobody takes the log away unnoticed, and nothing acknowledged is lost."""

import errno
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from mos.held import keep, names

from studio.core.errors import NotStored
from studio.mos.store.database import Store
from studio.mos.store.sqlite_files import SqliteFiles

_ANOTHER_PROCESS = """
import sys
from studio.mos.store.database import Store
from studio.mos.store.sqlite_files import SqliteFiles
store = Store(sys.argv[1])
with store.read():
    pass
store.close()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "studio.sqlite"


@pytest.fixture
def address(file: Path) -> str:
    return f"sqlite:///{file}"


def log_of(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


def read_it(file: Path) -> None:
    """What a careless route once did in the server: every POSIX lock of this process on the file ends with it."""
    assert file.read_bytes()


@pytest.mark.parametrize("command", ["studio", "sqlite3"])
def test_a_careless_read_and_a_command_take_no_answer_away(file: Path, address: str, command: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    read_it(file)
    if command == "studio":
        subprocess.run([sys.executable, "-c", _ANOTHER_PROCESS, address], check=True)
    else:
        script = f"import sqlite3; c = sqlite3.connect({str(file)!r}); c.execute('SELECT 1 FROM secret'); c.close()"
        subprocess.run([sys.executable, "-c", script], check=True)
    kept = ["before"]
    for n in range(5):
        try:
            kept.append(store.write_now(keep(f"n{n}")))
        except NotStored:
            continue
    store.write_now(keep("after"))
    assert {*kept, "after"} <= names(address)
    store.close()
    assert {*kept, "after"} <= names(address)
    assert not log_of(file).exists(), "the last one to leave still tidies up"


def test_a_log_that_is_gone_is_noticed_before_anything_is_acknowledged(file: Path, address: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    store.truncate_log()

    def takes_it_away(session: object) -> None:
        log_of(file).unlink()

    with pytest.raises(NotStored):
        store.write_now(takes_it_away)
    assert store.write_now(keep("after")) == "after"
    assert names(address) >= {"before", "after"}
    store.close()
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_log_that_went_between_two_writes_costs_none_of_them(file: Path, address: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    store.truncate_log()
    log_of(file).unlink()
    file.with_name(file.name + "-shm").unlink()
    assert store.write_now(keep("after")) == "after"
    assert names(address) >= {"before", "after"}
    with store.read() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM secret").scalar_one() >= 2
    store.close()


def test_without_its_file_nothing_is_acknowledged_and_with_it_again_everything(file: Path, address: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    store.truncate_log()
    away = file.rename(file.with_name("away"))
    with pytest.raises(NotStored, match="gone"):
        store.write_now(keep("lost"))
    assert not file.exists(), "no empty database takes its place"
    away.rename(file)
    assert store.write_now(keep("after")) == "after"
    assert names(address) >= {"before", "after"}
    store.close()


def test_a_disk_that_fails_for_a_moment_does_not_end_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'studio.sqlite'}")
    store.write_now(keep("before"))

    def fails(_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteFiles, "is_intact", fails)
        with pytest.raises(NotStored, match="Input/output error"):
            store.write_now(keep("meanwhile"))
    store.write_now(keep("after"))
    assert names(store.url) >= {"before", "after"}
    store.close()
