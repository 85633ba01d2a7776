"""A long trace out of a short one: the same speech again and again, every event moved to where it then lies."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.in_force import sent_text
from studio.core.traces.trace import Trace
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.heard import chunks_of, heard

_ONCE = (ev.Queued, ev.Ready, ev.Ended)  # the first two begin an utterance, the last one ends it


def write_repeated(trace: Trace, least_s: float, folder: Path) -> Path:
    """Write a trace that says a trace's text as often as gives ``least_s`` seconds of sound; answers its path.

    Each repetition begins to be heard in the moment in which the one before has been heard, and what was typed and made
    for it lies as long before that as in the first one.

    Args:
        folder: where it is written; the trace is ``<folder>.trace``.

    Raises:
        BadFile: the trace has no sound or no clock, or something of it was taken back, failed or was cancelled.
    """
    refused = (ev.Revised, ev.Edited, ev.Cancelled, ev.Failed)
    if any(isinstance(one, refused) for one in trace.events) or not isinstance(trace.events[-1], ev.Ended):
        raise BadFile("this trace was broken off or revised", "give one that was spoken to its end as it was typed")
    runs, _, heard_by = heard(trace, chunks_of(trace))
    if not runs or heard_by == "recording":
        raise BadFile("this trace has no sound, or no clock", "give one that a voice has spoken")
    last = runs[-1]
    period_ms = last.t_ms + 1000.0 * (last.end - last.start) / trace.rate_hz - runs[0].t_ms
    times = math.ceil(least_s * trace.rate_hz / len(trace.pcm))
    meta = {name: value for name, value in trace.meta.items() if name != "text"}
    writer = TraceWriter(folder, meta)
    for number in range(times):
        writer.write(*_moved(trace, number, period_ms))
    compute_ms = sum(one.compute_ms for one in trace.events if isinstance(one, ev.Ended))
    end_ms = trace.events[-1].t_ms + (times - 1) * period_ms
    writer.write(ev.Ended(samples=times * len(trace.pcm), compute_ms=times * compute_ms, t_ms=end_ms))
    return writer.close()


def _moved(trace: Trace, number: int, period_ms: float) -> Iterator[ev.Event]:
    """The events of one repetition, the first of which is number 0."""
    text = sent_text(trace.events)
    words, segments = trace.words(), trace.segments()
    samples, frames = number * len(trace.pcm), number * len(trace.frames)
    i, index = number * len(words), number * len(segments)
    written = number * (max((word.written for word in words), default=-1) + 1)
    is_apart = text[-1:].isspace()
    char = number * (len(text) + (not is_apart))
    first_frame = 0
    for event in trace.events:
        if isinstance(event, _ONCE) and (number or isinstance(event, ev.Ended)):
            continue
        at = {"t_ms": event.t_ms + number * period_ms}
        match event:
            case ev.Text(char_start=start):
                yield replace(event, **at, char_start=start + char)
            case ev.Typed(char_start=start):
                yield replace(event, **at, char_start=start + char)
            case ev.Committed():
                place = {"char_start": event.char_start + char, "char_end": event.char_end + char}
                yield replace(event, **at, **place, i=event.i + i, written=event.written + written)
            case ev.WordStart() | ev.WordEnd():
                yield replace(event, **at, i=event.i + i, sample=event.sample + samples)
            case ev.Segment():
                of = {"words": [one + i for one in event.words], "seen": [one + i for one in event.seen]}
                place = {"sample": event.sample + samples, "frame": event.frame + frames}
                yield replace(event, **at, **of, **place, index=event.index + index)
            case ev.Eos():
                yield replace(event, **at, segment=event.segment + index, frame=event.frame + frames)
            case ev.Frames():  # one that was read from a file has its levels in the trace's layer
                count = len(event.p_eos)
                levels = trace.frames[first_frame : first_frame + count]
                first_frame += count
                yield replace(event, **at, first_frame=event.first_frame + frames, levels=np.array(levels))
            case ev.Audio() | ev.Wait() | ev.Played():
                yield replace(event, **at, sample=event.sample + samples)
            case ev.Flushed():
                yield replace(event, **at, words=event.words + i)
            case ev.Unsupported():
                yield replace(event, **at, char_start=event.char_start + char, char_end=event.char_end + char)
            case _:
                yield replace(event, **at)
    if not is_apart:  # what follows is another word
        yield ev.Text(char_start=char + len(text), text=" ", t_ms=trace.events[-1].t_ms + number * period_ms)
