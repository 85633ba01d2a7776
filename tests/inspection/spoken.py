"""An utterance with known times: three typed words in two segments, played with two pauses."""

import numpy as np

from studio.core import events as ev
from studio.core.traces.trace import Trace, collect_trace

RATE_HZ, FRAME = 24_000, 600  # a frame lasts 25 ms
TEXT = "One  two 3 "


def pcm(frames: int = 10) -> np.ndarray:
    """A tone, int16, of a number of frames."""
    at = np.arange(frames * FRAME)
    return (6000 * np.sin(2 * np.pi * 220 * at / RATE_HZ)).astype(np.int16)


def story(*, played: bool = False) -> list[ev.Event]:
    """Keys 100 ms apart; segment 0 speaks "one" in frames 0 to 3, segment 1 "two three" in frames 4 to 9.

    Segment 0 is synthesised from 600 ms on, a frame per 10 ms; segment 1 from 800 ms on, after a wait for text of
    90 ms and a stall of 10 ms.
    """
    sound = pcm()
    out: list[ev.Event] = [
        ev.Ready(
            utterance=1, voice="v", speaker="a", family="speakstream", rate_hz=RATE_HZ, frame_samples=FRAME, seed=3
        )
    ]
    out += [ev.TextReceived(char_start=k, text=key, t_ms=100.0 * k) for k, key in enumerate(TEXT)]
    words = (("one", 0, 0, 3), ("two", 1, 5, 8), ("three", 2, 9, 10))
    out += [
        ev.Committed(i=i, word=word, written=written, char_start=first, char_end=last, t_ms=100.0 * last + 5.0)
        for i, (word, written, first, last) in enumerate(words)
    ]
    for index, first, last, owns in ((0, 0, 4, [0]), (1, 4, 10, [1, 2])):
        began_ms = 600.0 if index == 0 else 800.0
        seen = [0, 1] if index == 0 else [1, 2]
        out.append(
            ev.Segment(index=index, words=owns, seen=seen, sample=first * FRAME, frame=first, t_ms=began_ms - 5.0)
        )
        if index:
            out.append(ev.Wait(reason="text", sample=first * FRAME, duration_ms=90.0, t_ms=began_ms))
            out.append(ev.Wait(reason="compute", sample=first * FRAME, duration_ms=10.0, t_ms=began_ms))
        for frame in range(first, last):
            part = sound[frame * FRAME : (frame + 1) * FRAME]
            levels = np.full((1, 80), frame, np.uint8)
            t_ms = began_ms + 10.0 * (frame - first)
            out.append(ev.Frames(first_frame=frame, p_eos=[0.1 * frame], levels=levels, t_ms=t_ms))
            out.append(ev.Audio(sample=frame * FRAME, pcm=part, t_ms=t_ms))
            if played and frame % 2:
                behind = 40.0 if index == 0 else 60.0
                t_ms = began_ms + behind + 25.0 * (frame + 1 - first)
                out.append(ev.Played(sample=(frame + 1) * FRAME, t_ms=t_ms))
        out.append(ev.Eos(segment=index, frame=last, p=0.9, forced=bool(index), t_ms=began_ms + 60.0))
    for i, (first, last) in enumerate(((0, 4), (4, 7), (7, 10))):
        out.append(ev.WordStart(i=i, sample=first * FRAME, source="eos", t_ms=900.0))
        out.append(ev.WordEnd(i=i, sample=last * FRAME, source="eos", t_ms=900.0))
    return [*out, ev.Ended(samples=10 * FRAME, compute_ms=100.0, t_ms=910.0)]


def trace(*, played: bool = False) -> Trace:
    """The story as a trace."""
    return collect_trace({}, story(played=played))
