"""A served arena: a battle by typing, blinding before the vote, the public ladder."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from mos.world import World, items_of
from serve.mos_serving import Browser, ServedTests, words_in
from serve.typist import LIVE, VOICES, Typist, vote
from starlette.testclient import TestClient

from studio.mos.campaign.config import Arena
from studio.mos.store.database import Store
from studio.mos.store.tables import Rater
from studio.serve.mos.arena import CACHE_S, LINK_S, add_arena
from studio.serve.responses import add_error_handlers

ARENA = replace(LIVE, kind="arena", arena=Arena(min_votes=1, max_chars=60))
SECRETS = ("zebrafinch", "nightjar", "tone", "low", "high", "speaker", "option", "seed", "temperature", "trace")


@pytest.fixture
def ring(tests_served: ServedTests) -> Iterator[tuple[ServedTests, Browser, list[Any]]]:
    """An open arena of two voices, a visitor before consent, and all responses their browser gets."""
    tests_served.world.campaign(ARENA, "ring", VOICES, items_of(2))
    got: list[Any] = []
    tests_served.http.event_hooks["response"].append(got.append)
    joined = tests_served.http.post("join", json=tests_served.link(name="ring"))
    yield tests_served, Browser(tests_served.http, joined.json()["token"]), got
    tests_served.http.event_hooks["response"].clear()


def test_voices_are_hidden_before_the_vote_and_named_after_it(ring: tuple[ServedTests, Browser, list[Any]]) -> None:
    served, visitor, got = ring
    assert served.world.all(Rater) == [], "visitors have not consented"
    shown = visitor.to_trials()
    trial = shown["trial"]["trial"]
    typist = Typist(served, visitor)
    first = typist.type(trial, "hello there good friend ")
    sizes = {len(packet.pcm) for packet in typist.sound}
    second, _ = typist.again(trial)
    assert first["type"] == second["type"] == "kept" and sizes == {len(p.pcm) for p in typist.sound}
    early = visitor.post("answer", {"trial": trial, "choices": [{"question": "preference", "outcome": "a"}]})
    assert early.status_code == 422
    heard = [f"{r.url} {r.headers} {r.read().decode()}" for r in got] + typist.texts
    shown_headers = json.dumps(dict(typist.ws.response.headers.raw_items())) if typist.ws.response else ""
    said = " ".join([*heard, shown_headers])
    assert not words_in(said, SECRETS)
    result = vote(visitor, trial, first, second).json()
    spoke = {"low": "zebrafinch", "high": "nightjar"}
    by_slot = [spoke[one.speaker] for one in (served.engine.opened[0], served.engine.opened[-1])]
    assert result["voices"] == by_slot and result["counted"]
    again = vote(visitor, trial, first, second).json()
    assert again["repeated"] and again["voices"] == by_slot, "a lost response is repeated"
    assert visitor.next()["trial"]["trial"] != trial


def test_text_length_is_limited_by_the_arena(ring: tuple[ServedTests, Browser, list[Any]]) -> None:
    served, visitor, _ = ring
    trial = visitor.to_trials()["trial"]["trial"]
    typist = Typist(served, visitor)
    said = typist.type(trial, "x" * 61)
    assert said["type"] == "error" and "at most 60 characters" in said["message"]


def test_ladder_exists_while_an_arena_is_open(tmp_path: Path) -> None:
    world, now = World(Store(f"sqlite:///{tmp_path / 'studio.sqlite'}"), tmp_path / "clips"), [0.0]
    app = FastAPI()
    add_error_handlers(app)
    add_arena(app, world.listening, lambda: now[0])
    page = TestClient(app)
    assert page.get("/arena").status_code == 404
    world.campaign(ARENA, "ring", VOICES, items_of(1))
    assert page.get("/arena").status_code == 404, "the cache serves all, whatever follows the ?"
    assert page.get("/arena?again=1").status_code == 404
    now[0] += CACHE_S
    shown = page.get("/arena")
    assert shown.status_code == 200 and shown.headers["cache-control"] == f"public, max-age={CACHE_S:.0f}"
    assert "Take part" in shown.text and world.link("ring") in shown.text
    assert page.head("/arena").status_code == 200
    now[0] += LINK_S
    way = page.get("/arena/vote", follow_redirects=False)
    assert (way.status_code, way.headers["location"]) == (303, f"..{world.listening.links('ring')['rater']}")
    reads: list[int] = []
    read = world.store.read
    world.store.read = lambda: reads.append(1) or read()  # type: ignore[method-assign,func-returns-value]
    for _ in range(20):
        assert page.get("/arena").text == shown.text
    assert not reads, "reading causes no database query"
    world.store.read = read  # type: ignore[method-assign]
    world.set_state("closed", "ring")
    now[0] += CACHE_S
    assert page.get("/arena").status_code == page.get("/arena/vote").status_code == 404
    world.listening.close()
