"""Several frames of one run: for rows whose listener has sound left; their events are those of single frames."""

from collections.abc import Sequence
from typing import Any

import pytest

from studio.bench.speed.host import _CpuClock, _null_voice
from studio.bench.speed.step_baselines import begin_request
from studio.core import events as ev
from studio.core.time import MonotonicClock
from studio.engine.scheduler import LOW_BUFFER_MS, Scheduler

FRAMES = 120


def spoken(max_frames: int) -> tuple[list[ev.Event], list[int]]:
    """The events of an utterance, and the frames of each of its chunks."""
    voice, clock = _null_voice(1), _CpuClock()
    module = voice.family.modules["decode"]
    module.max_frames = max_frames
    request = begin_request(voice, 0, FRAMES * voice.card.frame_samples, clock)
    scheduler = Scheduler(clock)
    while scheduler.step([request]):
        pass
    events = request.poll_events()
    return [*events], [len(one.pcm) // voice.card.frame_samples for one in events if isinstance(one, ev.Audio)]


def without_times(events: Sequence[ev.Event]) -> list[dict[str, Any]]:
    """Events that do not depend on the size of chunks."""
    chunked = ev.Audio | ev.Frames | ev.Wait
    return [{**one.to_dict(), "t_ms": 0, "utterance": 0} for one in events if not isinstance(one, chunked)]


def p_eos(events: Sequence[ev.Event]) -> list[float]:
    frames = [one for one in events if isinstance(one, ev.Frames)]
    assert [one.first_frame for one in frames[1:]] == [one.first_frame + len(one.p_eos) for one in frames[:-1]]
    assert all(len(one.levels) == len(one.p_eos) for one in frames)
    return [p for one in frames for p in one.p_eos]


def test_the_events_are_those_of_single_frames() -> None:
    (alone, single), (together, chunks) = spoken(1), spoken(8)
    assert set(single) == {1}
    assert max(chunks) > 1
    assert sum(chunks) == sum(single) == FRAMES
    assert without_times(together) == without_times(alone)
    assert p_eos(together) == p_eos(alone)


def test_a_newcomer_and_a_short_credit_get_single_frames() -> None:
    voice, clock = _null_voice(1), _CpuClock()
    request = begin_request(voice, 0, 3 * voice.card.frame_samples, clock)
    assert request.frames_ahead(clock.now_ms(), LOW_BUFFER_MS, 8) == 1
    scheduler = Scheduler(clock)
    while scheduler.step([request]):
        pass
    assert request.samples == 3 * voice.card.frame_samples


class _SlowClock(MonotonicClock):
    """Every look at it takes a millisecond, so that a step of some rows lasts longer than a frame."""

    def __init__(self) -> None:
        self._ms = 0.0

    def now_ms(self) -> float:
        self._ms += 1.0
        return self._ms


def chunks_of_a_slow_host() -> list[int]:
    voice, clock = _null_voice(16), _SlowClock()
    credit = FRAMES * voice.card.frame_samples
    requests = [begin_request(voice, seed, credit, clock) for seed in range(16)]
    scheduler = Scheduler(clock)
    while scheduler.step([one for one in requests if not one.done]):
        pass
    events = [event for one in requests for event in one.poll_events()]
    return [len(one.pcm) // voice.card.frame_samples for one in events if isinstance(one, ev.Audio)]


def test_a_host_that_is_late_makes_more_frames_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = chunks_of_a_slow_host()
    assert sum(chunks) == 16 * FRAMES and sum(chunks) / len(chunks) > 3.0
    monkeypatch.setattr(Scheduler, "_least_frames", lambda *_: 1)
    assert set(chunks_of_a_slow_host()) == {1}, "single frames never catch up"
