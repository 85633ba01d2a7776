"""Whose trace goes when there is no room: nobody can push out what others made."""

import itertools
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from serve.serving import Serving, eventually

from studio.core import events as ev
from studio.serve.traces.shelf import TraceShelf


def finished(shelf: TraceShelf, owner: str = "", samples: int = 600) -> str:
    """A trace of so much sound."""
    token, writer = shelf.begin({}, owner)
    if samples:
        noise = np.random.default_rng(samples).integers(-9000, 9000, samples).astype(np.int16)
        writer.write(ev.Audio(sample=0, pcm=noise))
    shelf.finish(writer)
    return token


def there(shelf: TraceShelf) -> set[str]:
    return {path.stem for path in shelf.folder.glob("*.trace")}


def test_traces_without_sound_push_out_none_that_has_it(tmp_path: Path) -> None:
    shelf = TraceShelf(tmp_path, max_traces=4, max_bytes=10**9)
    spoken = [finished(shelf, "a") for _ in range(4)]
    for _ in range(10):
        newest = finished(shelf, "b", samples=0)
        assert there(shelf) == {*spoken, newest}, "the newest is still there to be fetched"
    one_more = finished(shelf, "a")
    assert there(shelf) == {one_more, *spoken[1:]}


def test_who_makes_many_pushes_out_their_own(tmp_path: Path) -> None:
    shelf = TraceShelf(tmp_path, max_traces=6, max_bytes=10**9)
    mine, friend = [finished(shelf, "me") for _ in range(2)], finished(shelf, "friend")
    flood = [finished(shelf, "flood") for _ in range(40)]
    assert there(shelf) == {*mine, friend, *flood[-3:]}


def test_whoever_has_it_all_makes_room_for_others(tmp_path: Path) -> None:
    shelf = TraceShelf(tmp_path, max_traces=4, max_bytes=10**9)
    flood = [finished(shelf, "flood") for _ in range(9)]
    assert there(shelf) == {*flood[-4:]}
    mine = [finished(shelf, "me") for _ in range(2)]
    assert there(shelf) == {*flood[-2:], *mine}


def test_bytes_are_shared_as_well(tmp_path: Path) -> None:
    shelf = TraceShelf(tmp_path, max_traces=100, max_bytes=100_000)
    small = [finished(shelf, "me") for _ in range(5)]
    for _ in range(5):
        large = finished(shelf, "flood", samples=20_000)
        assert there(shelf) >= {*small, large}


def test_a_trace_larger_than_the_shelf_stays_until_the_next(tmp_path: Path) -> None:
    shelf = TraceShelf(tmp_path, max_traces=100, max_bytes=1000)
    for _ in range(3):
        newest = finished(shelf, samples=5_000)
        assert there(shelf) == {newest}


def test_what_a_server_found_when_it_began_is_one_share(tmp_path: Path) -> None:
    before = TraceShelf(tmp_path, max_traces=4, max_bytes=10**9)
    old = [finished(before, owner) for owner in "abcd"]
    silent = finished(before, "a", samples=0)
    assert there(before) == {*old, silent}
    shelf = TraceShelf(tmp_path, max_traces=4, max_bytes=10**9)
    new = [finished(shelf, "me")]
    assert silent not in there(shelf) and len(there(shelf)) == 4, "what has no sound is known by its file"
    new += [finished(shelf, "me")]
    assert len(there(shelf) & {*old}) == 2 and there(shelf) >= {*new}


def test_a_socket_is_known_by_its_address(serving: Serving, monkeypatch: Any) -> None:
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
