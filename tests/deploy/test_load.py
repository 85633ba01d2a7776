"""What a replica reports, and what is made of it."""

import importlib.util
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from studio.core.errors import NeedsPackage
from studio.core.ports import EngineLoad, ModuleLoad
from studio.deploy.front import Front
from studio.deploy.load import Load
from studio.deploy.local import check_ray
from studio.deploy.members import FRESH_S, Member, Members, better_of_two
from studio.deploy.replica import step_share
from studio.deploy.scaling import free_slots_policy
from studio.serve.settings import ServeSettings


def load(**values: Any) -> Load:
    return Load(**({"pid": 1, "places": 4, "free": 4, "waiting": 0, "step_share": 0.1, "is_draining": False} | values))


def member(name: str, age_s: float = 0.0, **values: Any) -> Member:
    return Member(name, f"http://{name}", load(**values), time.monotonic() - age_s)


def members(*them: Member) -> Members:
    async def find() -> dict[str, str]:
        return {}

    return Members(find, "key", {one.name: one for one in them})


def modules(runs: int, decode_ms: float, vocode_ms: float) -> EngineLoad:
    made = (ModuleLoad("wren", name, {2: runs}, {2: ms}) for name, ms in (("decode", decode_ms), ("vocode", vocode_ms)))
    return EngineLoad(slots=4, speaking=0, modules=tuple(made))


def test_the_share_of_a_step_is_of_the_time_between() -> None:
    before, after = modules(100, 1000.0, 1000.0), modules(110, 1040.0, 1010.0)
    assert step_share(before, after, {"wren": 25.0}) == 0.2  # 5 ms a step
    assert step_share(after, after, {"wren": 25.0}) == 0.0


def test_the_better_one_keeps_up_then_has_more_free_slots_then_quicker_steps() -> None:
    late = member("late", step_share=1.2)
    assert better_of_two([late, member("full", free=1)]).name == "full"
    assert better_of_two([member("one", free=1), member("two", free=2)]).name == "two"
    assert better_of_two([member("slow", step_share=0.5), member("quick", step_share=0.2)]).name == "quick"


def test_an_old_report_is_not_used_and_a_draining_replica_gets_nothing() -> None:
    old, fresh = member("old", age_s=2 * FRESH_S), member("fresh", free=1)
    draining = member("draining", is_draining=True)
    assert [one.name for one in members(old, fresh, draining).with_room()] == ["fresh", "old"]


def test_what_was_sent_since_the_report_counts() -> None:
    one, two = member("one", free=2), member("two", free=2)
    found = members(one, two)
    first = [next(found.with_room()).name for _ in range(4)]
    assert sorted(first) == ["one", "one", "two", "two"]


def test_the_socket_stays_where_it_is_if_there_is_room() -> None:
    here, other = member("here", free=1), member("other", free=4)
    assert next(members(here, other).with_room(here)) is here
    here.sent = 1
    assert next(members(here, other).with_room(here)) is other


def test_an_address_keeps_its_replica_when_others_come() -> None:
    few = members(member("a"), member("b"), member("c"))
    more = members(member("a"), member("b"), member("c"), member("d"))
    moved = 0
    for n in range(100):
        was, now = few.by_address(f"10.0.0.{n}")[0].name, more.by_address(f"10.0.0.{n}")[0].name
        assert now in (was, "d")
        moved += now != was
    assert 0 < moved < 50


def test_the_number_of_replicas_follows_the_used_slots() -> None:
    def wanted(*shares: float) -> int:
        context = SimpleNamespace(
            aggregated_metrics={"busy": {str(n): share for n, share in enumerate(shares)}},
            target_num_replicas=2,
            capacity_adjusted_min_replicas=1,
            capacity_adjusted_max_replicas=4,
        )
        return free_slots_policy(context)[0]

    assert wanted(0.7, 0.7) == 2
    assert wanted(1.0, 1.0) == 3
    assert wanted(5.0, 5.0) == 4  # utterances wait
    assert wanted(0.1, 0.0) == 1
    assert wanted() == 2  # no report


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NeedsPackage, match=r"Ray Serve.*\[scale\]"):
        check_ray()


def test_nobody_waits_at_a_replica_that_hangs() -> None:
    """Its last report may have the shortest queue of all."""
    hung, busy = member("hung", age_s=2 * FRESH_S, free=0), member("busy", free=0, waiting=9)
    assert members(hung, busy).shortest_queue() is busy


def test_health_counts_no_slot_of_a_replica_that_hangs() -> None:
    found = members(member("hung", age_s=2 * FRESH_S), member("well", free=3))
    health = json.loads(bytes(Front(ServeSettings(), found)._health().body))
    assert health["places_free"] == sum(one["places_free"] for one in health["replicas"]) == 3
