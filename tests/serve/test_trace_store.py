"""Eviction from the trace store: clients cannot evict each other's traces."""

import errno
import itertools
import os
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve.serving import Serving, eventually

from studio.core import events as ev
from studio.core.errors import BadFile, NotStored
from studio.core.traces.trace_writer import part_of_trace
from studio.core.worker import WorkerLost
from studio.serve.trace_store import TraceStore


def finished(trace_store: TraceStore, owner: str = "", samples: int = 600) -> str:
    """A trace with so much audio."""
    token, writer = trace_store.begin({"voice": "wren", "speaker": "miles"}, owner)
    if samples:
        noise = np.random.default_rng(samples).integers(-9000, 9000, samples).astype(np.int16)
        writer.write(ev.Audio(sample=0, pcm=noise))
    trace_store.finish(writer)
    return token


def there(trace_store: TraceStore) -> set[str]:
    return {path.stem for path in trace_store.folder.glob("*.trace")}


def test_traces_without_audio_evict_none_with_audio(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=4, max_bytes=10**9)
    spoken = [finished(trace_store, "a") for _ in range(4)]
    for _ in range(10):
        newest = finished(trace_store, "b", samples=0)
        assert there(trace_store) == {*spoken, newest}, "the newest is still available"
    one_more = finished(trace_store, "a")
    assert there(trace_store) == {one_more, *spoken[1:]}


def test_client_with_many_traces_evicts_its_own(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=6, max_bytes=10**9)
    mine, friend = [finished(trace_store, "me") for _ in range(2)], finished(trace_store, "friend")
    flood = [finished(trace_store, "flood") for _ in range(40)]
    assert there(trace_store) == {*mine, friend, *flood[-3:]}


def test_client_that_fills_the_store_makes_room_for_others(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=4, max_bytes=10**9)
    flood = [finished(trace_store, "flood") for _ in range(9)]
    assert there(trace_store) == {*flood[-4:]}
    mine = [finished(trace_store, "me") for _ in range(2)]
    assert there(trace_store) == {*flood[-2:], *mine}


def test_bytes_are_shared_too(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=100, max_bytes=100_000)
    small = [finished(trace_store, "me") for _ in range(5)]
    for _ in range(5):
        large = finished(trace_store, "flood", samples=20_000)
        assert there(trace_store) >= {*small, large}


def test_trace_larger_than_the_store_stays_until_the_next(tmp_path: Path) -> None:
    trace_store = TraceStore(tmp_path, max_traces=100, max_bytes=1000)
    for _ in range(3):
        newest = finished(trace_store, samples=5_000)
        assert there(trace_store) == {newest}


def test_traces_found_at_start_are_one_share(tmp_path: Path) -> None:
    before = TraceStore(tmp_path, max_traces=4, max_bytes=10**9)
    old = [finished(before, owner) for owner in "abcd"]
    silent = finished(before, "a", samples=0)
    assert there(before) == {*old, silent}
    trace_store = TraceStore(tmp_path, max_traces=4, max_bytes=10**9)
    new = [finished(trace_store, "me")]
    assert silent not in there(trace_store) and len(there(trace_store)) == 4, "recognised by their file"
    new += [finished(trace_store, "me")]
    assert len(there(trace_store) & {*old}) == 2 and there(trace_store) >= {*new}


def test_socket_is_identified_by_its_address(serving: Serving, monkeypatch: Any) -> None:
    monkeypatch.setattr("studio.serve.live.socket.address_of", lambda websocket: next(addresses))
    addresses = itertools.chain(["me"], itertools.repeat("flood"))
    server = serving(max_traces=3)
    urls: list[str] = []
    for _ in range(5):
        with server.talk() as talk:
            talk.open(credit_ms=60_000)
            talk.say("text", text="one ")
            talk.say("end")
            urls.append(talk.until("trace")[-1]["trace_url"])
    eventually(lambda: len(list(server.settings.traces_folder.iterdir())) == 3, "three traces")
    assert [httpx.get(f"{server.url}/{url}").status_code for url in urls] == [200, 404, 404, 200, 200]


def test_a_trace_that_cannot_begin_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace_store = TraceStore(tmp_path, max_traces=4, max_bytes=10**9)
    kept = finished(trace_store)

    def full(folder: Path, meta: Any) -> None:
        folder.mkdir()
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr("studio.serve.trace_store.TraceWriter", full)
        with pytest.raises(OSError, match="no space left"):
            trace_store.begin({})
    with pytest.raises(NotStored, match="could not be written"), trace_store.adding() as path:
        full(path.with_suffix(""), {})
    assert [path.name for path in tmp_path.iterdir()] == [f"{kept}.trace"]
    assert finished(trace_store) in there(trace_store)


def test_parts_of_killed_processes_are_removed(tmp_path: Path) -> None:
    """A process that is killed while it writes the zip leaves a part beside the folder."""
    trace_store, beside = (TraceStore(tmp_path, max_traces=4, max_bytes=10**9) for _ in range(2))
    with pytest.raises(WorkerLost), trace_store.adding() as path:
        part_of_trace(path).write_bytes(b"half a zip")
        raise WorkerLost("the process did not answer")
    assert not [*tmp_path.iterdir()]
    begun, writer = trace_store.begin({})
    old, new, running = (part_of_trace(tmp_path / f"{token}.trace") for token in ("o" * 22, "n" * 22, begun))
    for part in (old, new, running):
        part.write_bytes(b"half a zip")
    for part in (old, running):
        os.utime(part, (0, 0))
    _, other = beside.begin({})
    for path in (*other.folder.iterdir(), other.folder):
        os.utime(path, (0, 0))  # the clock was set forward by years
    kept = finished(trace_store)
    assert {*tmp_path.iterdir()} == {new, running, writer.folder, other.folder, tmp_path / f"{kept}.trace"}


def test_what_is_no_file_among_the_traces_is_left_alone(tmp_path: Path) -> None:
    """A link to itself kept the server from starting, and a pipe would keep it waiting."""
    tokens = [f"{number:022}" for number in range(4)]
    loop, folder, pipe, nowhere = (tmp_path / f"{token}.trace" for token in tokens)
    loop.symlink_to(loop)
    folder.mkdir()
    os.mkfifo(pipe)
    nowhere.symlink_to(tmp_path / "absent")
    trace_store = TraceStore(tmp_path, max_traces=1, max_bytes=10**9)
    spoken = [finished(trace_store, "a") for _ in range(3)]
    assert there(trace_store) == {*tokens, spoken[-1]}
    for token in tokens:
        with pytest.raises(BadFile):
            trace_store.path(token)
