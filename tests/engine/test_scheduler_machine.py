"""Random joins, leaves, cancels and revisions: each utterance's samples are those it would have had alone (law 3).

``STUDIO_POOL_STEPS=10000 pytest tests/engine/test_scheduler_machine.py`` takes so many steps; CI takes a few.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from listening import tiny_engine

from studio.core import events as ev
from studio.core.errors import BadOption, Closed, TooLate
from studio.core.ports import SpeakRequest
from studio.core.time import MonotonicClock
from studio.core.traces.trace import Trace, collect_trace
from studio.engine.engine import LocalEngine
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import Scheduler

pytestmark = pytest.mark.slow

PLACES = 6
STEPS = int(os.environ.get("STUDIO_POOL_STEPS", "0"))
WORDS = "one two $3.50 four, five; 1999 seven. eight nine ten".split()
FRAME = 600


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    with closing(tiny_engine(tmp_path_factory.mktemp("voices"), slots=PLACES + 1, speakers=("one", "two"))) as engine:
        yield engine


@dataclass
class Life:
    """One utterance: what was asked of it, and after how many runs of its own.

    Its story also tells when it read what was asked, though others were chosen to run, or it had nothing to say.
    """

    request: SpeakRequest
    utterance: EngineRequest
    runs: int = 0
    has_read: bool = False
    story: list[tuple[int, str, tuple[Any, ...]]] = field(default_factory=list)
    events: list[ev.Event] = field(default_factory=list)

    def do(self, what: str, *given: Any) -> None:
        """Ask something of it; what is refused is refused in words."""
        self.story.append((self.runs, what, given))
        try:
            getattr(self.utterance, what)(*given)
        except (Closed, TooLate):
            self.story.pop()

    def listen(self) -> None:
        """Take what it said so far."""
        self.events += self.utterance.poll_events()

    @property
    def trace(self) -> Trace:
        return collect_trace({}, self.events)


def begin(engine: LocalEngine, request: SpeakRequest) -> Life:
    """An utterance whose turns the test takes, not the engine's thread."""
    opened = engine.open(request)
    with engine._admission._lock:
        engine._admission._running = [one for one in engine._admission._running if one is not opened]
    with pytest.raises(BadOption):  # answered between two turns: the engine's thread has let go of it
        engine.open(SpeakRequest(options={"m": 1, "n": 2}))
    life, on_output, read = Life(request, opened), opened.on_output, opened.read_input

    def counted(outputs: Any, share_ms: float) -> None:
        life.runs += 1
        on_output(outputs, share_ms)

    def noted() -> bool:
        life.has_read = read()
        return life.has_read

    opened.on_output, opened.read_input = counted, noted
    return life


def turn(pool: Scheduler, lives: list[Life]) -> None:
    """One turn for all."""
    going = [(one, one.runs) for one in lives if not one.utterance.done]
    pool.step([one.utterance for one, _ in going])
    for one, runs in going:
        one.listen()
        if one.has_read and one.runs == runs:
            one.story.append((runs, "read_input", ()))


def alone(engine: LocalEngine, life: Life) -> Trace:
    """The same story with nobody else there."""
    pool, again = Scheduler(MonotonicClock()), begin(engine, life.request)
    for due, what, given in life.story:
        for _ in range(3000):
            if again.runs >= due or again.utterance.done:
                break
            turn(pool, [again])
        else:
            again.utterance.cancel()  # or what hypothesis tries next would find its slots taken
            turn(pool, [again])
            raise AssertionError(f"it stands still after {again.runs} runs; {what} came after {due}: {life.story}")
        getattr(again.utterance, what)(*given)
    for _ in range(3000):
        if again.utterance.done:
            break
        turn(pool, [again])
    again.listen()
    return again.trace


def spoken_words(trace: Trace) -> list[tuple[int, str]]:
    """Where each word begins that was begun, and the word."""
    return [(word.start, word.text) for word in trace.words() if word.start is not None]


class Machine(RuleBasedStateMachine):
    """Up to six utterances of two speakers in one pool."""

    engine: LocalEngine

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.lives, self.begun = Scheduler(MonotonicClock()), list[Life](), 0

    def speaking(self) -> list[Life]:
        return [one for one in self.lives if not one.utterance.done]

    def one(self, which: int) -> Life:
        speaking = self.speaking()
        return speaking[which % len(speaking)]

    @precondition(lambda self: len(self.speaking()) < PLACES)
    @rule(m=st.integers(1, 4), n=st.integers(1, 2), scheme=st.sampled_from(["S1", "S2"]), frames=st.integers(4, 60))
    def join(self, m: int, n: int, scheme: str, frames: int) -> None:
        options = {"m": max(m, n), "n": n, "scheme": scheme}
        self.begun += 1
        request = SpeakRequest(
            voice=f"tiny:{('one', 'two')[self.begun % 2]}",
            seed=self.begun,
            options=options,
            credit_samples=frames * FRAME,
        )
        self.lives.append(begin(self.engine, request))
        self.lives[-1].do("push_text", "so it begins ")

    @precondition(lambda self: bool(self.speaking()))
    @rule(
        which=st.integers(0, 9), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), cut=st.integers(0, 3)
    )
    def push(self, which: int, words: list[str], cut: int) -> None:
        text = " ".join(words) + " "
        self.one(which).do("push_text", text[: len(text) - cut])

    @precondition(lambda self: bool(self.speaking()))
    @rule(which=st.integers(0, 9), ahead=st.integers(0, 40))
    def hear(self, which: int, ahead: int) -> None:
        life = self.one(which)
        heard = min(life.utterance._samples, life.utterance._playback.sample + ahead * 300)
        life.do("played", heard)
        life.do("grant", heard + (life.request.credit_samples or 0))

    @precondition(lambda self: bool(self.speaking()))
    @rule(which=st.integers(0, 9), back=st.integers(0, 30), words=st.lists(st.sampled_from(WORDS), max_size=4))
    def revise(self, which: int, back: int, words: list[str]) -> None:
        life = self.one(which)
        at = max(min(life.utterance.settled_chars(), life.utterance._intake.chars), life.utterance._intake.chars - back)
        life.do("revise", at, "".join(f"{word} " for word in words))

    @precondition(lambda self: bool(self.speaking()))
    @rule(which=st.integers(0, 9), what=st.sampled_from(["flush", "end", "cancel"]), played=st.integers(0, 9000))
    def finish(self, which: int, what: str, played: int) -> None:
        self.one(which).do(what, *([played] if what == "cancel" else []))

    @rule(turns=st.integers(1, 25))
    def go_on(self, turns: int) -> None:
        for _ in range(turns):
            turn(self.pool, self.lives)

    def teardown(self) -> None:
        for life in self.speaking():
            life.do("grant", 10**9)
            life.do("end")
        for _ in range(3000):
            if not self.speaking():
                break
            turn(self.pool, self.lives)
        for number, life in enumerate(self.lives):
            life.listen()
            trace, straight = life.trace, alone(self.engine, life)
            assert isinstance(trace.events[-1], ev.Ended), (number, trace.events[-1])
            assert trace.events[-1].samples == len(trace.pcm) and np.array_equal(trace.pcm, straight.pcm), number
            spoken = spoken_words(trace)  # how many more were read before a cancel is not of the sound
            starts = [start for start, _ in spoken]
            assert spoken == spoken_words(straight) and starts == sorted(starts)
        assert len(self.engine.voice("tiny").free_slots) == PLACES + 1


@pytest.mark.timeout(0 if STEPS else 300)  # so many steps take their time
def test_random_joins_leaves_cancels_and_revisions(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "engine", engine, raising=False)
    examples, steps = (max(1, STEPS // 50), 50) if STEPS else (6, 20)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=not STEPS,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("idle_turns", [0, 1, 5])
def test_what_comes_at_once_is_planned_at_once(engine: LocalEngine, idle_turns: int) -> None:
    """A flush with the end behind it: the last segment sees the end, also where the voice had waited for text."""
    pool, life = (
        Scheduler(MonotonicClock()),
        begin(engine, SpeakRequest(voice="tiny", seed=1, options={"m": 2, "n": 1})),
    )
    life.do("push_text", "so it begins ")
    while life.utterance._row.unspoken != 1 or life.utterance._row.next_input() is not None:
        turn(pool, [life])
    for _ in range(idle_turns):
        turn(pool, [life])
    life.do("flush")
    life.do("end")
    turn(pool, [life])
    assert life.utterance._row.fed == sys.maxsize, "the text's end was fed"
    life.do("cancel")
    turn(pool, [life])
