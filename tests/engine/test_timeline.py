"""Paper 004's timeline (section 2.2.3) by a clock of the test's own.

Who comes in step t gets the first sound T_t / 2 + T_(t+1) later, on average.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tones import tone_card
from toyfamily import ToyRow

from studio.core import events as ev
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import Scheduler

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
        of_a_voice = {"start_lookup": lambda words: None, "release": lambda row: None}
        self.voice = SimpleNamespace(card=tone_card(), family=family, vocode=vocode, **of_a_voice)

    def speak(self, slot: int) -> EngineRequest:
        row = ToyRow((slot,), 0, {"wait": 0}, 1)
        rates = {"rate_hz": 24_000, "frame_samples": 600}
        options = {"scheme": "S1", "m": 3, "n": 1}
        ready = ev.Ready(utterance=0, voice="tone", speaker="low", family="toy", seed=1, options=options, **rates)
        clock = SimpleNamespace(now_ms=lambda: self.now)
        one = EngineRequest(
            self.voice, row, ready, lambda tokens: [(t, k) for k, t in enumerate(tokens)], clock, lambda: None, None, {}
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
    count = 200
    found = [_latency_ms(STEP_MS * (k + 0.5) / count) for k in range(count)]
    assert np.mean(found) == pytest.approx(STEP_MS / 2 + NEXT_MS, rel=1e-6)
    assert max(found) <= STEP_MS + NEXT_MS and min(found) >= NEXT_MS
