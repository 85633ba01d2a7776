"""The timeline of an utterance: when each word was typed, made and played, on one clock, and the pauses.

The clock is the trace's: milliseconds since ``ready``. ``playback`` maps sound to it.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat

from studio.core import events as ev
from studio.core.traces.trace import SentText, Trace, TraceSegment, TraceWord
from studio.inspection.playback import Pause, PlaybackRun, PlaybackSource, chunk_times, playback, playback_time
from studio.measure.latency import arrivals


@dataclass(frozen=True)
class TypedKey:
    """Text that arrived at ``char_start`` of the text as sent; ``is_kept`` is False where it was revised."""

    t_ms: float
    char_start: int
    text: str
    is_kept: bool = True


@dataclass(frozen=True, kw_only=True)
class TimedWord(TraceWord):
    """One spoken word on the clock; times are None for stages that it did not reach.

    Attributes:
        typed_ms: arrival of its first character.
        known_ms: when it was complete: arrival of white space, a flush or the end.
        made_ms, made_whole_ms: its first and its last sample were made.
        heard_ms, heard_whole_ms: its first and its last sample were played.
    """

    segment: int | None = None
    typed_ms: float | None = None
    known_ms: float | None = None
    made_ms: float | None = None
    made_whole_ms: float | None = None
    heard_ms: float | None = None
    heard_whole_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class TimedSegment(TraceSegment):
    """One segment on the clock, with the times of its sound."""

    made_ms: float | None
    made_whole_ms: float | None
    heard_ms: float | None


@dataclass(frozen=True)
class Timeline:
    """One utterance: typed, made and played.

    Attributes:
        text: the final text as sent.
        heard_by: source of playback times: the ``player``'s reports, an ideal ``listener``, or the ``recording``'s own
            time where there is no clock.
        start_ms, end_ms: bounds of all times.
    """

    text: str
    rate_hz: int
    heard_by: PlaybackSource
    start_ms: float
    end_ms: float
    keys: tuple[TypedKey, ...] = ()
    words: tuple[TimedWord, ...] = ()
    segments: tuple[TimedSegment, ...] = ()
    runs: tuple[PlaybackRun, ...] = ()
    pauses: tuple[Pause, ...] = ()


def timeline(trace: Trace) -> Timeline:
    """The timeline of a trace.

    Raises BadFile: its pauses are longer than an hour, or it holds no clock and no sound.
    """
    keys, text = _keys(trace.events)
    chunks = chunk_times(trace)
    runs, pauses, heard_by = playback(trace, chunks)
    starts = tuple(run.start for run in runs)
    is_clocked = heard_by != "recording"
    known = arrivals(trace.events) if is_clocked else {}
    typed = [one for one in keys if one.is_kept and is_clocked]
    arrived = ([one.char_start for one in typed], [one.t_ms for one in typed])
    segments = trace.segments()
    owner = {i: one.index for one in segments for i in one.words}

    def word(one: TraceWord) -> TimedWord:
        last = one.end - 1 if one.end else None
        return TimedWord(
            **vars(one),
            segment=owner.get(one.i),
            typed_ms=_at_or_before(*arrived, one.char_start),
            known_ms=known.get(one.i),
            made_ms=None if one.start is None or not is_clocked else chunks.when(one.start),
            made_whole_ms=None if last is None or not is_clocked else chunks.when(last),
            heard_ms=None if one.start is None else playback_time(runs, starts, trace.rate_hz, one.start),
            heard_whole_ms=None
            if one.end is None
            else playback_time(runs, starts, trace.rate_hz, one.end, is_end=True),
        )

    def segment(one: TraceSegment) -> TimedSegment:
        return TimedSegment(
            **vars(one),
            made_ms=chunks.when(one.start) if is_clocked and one.end > one.start else None,
            made_whole_ms=chunks.when(one.end - 1) if is_clocked and one.end > one.start else None,
            heard_ms=playback_time(runs, starts, trace.rate_hz, one.start),
        )

    ends = [run.t_ms + 1000.0 * (run.end - run.start) / trace.rate_hz for run in runs]
    times = [event.t_ms for event in trace.events if not isinstance(event, ev.Queued)]
    return Timeline(
        text=text,
        rate_hz=trace.rate_hz,
        heard_by=heard_by,
        start_ms=min([*times, *(run.t_ms for run in runs), 0.0]),
        end_ms=max([*times, *ends, 0.0]),
        keys=tuple(keys) if is_clocked else (),
        words=tuple(map(word, trace.words())),
        segments=tuple(map(segment, segments)),
        runs=tuple(runs),
        pauses=tuple(pauses),
    )


def _keys(events: Iterable[ev.Event]) -> tuple[list[TypedKey], str]:
    """Arrivals of text in order, and the final text; an arrival before the end of the text revises the rest.

    With ``TypingTimes``, a text arrives key by key when it was typed.
    """
    keys: list[TypedKey] = []
    text = SentText()
    current: list[int] = []  # indices in ``keys`` of the current text
    typed: ev.TypingTimes | None = None  # for the next text
    for event in events:
        if isinstance(event, ev.TypingTimes):
            typed = event
        if not isinstance(event, ev.TextReceived):
            continue
        while current and keys[current[-1]].char_start >= event.char_start and event.char_start < text.chars:
            dropped = keys[current[-1]]
            keys[current.pop()] = TypedKey(dropped.t_ms, dropped.char_start, dropped.text, is_kept=False)
        text.put(event.char_start, event.text)
        new_keys = list(_typed_keys(event, typed))
        typed = None
        current += range(len(keys), len(keys) + len(new_keys))
        keys += new_keys
    return keys, str(text)


def _typed_keys(event: ev.TextReceived, typed: ev.TypingTimes | None) -> Iterator[TypedKey]:
    """The keys of a text, simultaneous ones merged; none before the start of the clock."""
    if typed is None or typed.char_start != event.char_start:
        yield TypedKey(event.t_ms, event.char_start, event.text)
        return
    before_ms = [*typed.before_ms, *repeat(0.0, len(event.text) - len(typed.before_ms))]
    at = event.char_start
    for before, run in groupby(zip(before_ms, event.text, strict=False), key=lambda one: one[0]):
        text = "".join(char for _, char in run)
        yield TypedKey(max(0.0, typed.t_ms - before), at, text)
        at += len(text)


def _at_or_before(positions: Sequence[int], times_ms: Sequence[float], position: int) -> float | None:
    at = bisect.bisect_right(positions, position) - 1
    return times_ms[at] if at >= 0 else None
