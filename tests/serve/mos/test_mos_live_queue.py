"""A rater waits for a place as everybody does; no key is taken before it, so both voices hear the same times."""

from typing import Any

import pytest
from serve.serving import eventually

from studio.core.ports import SpeakRequest


def test_a_rater_waits_in_the_queue_for_either_voice(live: Any) -> None:
    served, _, typist, trial = live
    others = [served.engine.open(SpeakRequest()) for _ in range(4)]
    typist.number = 1
    typist.say("take", utterance=1, trial=trial, slot=0)
    assert typist.hear() == {"type": "queued", "utterance": 1, "ahead": 0}
    typist.say("edit", utterance=1, at=0, insert="too soon ")
    assert typist.until("error")[-1]["code"] == "bad_message"
    others[0].cancel()  # which leaves the last place to those who are no raters
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


def test_who_waited_in_vain_is_told_to_come_back(live: Any) -> None:
    served, _, typist, trial = live
    others = [served.engine.open(SpeakRequest()) for _ in range(4)]
    typist.say("take", utterance=1, trial=trial, slot=0)
    assert typist.hear()["type"] == "queued"
    served.engine.waiting[0].fail("busy", "no place came free within 120 s; try again later")
    told = typist.until("error")[-1]
    assert told["code"] == "busy" and told["retry_ms"] > 0 and told["utterance"] == 1
    for one in others:
        one.cancel()


def test_a_take_has_its_time(live: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key now and then would hold a place for ever."""
    monkeypatch.setattr("studio.serve.mos.live.TAKE_S", 0.3)
    served, _, typist, trial = live
    typist.say("take", utterance=1, trial=trial, slot=0)
    typist.until("opened")
    typist.say("edit", utterance=1, at=0, insert="a")
    assert typist.until("dropped", "kept", "error")[-1]["type"] == "dropped"
    eventually(lambda: served.engine.free_slots() == 4, "the place")
