"""The latency ladder from a trace with known times."""

import numpy as np
import pytest

from studio.core import events as ev
from studio.core.traces.trace import Trace, collect_trace
from studio.measure.latency import ladder, percentiles, summary

RATE_HZ, FRAME = 24000, 600


def story(late_ms: float = 0.0) -> Trace:
    """Words at 10, 20, 30 ms; m=2; first frame at 50, samples at 55, the third chunk is the first audible one."""
    loud = np.full(FRAME, 8000, np.int16)
    loud[::2] *= -1
    events = [
        ev.Ready(utterance=1, voice="v", speaker="s", family="f", rate_hz=RATE_HZ, frame_samples=FRAME, seed=0),
        ev.TextReceived(char_start=0, text="one ", t_ms=10),
        ev.Committed(i=0, word="one", written=0, char_start=0, char_end=3, t_ms=10.2),
        ev.TextReceived(char_start=4, text="two ", t_ms=20),
        ev.Committed(i=1, word="two", written=1, char_start=4, char_end=7, t_ms=20.2),
        ev.TextReceived(char_start=8, text="three ", t_ms=30),
        ev.Committed(i=2, word="three", written=2, char_start=8, char_end=13, t_ms=30.2),
    ]
    events.append(ev.Segment(index=0, words=[0], seen=[0, 1], sample=0, frame=0, t_ms=50.0 + late_ms))
    for k in range(6):
        t_ms = 50.0 + 10 * k + late_ms
        events.append(ev.Frames(first_frame=k, p_eos=[0.0], levels=np.zeros((1, 80), np.uint8), t_ms=t_ms))
        pcm = np.zeros(FRAME, np.int16) if k < 2 else loud
        events.append(ev.Audio(sample=k * FRAME, pcm=pcm, t_ms=t_ms + 5))
    events += [
        ev.Wait(reason="compute", sample=3 * FRAME, duration_ms=40.0, t_ms=80),
        ev.Wait(reason="text", sample=3 * FRAME, duration_ms=70.0, t_ms=80),
        ev.Ended(samples=6 * FRAME, compute_ms=30.0, t_ms=120),
    ]
    return collect_trace({}, events)


def test_every_step_of_the_ladder():
    steps = ladder(story())
    assert (steps.t0a_ms, steps.t0_ms, steps.t1_ms, steps.t2_ms, steps.t5_ms) == (10, 20, 50, 55, 75)
    assert (steps.since("t2", "t0"), steps.since("t5", "t0a")) == (35, 65)
    assert (steps.stalls, steps.stalled_ms) == (1, 40.0)
    assert steps.rtf == pytest.approx(30.0 / 150.0)
    assert steps.chunk_gaps_ms == pytest.approx([10.0] * 5)


def test_audibility_depends_on_the_voices_level():
    assert ladder(story(), speech_db=20.0 * np.log10(8000 / 32768) + 25).t5_ms == 75
    assert ladder(story(), speech_db=20.0 * np.log10(8000 / 32768) + 35).t5_ms is None


def test_utterance_without_audio_has_no_times():
    trace = story()
    trace = collect_trace({}, [one for one in trace.events if not isinstance(one, ev.Audio | ev.Frames | ev.Segment)])
    steps = ladder(trace)
    assert (steps.t0a_ms, steps.t0_ms, steps.t2_ms, steps.t5_ms) == (10, None, None, None)


def test_summary_is_keyed_by_the_ladder():
    out = summary([ladder(story(late)) for late in (0.0, 10.0, 20.0)])
    assert out["t2_t0_ms"] == {"p50": 45.0, "p95": pytest.approx(54.0), "iqr": 10.0, "n": 3}
    assert out["t5_t0a_ms"]["p50"] == 75.0
    assert out["rtf"] == pytest.approx(0.2)
    assert out["stalls"] == 3
    assert set(out["chunk_gap_ms"]) == {"p50", "p95", "p99", "iqr", "n"}


def test_percentiles_leave_out_missing_values():
    assert percentiles([1.0, None, 3.0])["n"] == 2
    assert np.isnan(percentiles([None])["p50"])
