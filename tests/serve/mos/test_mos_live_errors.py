"""Limits of the live socket: screens, typing, slots; and which votes count."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from mos.world import items_of
from serve.mos_serving import Browser, ServedTests
from serve.serving import eventually
from serve.typist import LIVE, Typist, vote
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from studio.core.ports import SpeakRequest
from studio.mos.campaign.manifest import SystemSpec
from studio.mos.store.tables import Take
from studio.serve.mos.live import LiveTrialSession


def test_vote_needs_both_voices_on_one_text(live: Any) -> None:
    served, rater, typist, trial = live
    refused, _ = typist.again(trial)
    assert refused["code"] == "bad_message"
    whole = {"samples": 24_000}
    assert vote(rater, trial, whole, whole).status_code == 422
    first = typist.type(trial, "hello ")
    assert vote(rater, trial, first, whole).status_code == 422
    typist.again(trial)
    other = typist.type(trial, "something else entirely ")
    assert vote(rater, trial, other, whole).status_code == 422, "the second voice heard another text"
    second, _ = typist.again(trial)
    short = {"samples": second["samples"] // 2}
    assert vote(rater, trial, other, short).status_code == 422, "and it was not heard to its end"
    assert vote(rater, trial, other, second).status_code == 200
    assert typist.take(trial, 0)["code"] == "not_this_stage", "a rated text is not retyped"
    assert sorted((t.slot, t.number) for t in served.world.all(Take)) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_strangers_and_other_raters_are_refused(live: Any) -> None:
    served, _, typist, trial = live
    with pytest.raises(InvalidStatus):
        connect(
            served.url.replace("http", "ws") + "/mos/live", proxy=None, additional_headers={"Origin": "http://evil"}
        )
    with connect(served.url.replace("http", "ws") + "/mos/live", proxy=None) as ws:
        for message in (
            {"type": "take", "trial": trial, "slot": 0, "utterance": 1},
            {"type": "enter", "token": "x" * 50},
        ):
            ws.send(json.dumps(message))
            assert json.loads(ws.recv(timeout=5))["type"] == "error"
    other = served.http.post("join", json={**served.link(name="typing"), "panel": {"PROLIFIC_PID": "p2"}})
    stranger = Typist(served, Browser(served.http, other.json()["token"]).agree())
    assert stranger.take(trial, 0)["code"] == "forbidden"
    for bad in ({"slot": 2}, {"slot": "0"}, {"trial": 7}, {"utterance": -1}):
        typist.say("take", **({"trial": trial, "slot": 0, "utterance": 99} | bad))
        assert typist.hear()["code"] == "bad_message"
    for kind in ("open", "options", "flush", "text"):
        typist.say(kind, utterance=1)
        assert typist.hear()["code"] == "bad_message"
    stranger.ws.close()


def test_too_much_typing_is_refused(live: Any) -> None:
    _, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="x" * 2001)
    assert typist.until("error")[-1]["code"] == "bad_text"
    typist.say("cancel", utterance=1)
    assert typist.until("dropped", "kept")[-1]["type"] == "dropped"


def test_length_of_the_field_is_limited_not_the_keys(live: Any) -> None:
    _, _, typist, trial = live
    typist.take(trial, 0)
    typist.say("edit", utterance=1, at=0, insert="x" * 1990)
    typist.say("edit", utterance=1, at=0, remove=1990)
    typist.say("edit", utterance=1, at=0, insert="hello there " * 50)
    typist.say("end", utterance=1)
    assert not [one for one in typist.until("kept") if one["type"] == "error"]


def test_invalid_screen_is_refused(live: Any) -> None:
    _, _, typist, _ = live
    for trial in ("\ud800", "a\0b", "ab" * 40, 7, None):
        typist.say("take", trial=trial, slot=0, utterance=9)
        assert typist.hear()["code"] == "bad_message"


def test_voice_that_cannot_speak_is_not_named(tests_served: ServedTests) -> None:
    broken = SystemSpec("zebrafinch", voice={"voice": "nightingale", "speaker": "s1"})
    tests_served.world.campaign(LIVE, "typing", (broken, replace(broken, name="nightjar")), items_of(1))
    answer = tests_served.http.post("join", json={**tests_served.link(name="typing"), "panel": {"PROLIFIC_PID": "p1"}})
    rater = Browser(tests_served.http, answer.json()["token"]).agree()
    typist = Typist(tests_served, rater)
    refused = typist.take(rater.to_trials()["trial"]["trial"], 0)
    assert refused["code"] == "mute" and "nightingale" not in json.dumps(refused)
    typist.ws.close()


def test_rater_holds_one_slot(live: Any) -> None:
    served, rater, typist, trial = live
    tabs = [typist, *(Typist(served, rater) for _ in range(3))]
    for tab in tabs:
        assert tab.take(trial, 0)["type"] == "opened"
    for tab in tabs[:-1]:
        assert tab.until("dropped")[-1]["type"] == "dropped"
    assert served.engine.free_slots() == served.engine.places - 1
    for tab in tabs[1:]:
        tab.ws.close()


def test_take_starts_while_others_come_and_go(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, rater, typist, trial = live
    second_tab, real, came = Typist(served, rater), LiveTrialSession.cancel_all, []

    async def cancel_all(session: LiveTrialSession) -> None:
        came.append(await asyncio.to_thread(Typist, served, rater))
        await real(session)

    monkeypatch.setattr(LiveTrialSession, "cancel_all", cancel_all)
    assert typist.take(trial, 0)["type"] == "opened"
    assert len(came) == 1
    for tab in (second_tab, *came):
        tab.ws.close()


def test_rater_queues_for_either_voice(live: Any) -> None:
    served, _, typist, trial = live
    others = [served.engine.open(SpeakRequest()) for _ in range(4)]
    typist.number = 1
    typist.say("take", utterance=1, trial=trial, slot=0)
    assert typist.hear() == {"type": "queued", "utterance": 1, "ahead": 0}
    typist.say("edit", utterance=1, at=0, insert="too soon ")
    assert typist.until("error")[-1]["code"] == "bad_message"
    others[0].cancel()  # the last slot is reserved for other users
    others[1].cancel()
    assert typist.until("opened")[-1] == {"type": "opened", "utterance": 1, "rate_hz": 24_000}
    typist.say("edit", utterance=1, at=0, insert="in time now ")
    typist.say("end", utterance=1)
    assert typist.until("kept", "error", "dropped")[-1]["type"] == "kept"

    others += [served.engine.open(SpeakRequest()) for _ in range(2)]
    typist.number = 2
    typist.say("take", utterance=2, trial=trial, slot=1)
    assert typist.hear()["type"] == "queued"
    others[2].cancel()
    others[3].cancel()
    heard = typist.until("kept", "again", "error", "dropped")
    kinds = [one["type"] for one in heard]
    assert kinds[0] == "opened" and "typed" in kinds[1:] and kinds[-1] in ("kept", "again")
    for one in others:
        one.cancel()


def test_queue_timeout_is_reported_with_a_retry_time(live: Any) -> None:
    served, _, typist, trial = live
    others = [served.engine.open(SpeakRequest()) for _ in range(4)]
    typist.say("take", utterance=1, trial=trial, slot=0)
    assert typist.hear()["type"] == "queued"
    served.engine.waiting[0].fail("busy", "no slot became free within 120 s; try again later")
    error = typist.until("error")[-1]
    assert error["code"] == "busy" and error["retry_ms"] > 0 and error["utterance"] == 1
    for one in others:
        one.cancel()


def test_take_has_a_time_limit(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key now and then would hold a slot for ever."""
    monkeypatch.setattr("studio.serve.mos.live.TAKE_S", 0.3)
    served, _, typist, trial = live
    typist.say("take", utterance=1, trial=trial, slot=0)
    typist.until("opened")
    typist.say("edit", utterance=1, at=0, insert="a")
    assert typist.until("dropped", "kept", "error")[-1]["type"] == "dropped"
    eventually(lambda: served.engine.free_slots() == 4, "the place")
