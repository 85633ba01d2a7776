"""How a store ends, and how it does not begin: closed, stopped, killed, or given an address that is none."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
from mos.held import hold, keep, names

from studio.core.errors import BadFile, BadOption, Closed
from studio.mos.store.database import Store

_WRITER = """
import signal, sys
from studio.mos.store.database import Store
from studio.mos.store.tables.campaigns import Secret

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


def test_close_finishes_what_waits_and_then_refuses(url: str) -> None:
    """Every write before ``close`` is kept; every one after it is told; closing again does nothing."""
    store = Store(url)
    busy, go_on = hold(store)
    assert busy.wait(10)
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


def test_no_write_is_left_behind_by_a_close(url: str) -> None:
    """Whoever writes while another thread closes gets an answer or a refusal, never silence."""
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
def test_a_process_that_ends_loses_nothing_acknowledged(url: str, how: str) -> None:
    """Killed outright, what it acknowledged is there; asked to stop (SIGTERM, then close), all that it took is."""
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
def test_an_address_that_cannot_be_used_is_told(address: str, error: type[Exception]) -> None:
    """No traceback of a driver's, and no password in the message."""
    with pytest.raises(error) as raised:
        Store(address)
    assert "secret" not in str(raised.value)


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    """And it is left as it was."""
    (tmp_path / "notes.txt").write_bytes(b"not a database at all " * 100)
    with pytest.raises(BadFile, match="cannot be opened"):
        Store(f"sqlite:///{tmp_path / 'notes.txt'}")
    assert (tmp_path / "notes.txt").read_bytes() == b"not a database at all " * 100
