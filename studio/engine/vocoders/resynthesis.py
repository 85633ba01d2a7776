"""Vocoding of stored frames: frame by frame as in a stream, or segment by segment with cross-fades, to compare.

The second is what systems do whose vocoder keeps no state between chunks (papers 001 and 004): each segment is vocoded
from silence, together with the last frames of the previous segment, over which the two are cross-faded.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from studio.core import events as ev
from studio.core.cards import Card
from studio.core.clips import to_int16
from studio.core.errors import BadFile, BadVoice
from studio.core.traces.teacher_forcing import MAX_RECORDING_S, CallerGone, NotSupported
from studio.core.traces.trace import OVERLAPPED, Trace
from studio.engine.tokenizers.registry import acoustic_tokenizer
from studio.engine.vocoders.base import Vocoder
from studio.engine.vocoders.overlapped import FADES, CrossFade

EQUAL_POWER = FADES["equal-power"]


@torch.inference_mode()
def vocode_streaming(vocoder: Vocoder[Any], log_mels: torch.Tensor, seed: int = 0) -> np.ndarray:
    """Vocode frames [F, C] one at a time, from silence: float32 [T]."""
    device = next(vocoder.parameters()).device
    state = vocoder.init_state(1, device, seed)
    pieces = [np.zeros(0, np.float32)]
    for frame in log_mels.to(device).unsqueeze(0).split(1, dim=1):
        pcm, state = vocoder.step(frame, state)
        pieces.append(pcm[0].float().cpu().numpy())
    return np.concatenate(pieces)


def vocode_by_segment(
    vocoder: Vocoder[Any],
    log_mels: torch.Tensor,
    spans: Iterable[tuple[int, int]],
    seed: int = 0,
    fade: CrossFade = EQUAL_POWER,
) -> np.ndarray:
    """Vocode each span of frames [F, C] by itself, and cross-fade: int16 [T].

    Args:
        spans: consecutive [first, end); empty ones are skipped.
    """
    samples = vocoder.config.frame_samples
    out = np.zeros(0, np.float32)
    for first, end in spans:
        if end <= first:
            continue
        before = min(fade.frames, first)
        chunk = vocode_streaming(vocoder, log_mels[first - before : end], seed)
        overlap = before * samples
        if overlap:
            rise, fall = (side.numpy() for side in fade.curve(overlap))
            out[-overlap:] = out[-overlap:] * fall + chunk[:overlap] * rise
        out = np.concatenate([out, chunk[overlap:]])
    return to_int16(out)


def segment_spans(trace: Trace, frame_samples: int) -> list[tuple[int, int]]:
    """The frames [first, end) of each segment."""
    count = len(trace.frames)
    return [(min(one.start // frame_samples, count), min(one.end // frame_samples, count)) for one in trace.segments()]


def revocode_by_segment(
    card: Card, vocoder: Vocoder[Any], fade: CrossFade, trace: Trace, should_continue: Callable[[], bool]
) -> Trace:
    """A trace whose frames are vocoded segment by segment.

    See ``studio.core.traces.teacher_forcing.SupportsOverlappedVocoding``, also for the errors.
    """
    if not trace.is_spoken or not len(trace.frames) or not trace.segments():
        raise BadFile("this utterance holds no frames that a voice has spoken", "give one that a voice has spoken")
    length_s = len(trace.pcm) / trace.rate_hz
    if length_s > MAX_RECORDING_S:
        raise BadFile(f"{length_s:.0f} s of sound are too long for this", f"give at most {MAX_RECORDING_S:.0f} s")
    if trace.meta.get("checkpoint_sha256", card.sha256) != card.sha256:
        raise BadVoice(f"{card.name} has other weights than when this was made", "speak the text again")
    if vocoder.look_ahead_frames:
        raise NotSupported(f"the vocoder of {card.name} is overlapped already", "compare it with another voice")
    tokenizer = acoustic_tokenizer(card.alphabet)
    if trace.frames.shape[1:] != tokenizer.frame_shape:
        raise BadFile("the frames are of another acoustic tokenizer than the voice's", "the trace is damaged")
    mels = tokenizer.to_mels(torch.from_numpy(np.array(trace.frames)))

    def spans() -> Iterator[tuple[int, int]]:
        for span in segment_spans(trace, card.frame_samples):
            if not should_continue():
                raise CallerGone("nobody waits for the answer")
            yield span

    vocoded = vocode_by_segment(vocoder, mels, spans(), int(trace.meta.get("seed", 0)), fade)
    pcm = np.zeros_like(trace.pcm)
    pcm[: len(vocoded)] = vocoded[: len(pcm)]
    meta = {**trace.meta, "source": OVERLAPPED, "vocoder": f"{trace.meta.get('vocoder', card.vocoder)}, overlapped"}
    events = [_with_arrays(one, pcm, trace.frames) for one in trace.events]
    return Trace(meta, events, pcm, trace.frames, trace.p_eos, dict(trace.layers))


def _with_arrays(event: ev.Event, pcm: np.ndarray, frames: np.ndarray) -> ev.Event:
    if isinstance(event, ev.Audio):
        return replace(event, pcm=pcm[event.sample : event.sample + len(event.pcm)])
    if isinstance(event, ev.Frames):
        return replace(event, levels=frames[event.first_frame : event.first_frame + len(event.p_eos)])
    return event
