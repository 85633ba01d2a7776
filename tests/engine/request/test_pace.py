"""Listeners who play the sound faster or slower than the voice speaks: waits, buffers and revisions in their time."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from studio.bench.speed.host import _null_voice
from studio.bench.speed.step_baselines import begin_request
from studio.core import events as ev
from studio.core.ports import PLAYED_REPORT_MS, SpeakRequest
from studio.core.time import MonotonicClock
from studio.engine.request.request import EngineRequest
from studio.engine.scheduler import LOW_BUFFER_MS, Scheduler
from studio.markup.parts import open_marked

FRAMES = 120
FRAME_MS = 25.0
PACES = (0.5, 1.0, 2.0)


class HeldClock(MonotonicClock):
    """Moved by the test."""

    ms = 0.0

    def now_ms(self) -> float:
        return self.ms


def a_request(frames: int = FRAMES) -> tuple[EngineRequest, HeldClock]:
    voice, clock = _null_voice(1), HeldClock()
    voice.family.modules["decode"].max_frames = 1
    return begin_request(voice, 0, frames * voice.card.frame_samples, clock), clock


def speak(request: EngineRequest, clock: HeldClock, step_ms: float) -> None:
    """Speak what the credit allows, a frame in each step."""
    scheduler = Scheduler(clock)
    while scheduler.step([request]):
        clock.ms += step_ms


def silence_ms(events: Sequence[ev.Event], rate_hz: float) -> float:
    """How long a player of the packets has nothing to play, from the first one to the last."""
    dry_ms, total_ms = None, 0.0
    for event in events:
        if isinstance(event, ev.Audio):
            dry_ms = event.t_ms if dry_ms is None else dry_ms
            total_ms += max(0.0, event.t_ms - dry_ms)
            dry_ms = max(dry_ms, event.t_ms) + 1000.0 * len(event.pcm) / rate_hz
    return total_ms


def waits_ms(events: Sequence[ev.Event]) -> float:
    return sum(one.duration_ms for one in events if isinstance(one, ev.Wait))


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("step_ms", [10.0, 20.0, 40.0, 80.0])
def test_waits_are_what_the_listener_hears(pace: float, step_ms: float) -> None:
    request, clock = a_request()
    request.set_pace(pace)
    speak(request, clock, step_ms)
    events, rate_hz = request.poll_events(), request.card.sample_rate_hz
    assert request.samples == FRAMES * request.card.frame_samples
    assert waits_ms(events) == pytest.approx(silence_ms(events, rate_hz * pace), abs=1.0)
    assert waits_ms(events) > 0.0 or step_ms <= FRAME_MS / pace
    assert request.stalled_ms == pytest.approx(waits_ms(events)), "the engine's figures say so, too"


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_waits_of_a_speed_are_those_between_its_packets(speed: float) -> None:
    request, clock = a_request()
    engine: Any = SimpleNamespace(open=lambda asked: request)
    utterance = open_marked(engine, SpeakRequest(), "plain", speed)
    speak(request, clock, 80.0)
    events = utterance.poll_events()
    expected_ms = silence_ms(events, request.card.sample_rate_hz)
    assert expected_ms > 3000.0
    assert waits_ms(events) == pytest.approx(expected_ms, abs=700.0), "a stretcher sends a few frames at once"


@pytest.mark.parametrize("pace", PACES)
def test_sound_lasts_as_long_as_it_is_played(pace: float) -> None:
    request, clock = a_request(40)
    request.set_pace(pace)
    speak(request, clock, 0.0)
    request.grant(10**6)
    buffered_ms = 40 * FRAME_MS / pace
    assert request.buffered_ms(clock.ms) == pytest.approx(buffered_ms)
    frames = int((buffered_ms - LOW_BUFFER_MS) * pace / FRAME_MS)
    assert request.frames_ahead(clock.ms, LOW_BUFFER_MS, 1000) == pytest.approx(frames, abs=1)


@pytest.mark.parametrize("pace", PACES)
def test_what_is_played_until_a_report_comes_is_not_revised(pace: float) -> None:
    request, clock = a_request()
    request.set_pace(pace)
    speak(request, clock, 0.0)
    request.played(600)
    margin_samples = request._played_bound() - 600
    assert 1000.0 * margin_samples / (request.card.sample_rate_hz * pace) == pytest.approx(2 * PLAYED_REPORT_MS)


def test_a_fast_listener_needs_more_frames_a_step() -> None:
    request, clock = a_request()
    scheduler: Any = Scheduler(clock)
    scheduler._step_ms = 45.0
    assert [scheduler._least_frames(request.voice, pace) for pace in PACES] == [1, 2, 4]
