"""The timeline of an utterance: when each word was typed, made and heard, over one clock, and what held it up.

The clock is the trace's: milliseconds since ``ready``. Sound lies on it where it was heard: by the reports of the
player where there are some, otherwise as a listener hears it who begins with the first sample and never waits longer
than the voice made him wait.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat

from studio.core import events as ev
from studio.core.traces.in_force import SentText
from studio.core.traces.trace import Trace, TraceSegment, TraceWord
from studio.inspection.heard import HeardBy, Pause, Run, chunks_of, heard, when_of
from studio.measure.latency import arrivals


@dataclass(frozen=True)
class Key:
    """Text that arrived; ``char_start`` is its place in the text as sent. ``is_kept`` is false for what was revised."""

    t_ms: float
    char_start: int
    text: str
    is_kept: bool = True


@dataclass(frozen=True)
class TimedWord:
    """One spoken word on the clock; times are None where the word never got so far.

    Attributes:
        written: which word of the text it comes from; [char_start, char_end) of the text as sent.
        start, end: samples.
        typed_ms: its first character arrived.
        known_ms: what completes it (the white space after it, a flush, the end) arrived.
        made_ms: the sound that holds its first sample was made; ``made_whole_ms``, its last.
        heard_ms: its first sample left the player; ``heard_whole_ms``, its last.
    """

    i: int
    text: str
    written: int
    char_start: int
    char_end: int
    source: str
    segment: int | None = None
    start: int | None = None
    end: int | None = None
    typed_ms: float | None = None
    known_ms: float | None = None
    made_ms: float | None = None
    made_whole_ms: float | None = None
    heard_ms: float | None = None
    heard_whole_ms: float | None = None


@dataclass(frozen=True)
class TimedSegment:
    """One segment on the clock: when its sound was made, what it speaks and what it saw."""

    index: int
    words: tuple[int, ...]
    seen: tuple[int, ...]
    start: int
    end: int
    made_ms: float | None
    made_whole_ms: float | None
    heard_ms: float | None
    p_eos: float | None
    forced: bool


@dataclass(frozen=True)
class Timeline:
    """Typed, made and heard of one utterance.

    Attributes:
        text: as sent, with what was revised.
        heard_by: whose clock the heard lane is: the ``player``'s reports, an ideal ``listener``'s, or, where nothing
            is known but the sound, the ``recording``'s own.
        start_ms, end_ms: everything lies between them.
    """

    text: str
    rate_hz: int
    heard_by: HeardBy
    start_ms: float
    end_ms: float
    keys: tuple[Key, ...] = ()
    words: tuple[TimedWord, ...] = ()
    segments: tuple[TimedSegment, ...] = ()
    runs: tuple[Run, ...] = ()
    pauses: tuple[Pause, ...] = ()


def timeline(trace: Trace) -> Timeline:
    """The timeline of a trace.

    Raises:
        BadFile: its pauses are longer than an hour, or it holds no clock and no sound.
    """
    keys, text = _keys(trace.events)
    chunks = chunks_of(trace)
    runs, pauses, heard_by = heard(trace, chunks)
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
            i=one.i,
            text=one.text,
            written=one.written,
            char_start=one.char_start,
            char_end=one.char_end,
            source=one.source,
            segment=owner.get(one.i),
            start=one.start,
            end=one.end,
            typed_ms=_at_or_before(*arrived, one.char_start),
            known_ms=known.get(one.i),
            made_ms=None if one.start is None or not is_clocked else chunks.when(one.start),
            made_whole_ms=None if last is None or not is_clocked else chunks.when(last),
            heard_ms=None if one.start is None else when_of(runs, starts, trace.rate_hz, one.start),
            heard_whole_ms=None if one.end is None else when_of(runs, starts, trace.rate_hz, one.end, is_end=True),
        )

    def segment(one: TraceSegment) -> TimedSegment:
        return TimedSegment(
            index=one.index,
            words=one.words,
            seen=one.seen,
            start=one.start,
            end=one.end,
            made_ms=chunks.when(one.start) if is_clocked and one.end > one.start else None,
            made_whole_ms=chunks.when(one.end - 1) if is_clocked and one.end > one.start else None,
            heard_ms=when_of(runs, starts, trace.rate_hz, one.start),
            p_eos=one.p_eos,
            forced=one.forced,
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


# ---------------------------------------------------------------- typed


def _keys(events: Iterable[ev.Event]) -> tuple[list[Key], str]:
    """Every arrival of text in order, and the text as sent; an arrival before the end of the text revises the rest.

    What was typed before it was sent arrived when it was typed, a key at a time.
    """
    keys: list[Key] = []
    text = SentText()
    kept: list[int] = []  # places in keys of what is still part of the text
    typed: ev.Typed | None = None  # what comes next
    for event in events:
        if isinstance(event, ev.Typed):
            typed = event
        if not isinstance(event, ev.Text):
            continue
        while kept and keys[kept[-1]].char_start >= event.char_start and event.char_start < text.chars:
            dropped = keys[kept[-1]]
            keys[kept.pop()] = Key(dropped.t_ms, dropped.char_start, dropped.text, is_kept=False)
        text.put(event.char_start, event.text)
        struck = list(_struck(event, typed))
        typed = None
        kept += range(len(keys), len(keys) + len(struck))
        keys += struck
    return keys, str(text)


def _struck(event: ev.Text, typed: ev.Typed | None) -> Iterator[Key]:
    """The keys of a text: those that were struck in the same moment are one; none came before the clock began."""
    if typed is None or typed.char_start != event.char_start:
        yield Key(event.t_ms, event.char_start, event.text)
        return
    before_ms = [*typed.before_ms, *repeat(0.0, len(event.text) - len(typed.before_ms))]
    at = event.char_start
    for before, run in groupby(zip(before_ms, event.text, strict=False), key=lambda one: one[0]):
        text = "".join(char for _, char in run)
        yield Key(max(0.0, typed.t_ms - before), at, text)
        at += len(text)


def _at_or_before(places: Sequence[int], times_ms: Sequence[float], place: int) -> float | None:
    at = bisect.bisect_right(places, place) - 1
    return times_ms[at] if at >= 0 else None
