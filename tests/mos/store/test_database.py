"""The store: durable before acknowledged, refusals isolated, the same on SQLite and PostgreSQL."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given as draws
from hypothesis import strategies as st
from mos.world import hold, keep, names
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from studio.core.errors import BadOption
from studio.mos.store.database import Store
from studio.mos.store.json_columns import MAX_CHARS, MAX_DEPTH, is_object, read_json, write_json
from studio.mos.store.tables import Item, Secret


def test_acknowledged_write_is_visible_to_another_connection(store: Store, url: str) -> None:
    """A future resolves after the commit, never before."""
    for n in range(20):
        assert store.write(keep(f"n{n}")).result(10) == f"n{n}"
        assert f"n{n}" in names(url)


def test_nothing_is_acknowledged_before_its_commit(store: Store) -> None:
    """All futures of a batch are unresolved until the batch is committed."""
    go_on = hold(store)
    slow, first_ran = threading.Event(), threading.Event()
    first = store.write(lambda _session: first_ran.set())
    second = store.write(lambda _session: slow.wait(20))
    go_on.set()
    assert first_ran.wait(10)
    time.sleep(0.05)
    assert not first.done(), "it has run but is not on disk"
    slow.set()
    first.result(10)
    second.result(10)


def test_refused_job_does_not_affect_its_batch(store: Store, url: str) -> None:
    """A duplicate key, a caller's error and a broken statement in a batch are refused alone."""
    go_on = hold(store)

    def mistake(session: Session) -> None:
        session.add(Secret(name="mistake", value="x"))
        session.flush()
        raise BadOption("no", "do not")

    before = store.write(keep("before"))
    doubled = store.write(keep("before", "other"))
    wrong = store.write(mistake)
    broken = store.write(lambda session: session.exec(text("SELECT nothing FROM nowhere")))  # type: ignore[call-overload]
    after = store.write(keep("after"))
    go_on.set()
    assert (before.result(10), after.result(10)) == ("before", "after")
    with pytest.raises(IntegrityError):
        doubled.result(10)
    with pytest.raises(BadOption):
        wrong.result(10)
    assert broken.exception(10) is not None
    assert {"before", "after"} <= names(url) and "mistake" not in names(url)


def test_results_of_a_batch_survive_a_later_failure_on_the_same_row(store: Store) -> None:
    """Jobs share a transaction, not their objects."""
    store.write_now(keep("row"))
    go_on = hold(store)

    def spoil(session: Session) -> None:
        row = session.exec(select(Secret).where(Secret.name == "row")).one()
        row.value = "spoilt"
        session.add(row)
        session.flush()
        raise BadOption("no")

    got = store.write(lambda session: session.exec(select(Secret).where(Secret.name == "row")).one())
    spoilt = store.write(spoil)
    go_on.set()
    assert isinstance(spoilt.exception(10), BadOption)
    assert got.result(10).value == "x"


def test_waiting_writes_share_commits(store: Store) -> None:
    """A hundred waiting writes cost two commits."""
    commits: list[int] = []
    event.listen(store._writing, "commit", lambda _connection: commits.append(1))
    go_on = hold(store)
    waiting = [store.write(keep(f"n{n}")) for n in range(100)]
    go_on.set()
    for one in waiting:
        one.result(10)
    assert len(commits) <= 3


def test_urgent_writes_overtake_the_queue(store: Store) -> None:
    """They run and commit first; within a priority the order is first in, first out."""
    events: list[str] = []
    event.listen(store._writing, "commit", lambda _connection: events.append("commit"))
    go_on = hold(store)

    def noting(name: str) -> Callable[[Session], str]:
        def work(session: Session) -> str:
            events.append(name)
            return keep(name)(session)

        return work

    jobs = [store.write(noting(name)) for name in "abc"] + [store.write(noting(name), soon=True) for name in "xy"]
    go_on.set()
    for job in jobs:
        job.result(10)
    assert "".join(events).replace("commit", ".") in ("xy.abc.", ".xy.abc.")


def test_twenty_threads_lose_nothing(store: Store, url: str) -> None:
    """Concurrent writers and readers: every acknowledged row is there once."""
    done: list[str] = []
    seen: list[int] = []

    def write(thread: int) -> None:
        for n in range(10):
            done.append(store.write(keep(f"t{thread}n{n}")).result(20))
            with store.read() as session:
                seen.append(len(session.exec(select(Secret)).all()))

    threads = [threading.Thread(target=write, args=(t,)) for t in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(done) == len(seen) == 200
    assert set(done) == {n for n in names(url) if n.startswith("t")}


def test_two_stores_on_one_database_serialise_writes(store: Store, url: str) -> None:
    """A command beside the server: a read inside a write still holds at its commit."""
    other = Store(url)
    store.write_now(keep("count", "0"))

    def add_one(session: Session) -> None:
        row = session.exec(select(Secret).where(Secret.name == "count")).one()
        row.value = str(int(row.value) + 1)
        session.add(row)

    pending = [s.write(add_one) for _ in range(40) for s in (store, other)]
    for one in pending:
        one.result(20)
    with store.read() as session:
        assert session.exec(select(Secret.value).where(Secret.name == "count")).one() == "80"
    other.close()


def test_reader_has_a_consistent_snapshot(store: Store) -> None:
    """A concurrent commit does not appear during a read."""
    store.write_now(keep("first"))
    with store.read() as session:
        assert session.exec(select(Secret.name)).all() == ["first"]
        store.write_now(keep("second"))
        assert session.exec(select(Secret.name)).all() == ["first"]
    with store.read() as session:
        assert len(session.exec(select(Secret.name)).all()) == 2


def test_changes_of_a_reader_are_discarded(store: Store, url: str) -> None:
    """Only ``write`` writes."""
    with store.read() as session:
        session.add(Secret(name="smuggled", value="x"))
        session.flush()
    assert "smuggled" not in names(url)


def test_foreign_keys_are_enforced(store: Store) -> None:
    """SQLite's default is off."""
    with pytest.raises(IntegrityError):
        store.write_now(lambda session: session.add(Item(campaign_id=99, name="i", text="", role="test")))


def test_durable_settings(store: Store, url: str) -> None:
    """WAL, FULL and foreign keys on SQLite; synchronous commit on PostgreSQL."""
    settings = store.settings
    if url.startswith("sqlite"):
        durable = {"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "6000"}
        assert settings == durable | {"secure_delete": "1"}
    else:
        assert settings["synchronous_commit"] == "on"
        assert set(settings) == {"server_version", "synchronous_commit", "fsync"}


def test_cancelled_caller_does_not_stop_the_writer(store: Store, url: str) -> None:
    """A cancelled request cannot undo its write."""
    go_on = hold(store)
    gone = store.write(keep("gone"))
    assert not gone.cancel()
    go_on.set()
    store.write_now(keep("after"))
    assert {"gone", "after"} <= names(url)


def nested(levels: int) -> dict[str, Any]:
    inner: list[Any] = []
    for _ in range(levels - 2):
        inner = [inner]
    return {"a": inner}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@draws(st.dictionaries(st.text(), JSON, max_size=4))
def test_stored_json_reads_back(value: dict[str, Any]) -> None:
    try:
        text = write_json(value)
    except ValueError:
        return
    assert is_object(text) and read_json(text) == value


@pytest.mark.parametrize(
    "value",
    [
        {"a": math.inf},
        {"a": [math.nan]},
        {"a": 10**400},
        {"a": 10**5000},
        {"a": 2**63},
        {"a": object()},
        {"a": "x" * MAX_CHARS},
        nested(MAX_DEPTH + 1),
        nested(100_000),
    ],
    ids=range(9),
)
def test_invalid_json_is_not_written(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        write_json(value)


def test_bounds_are_inclusive() -> None:
    for value in (nested(MAX_DEPTH), {"a": 2**63 - 1, "b": 1e308}, {"a": "x" * (MAX_CHARS - 9)}):
        assert read_json(write_json(value)) == value


@pytest.mark.parametrize("text", ["[]", "1", "", "{", '{"a": 1e999}', '{"a": NaN}', '{"a": -Infinity}', None, b"{}", 7])
def test_foreign_json_is_refused(text: Any) -> None:
    assert not is_object(text)
