"""The scheduler on a clock of its own, by made-up costs; and paper 004's timeline (section 2.2.3)."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tones import tone_card
from toyfamily import ToyRow

from studio.core import events as ev
from studio.engine.families.common.word_times import WordTimes
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import LOW_BUFFER_MS, MAX_SHORT_STEPS, MIN_BUFFERED_ROWS, Scheduler, SchedulingPolicy

FRAME_MS = 25.0
ROW_MS = 2.2  # a frame of one row; eight of them take 70% of a frame's time
PREFILL_MS = 3.0
CREDIT_MS = 2000.0


@dataclass
class Speaker:
    """One who listens from the first sound on, and lets the voice run two seconds ahead."""

    came_ms: float
    frames_left: int = 10**9
    dry_at_ms: float = -math.inf
    first_ms: float | None = None
    stalls: int = 0

    def buffered_ms(self, now_ms: float) -> float:
        return self.dry_at_ms - now_ms

    def spoke(self, now_ms: float) -> None:
        if self.first_ms is None:
            self.first_ms = now_ms
        elif now_ms > self.dry_at_ms:
            self.stalls += 1
        self.dry_at_ms = max(self.dry_at_ms, now_ms) + FRAME_MS
        self.frames_left -= 1


@dataclass
class Machine:
    """Turns of rows that cost their sum, with the scheduler or without."""

    schedule: SchedulingPolicy | None
    speakers: list[Speaker] = field(default_factory=list[Speaker])
    now_ms: float = 0.0

    def turn(self) -> None:
        speaks = [s for s in self.speakers if s.frames_left and s.buffered_ms(self.now_ms) < CREDIT_MS]
        if self.schedule is not None:
            speaks = self.schedule.choose(speaks, lambda one: one.buffered_ms(self.now_ms))
        duration_ms = sum(ROW_MS + PREFILL_MS * (one.first_ms is None) for one in speaks)
        if self.schedule is not None:
            self.schedule.on_step(len(speaks), duration_ms)
        self.now_ms += duration_ms or 1.0
        for one in speaks:
            one.spoke(self.now_ms)


def newcomers(schedule: SchedulingPolicy | None, speakers: int) -> tuple[np.ndarray, int]:
    """First audio of a hundred short utterances beside so many long ones, and the stalls of these."""
    machine = Machine(schedule, [Speaker(0.0) for _ in range(speakers)])
    draw = np.random.default_rng(3)
    first: list[float] = []
    while machine.now_ms < 20_000.0:
        machine.turn()
    for _ in range(100):
        until_ms = machine.now_ms + draw.uniform(100.0, 200.0)
        while machine.now_ms < until_ms:
            machine.turn()
        new = Speaker(until_ms, frames_left=20)
        machine.speakers.append(new)
        while new.first_ms is None:
            machine.turn()
        first.append(new.first_ms - until_ms)
    return np.array(first), sum(one.stalls for one in machine.speakers)


def test_a_newcomer_waits_for_one_short_turn_and_nobody_pays_for_it() -> None:
    """Eighty per cent of the machine is taken; alone, first audio takes a prefill and a frame."""
    idle_ms = PREFILL_MS + ROW_MS
    plain, _ = newcomers(None, 8)
    found, stalls = newcomers(SchedulingPolicy(), 8)
    assert np.quantile(found, 0.95) <= 3.0 * idle_ms < np.quantile(plain, 0.95) < 6.0 * idle_ms
    assert stalls == 0


def test_while_all_are_ahead_a_turn_is_short_and_everybody_has_theirs() -> None:
    schedule = SchedulingPolicy()
    for _ in range(60):
        schedule.on_step(8, 8 * 2.0)
    left = [500.0 + k for k in range(16)]
    for _ in range(8):
        chosen = schedule.choose(range(16), lambda one: left[one])
        assert len(chosen) == 5
        for one in chosen:
            left[one] += FRAME_MS
    assert max(left) - min(left) <= 2 * FRAME_MS
    assert len(schedule.choose(range(16), lambda one: 100.0)) == 16, "but all of them where they are needed"


def test_who_is_well_ahead_stands_back_where_rows_are_dear_and_somebody_is_near() -> None:
    schedule = SchedulingPolicy()
    for _ in range(60):
        schedule.on_step(4, 4 * 20.0)
    assert schedule.choose([500.0, 100.0, 600.0, 700.0], lambda ms: ms) == [100.0]
    assert len(schedule.choose([500.0 + one for one in range(8)], lambda ms: ms)) == MIN_BUFFERED_ROWS


def test_nobody_is_starved_by_newcomers_without_end() -> None:
    schedule = SchedulingPolicy()
    chosen = [schedule.choose([math.inf, -math.inf], lambda ms: ms) for _ in range(9)]
    assert [len(one) for one in chosen] == [1] * MAX_SHORT_STEPS + [2] + [1] * MAX_SHORT_STEPS + [2] + [
        1
    ] * MAX_SHORT_STEPS + [2]


def stalls_beside_leavers(schedule: SchedulingPolicy, prefill_ms: float) -> tuple[int, int]:
    """Stalls of a listener while three clients open utterances and leave with the first sound; and how many did."""
    listener, now_ms, left = Speaker(0.0), 0.0, 0
    leavers = [Speaker(0.0) for _ in range(3)]
    while now_ms < 20_000.0:
        buffered = {id(one): one.buffered_ms(now_ms) for one in (listener, *leavers)}
        ready = [one for one in (listener, *leavers) if buffered[id(one)] < CREDIT_MS]
        chosen = schedule.choose(ready, lambda one, buffered=buffered: buffered[id(one)])
        duration_ms = sum(ROW_MS + prefill_ms * (one.first_ms is None) for one in chosen)
        schedule.on_step(len(chosen), duration_ms)
        now_ms += duration_ms or 1.0
        for one in chosen:
            one.spoke(now_ms)
        left += sum(one.first_ms is not None for one in leavers)
        leavers = [Speaker(now_ms) if one.first_ms is not None else one for one in leavers]
    return listener.stalls, left


def test_clients_that_open_utterances_and_leave_do_not_silence_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    stalls, left = stalls_beside_leavers(SchedulingPolicy(), 20.0)
    assert stalls <= 3 and left > 400, "some before the cost of a newcomer is known"
    monkeypatch.setattr(SchedulingPolicy, "_limit_new", lambda self, by_buffer: by_buffer)
    assert stalls_beside_leavers(SchedulingPolicy(), 20.0)[0] > 200


@pytest.mark.parametrize(
    ("left", "chosen"),
    [
        ([], []),
        ([500.0, 80.0], [80.0, 500.0]),  # nobody is in need
        ([500.0, -math.inf], [-math.inf]),
        ([500.0, LOW_BUFFER_MS, -math.inf], [-math.inf, LOW_BUFFER_MS]),
        ([500.0, -3.0, 20.0], [-3.0, 20.0]),  # one that has run dry
        ([-3.0, 20.0], [-3.0, 20.0]),  # none could wait
    ],
)
def test_who_takes_part(left: list[float], chosen: list[float]) -> None:
    assert SchedulingPolicy().choose(left, lambda ms: ms) == chosen


STEP_MS, NEXT_MS = 30.0, 20.0


class _World:
    """A pool whose modules take as long as they are told, and tell when the clock passes a moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.step_ms = 0.0
        self.at: tuple[float, Any] | None = None
        self.sizes: list[int] = []
        self.pool = Scheduler(SimpleNamespace(now_ms=lambda: self.now))  # pyright: ignore
        step, vocode = self._module(0.6, self._frames), self._module(0.4, self._sound)
        family = SimpleNamespace(modules={"step": step}, slots=None)
        of_a_voice = {
            "start_lookup": lambda words: None,
            "release": lambda row: None,
            "word_times": lambda speaker: WordTimes(600, lambda frames: np.zeros(len(frames)), np.zeros((1, 80))),
        }
        self.voice = SimpleNamespace(card=tone_card(), family=family, vocode=vocode, **of_a_voice)

    def speak(self, slot: int) -> EngineRequest:
        row = ToyRow((slot,), 0, {"wait": 0}, 1)
        rates = {"rate_hz": 24_000, "frame_samples": 600}
        options = {"scheme": "S1", "m": 3, "n": 1}
        ready = ev.Ready(utterance=0, voice="tone", speaker="low", family="toy", seed=1, options=options, **rates)
        clock = SimpleNamespace(now_ms=lambda: self.now)
        one = EngineRequest(
            self.voice,
            row,
            0,
            ready,
            lambda tokens, before: [(t, k) for k, t in enumerate(tokens)],
            clock,
            lambda: None,
            None,
            {},
        )  # pyright: ignore
        one.begin()
        one.push_text("word " * 40)
        return one

    def _module(self, share: float, answer: Any) -> Any:
        def run(slots: Any, rows: list[Any], inputs: list[Any]) -> list[Any]:
            self.sizes.append(len(rows))
            self._pass(share * self.step_ms)
            return [answer() for _ in rows]

        return SimpleNamespace(max_rows=64, run=run, slots=None)

    def _pass(self, ms: float) -> None:
        until = self.now + ms
        if self.at is not None and self.now <= self.at[0] < until:
            self.now, come = self.at
            self.at = None
            come()
        self.now = until

    def _frames(self) -> tuple[np.ndarray, float]:
        return np.full((1, 80), 3, np.uint8), 0.5

    def _sound(self) -> np.ndarray:
        return np.zeros(600, np.float32)


def _latency_ms(came_ms: float) -> float:
    """First sound of one who comes so long after a step has begun, which others are in."""
    world = _World()
    active = [world.speak(0), world.speak(1)]
    world.step_ms = 7.0
    world.pool.step(active)
    came: list[EngineRequest] = []
    world.at = (world.now + came_ms, lambda: came.append(world.speak(2)))
    world.step_ms = STEP_MS
    world.pool.step(active)
    world.step_ms = NEXT_MS
    world.sizes.clear()
    world.pool.step([*active, *came])
    assert world.sizes == [3, 3], "it shares the very next step with those who speak, in every module"
    came[0].cancel()
    came[0].read_input()
    first = next(one for one in came[0].events() if isinstance(one, ev.Audio))
    return first.t_ms


def test_the_expected_first_chunk_latency_is_half_a_step_and_the_next() -> None:
    """Who comes in step t gets the first sound T_t / 2 + T_(t+1) later, on average."""
    count = 200
    found = [_latency_ms(STEP_MS * (k + 0.5) / count) for k in range(count)]
    assert np.mean(found) == pytest.approx(STEP_MS / 2 + NEXT_MS, rel=1e-6)
    assert max(found) <= STEP_MS + NEXT_MS and min(found) >= NEXT_MS
