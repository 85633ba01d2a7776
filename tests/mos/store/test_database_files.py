"""Database files: a removed log is noticed; closing, killing and failing to open a store."""

import errno
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from mos.world import hold, keep, names
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import select

from studio.core.errors import BadFile, BadOption, Closed, NotStored, Unavailable
from studio.mos.store import database
from studio.mos.store.database import Store
from studio.mos.store.problems import database_problem
from studio.mos.store.sqlite_files import SqliteFiles
from studio.mos.store.tables import Secret

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
    """What a careless route once did: closing the file releases all of this process's POSIX locks on it."""
    assert file.read_bytes()


@pytest.mark.parametrize("command", ["studio", "sqlite3"])
def test_careless_read_and_a_command_lose_no_answer(file: Path, address: str, command: str) -> None:
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
    assert not log_of(file).exists(), "the last connection still cleans up"


def test_missing_log_is_noticed_before_anything_is_acknowledged(file: Path, address: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    store.truncate_log()

    def remove_log(session: object) -> None:
        log_of(file).unlink()

    with pytest.raises(NotStored):
        store.write_now(remove_log)
    assert store.write_now(keep("after")) == "after"
    assert names(address) >= {"before", "after"}
    store.close()
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_log_removed_between_two_writes_loses_none(file: Path, address: str) -> None:
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


def test_without_its_file_nothing_is_acknowledged_until_it_is_back(file: Path, address: str) -> None:
    store = Store(address)
    store.write_now(keep("before"))
    store.truncate_log()
    away = file.rename(file.with_name("away"))
    with pytest.raises(NotStored, match="gone"):
        store.write_now(keep("lost"))
    assert not file.exists(), "no empty database replaces it"
    away.rename(file)
    assert store.write_now(keep("after")) == "after"
    assert names(address) >= {"before", "after"}
    store.close()


def test_transient_disk_error_does_not_end_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


_WRITER = """
import signal, sys
from studio.mos.store.database import Store
from studio.mos.store.tables import Secret

store = Store(sys.argv[1])
asked_to_stop = []
if sys.argv[2] == "close":
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
n, before = 0, None
while not asked_to_stop:
    done = [store.write(lambda session, i=i: session.add(Secret(name=f"{i:06}", value="x"))) for i in range(n, n + 20)]
    n += 20
    for i, one in enumerate(done, start=n - 20):
        if sys.argv[2] == "kill":
            one.result()
            print(f"{i:06}", flush=True)
    if sys.argv[2] == "close":
        print(n, flush=True)
        if before is not None:
            before.result()  # so that a few wait at any time, and not ever more
        before = done[-1]
store.close()
print("closed", flush=True)
"""


def test_close_finishes_waiting_writes_and_refuses_new_ones(url: str) -> None:
    """Closing again does nothing."""
    store = Store(url)
    go_on = hold(store)
    waiting = [store.write(keep(f"n{n}")) for n in range(150)]
    closing = threading.Thread(target=store.close)
    closing.start()
    go_on.set()
    closing.join(20)
    assert all(one.done() for one in waiting)
    assert len(names(url)) == 150
    store.close()
    with pytest.raises(Closed):
        store.write(keep("late"))


def test_no_write_is_lost_by_a_close(url: str) -> None:
    """A write concurrent with close gets a result or a refusal."""
    store = Store(url)
    pending: list[Future[None]] = []
    started = threading.Event()

    def write_on() -> None:
        for n in range(100_000):
            try:
                pending.append(store.write(lambda _session: None))
            except Closed:
                return
            started.set()
            if n % 50 == 49:
                pending[-40].result(10)

    writer = threading.Thread(target=write_on)
    writer.start()
    assert started.wait(10)
    store.close()
    writer.join(20)
    for one in pending:
        one.result(5)


@pytest.mark.parametrize("how", ["kill", "close"])
def test_killed_process_loses_nothing_acknowledged(url: str, how: str) -> None:
    """After SIGTERM and close, every accepted write is there as well."""
    command = [sys.executable, "-c", _WRITER, url, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(3)]
        writer.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
        said += writer.stdout.readlines()
    there = names(url)
    if how == "kill":
        whole = [line.strip() for line in said if len(line) == 7]
        assert len(whole) >= 3 and set(whole) <= there
    else:
        assert said[-1] == "closed\n"
        assert len(there) == int(said[-2])


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("nothing", BadOption),
        ("mysql://localhost/x", BadOption),
        ("sqlite://", BadOption),
        ("sqlite:///:memory:", BadOption),
        ("sqlite:////nonexistent/folder/x.sqlite", BadFile),
        ("postgresql://nobody:secret@127.0.0.1:1/x", BadFile),
    ],
)
def test_unusable_url_is_refused(address: str, error: type[Exception]) -> None:
    """Without a driver's traceback, and without the password."""
    with pytest.raises(error) as raised:
        Store(address)
    assert "secret" not in str(raised.value)


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """It stays unchanged."""
    (tmp_path / "notes.txt").write_bytes(b"not a database at all " * 100)
    with pytest.raises(BadFile, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path / 'notes.txt'}")
    assert (tmp_path / "notes.txt").read_bytes() == b"not a database at all " * 100


@pytest.mark.parametrize("take_away", [Path.unlink, lambda log: log.rename(log.with_name("away"))])
def test_log_that_is_taken_away_loses_no_answer(file: Path, address: str, take_away: Callable[[Path], object]) -> None:
    """What was acknowledged before is in the log alone, which our connections still hold."""
    store = Store(address)
    store.write_now(keep("before"))
    take_away(log_of(file))
    store.write_now(keep("after"))
    store.close()
    assert {"before", "after"} <= set(names(address))


def test_read_only_database_is_read_and_not_written(file: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its log, which SQLite could not open without writing, is read too."""
    store = Store(address)
    store.write_now(keep("before"))
    assert log_of(file).stat().st_size
    was = {path: path.read_bytes() for path in (file, log_of(file))}
    monkeypatch.setattr(database, "is_writable", lambda path: path != file)
    read_only = Store(address)
    assert read_only.is_read_only and "before" in names(read_only.url)
    with pytest.raises(Unavailable, match="read-only"):
        read_only.write_now(keep("after"))
    read_only.close()
    assert {path: path.read_bytes() for path in was} == was and not Path(
        read_only.url.removeprefix("sqlite:///")
    ).exists()
    store.close()


def test_damage_is_named(file: Path, address: str) -> None:
    store = Store(address)
    for number in range(2000):
        store.write(keep(f"n{number}"))
    store.write_now(keep("last"))
    store.close()
    content = bytearray(file.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises((BadFile, SQLAlchemyError)) as raised:
        store = Store(address)
        with store.read() as session:
            session.exec(select(Secret)).all()
    error = raised.value
    found = database_problem(error) if isinstance(error, SQLAlchemyError) else error
    assert "the database is damaged" in str(found) or "malformed" in str(found)


def test_log_is_not_truncated_where_no_file_can_be_opened(tmp_path: Path) -> None:
    """As for a process that has too many open files, in the middle of an erasure or at its end."""
    folder = tmp_path / "data"
    folder.mkdir()
    store = Store(f"sqlite:///{folder / 'studio.sqlite'}")
    store.write_now(keep("one"))
    store._writing.dispose()
    folder.rename(tmp_path / "elsewhere")
    assert not store.truncate_log()
    (tmp_path / "elsewhere").rename(folder)
    assert store.truncate_log()
    store.close()


def test_full_disk_can_be_read_from(file: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself needs 32 KiB there for the index of its log; a running process has them already."""
    Store(address).close()
    full = namedtuple("full", "free")(4096)
    monkeypatch.setattr("studio.mos.store.sqlite_files.shutil.disk_usage", lambda folder: full)
    store = Store(address)
    with store.read() as session:
        assert session.exec(select(Secret)).all() is not None
    with pytest.raises(Unavailable, match="full"):
        store.write_now(keep("one"))
    assert [one.name for one in file.parent.glob(f"{file.name}*")] == [file.name]
    store.close()
