"""Make a long trace by repeating a short one, with all event times shifted."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from studio.core import events as ev
from studio.core.errors import BadFile
from studio.core.traces.revisions import sent_text
from studio.core.traces.trace import Trace
from studio.core.traces.trace_writer import TraceWriter
from studio.inspection.playback import chunk_times, playback

_ONCE = (ev.Queued, ev.Ready, ev.Ended)  # only once per utterance


def write_repeated(trace: Trace, least_s: float, folder: Path) -> Path:
    """Write a trace that repeats another one for at least ``least_s`` seconds of sound; returns its path.

    Each repetition is played right after the previous one; its typing and synthesis precede it as in the original.

    Args:
        folder: the trace is ``<folder>.trace``.

    Raises:
        BadFile: the trace has no sound or clock, or was revised, cancelled or failed.
    """
    refused = (ev.Revised, ev.Edited, ev.Cancelled, ev.Failed)
    if any(isinstance(one, refused) for one in trace.events) or not isinstance(trace.events[-1], ev.Ended):
        raise BadFile(
            "this trace was cancelled, failed or revised", "choose one that was spoken to the end without revisions"
        )
    runs, _, heard_by = playback(trace, chunk_times(trace))
    if not runs or heard_by == "recording":
        raise BadFile("this trace has no sound, or no clock", "choose a trace of a voice")
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
    """The events of repetition ``number``, from 0."""
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
            case ev.TextReceived(char_start=start):
                yield replace(event, **at, char_start=start + char)
            case ev.TypingTimes(char_start=start):
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
            case ev.Frames():  # levels of a trace from a file are in its layer
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
    if not is_apart:  # another word follows
        yield ev.TextReceived(char_start=char + len(text), text=" ", t_ms=trace.events[-1].t_ms + number * period_ms)
