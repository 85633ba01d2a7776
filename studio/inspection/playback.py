"""Playback times of an utterance: runs without a pause, and the pauses between them.

From the player's reports, or without them from an ideal listener, who starts when the first sample is made and pauses
only where the voice did.
"""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.trace import MAX_SILENCE_S, Trace

PlaybackSource = Literal["player", "listener", "recording"]
_MIN_PAUSE_MS = 30.0  # smaller delays between two reports are jitter


@dataclass(frozen=True)
class PlaybackRun:
    """Samples [start, end) played without a pause from ``t_ms`` on."""

    t_ms: float
    start: int
    end: int


@dataclass(frozen=True)
class Pause:
    """A pause in playback before ``sample``; its reason is ``unknown`` if no wait explains it."""

    start_ms: float
    end_ms: float
    sample: int
    reason: ev.WaitReason | Literal["unknown"]

    @property
    def is_stall(self) -> bool:
        """Whether compute or network caused it, not missing text."""
        return self.reason in ev.STALL_REASONS

    @property
    def duration_ms(self) -> float:
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class ChunkTimes:
    """Sample ranges and times of the final chunks of sound."""

    starts: list[int]
    ends: list[int]
    times_ms: list[float]

    def when(self, sample: int) -> float | None:
        """When a sample was made; None where it never was."""
        at = bisect.bisect_right(self.starts, sample) - 1
        return self.times_ms[at] if at >= 0 and sample < self.ends[at] else None


def chunk_times(trace: Trace) -> ChunkTimes:
    chunks = ChunkTimes([], [], [])
    for event in trace.events:
        if isinstance(event, ev.Audio) and len(event.pcm):
            chunks.starts.append(event.sample)
            chunks.ends.append(event.sample + len(event.pcm))
            chunks.times_ms.append(event.t_ms)
        elif isinstance(event, ev.Revised):
            while chunks.starts and chunks.starts[-1] >= event.from_sample:
                for part in (chunks.starts, chunks.ends, chunks.times_ms):
                    part.pop()
            if chunks.ends:
                chunks.ends[-1] = min(chunks.ends[-1], event.from_sample)
    return chunks


def playback(trace: Trace, chunks: ChunkTimes) -> tuple[list[PlaybackRun], list[Pause], PlaybackSource]:
    """Runs and pauses in order, and their source. Raises BadFile where the pauses exceed an hour."""
    samples = len(trace.pcm)
    if not any(isinstance(one, ev.Ready) for one in trace.events):
        return ([PlaybackRun(0.0, 0, samples)] if samples else []), [], "recording"
    waits = [one for one in trace.effective_waits() if 0 <= one.sample <= samples]
    reports = _reports(trace.events)
    if len(reports) > 1:
        runs, pauses = _reported_playback(reports, waits, chunks, trace.rate_hz)
        if not any(isinstance(one, ev.Cancelled) for one in trace.events):
            _extrapolate(runs, pauses, chunks, waits, samples, trace.rate_hz)
        heard_by: PlaybackSource = "player"
    else:
        runs, pauses = _ideal_playback(chunks, waits, samples, trace.rate_hz)
        heard_by = "listener"
    if sum(one.duration_ms for one in pauses) > 1000.0 * MAX_SILENCE_S:
        raise BadFile("the pauses of this trace are longer than an hour", "look at its audio without them")
    return runs, pauses, heard_by


def _reports(events: Iterable[ev.Event]) -> list[tuple[int, float]]:
    """(sample, t_ms) of the player's reports, with rising samples."""
    reports: list[tuple[int, float]] = []
    for event in events:
        if isinstance(event, ev.Played) and event.sample > (reports[-1][0] if reports else 0):
            reports.append((event.sample, event.t_ms))
    return reports


def _ideal_playback(
    chunks: ChunkTimes, waits: Sequence[ev.Wait], samples: int, rate_hz: int
) -> tuple[list[PlaybackRun], list[Pause]]:
    """Playback by an ideal listener: paused by every wait except those for credit.

    A wait ends slightly before the sound after it is made, and no sound is played before it is made.
    """
    runs: list[PlaybackRun] = []
    pauses: list[Pause] = []
    made_ms = _without_credit(chunks, [one for one in waits if one.reason == "credit"])
    at_ms, start = made_ms[0] if made_ms else 0.0, 0

    def run_until(end: int) -> None:
        nonlocal at_ms, start
        if end <= start:
            return
        of_run = range(bisect.bisect_left(chunks.starts, start), bisect.bisect_left(chunks.starts, end))
        earliest_ms = max((made_ms[k] - 1000.0 * (chunks.starts[k] - start) / rate_hz for k in of_run), default=at_ms)
        if earliest_ms > at_ms and pauses and pauses[-1].sample == start:
            pauses[-1] = replace(pauses[-1], end_ms=earliest_ms)
        runs.append(PlaybackRun(max(at_ms, earliest_ms), start, end))
        at_ms, start = runs[-1].t_ms + 1000.0 * (end - start) / rate_hz, end

    for wait in waits:
        if wait.reason != "credit":
            run_until(wait.sample)
            pauses.append(Pause(at_ms, at_ms + wait.duration_ms, wait.sample, wait.reason))
            at_ms = pauses[-1].end_ms
    run_until(samples)
    return runs, pauses


def _without_credit(chunks: ChunkTimes, waits: Sequence[ev.Wait]) -> list[float]:
    """When each chunk would have been made without waits for credit."""
    wait_samples = [one.sample for one in waits]
    waited_ms = [0.0, *accumulate(one.duration_ms for one in waits)]
    return [
        t_ms - waited_ms[bisect.bisect_right(wait_samples, start)]
        for start, t_ms in zip(chunks.starts, chunks.times_ms, strict=True)
    ]


def _reported_playback(
    reports: Sequence[tuple[int, float]], waits: Sequence[ev.Wait], chunks: ChunkTimes, rate_hz: int
) -> tuple[list[PlaybackRun], list[Pause]]:
    """Playback according to the player's reports; a report that is late by more than jitter followed a pause.

    A player reports while it plays, so the pause precedes the samples of the late report. Report times have an error of
    some ms: no run begins before its first sample was made.
    """
    runs: list[PlaybackRun] = []
    pauses: list[Pause] = []
    before_sample, first_ms = reports[0]
    runs.append(PlaybackRun(max(first_ms - 1000.0 * before_sample / rate_hz, chunks.when(0) or 0.0), 0, before_sample))
    for sample, t_ms in reports[1:]:
        run = runs[-1]
        due_ms = run.t_ms + 1000.0 * (sample - run.start) / rate_hz
        if t_ms - due_ms <= _MIN_PAUSE_MS:
            runs[-1] = PlaybackRun(run.t_ms, run.start, sample)
            continue
        stopped_ms = run.t_ms + 1000.0 * (run.end - run.start) / rate_hz
        resumed_ms = max(t_ms - 1000.0 * (sample - run.end) / rate_hz, chunks.when(run.end) or stopped_ms)
        pauses += _split_pause(stopped_ms, resumed_ms, run.end, sample, waits)
        runs.append(PlaybackRun(resumed_ms, run.end, sample))
    return runs, pauses


def _extrapolate(
    runs: list[PlaybackRun],
    pauses: list[Pause],
    chunks: ChunkTimes,
    waits: Sequence[ev.Wait],
    samples: int,
    rate_hz: int,
) -> None:
    """Extrapolate from the last report to the end, since a trace is closed when its last sample is made."""
    for wait in waits:
        run, made_ms = runs[-1], chunks.when(wait.sample)
        due_ms = run.t_ms + 1000.0 * (wait.sample - run.start) / rate_hz
        if wait.sample < run.end or made_ms is None or made_ms <= due_ms:
            continue
        runs[-1] = PlaybackRun(run.t_ms, run.start, wait.sample)
        pauses.append(Pause(due_ms, made_ms, wait.sample, wait.reason))
        runs.append(PlaybackRun(made_ms, wait.sample, wait.sample))
    runs[-1] = PlaybackRun(runs[-1].t_ms, runs[-1].start, samples)


def _split_pause(start_ms: float, end_ms: float, low: int, high: int, waits: Sequence[ev.Wait]) -> list[Pause]:
    """A pause of the player, split among the waits within it in proportion to their lengths."""
    first = bisect.bisect_left(waits, low, key=lambda one: one.sample)
    near = waits[first : bisect.bisect_right(waits, high, lo=first, key=lambda one: one.sample)]
    total_ms = sum(one.duration_ms for one in near)
    if not near:
        return [Pause(start_ms, end_ms, low, "unknown")]
    pauses: list[Pause] = []
    at_ms = start_ms
    for one in near:
        until_ms = at_ms + (end_ms - start_ms) * one.duration_ms / total_ms
        pauses.append(Pause(at_ms, until_ms, low, one.reason))
        at_ms = until_ms
    return pauses


def playback_time(
    runs: Sequence[PlaybackRun], starts: Sequence[int], rate_hz: int, sample: int, *, is_end: bool = False
) -> float | None:
    """When a sample was played, in ms; None where it never was. ``starts`` are the first samples of the runs.

    ``is_end``: ``sample`` is the exclusive end of something, so that a pause before it does not count.
    """
    at = (bisect.bisect_left if is_end else bisect.bisect_right)(starts, sample) - 1
    if at < 0 or sample > runs[at].end or (sample == runs[at].end and not is_end):
        return None
    return runs[at].t_ms + 1000.0 * (sample - runs[at].start) / rate_hz
