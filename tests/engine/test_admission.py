"""Who has a place in the real engine, who waits in vain, who is forgotten, and how it winds up."""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from listening import of, say

from studio.core import events as ev
from studio.core.errors import BadOption, Busy, Closed, Closing, Stuck
from studio.core.ports import SpeakRequest
from studio.engine.admission import EngineLimits, fair_order, pick_evicted
from studio.engine.engine import LocalEngine, open_engine
from studio.text.normalise import best

FRAME = 600


@contextmanager
def opened(voices: Path, places: int = 1, **limits: Any) -> Iterator[LocalEngine]:
    engine = open_engine(voices, best(), device="cpu", threads=1, slots=places, limits=EngineLimits(**limits))
    try:
        yield engine
        assert len(engine.voice("tiny").free_slots) == places, "every slot was given back"
    finally:
        engine.close()


def test_who_waits_too_long_is_told_and_is_out(voices: Path) -> None:
    with opened(voices, queue_timeout_ms=60.0) as engine:
        taken, waiting = engine.open(SpeakRequest()), engine.open(SpeakRequest())
        waiting.push_text("good morning ")
        queued, failed = [*waiting.events()]
        assert queued.ahead == 0 and (failed.type, failed.code) == ("failed", "busy")
        assert "no slot became free within 0.06 s; try again later" in failed.message
        with pytest.raises(Closed):
            waiting.push_text("late ")
        assert (engine.load().waiting, engine.load().refused) == (0, 1)
        taken.cancel()
        assert isinstance([*taken.events()][-1], ev.Ended)


def test_who_makes_no_use_of_a_place_loses_it_to_who_waits(voices: Path) -> None:
    with opened(voices, idle_wanted_ms=150.0) as engine:
        silent = engine.open(SpeakRequest())
        silent.push_text("one two ")
        time.sleep(0.4)
        assert engine.load().waiting == 0 and engine.free_slots() == 0, "nobody wants it"
        waiting = say(engine, "good morning ")
        last = [*silent.events()][-1]
        assert isinstance(last, ev.Failed) and (last.code, "while others waited" in last.message) == ("idle", True)
        assert isinstance([*waiting.events()][-1], ev.Ended)


def test_who_may_not_wait_gets_a_slot_or_busy(voices: Path) -> None:
    with opened(voices, places=2) as engine:
        taken = [engine.open(SpeakRequest(may_wait=False)) for _ in range(2)]
        with pytest.raises(Busy, match="no slot is free"):
            engine.open(SpeakRequest(may_wait=False))
        waiting = engine.open(SpeakRequest())
        taken[0].cancel()
        waiting.push_text("good morning ")
        waiting.end()
        assert isinstance([*waiting.events()][-1], ev.Ended), "it waited, and spoke"
        taken[1].cancel()
        [*taken[1].events()]


def test_without_a_queue_the_next_one_hears_busy(voices: Path) -> None:
    with opened(voices, queue=0) as engine:
        taken = engine.open(SpeakRequest())
        with pytest.raises(Busy, match="all 1 slots are taken; try again"):
            engine.open(SpeakRequest())
        taken.cancel()
        [*taken.events()]


@pytest.mark.parametrize("wrong", [{"queue": -1}, {"queue": 10**6}, {"idle_ms": 0.0}, {"queue_timeout_ms": -5.0}])
def test_limits_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        EngineLimits(**wrong)


def _silent(engine: LocalEngine) -> ev.Event:
    """No text comes."""
    return [*engine.open(SpeakRequest()).events()][-1]


def _deaf(engine: LocalEngine) -> ev.Event:
    """Nobody grants more than the first frames."""
    utterance = engine.open(SpeakRequest(credit_samples=2 * FRAME, options={"m": 1}))
    with suppress(Closed):  # a slow machine may have ended it already
        utterance.push_text("one two three ")
    return [*utterance.events()][-1]


def _left(engine: LocalEngine) -> ev.Event:
    """Text and credit come, and nobody takes what is said."""
    utterance = engine.open(SpeakRequest())
    while not utterance.done:
        with suppress(Closed):
            utterance.grant(10**9)
            utterance.played(0)
            utterance.flush()
        time.sleep(0.002)
    return [*utterance.events()][-1]


def hanging(engine: LocalEngine) -> tuple[threading.Event, threading.Event]:
    """Let the vocoder's runs hang; answers two flags: one run hangs, and (to be set) all of them may go on."""
    vocode = engine.voice("tiny").vocode
    run, hung, free = vocode.run, threading.Event(), threading.Event()

    def hang(*args: Any) -> Any:
        hung.set()
        free.wait(60.0)
        return run(*args)

    vocode.run = hang
    return hung, free


@pytest.mark.parametrize("forget", [_silent, _deaf, _left])
def test_what_nobody_makes_use_of_ends(voices: Path, forget: Callable[[LocalEngine], ev.Event]) -> None:
    with opened(voices, idle_ms=150.0) as engine:
        last = forget(engine)
        assert isinstance(last, ev.Failed) and last.code == "idle" and "open another" in last.message
        assert engine.free_slots() == 1 and engine.load().failed == 1


def test_a_run_that_takes_too_long_is_told_and_counted(voices: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(voices, slow_run_ms=20.0) as engine:
        vocode = engine.voice("tiny").vocode
        run, slow = vocode.run, iter([0.05])

        def dawdle(*args: Any) -> Any:
            time.sleep(next(slow, 0.0))
            return run(*args)

        vocode.run = dawdle
        utterance = engine.open(SpeakRequest())
        utterance.push_text("good morning")
        with caplog.at_level(logging.WARNING, "studio.engine.scheduler"):
            utterance.end()
            [*utterance.events()]
        counted = {one.name: one.slow for one in engine.load().modules}
        assert counted["vocode"] >= 1 and "vocode of tiny took" in caplog.text


def test_a_run_that_does_not_come_back_is_told_to_all(voices: Path) -> None:
    with opened(voices, stuck_run_ms=100.0) as engine:
        hung, free = hanging(engine)
        speaking, waiting = engine.open(SpeakRequest()), engine.open(SpeakRequest())
        speaking.push_text("good morning ")
        speaking.end()
        assert hung.wait(60.0)
        for utterance in (speaking, waiting):
            last = [*utterance.events()][-1]
            assert isinstance(last, ev.Failed) and last.code == "stuck" and "vocode of tiny" in last.message
        with pytest.raises(Stuck, match="vocode of tiny hangs"):
            engine.open(SpeakRequest())
        assert engine.stuck() == "vocode of tiny" and engine.load().waiting == 0
        free.set()
        while engine.stuck():
            time.sleep(0.005)
        again = say(engine, "good morning ")
        assert isinstance([*again.events()][-1], ev.Ended)


def test_who_waits_too_long_to_be_let_in_is_told_and_holds_nothing(voices: Path) -> None:
    with opened(voices, open_ms=1_000.0) as engine:
        hung, free = hanging(engine)
        speaking = say(engine, "good morning ")
        assert hung.wait(60.0)
        with pytest.raises(Stuck, match="did not respond in time"):
            engine.open(SpeakRequest())
        free.set()
        assert isinstance([*speaking.events()][-1], ev.Ended)
        while not engine.free_slots():
            time.sleep(0.005)
        assert engine.load().waiting == 0


def test_an_engine_that_is_stuck_can_be_closed(voices: Path) -> None:
    engine = open_engine(voices, best(), device="cpu", threads=1, slots=1, limits=EngineLimits(stuck_run_ms=50.0))
    free = threading.Event()
    engine.voice("tiny").vocode.run = lambda *_: free.wait(60.0)
    utterance = say(engine, "good morning ")
    assert isinstance([*utterance.events()][-1], ev.Failed)
    engine.close()
    free.set()


def test_a_drain_says_what_is_committed_and_refuses_what_is_new(voices: Path) -> None:
    with opened(voices) as engine:
        utterance, waiting = engine.open(SpeakRequest(options={"m": 4})), engine.open(SpeakRequest())
        utterance.push_text("one two thr")
        engine.drain()
        with pytest.raises(Closing):
            engine.open(SpeakRequest())
        refused = [*waiting.events()][-1]
        assert isinstance(refused, ev.Failed) and refused.code == "closing"
        events = [*utterance.events()]
        assert [one.word for one in of(ev.Committed, events)] == ["one", "two"]
        assert isinstance(events[-1], ev.Ended) and events[-1].samples > 0 and not of(ev.Cancelled, events)
        with pytest.raises(Closed):
            utterance.push_text("ee ")


def test_a_flush_in_the_queue_shrinks_no_window_that_text_follows(voices: Path) -> None:
    def seen(flush_last: bool) -> list[list[int]]:
        with opened(voices) as engine:
            taken, waiting = engine.open(SpeakRequest()), engine.open(SpeakRequest(options={"m": 3}))
            waiting.push_text("one ")
            waiting.flush()
            waiting.push_text("two three ")
            if flush_last:
                waiting.flush()
            else:
                waiting.push_text("four ")
                waiting.end()
            taken.cancel()
            events = waiting.events()
            got = [next(events)]
            while len(of(ev.Eos, got)) < 3:
                got.append(next(events))
            waiting.cancel()
            assert isinstance([*events][-1], ev.Ended)
            return [one.seen for one in of(ev.Segment, got)][:3]

    assert seen(flush_last=False) == [[0, 1, 2], [1, 2, 3], [2, 3]]
    assert seen(flush_last=True) == [[0, 1, 2], [1, 2], [2]]


@pytest.mark.parametrize(
    ("waiting", "speaking", "order"),
    [
        ([], [], []),
        (["", "", ""], ["", ""], [0, 1, 2]),  # nobody is known: first come, first served
        (["a", "a", "a"], ["a"], [0, 1, 2]),
        (["a", "a", "b"], ["a"], [2, 0, 1]),
        (["a", "a", "b", "b"], [], [0, 2, 1, 3]),
        (["a", "", "b"], ["a"], [1, 2, 0]),
        (["a", "a", "a", "b", "c", "b"], ["b"], [0, 4, 1, 3, 2, 5]),
    ],
)
def test_places_go_to_who_has_fewest(waiting: list[str], speaking: list[str], order: list[int]) -> None:
    assert fair_order(waiting, speaking) == order


@pytest.mark.parametrize(
    ("waiting", "client", "leaves"),
    [
        ([], "a", None),
        (["a", "a"], "a", None),
        (["a", "a"], "b", 1),
        (["a", "b"], "c", None),
        (["a", "b", "a"], "b", None),  # it would have two, too
        (["a", "b", "a", "a", "b"], "c", 3),
        (["", "", ""], "a", None),
        (["a", "a", ""], "", 1),
    ],
)
def test_room_is_made_by_who_has_most(waiting: list[str], client: str, leaves: int | None) -> None:
    assert pick_evicted(waiting, client) == leaves


def test_shares_even_out_and_nobody_is_pushed_out_for_who_has_as_many() -> None:
    draw = random.Random(5)
    for _ in range(200):
        waiting = draw.choices("abcd", k=8)
        for _ in range(40):
            client = draw.choice("abcd")
            leaves = pick_evicted(waiting, client)
            if leaves is not None:
                assert Counter(waiting)[waiting[leaves]] > Counter(waiting)[client] + 1
                del waiting[leaves]
                waiting.append(client)
        order = [waiting[at] for at in fair_order(waiting, [])]
        assert sorted(order) == sorted(waiting)
        firsts = len(set(waiting))
        assert len(set(order[:firsts])) == firsts, "everybody's first comes before anybody's second"
