"""What was heard of an utterance, and when: runs of sound without a pause, and the pauses between them.

By the reports of the player where there are some, otherwise as a listener hears it who begins with the first sample and
never waits longer than the voice made him wait.
"""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.trace import MAX_SILENCE_S, Trace

HeardBy = Literal["player", "listener", "recording"]
_STANDSTILL_MS = 30.0  # between two reports: what is less is the reports' own unevenness


@dataclass(frozen=True)
class Run:
    """Sound heard without a pause: samples [start, end) from ``t_ms`` on."""

    t_ms: float
    start: int
    end: int


@dataclass(frozen=True)
class Pause:
    """A pause in what was heard, before ``sample``; ``unknown`` where the player stood still and nothing says why."""

    start_ms: float
    end_ms: float
    sample: int
    reason: ev.WaitReason | Literal["unknown"]

    @property
    def is_stall(self) -> bool:
        """Whether the computer or the network is to blame; waiting for text is normal life."""
        return self.reason in ev.STALL_REASONS

    @property
    def duration_ms(self) -> float:
        """Its length."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Chunks:
    """Which chunk made a sample, of those in force at the end."""

    starts: list[int]
    ends: list[int]
    times_ms: list[float]

    def when(self, sample: int) -> float | None:
        """Its time on the clock; None where nothing made it."""
        at = bisect.bisect_right(self.starts, sample) - 1
        return self.times_ms[at] if at >= 0 and sample < self.ends[at] else None


def chunks_of(trace: Trace) -> Chunks:
    """The chunks of a trace."""
    found = Chunks([], [], [])
    for event in trace.events:
        if isinstance(event, ev.Audio) and len(event.pcm):
            found.starts.append(event.sample)
            found.ends.append(event.sample + len(event.pcm))
            found.times_ms.append(event.t_ms)
        elif isinstance(event, ev.Revised):
            while found.starts and found.starts[-1] >= event.from_sample:
                for part in (found.starts, found.ends, found.times_ms):
                    part.pop()
            if found.ends:
                found.ends[-1] = min(found.ends[-1], event.from_sample)
    return found


def heard(trace: Trace, chunks: Chunks) -> tuple[list[Run], list[Pause], HeardBy]:
    """Runs and pauses in their order, and whose clock they are by. Raises BadFile where the pauses exceed an hour."""
    samples = len(trace.pcm)
    if not any(isinstance(one, ev.Ready) for one in trace.events):
        return ([Run(0.0, 0, samples)] if samples else []), [], "recording"
    waits = [one for one in trace.waits_in_force() if 0 <= one.sample <= samples]
    reports = _reports(trace.events)
    if len(reports) > 1:
        runs, pauses = _as_reported(reports, waits, chunks, trace.rate_hz)
        if not any(isinstance(one, ev.Cancelled) for one in trace.events):
            _go_on(runs, pauses, chunks, waits, samples, trace.rate_hz)
        heard_by: HeardBy = "player"
    else:
        runs, pauses = _as_made(chunks, waits, samples, trace.rate_hz)
        heard_by = "listener"
    if sum(one.duration_ms for one in pauses) > 1000.0 * MAX_SILENCE_S:
        raise BadFile("the pauses of this trace are longer than an hour", "look at its audio without them")
    return runs, pauses, heard_by


def _reports(events: Iterable[ev.Event]) -> list[tuple[int, float]]:
    """(sample, t_ms) of the player's reports, each further than the one before."""
    found: list[tuple[int, float]] = []
    for event in events:
        if isinstance(event, ev.Played) and event.sample > (found[-1][0] if found else 0):
            found.append((event.sample, event.t_ms))
    return found


def _as_made(chunks: Chunks, waits: Sequence[ev.Wait], samples: int, rate_hz: int) -> tuple[list[Run], list[Pause]]:
    """What a listener heard who never paused: every wait but those for his own credit, where it fell.

    A wait is measured a little before the sound that ends it is there, and nothing is heard before it was made.
    """
    runs: list[Run] = []
    pauses: list[Pause] = []
    made_ms = _without_credit(chunks, [one for one in waits if one.reason == "credit"])
    at_ms, start = made_ms[0] if made_ms else 0.0, 0

    def run_until(end: int) -> None:
        nonlocal at_ms, start
        if end <= start:
            return
        of_run = range(bisect.bisect_left(chunks.starts, start), bisect.bisect_left(chunks.starts, end))
        could_ms = max((made_ms[k] - 1000.0 * (chunks.starts[k] - start) / rate_hz for k in of_run), default=at_ms)
        if could_ms > at_ms and pauses and pauses[-1].sample == start:
            pauses[-1] = replace(pauses[-1], end_ms=could_ms)
        runs.append(Run(max(at_ms, could_ms), start, end))
        at_ms, start = runs[-1].t_ms + 1000.0 * (end - start) / rate_hz, end

    for wait in waits:
        if wait.reason != "credit":
            run_until(wait.sample)
            pauses.append(Pause(at_ms, at_ms + wait.duration_ms, wait.sample, wait.reason))
            at_ms = pauses[-1].end_ms
    run_until(samples)
    return runs, pauses


def _without_credit(chunks: Chunks, waits: Sequence[ev.Wait]) -> list[float]:
    """When each chunk had been made for one who never let the voice wait."""
    places = [one.sample for one in waits]
    waited_ms = [0.0, *accumulate(one.duration_ms for one in waits)]
    return [
        t_ms - waited_ms[bisect.bisect_right(places, start)]
        for start, t_ms in zip(chunks.starts, chunks.times_ms, strict=True)
    ]


def _as_reported(
    reports: Sequence[tuple[int, float]], waits: Sequence[ev.Wait], chunks: Chunks, rate_hz: int
) -> tuple[list[Run], list[Pause]]:
    """What the player reported; a report that comes late by more than its own unevenness followed a pause.

    A player reports while it plays, so the pause lay before the samples that the late report tells of. Reports tell
    the time with an error of some ms: no run begins before its first sample was made.
    """
    runs: list[Run] = []
    pauses: list[Pause] = []
    before_sample, first_ms = reports[0]
    runs.append(Run(max(first_ms - 1000.0 * before_sample / rate_hz, chunks.when(0) or 0.0), 0, before_sample))
    for sample, t_ms in reports[1:]:
        run = runs[-1]
        due_ms = run.t_ms + 1000.0 * (sample - run.start) / rate_hz
        if t_ms - due_ms <= _STANDSTILL_MS:
            runs[-1] = Run(run.t_ms, run.start, sample)
            continue
        stood_ms = run.t_ms + 1000.0 * (run.end - run.start) / rate_hz
        went_on_ms = max(t_ms - 1000.0 * (sample - run.end) / rate_hz, chunks.when(run.end) or stood_ms)
        pauses += _named(stood_ms, went_on_ms, run.end, sample, waits)
        runs.append(Run(went_on_ms, run.end, sample))
    return runs, pauses


def _go_on(
    runs: list[Run], pauses: list[Pause], chunks: Chunks, waits: Sequence[ev.Wait], samples: int, rate_hz: int
) -> None:
    """Add what nobody reported, since a trace is closed when the last sample was made: heard as soon as it could be."""
    for wait in waits:
        run, made_ms = runs[-1], chunks.when(wait.sample)
        due_ms = run.t_ms + 1000.0 * (wait.sample - run.start) / rate_hz
        if wait.sample < run.end or made_ms is None or made_ms <= due_ms:
            continue
        runs[-1] = Run(run.t_ms, run.start, wait.sample)
        pauses.append(Pause(due_ms, made_ms, wait.sample, wait.reason))
        runs.append(Run(made_ms, wait.sample, wait.sample))
    runs[-1] = Run(runs[-1].t_ms, runs[-1].start, samples)


def _named(start_ms: float, end_ms: float, low: int, high: int, waits: Sequence[ev.Wait]) -> list[Pause]:
    """A standstill of the player, shared out among the waits that fell there, in proportion to their lengths."""
    first = bisect.bisect_left(waits, low, key=lambda one: one.sample)
    near = waits[first : bisect.bisect_right(waits, high, lo=first, key=lambda one: one.sample)]
    total_ms = sum(one.duration_ms for one in near)
    if not near:
        return [Pause(start_ms, end_ms, low, "unknown")]
    found: list[Pause] = []
    at_ms = start_ms
    for one in near:
        until_ms = at_ms + (end_ms - start_ms) * one.duration_ms / total_ms
        found.append(Pause(at_ms, until_ms, low, one.reason))
        at_ms = until_ms
    return found


def when_of(
    runs: Sequence[Run], starts: Sequence[int], rate_hz: int, sample: int, *, is_end: bool = False
) -> float | None:
    """When a sample was heard, in ms; None where it never was. ``starts`` are those of the runs.

    Args:
        is_end: ``sample`` is the first one *after* something, whose end is asked for: before a pause, not after it.
    """
    at = (bisect.bisect_left if is_end else bisect.bisect_right)(starts, sample) - 1
    if at < 0 or sample > runs[at].end or (sample == runs[at].end and not is_end):
        return None
    return runs[at].t_ms + 1000.0 * (sample - runs[at].start) / rate_hz
