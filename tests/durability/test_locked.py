"""Another process holds the locks of the database, the index and the library: every call is refused within 10 s with a
reason, and nothing is lost. How long it holds them makes no difference: no call waits longer than 6 s for a lock."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from durability.locks import locked, locks_of
from durability.write_paths import recording
from mos.world import SystemSpec, World
from serve.library.test_annotation import LAYER, Bearer, Desk, mark
from serve.mos_serving import reply
from sqlmodel import select

from studio.core.errors import Unavailable
from studio.mos.import_export.merge import merge_from
from studio.mos.service import open_listening_tests
from studio.mos.store.database import Store
from studio.mos.store.tables import Answer, Campaign

ANSWERED_S = 10.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    found = Desk(tmp_path)
    found.served.world.campaign()
    yield found
    found.http.close()
    found.served.stop()


def writes(desk: Desk, number: int) -> dict[str, Callable[[], httpx.Response]]:
    """One call of every kind of change, prepared so that each would succeed."""
    served, owner = desk.served, desk.served.owner
    raters = [served.join(f"p{number}-{n}").agree() for n in range(3)]
    shown = raters[0].to_trials()
    fresh = served.join(f"fresh{number}")
    consent = {"agreed": True, "version": 3}
    link = desk.assign("Anna", utterances=desk.names[:1])["people"][0]["link"]
    anna = Bearer(desk, link)
    (layer,) = [one["id"] for one in anna.get("marks/0").json()["layers"] if one["name"] == "faults"]

    def post(path: str, **body: object) -> httpx.Response:
        return desk.http.post(path, json=body, headers=owner)

    layers = [{"name": "l", "kind": "regions", "labels": []}]
    about = {"title": "t", "task": "", "layers": layers, "utterances": desk.names[:1], "annotators": ["Bob"]}
    sound = recording(100 + number)
    return {
        "answer": lambda: raters[0].post("answer", reply(shown)),
        "consent": lambda: fresh.post("stage", {"stage": "consent", "data": consent}),
        "next": lambda: raters[1].get("next"),
        "withdraw": lambda: raters[2].post("withdraw", {}),
        "draft": lambda: post("/mos/owner/drafts", name=f"d{number}", template="incremental-mos"),
        "state": lambda: post("/mos/owner/campaigns/first/state", state="open"),
        "edit": lambda: desk.edit(desk.names[1], f"e{number}", mark(f"m{number}", 1, 9)),
        "own edit": lambda: anna.edit(0, f"a{number}", mark(f"a{number}", 1, 9, layer=layer)),
        "file": lambda: desk.http.post(
            "/library/files", content=sound, headers=owner | {"X-Studio-Text": f"Text {number}"}
        ),
        "note": lambda: post("/library/note", name=desk.names[2], title=f"title {number}", tags=[]),
        "assignment": lambda: post("/library/assignments", **about),
    }


def test_every_change_is_refused_in_time_and_succeeds_later(desk: Desk, tmp_path: Path) -> None:
    assert desk.edit(desk.names[1], "e", LAYER).status_code == 200
    assert writes(desk, 2)["file"]().status_code == 200  # starts the process that opens files
    calls = {f"{name} {n}": call for n in range(2) for name, call in writes(desk, n).items()}

    def timed(call: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
        began_s = time.monotonic()
        return (call(), time.monotonic() - began_s)[::-1]

    with locked(*locks_of(tmp_path)), ThreadPoolExecutor(len(calls)) as pool:
        answers = dict(zip(calls, pool.map(timed, calls.values()), strict=True))
        health = desk.http.get("/health")
    assert health.status_code == 200
    for name, (took_s, answer) in answers.items():
        assert took_s < ANSWERED_S, (name, took_s)
        if name.startswith("next"):  # reads: the rater was seen just now, and no trial is shown for the first time
            assert answer.status_code == 200, (name, answer.status_code, answer.text)
            continue
        assert answer.status_code == 503, (name, answer.status_code, answer.text)
        assert "lock" in answer.json()["message"] and "Retry-After" in answer.headers, (name, answer.text)
    for name, call in calls.items():
        answer = call()
        assert answer.status_code == 200, (name, answer.text)
    with desk.served.world.listening.store.read() as session:
        assert len(session.exec(select(Answer)).all()) == 2
        assert {"d0", "d1"} <= set(session.exec(select(Campaign.name)))
    layers = desk.owner(f"annotations/by/{desk.names[1]}?annotator=me").json()["layers"]
    assert {one[0] for one in layers[0]["marks"]} == {"m0", "m1"}


def test_no_route_fails_or_hangs(desk: Desk, tmp_path: Path) -> None:
    paths = desk.served.app.openapi()["paths"]
    stored = (
        "/mos/",
        "/library",
        "/annotation",
        "/arena",
        "/health",
    )  # others run processes
    asked = sorted((method.upper(), path) for path in paths if path.startswith(stored) for method in paths[path])
    assert len(asked) > 30

    def call(one: tuple[str, str]) -> tuple[str, int, str, float]:
        method, path = one
        parts = [desk.names[0] if "{name" in part or "{" in part else part for part in path.split("/")]
        began_s = time.monotonic()
        with httpx.Client(base_url=desk.served.url, timeout=30.0) as http:
            answer = http.request(method, "/".join(parts), headers=desk.served.owner, content="{}" * (method == "POST"))
        return f"{method} {path}", answer.status_code, answer.text, time.monotonic() - began_s

    with locked(*locks_of(tmp_path)), ThreadPoolExecutor(8) as pool:
        found = list(pool.map(call, asked))
    for name, status, text, took_s in found:
        assert took_s < ANSWERED_S, (name, took_s)
        assert status < 500 or (status == 503 and json.loads(text)["message"]), (name, status, text)


def test_merge_and_migration_wait_for_no_lock_forever(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    listening = open_listening_tests("", other)
    World(listening.store, other / "clips").campaign(name="c", systems=[SystemSpec("s")])
    listening.close()
    listening = open_listening_tests("", data)
    with locked(data / "studio.sqlite"):
        with pytest.raises(Unavailable, match="locked by another process"):
            merge_from(listening, str(other / "studio.sqlite"))
        with open_again(data) as again, again.store.read() as session:
            assert not session.exec(select(Campaign)).all(), "a current database is opened without its lock"
    assert [one.here for one in merge_from(listening, str(other / "studio.sqlite"))] == ["c"]
    listening.close()
    with locked(data / "old.sqlite"), pytest.raises(Unavailable, match="locked"):
        Store(f"sqlite:///{data / 'old.sqlite'}")


@contextmanager
def open_again(data: Path) -> Iterator[object]:
    listening = open_listening_tests("", data)
    yield listening
    listening.close()
