"""The latency ladder (t0a, t0, t1, ...) of a trace."""

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from studio.core import events as ev
from studio.core.traces.trace import LaterRevisions, Trace
from studio.measure.signal import active_level_db, first_audible_sample


@dataclass(frozen=True)
class LatencyLadder:
    """Times of an utterance in ms since ``ready``; None if the trace lacks the step.

    t3 (first byte sent), t4 (received) and t6 (out of the player) are measured by sender and player.
    """

    t0a_ms: float | None
    t0_ms: float | None
    t1_ms: float | None
    t2_ms: float | None
    t5_ms: float | None
    compute_ms: float
    audio_ms: float
    stalls: int
    stalled_ms: float
    chunk_gaps_ms: tuple[float, ...]

    @property
    def rtf(self) -> float:
        """Compute / audio; lower is better."""
        return self.compute_ms / self.audio_ms if self.audio_ms else float("nan")

    def since(self, step: str, start: str) -> float | None:
        """Time from one step to another: ``since("t2", "t0")``."""
        end_ms, start_ms = getattr(self, f"{step}_ms"), getattr(self, f"{start}_ms")
        return None if end_ms is None or start_ms is None else end_ms - start_ms


def ladder(trace: Trace, speech_db: float | None = None) -> LatencyLadder:
    """The ladder of an utterance.

    The first window is complete with the last word fed to the first segment. t1 is the time of the first segment,
    reported with its first frame, before vocoding (frames are reported a step later, when their p_eos is known).

    Args:
        speech_db: the voice's active speech level; None for this utterance's own.
    """
    arrived = arrivals(trace.events)
    first = next((one for one in trace.events if isinstance(one, ev.Segment)), None)
    chunks = [one for one in trace.events if isinstance(one, ev.Audio)]
    ended = next((one for one in trace.events if isinstance(one, ev.Ended)), None)
    stalls = [one for one in trace.waits() if one.reason in ev.STALL_REASONS]
    level_db = active_level_db(trace.pcm, trace.rate_hz) if speech_db is None else speech_db
    audible = first_audible_sample(trace.pcm, trace.rate_hz, level_db) if np.isfinite(level_db) else None
    audible_ms = [
        one.t_ms for one in chunks if audible is not None and one.sample <= audible < one.sample + len(one.pcm)
    ]
    times_ms = [one.t_ms for one in chunks]
    return LatencyLadder(
        t0a_ms=arrived.get(0),
        t0_ms=max((arrived[i] for i in first.seen if i in arrived), default=None) if first else None,
        t1_ms=first.t_ms if first else None,
        t2_ms=times_ms[0] if times_ms else None,
        t5_ms=audible_ms[0] if audible_ms else None,
        compute_ms=ended.compute_ms if ended else 0.0,
        audio_ms=1000.0 * len(trace.pcm) / trace.rate_hz,
        stalls=len(stalls),
        stalled_ms=sum(one.duration_ms for one in stalls),
        chunk_gaps_ms=tuple(float(gap) for gap in np.diff(times_ms)),
    )


def arrivals(events: Sequence[ev.Event]) -> dict[int, float]:
    """Arrival of each committed word, ms since ``ready``: when the character after it came, else when it was flushed.

    The commit time would understate the latency: an engine reads its inbox later than text arrives.
    """
    flushes_ms = sorted(one.t_ms for one in events if isinstance(one, ev.Flushed))
    ends: list[int] = []  # end of the text after each arrival; a revision removes later ones
    times_ms: list[float] = []
    arrived: dict[int, float] = {}
    later = LaterRevisions(events)
    for k, event in enumerate(events):
        if isinstance(event, ev.TextReceived):
            cut_ms: float | None = None
            while ends and ends[-1] > event.char_start:
                ends.pop()
                cut_ms = times_ms.pop()
            if cut_ms is not None:  # the piece's text before the revision stays
                ends.append(event.char_start)
                times_ms.append(cut_ms)
            ends.append(event.char_start + len(event.text))
            times_ms.append(event.t_ms)
        elif isinstance(event, ev.Committed) and event.i < later.words[k]:
            arrived.setdefault(event.i, _arrival(event, ends, times_ms, flushes_ms))
    return arrived


def _arrival(word: ev.Committed, ends: Sequence[int], times_ms: Sequence[float], flushes_ms: Sequence[float]) -> float:
    after = bisect.bisect_right(ends, word.char_end)
    if after < len(ends) and times_ms[after] <= word.t_ms:
        return times_ms[after]
    flush = bisect.bisect_left(flushes_ms, word.t_ms)
    if flush < len(flushes_ms):
        return flushes_ms[flush]
    return max((t_ms for t_ms in times_ms[-1:] if t_ms <= word.t_ms), default=word.t_ms)


def percentiles(values: Sequence[float | None], points: Sequence[int] = (50, 95)) -> dict[str, float]:
    """``{"p50": ..., "p95": ..., "iqr": ..., "n": ...}`` of the values that are not None; NaN if there are none."""
    known = [value for value in values if value is not None]
    out = {f"p{point}": float(np.percentile(known, point)) if known else float("nan") for point in points}
    low, high = np.percentile(known, (25, 75)) if known else (np.nan, np.nan)
    return out | {"iqr": float(high - low), "n": len(known)}


STEPS = (("t1", "t0"), ("t2", "t0"), ("t5", "t0"), ("t2", "t0a"), ("t5", "t0a"))


def summary(ladders: Sequence[LatencyLadder]) -> dict[str, Mapping[str, float] | float]:
    """Figures of many utterances, keyed by the ladder: ``{"t2_t0_ms": {"p50": ...}, ..., "rtf": ...}``."""
    out: dict[str, Mapping[str, float] | float] = {
        f"{step}_{start}_ms": percentiles([one.since(step, start) for one in ladders]) for step, start in STEPS
    }
    out["chunk_gap_ms"] = percentiles([gap for one in ladders for gap in one.chunk_gaps_ms], (50, 95, 99))
    audio_ms = sum(one.audio_ms for one in ladders)
    out["rtf"] = sum(one.compute_ms for one in ladders) / audio_ms if audio_ms else float("nan")
    out["stalls"], out["stalled_ms"] = sum(one.stalls for one in ladders), sum(one.stalled_ms for one in ladders)
    return out
