"""A trace's frames vocoded anew, a segment at a time and cross-faded, beside those who are being spoken to."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch

from studio.core import events as ev
from studio.core.errors import BadFile, BadVoice
from studio.core.traces.forced import MAX_FORCED_S, Left, Unable, always
from studio.core.traces.overlapped import SOURCE
from studio.core.traces.trace import Trace
from studio.engine.alphabets.registry import alphabet
from studio.engine.families.base import family_info
from studio.engine.vocoders.by_segments import by_segments, spans_of
from studio.engine.vocoders.fades import FADES
from studio.engine.voices import Voice


def overlapped_trace(voice: Voice, trace: Trace, wanted: Callable[[], bool] = always) -> Trace:
    """See ``studio.core.traces.overlapped.Overlaps``."""
    card, vocoder = voice.card, voice.vocoder
    if not trace.is_spoken or not len(trace.frames) or not trace.segments():
        raise BadFile("this utterance holds no frames that a voice has spoken", "give one that a voice has spoken")
    length_s = len(trace.pcm) / trace.rate_hz
    if length_s > MAX_FORCED_S:
        raise BadFile(f"{length_s:.0f} s of sound are too long for this", f"give at most {MAX_FORCED_S:.0f} s")
    if trace.meta.get("checkpoint_sha256", card.sha256) != card.sha256:
        raise BadVoice(f"{card.name} has other weights than when this was made", "speak the text again")
    if vocoder.look_ahead_frames:
        raise Unable(f"the vocoder of {card.name} is overlapped already", "compare it with another voice")
    frames = alphabet(card.alphabet)
    if trace.frames.shape[1:] != frames.frame_shape:
        raise BadFile("the frames of this trace are of another alphabet than its voice's", "the trace is damaged")
    mels = frames.to_mels(torch.from_numpy(np.array(trace.frames)))

    def asked() -> Iterator[tuple[int, int]]:
        for span in spans_of(trace, card.frame_samples):
            if not wanted():
                raise Left("nobody waits for the answer")
            yield span

    made = by_segments(vocoder, mels, asked(), int(trace.meta.get("seed", 0)), FADES[family_info(card.family).fade])
    pcm = np.zeros_like(trace.pcm)
    pcm[: len(made)] = made[: len(pcm)]
    meta = {**trace.meta, "source": SOURCE, "vocoder": f"{trace.meta.get('vocoder', card.vocoder)}, overlapped"}
    events = [_with_sound(one, pcm, trace.frames) for one in trace.events]
    return Trace(meta, events, pcm, trace.frames, trace.p_eos, dict(trace.layers))


def _with_sound(event: ev.Event, pcm: np.ndarray, frames: np.ndarray) -> ev.Event:
    if isinstance(event, ev.Audio):
        return replace(event, pcm=pcm[event.sample : event.sample + len(event.pcm)])
    if isinstance(event, ev.Frames):
        return replace(event, levels=frames[event.first_frame : event.first_frame + len(event.p_eos)])
    return event
